"""Each act that removes a file of a table is an event before it happens: with who, why and the list of files."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from core_tables import age, ids_of, local, make_table, put, repository_of, rows, store_of

import icecore
from icecore.engine.deletion import delete_files
from icecore.engine.deletion.delete_files import UnfinishedDeletionWarning
from icecore.engine.deletion.file_names import is_table_file
from icecore.engine.errors import MovedWarehouseWarning, ReusedKeyError, StorageError, ValidationError
from icecore.engine.events.event import Event
from icecore.engine.formats.deleted_files import DeletedFile, decode_files
from icecore.engine.log.store import MODELS
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.snapshot import StatisticsFile
from icecore.engine.storage.file_io import Storage

FAR = 2**53


class Killed(BaseException):
    """Stands for the end of the process."""


def overwritten(catalog: icecore.Catalog, name: str = "t", **options: object) -> icecore.Table:
    """A table of two snapshots; the data file of the first one is not in the second."""
    table = make_table(catalog, name, **options)
    table.append(rows(1))
    table.overwrite(rows(2))
    return table


def expire(table: icecore.Table, **who: str | None) -> object:
    return table.maintenance.expire_snapshots(**who).older_than(FAR).commit()


def last_event(catalog: icecore.Catalog) -> Event:
    return store_of(catalog).event_at(catalog.position)


def named_by(catalog: icecore.Catalog, event: Event) -> list[DeletedFile]:
    data = store_of(catalog).content(event.position)
    assert data is not None
    return decode_files(data, event.position)


def due(catalog: icecore.Catalog) -> list[int]:
    return [row["position"] for row in store_of(catalog).rows(MODELS, "deletions_due")]


def die_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The deletion of this file, counted from 0, is not made any more."""
    delete, numbers = Storage.delete, count()

    def dying(self: Storage, location: str) -> None:
        if next(numbers) == number:
            raise Killed
        delete(self, location)

    monkeypatch.setattr(Storage, "delete", dying)


def test_orphans_are_named_by_an_event_and_other_files_are_passed_over(catalog: icecore.Catalog) -> None:
    """Only what has a name as a table's files have it goes; the result says what does not."""
    table = make_table(catalog)
    table.append(rows(1))
    folder = local(table.location())
    stray, notes = put(folder / "data/stray.parquet"), put(folder / "notes.txt")
    csv, unfinished = put(folder / "data/mine.csv"), put(folder / f"data/.x.parquet.{'0' * 32}.tmp")
    position = catalog.position
    found = table.maintenance.remove_orphan_files(message="after the crash", author="eve", dry_run=True)
    assert catalog.position == position and stray.exists()
    assert {local(f) for f in found.passed_over} == {notes, csv}
    done = table.maintenance.remove_orphan_files(message="after the crash", author="eve")
    assert done.passed_over == found.passed_over and notes.exists() and csv.exists()
    assert {local(f) for f in done.deleted_files} == {stray, unfinished}
    assert not stray.exists() and not unfinished.exists()
    event = last_event(catalog)
    assert catalog.position == position + 1 and event.kind == "table.files-deleted"
    assert (event.provenance.actor, event.provenance.message) == ("eve", "after the crash")
    assert event.payload == {"operation": "remove-orphan-files", "count": 2, "bytes": 8}
    assert {f.location for f in named_by(catalog, event)} == set(done.deleted_files)
    assert table.maintenance.remove_orphan_files().deleted_files == () and catalog.position == position + 1
    assert due(catalog) == [] and catalog.verify().ok


def test_an_expiry_names_what_goes_with_it_in_one_transaction(catalog: icecore.Catalog) -> None:
    table = overwritten(catalog)
    expired = expire(table, message="five days are over", author="eve")
    commit, gone = list(store_of(catalog).events(catalog.position - 2))
    assert (commit.kind, gone.kind) == ("table.committed", "table.files-deleted")
    assert commit.transaction_id == gone.transaction_id
    for event in (commit, gone):
        assert (event.provenance.actor, event.provenance.message) == ("eve", "five days are over")
    files = named_by(catalog, gone)
    assert {f.location for f in files} == set(expired.deleted_files)  # type: ignore[attr-defined]
    assert gone.payload["operation"] == "expire-snapshots"
    assert gone.payload["bytes"] == sum(f.size_in_bytes or 0 for f in files) > 0
    assert not any(local(f.location).exists() for f in files) and due(catalog) == []
    [shown] = catalog.log("ns.t", kind="table.files-deleted").to_pylist()
    assert shown["changes"] == f"expire snapshots: delete {len(files)} files of {gone.payload['bytes']} bytes"
    told = catalog.sql("SELECT actor, message, changes FROM log WHERE kind = 'table.files-deleted'").to_pylist()
    assert told == [{k: shown[k] for k in ("actor", "message", "changes")}]


@pytest.mark.parametrize("verb", ["expire", "orphans"])
def test_an_idempotency_key_gives_the_first_answer_again(catalog: icecore.Catalog, verb: str) -> None:
    table = overwritten(catalog)
    put(local(table.location()) / "data/stray.parquet")

    def call() -> object:
        if verb == "expire":
            return expire(table, idempotency_key="once")
        return table.maintenance.remove_orphan_files(idempotency_key="once")

    first, position = call(), catalog.position
    put(local(table.location()) / "data/another.parquet")
    table.append(rows(3))
    assert call() == first
    assert catalog.position == position + 1


def test_the_key_of_another_kind_of_call_is_refused(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1), idempotency_key="once")
    put(local(table.location()) / "data/stray.parquet")
    with pytest.raises(ReusedKeyError, match=r"table\.committed of ns\.t at position"):
        table.maintenance.remove_orphan_files(idempotency_key="once")


def test_the_event_is_read_by_all_that_reads_the_log(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], tmp_path: Path
) -> None:
    """Replays, `at`, `diff`, `revert`, rebuild, export and import, archive and checkpoints, and a trial of a commit."""
    table = overwritten(catalog)
    expire(table)
    put(local(table.location()) / "data/stray.parquet")
    table.maintenance.remove_orphan_files()
    position = catalog.position
    assert ids_of(catalog.at(position).load_table("ns.t")) == [2]
    assert catalog.diff(position - 1, position).objects == ()
    with pytest.raises(ValidationError, match="can't come back"):
        catalog.revert(position)
    assert ids_of(open_again().load_table("ns.t")) == [2]
    catalog.checkpoint()
    catalog.rebuild()
    assert catalog.verify().problems == ()
    catalog.export_log(tmp_path / "log.jsonl")
    with pytest.warns(MovedWarehouseWarning, match="copied or moved"):
        icecore.import_log(tmp_path / "log.jsonl", tmp_path / "copy", materialize=False)
    with pytest.warns(MovedWarehouseWarning), icecore.open(tmp_path / "copy") as copy:
        assert copy.position == position and due(copy) == []
    table.refresh().append(rows(3))
    catalog.archive(before=position + 1)
    assert catalog.verify().problems == ()
    assert ids_of(open_again().load_table("ns.t")) == [2, 3]
    assert catalog.log(kind="table.files-deleted").num_rows == 2


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_kill_in_the_middle_goes_on_at_the_next_open(
    catalog: icecore.Catalog,
    open_again: Callable[[], icecore.Catalog],
    monkeypatch: pytest.MonkeyPatch,
    after: int,
) -> None:
    table = overwritten(catalog)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        die_at(patch, after)
        expire(table)
    files = [local(f.location) for f in named_by(catalog, last_event(catalog))]
    assert sum(not p.exists() for p in files) == after and due(catalog) == [catalog.position]
    again = open_again()
    assert not any(p.exists() for p in files) and due(again) == []
    assert ids_of(again.load_table("ns.t")) == [2] and again.verify().ok


def test_folders_of_partitions_go_after_the_last_turn(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of the log's lock, since they may be many; those of turns before a kill too."""
    table = make_table(catalog, partition_spec=["name"])
    table.append(rows(1, 2, 3))
    table.delete("id < 3")
    table.rewrite_manifests()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        # Each turn has one file.
        patch.setattr(delete_files, "time", SimpleNamespace(monotonic=count().__next__))
        patch.setattr(delete_files, "TURN_S", 2)
        die_at(patch, 3)
        table.maintenance.expire_snapshots().older_than(FAR).retain_last(1).commit()
    [row] = store_of(catalog).rows(MODELS, "deletions_due")
    assert row["value"].startswith("[3,")
    remove, locked = Storage.remove_emptied, []

    def noting(self: Storage, folder: str, top: str) -> None:
        try:
            with sqlite3.connect(store_of(catalog).path, timeout=0) as other:
                other.execute("BEGIN IMMEDIATE")
            other.close()
        except sqlite3.OperationalError as e:
            locked.append(e)
        remove(self, folder, top)

    monkeypatch.setattr(Storage, "remove_emptied", noting)
    open_again()
    assert [p.name for p in (local(table.location()) / "data").iterdir()] == ["name=n3"] and not locked


def test_the_next_such_call_goes_on_too(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(catalog)
    folder = local(table.location())
    first = put(folder / "data/first.parquet")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        die_at(patch, 0)
        table.maintenance.remove_orphan_files()
    position = catalog.position
    assert table.maintenance.remove_orphan_files().deleted_files == ()
    assert not first.exists() and due(catalog) == [] and catalog.position == position
    assert delete_files.finish(repository_of(catalog), last_event(catalog)) == (), "another process was faster"


def test_what_came_to_be_needed_meanwhile_stays(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another table takes two of the files in, and a user writes another one again, before the deletion goes on."""
    table = make_table(catalog)
    other = make_table(catalog, "other")
    told = put(local(table.location()) / "metadata/told.stats")
    folder = local(table.location()) / "data"
    folder.mkdir(parents=True)
    taken, written, stray = (folder / f"{name}.parquet" for name in ("taken", "written", "stray"))
    for path in (taken, written, stray):
        pq.write_table(rows(7), path)
        age(path)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        die_at(patch, 0)
        table.maintenance.remove_orphan_files()
    other.add_files([str(taken)])
    statistics = StatisticsFile(other.snapshots()[0].snapshot_id, str(told), 4, 4, ())
    other.update_statistics().set_statistics(statistics).commit()
    written.write_bytes(b"new")
    again = open_again()
    assert due(again) == [] and not stray.exists() and told.exists()
    assert written.read_bytes() == b"new" and ids_of(again.load_table("ns.other")) == [7]


def test_what_comes_to_be_needed_between_any_two_turns_stays(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog)
    other = make_table(catalog, "other")
    folder = local(table.location()) / "data"
    folder.mkdir(parents=True)
    paths = [folder / f"{number}.parquet" for number in range(4)]
    for path in paths:
        pq.write_table(rows(7), path)
        age(path)
    # Each turn has one file.
    monkeypatch.setattr(delete_files, "time", SimpleNamespace(monotonic=count().__next__))
    monkeypatch.setattr(delete_files, "TURN_S", 2)
    take, taken = delete_files._Turns.take, iter([paths[1], paths[3]])

    def taking(turns: delete_files._Turns) -> bool:
        goes_on = take(turns)
        if path := next(taken, None):
            other.add_files([str(path)])
        return goes_on

    monkeypatch.setattr(delete_files._Turns, "take", taking)
    assert [local(f) for f in table.maintenance.remove_orphan_files().deleted_files] == [paths[0], paths[2]]
    assert ids_of(other) == [7, 7] and catalog.verify().ok


def test_a_file_that_an_expiry_lets_go_can_come_back_meanwhile(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit that dropped it is undone before the deletion goes on."""
    table = overwritten(catalog)
    overwrite = catalog.position
    with monkeypatch.context() as patch, pytest.raises(Killed):
        die_at(patch, 0)
        expire(table)
    catalog.revert(overwrite)
    again = open_again()
    assert due(again) == [] and ids_of(again.load_table("ns.t")) == [1]


def test_a_file_that_can_not_be_deleted_now_goes_later(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others go at once; the next open tries it again."""
    table = overwritten(catalog)
    delete = Storage.delete

    def failing(self: Storage, location: str) -> None:
        if location.endswith(".parquet"):
            raise StorageError(f"can't delete {location}: Input/output error")
        delete(self, location)

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "delete", failing)
        expired = expire(table)
        left = [f.location for f in named_by(catalog, last_event(catalog)) if f.location not in expired.deleted_files]  # type: ignore[attr-defined]
        assert len(left) == 1 and local(left[0]).exists() and due(catalog) == [catalog.position]
        open_again()
        assert local(left[0]).exists() and due(catalog) == [catalog.position]
    open_again()
    assert not local(left[0]).exists() and due(catalog) == []


def test_what_can_not_be_found_out_now_is_a_warning(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event stands, so an error would say that the expiry failed."""
    table = overwritten(catalog)

    def fail(*_: object) -> None:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(delete_files._Turns, "_delete", fail)
        with pytest.warns(UnfinishedDeletionWarning, match="the disk is gone"):
            assert expire(table).deleted_files == ()  # type: ignore[attr-defined]
    assert expire(table).snapshot_ids == () and due(catalog) == []  # type: ignore[attr-defined]


def test_an_expiry_is_worked_out_again_where_another_commit_was_first(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first outside of the write lock, and then inside of it, so that no crowd of writers starves it."""
    table = overwritten(catalog)
    theirs = open_again().load_table("ns.t")
    repository, numbers = repository_of(catalog), iter(range(10, 20))
    tries = Repository._try_commit

    def late(self: Repository, *arguments: object) -> object:
        if self is repository:
            theirs.append(rows(next(numbers)))
        return tries(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Repository, "_try_commit", late)
    expired = expire(table)
    assert len(expired.deleted_files) > 3  # type: ignore[attr-defined]
    assert ids_of(table) == [2, 10, 11, 12] and catalog.verify().ok


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("00000-0-d9ba.parquet", True),
        ("part-00000-c000.snappy.parquet", True),
        ("4d40-5a_123_data.0.parq", True),
        ("00001-x.ORC", True),
        ("x-m0.avro", True),
        ("20240101_0001-x.stats", True),
        ("x-deletes.puffin", True),
        ("v3.metadata.json", True),
        ("00003-x.gz.metadata.json", True),
        ("v3.metadata.json.gz", True),
        ("version-hint.text", True),
        ("notes.txt", False),
        ("sales.csv", False),
        ("config.json", False),
        ("parquet", False),
        ("model.parquet.bak", False),
        ("README", False),
        ("a.json.gz", False),
    ],
)
def test_names_of_a_tables_files(name: str, is_one: bool) -> None:
    assert is_table_file(f"file:///lake/t/data/{name}") is is_one
