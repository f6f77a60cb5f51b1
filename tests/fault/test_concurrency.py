"""Writers at the same time: no commit is lost, none is doubled, and who can't go on is told why."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from clean_processes import clean_processes
from core_tables import ids_of, local, make_table, peer_ids, repository_of, rows, store_of
from fault_writers import append_some, at_once, mixed_work

import icecore
from icecore.engine.archive.log_replica import ReplayedModels
from icecore.engine.errors import (
    CommitConflictError,
    CommitFailedError,
    NoSuchSnapshotError,
    NoSuchTableError,
    ValidationError,
)
from icecore.engine.repository.repository import Repository
from icecore.projections.files import materialize
from icecore.projections.verify import verify_models

Open = Callable[[], icecore.Catalog]
SCHEMES = ("metastore", "filesystem")


def in_processes(target: Callable[..., None], folder: str, workers: int, count: int) -> dict[int, list[int]]:
    """The ids that each process says are there."""
    results: Any = clean_processes().Queue()
    processes = [clean_processes().Process(target=target, args=(folder, i + 1, count, results)) for i in range(workers)]
    for process in processes:
        process.start()
    answers = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert [a[2] for a in answers] == [None] * workers
    return {worker: ids for worker, ids, _ in answers}


def before_next_commit(monkeypatch: pytest.MonkeyPatch, repository: Repository, action: Callable[[], Any]) -> None:
    """Does the action once, after the next commit was prepared and before it gets the lock."""
    original, waiting = Repository._try_commit, [action]

    def delayed(self: Repository, *args: Any, **kwargs: Any) -> Any:
        if self is repository and waiting:
            waiting.pop()()
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Repository, "_try_commit", delayed)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_threads_of_one_catalog_lose_nothing(catalog: icecore.Catalog, scheme: str) -> None:
    """Four threads append and delete through one catalog; each row is there once, each deleted one is gone."""
    make_table(catalog, properties={"icecore.commit-scheme": scheme})

    def work(worker: int) -> None:
        table = catalog.load_table("ns.t")
        for i in range(3):
            table.append(rows(worker * 100 + i, worker * 100 + 50 + i))
            table.delete(f"id = {worker * 100 + 50 + i}")

    at_once(4, work)
    assert ids_of(catalog.load_table("ns.t")) == sorted(w * 100 + i for w in range(4) for i in range(3))
    assert catalog.verify().problems == ()
    assert peer_ids(catalog.path) == ids_of(catalog.load_table("ns.t"))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_threads_with_catalogs_of_their_own_lose_nothing(catalog: icecore.Catalog, scheme: str) -> None:
    """Four catalogs over one folder append at once; the version hint ends at the latest version."""
    make_table(catalog, properties={"icecore.commit-scheme": scheme})

    def work(worker: int) -> None:
        with icecore.open(catalog.path) as mine:
            table = mine.load_table("ns.t")
            for i in range(5):
                table.append(rows(worker * 100 + i))

    at_once(4, work)
    table = catalog.load_table("ns.t")
    assert ids_of(table) == sorted(w * 100 + i for w in range(4) for i in range(5))
    assert catalog.verify().problems == ()
    last = local(table.metadata_location)
    hint = (last.parent / "version-hint.text").read_text()
    assert last.name in (f"{hint}.metadata.json", f"v{hint}.metadata.json")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_commits_while_a_warehouse_is_verified_are_no_problem(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """However often it is looked again: a version that came since is in the log, if not as of the check's moment."""
    make_table(catalog, properties={"icecore.commit-scheme": scheme})
    with icecore.open(catalog.path) as other:

        def replayed(*of: Any) -> ReplayedModels:
            other.load_table("ns.t").append(rows(other.position))
            return ReplayedModels(*of)

        monkeypatch.setattr(verify_models, "ReplayedModels", replayed)
        found = catalog.verify()
    assert found.problems == ()
    assert found.events < catalog.position


def test_of_commits_one_after_another_the_newest_alone_has_a_hint(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where several were made at once, each had one, which the next wrote over."""
    table, repository = make_table(catalog), repository_of(catalog)
    told: list[str] = []
    earlier = table.state
    table.append(rows(1))
    monkeypatch.setattr(materialize, "write_hint", lambda _state, location, *_, **__: told.append(location))
    repository.materializer.follow_with_hint(earlier, repository.storage_of(earlier), durable=False)
    assert told == [table.metadata_location]


def test_processes_lose_nothing(catalog: icecore.Catalog) -> None:
    """Four processes append to one table; every row that was acknowledged is there once, and no other."""
    make_table(catalog)
    found = in_processes(append_some, str(catalog.path), 4, 6)
    table = catalog.load_table("ns.t")
    assert ids_of(table) == sorted(i for ids in found.values() for i in ids)
    assert [s.sequence_number for s in table.snapshots()] == list(range(1, 25))
    assert catalog.verify().problems == ()
    assert peer_ids(catalog.path) == ids_of(table)


def test_a_process_is_let_in_between_the_groups_of_another(catalog: icecore.Catalog) -> None:
    """Whose threads commit without a pause: it waits for a group, not for the end of them."""
    table, position = make_table(catalog), catalog.position
    is_done = threading.Event()

    def work(worker: int) -> None:
        mine = catalog.load_table("ns.t")
        while not is_done.is_set():
            mine.set_properties({f"worker-{worker}": str(catalog.position)})

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    try:
        found = in_processes(append_some, str(catalog.path), 1, 4)
    finally:
        is_done.set()
        for thread in threads:
            thread.join()
    assert ids_of(table.refresh()) == found[1]
    kinds = [e.provenance.actor == "worker 1" for e in store_of(catalog).events(position)]
    assert kinds.count(True) == 4 and kinds[kinds.index(True) :].count(False) > 0
    assert catalog.verify().problems == ()


def test_processes_that_delete_and_evolve_lose_nothing(catalog: icecore.Catalog) -> None:
    """Three processes append, delete, add columns and set properties at once; all of it holds at the end."""
    make_table(catalog, partition_spec=["bucket(2, id)"])
    found = in_processes(mixed_work, str(catalog.path), 3, 4)
    table = catalog.load_table("ns.t")
    assert ids_of(table) == sorted(i for ids in found.values() for i in ids)
    assert {f.name for f in table.schema().fields} == {"id", "name", "w1_2", "w2_2", "w3_2"}
    assert {k: v for k, v in table.properties.items() if k.startswith("worker")} == {
        "worker-1": "3",
        "worker-2": "3",
        "worker-3": "3",
    }
    assert catalog.verify().problems == ()
    assert peer_ids(catalog.path) == ids_of(table)


def test_c1_an_append_that_lost_the_race_goes_on(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends never conflict: both are there, in the order of the log."""
    table, other = make_table(catalog), open_again().load_table("ns.t")
    before_next_commit(monkeypatch, repository_of(catalog), lambda: other.append(rows(2)))
    table.append(rows(1))
    assert ids_of(table) == [1, 2]
    assert [s.sequence_number for s in table.snapshots()] == [1, 2]
    assert table.snapshots()[1].parent_snapshot_id == table.snapshots()[0].snapshot_id


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_c3_a_delete_sees_what_was_appended_meanwhile(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """A delete by filter that lost the race is decided again, so that it deletes the newer rows too."""
    table = make_table(catalog, properties={"write.delete.mode": mode})
    table.append(rows(1, 2, 10))
    other = open_again().load_table("ns.t")
    before_next_commit(monkeypatch, repository_of(catalog), lambda: other.append(rows(3, 11)))
    table.delete("id < 5")
    assert ids_of(table) == [10, 11]
    assert peer_ids(catalog.path) == [10, 11]


@pytest.mark.parametrize("held", [(), (1,)])
def test_c3_an_overwrite_sees_what_was_appended_meanwhile(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch, held: tuple[int, ...]
) -> None:
    """An overwrite of all rows replaces rows that came after it was planned, also where there were none before."""
    table = make_table(catalog)
    if held:
        table.append(rows(*held))
    other = open_again().load_table("ns.t")
    before_next_commit(monkeypatch, repository_of(catalog), lambda: other.append(rows(2)))
    table.overwrite(rows(7))
    assert ids_of(table) == [7]


def test_c3_a_delete_that_matched_nothing_sees_what_was_appended_meanwhile(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete that found no row is decided again too."""
    table = make_table(catalog)
    other = open_again().load_table("ns.t")
    before_next_commit(monkeypatch, repository_of(catalog), lambda: other.append(rows(2)))
    table.delete("id = 2")
    assert ids_of(table) == []


def test_two_deletes_of_the_same_rows_agree(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two deletes of the same file finds it gone, and rewrites nothing twice."""
    table = make_table(catalog)
    table.append(rows(1, 2, 3))
    other = open_again().load_table("ns.t")
    before_next_commit(monkeypatch, repository_of(catalog), lambda: other.delete("id = 1"))
    table.delete("id <= 2")
    assert ids_of(table) == [3]


def test_c4_the_same_column_twice_is_a_clear_error(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two writers that add the same column the second is refused, and the log has one event only."""
    table, other = make_table(catalog), open_again().load_table("ns.t")
    update = other.update_schema()
    before_next_commit(monkeypatch, repository_of(catalog), lambda: update.add_column("x", "long").commit())
    position = catalog.position
    with pytest.raises((ValidationError, CommitConflictError), match="x"):
        table.update_schema().add_column("x", "string").commit()
    assert catalog.position == position + 1
    assert str(table.refresh().schema().find_field("x").field_type) == "long"


def test_c4_different_columns_both_come(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two writers that add different columns both succeed, with different field ids (T8)."""
    table, other = make_table(catalog), open_again().load_table("ns.t")
    update = other.update_schema()
    before_next_commit(monkeypatch, repository_of(catalog), lambda: update.add_column("x", "long").commit())
    table.update_schema().add_column("y", "long").commit()
    assert [(f.field_id, f.name) for f in table.schema().fields[2:]] == [(3, "x"), (4, "y")]
    assert table.metadata.last_column_id == 4


@pytest.mark.parametrize("what", ["schema", "spec", "order"])
def test_c4_files_written_under_ids_that_another_writer_took_are_refused(
    catalog: icecore.Catalog, open_again: Open, what: str
) -> None:
    """A transaction whose files carry ids of its own change fails where another writer gave them out meanwhile."""
    table, other = make_table(catalog), open_again().load_table("ns.t")
    transaction = table.transaction()
    data = rows(1)
    match what:
        case "schema":
            transaction.update_schema().add_column("x", "long").commit()
            data = data.append_column("x", pa.array([77]))
        case "spec":
            transaction.update_spec().add_field("bucket(4, id)").commit()
        case _:
            transaction.update_sort_order().set("id").commit()
    transaction.append(data)
    match what:
        case "schema":
            other.update_schema().add_column("y", "long").commit()
        case "spec":
            other.update_spec().add_field("truncate(2, name)").commit()
        case _:
            other.update_sort_order().set("name").commit()
    position = catalog.position
    with pytest.raises(CommitFailedError):
        transaction.commit()
    assert catalog.position == position
    assert ids_of(table.refresh()) == []


def test_c4_a_delete_keeps_columns_that_another_writer_added(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are written again keep the values of a column which came after the delete was planned."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    other = open_again().load_table("ns.t")

    def evolve_and_append() -> None:
        other.update_schema().add_column("x", "long").commit()
        other.append(rows(3, 4).append_column("x", pa.array([30, 40])))

    before_next_commit(monkeypatch, repository_of(catalog), evolve_and_append)
    table.delete("id = 1 OR id = 3")
    found = table.scan().to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["x"]) for r in found] == [(2, None), (4, 40)]


def test_a_commit_to_a_dropped_table_is_refused(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is dropped between plan and commit gets no further event."""
    table, other = make_table(catalog), open_again()
    before_next_commit(monkeypatch, repository_of(catalog), lambda: other.drop_table("ns.t"))
    with pytest.raises(NoSuchTableError, match=r"ns\.t"):
        table.append(rows(1))
    assert [e.kind for e in store_of(catalog).stream_events(table.state.stream)] == ["table.created", "table.dropped"]


def test_a_commit_to_a_removed_branch_is_refused(
    catalog: icecore.Catalog, open_again: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch that is removed between plan and commit is not made again by an append."""
    table = make_table(catalog)
    table.append(rows(1))
    head = table.metadata.current_snapshot_id
    assert head is not None
    table.manage_snapshots().create_branch(head, "dev").commit()
    other = open_again().load_table("ns.t")
    before_next_commit(
        monkeypatch, repository_of(catalog), lambda: other.manage_snapshots().remove_branch("dev").commit()
    )
    with pytest.raises(NoSuchSnapshotError, match="dev"):
        table.append(rows(2), branch="dev")
    assert "dev" not in table.refresh().refs()
