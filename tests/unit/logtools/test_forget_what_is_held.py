"""Forgetting what snapshots, files, other processes and dropped tables may hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest
from erased_table import SCHEMA, SECRET, erase, expire, row
from traces import traces_of

import icecore
from icecore.engine.errors import NoSuchTableError, ReadOnlyError, ValidationError
from icecore.engine.foreign import foreign_manifests


def test_what_snapshots_hold_is_kept_and_told(catalog: icecore.Catalog) -> None:
    """A live file can't be forgotten, nor one whose deleted entry a snapshot has: the error names the snapshot."""
    table = catalog.create_table(("ns", "users"), SCHEMA)
    table.append([row(1, SECRET)])
    [live] = table.scan().plan_files()
    head = table.current_snapshot()
    assert head is not None
    with pytest.raises(ValidationError, match=rf"it is read by snapshot {head.snapshot_id} \(main\); delete its rows"):
        table.forget(files=[live.file.file_path])
    table.append([row(2, "bob@x.org")])
    table.delete("id = 1")
    table.maintenance.expire_snapshots().older_than(dt.datetime.now(dt.UTC)).retain_last(1).commit()
    head = table.current_snapshot()
    assert head is not None
    found = table.forget(dry_run=True)
    assert (found.files, found.held) == (0, {head.snapshot_id: 1})
    with pytest.raises(ValidationError, match=rf"as deleted, is in snapshot {head.snapshot_id} \(main\); rewrite_mani"):
        table.forget(files=[live.file.file_path])
    expire(table)
    assert table.forget(files=[live.file.file_path]).files == 1
    assert catalog.verify().problems == ()


def test_files_that_still_lie_there_are_told(catalog: icecore.Catalog) -> None:
    table = catalog.create_table(("ns", "users"), SCHEMA)
    table.append([row(1, SECRET)])
    [task] = table.scan().plan_files()
    table.append([row(2, "bob@x.org")])
    table.delete("id = 1")
    table.rewrite_manifests()
    table.maintenance.expire_snapshots().older_than(dt.datetime.now(dt.UTC)).retain_last(1).clean_files(False).commit()
    found = table.forget()
    assert task.file.file_path in found.left_files
    assert {f.rsplit("/", 2)[1] for f in found.left_files} == {"data", "metadata"}
    assert catalog.verify().problems == ()
    table.maintenance.remove_orphan_files(allow_recent=True, older_than=dt.datetime.now(dt.UTC))
    assert traces_of(catalog.path, SECRET) == []


def test_what_can_not_be_asked(catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]) -> None:
    table = erase(catalog, partition_spec=["truncate(1, email)", "bucket(2, id)"])
    for options, text in (
        ({"columns": ["nothing"]}, "never had a column 'nothing'"),
        ({"columns": ["email"]}, r"'email_trunc_1' is truncate\[1\] of 'email'"),
        ({"files": ["file:///nothing"]}, "has no file file:///nothing"),
        ({"columns": "email"}, "must be a sequence of strings"),
    ):
        with pytest.raises(ValidationError, match=text):
            table.forget(**options)
    with icecore.open(catalog.path, read_only=True) as reading, pytest.raises(ReadOnlyError):
        reading.load_table("ns.users").forget()
    assert table.forget(columns=["id"]).files == 1


@pytest.mark.parametrize("most_bytes", [0, 2**20])
def test_a_process_that_loaded_values_of_a_registered_table_writes_none_of_them_again(
    catalog: icecore.Catalog,
    open_again: Callable[[], icecore.Catalog],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    most_bytes: int,
) -> None:
    """Those of manifests that are too large for the log are in no event: in what is cached alone."""
    monkeypatch.setattr(foreign_manifests, "MOST_BYTES_OF_REGISTERED", most_bytes)
    with icecore.open(tmp_path / "theirs") as elsewhere:
        elsewhere.create_namespace("ns")
        made = elsewhere.create_table(("ns", "users"), SCHEMA)
        made.append([row(1, SECRET)])
        made.append([row(2, "bob@x.org")])
        made.delete("id = 1")
        made.rewrite_manifests()
        assert made.metadata_location is not None
        table = catalog.register_table("ns.users", made.metadata_location)
    first = table.snapshots()[0].snapshot_id
    other = open_again().load_table("ns.users")
    assert other.scan(f"email = '{SECRET}'", snapshot_id=first).count() == 1
    expire(table)
    assert (table.forget().position is None) == (most_bytes == 0)
    assert table.forget().position is None
    for number in range(30, 60):
        other.append([row(number, f"n{number}@x.org")])
        assert other.scan("email < 'c'").count() == 1
    assert (catalog.path / ".icecore" / "segments").exists()
    assert traces_of(catalog.path, SECRET) == []


@pytest.mark.parametrize("archived", [False, True])
def test_a_purged_table_is_forgotten(catalog: icecore.Catalog, archived: bool) -> None:
    """Its snapshots hold nothing any more; those of a table that is only dropped do, as it may come back."""
    table: icecore.Table = catalog.create_table(("ns", "users"), SCHEMA)
    table.append([row(1, SECRET)])
    table.append([row(2, "bob@x.org")])
    catalog.drop_table("ns.users")
    assert catalog.forget("ns.users").files == 0
    catalog.purge_table("ns.users")
    if archived:
        catalog.archive(before=catalog.position)
    assert catalog.forget("ns.users", columns=["email", "who"], author="dpo").files == 2
    assert traces_of(catalog.path, SECRET) == []
    assert catalog.verify().problems == ()
    catalog.rebuild()
    assert catalog.verify().problems == ()
    with pytest.raises(NoSuchTableError):
        catalog.forget("ns.nothing")
