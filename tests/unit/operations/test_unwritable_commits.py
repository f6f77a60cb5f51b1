"""Earlier releases logged commits that no manifest can hold: the table says so, takes nothing on top, has a way out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.errors import UnwritableCommitError, ValidationError
from icecore.engine.formats.entry_arrow import files_to_arrow
from icecore.engine.operations import add_files
from icecore.engine.spec.content_file import ContentFile, DataFileContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.table.table import Table
from icecore.projections.files.file_follower import FileFollower, MaterializationWarning

SCHEMA = pa.schema([("id", pa.int64())])


def unchecked(files: Iterable[ContentFile], metadata: TableMetadata) -> pa.Table:
    return files_to_arrow(files, metadata.specs, metadata.all_fields, status=ManifestEntryStatus.ADDED)


def as_earlier(monkeypatch: pytest.MonkeyPatch, commit: Callable[[], object]) -> None:
    """Makes a commit as a release did that checked nothing and let the commit stand without its files."""
    with monkeypatch.context() as earlier:
        earlier.setattr(add_files, "check_data_files", lambda files: files)
        earlier.setattr(add_files, "added_entries", unchecked)
        earlier.setattr(FileFollower, "publish", lambda *_: None)
        earlier.setattr(FileFollower, "follow", lambda *_: None)
        commit()


def a_file(catalog: icecore.Catalog, **change: Any) -> ContentFile:
    """One with the row 7, of another table, and described wrongly."""
    source = catalog.create_table("ns.source", SCHEMA)
    source.append([{"id": 7}])
    [task] = source.scan().plan_files()
    return evolve(task.file, **change)


def rows_elsewhere(warehouse: Path) -> list[int]:
    peer = SqlCatalog("icecore", uri=f"sqlite:///{warehouse}/icecore.db", warehouse=str(warehouse))
    return sorted(peer.load_table("ns.t").scan().to_arrow()["id"].to_pylist())


POISON: dict[str, dict[str, Any]] = {
    "equality deletes without ids": {"content": DataFileContent.EQUALITY_DELETES},
    "an unknown content": {"content": 9},
}


def poisoned(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, **properties: str) -> tuple[Table, int]:
    """A table with a data file under a partition value that is too short, and the position of its commit."""
    schema = pa.schema([("id", pa.int64()), ("f", pa.binary(3))])
    source = catalog.create_table("ns.source", schema)
    source.append([{"id": 7, "f": b"abc"}])
    [task] = source.scan().plan_files()
    file = evolve(task.file, partition=(b"ab",))
    table = catalog.create_table("ns.t", schema, partition_spec=["f"], properties=properties)
    table.append([{"id": 1, "f": b"123"}])
    as_earlier(monkeypatch, lambda: table.append_files([file]))
    return table.refresh(), catalog.position


WAYS_OUT: dict[str, Callable[[icecore.Catalog, Table, int], object]] = {
    "revert": lambda catalog, table, position: catalog.revert(position),
    "delete": lambda catalog, table, position: table.delete("id = 7"),
    "remove the file": lambda catalog, table, position: table.overwrite_files(
        [t.file.file_path for t in table.scan().plan_files() if "/source/" in t.file.file_path]
    ),
    "compaction": lambda catalog, table, position: table.rewrite_data_files(options={"rewrite-all": "true"}),
    "roll back": lambda catalog, table, position: (
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[-2].snapshot_id).commit()
    ),
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_stuck_table_takes_nothing_on_top_and_has_a_way_out(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, warehouse: Path, way: str
) -> None:
    """What builds on it is refused by an error that names the commit and what leads out; each of that does."""
    table, position = poisoned(catalog, monkeypatch)
    assert not catalog.verify().ok
    building_on_it: tuple[Callable[[], object], ...] = (
        lambda: table.append([{"id": 2}]),
        lambda: table.set_properties({"a": "b"}),
    )
    for refused in building_on_it:
        with pytest.raises(UnwritableCommitError, match=rf"position {position} .*/source/.*revert\({position}\)"):
            refused()
    assert catalog.position == position
    assert rows_elsewhere(warehouse) == [1]
    WAYS_OUT[way](catalog, table, position)
    table.refresh().append([{"id": 2}])
    expected = [1, 2, 7] if way == "compaction" else [1, 2]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == expected
    assert rows_elsewhere(warehouse) == expected
    assert catalog.verify().ok
    catalog.rebuild()
    assert catalog.verify().ok
    assert rows_elsewhere(warehouse) == expected
    assert [t.file.file_path for t in catalog.at(position).load_table("ns.t").scan(row_filter="id >= 0").plan_files()]


def test_branches_that_still_have_it_go_in_the_same_commit(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, warehouse: Path
) -> None:
    """A way out for main alone is refused while another branch is at the commit."""
    table, position = poisoned(catalog, monkeypatch)
    head = table.snapshots()[-1].snapshot_id
    as_earlier(monkeypatch, lambda: table.manage_snapshots().create_branch(head, "b").commit())
    with pytest.raises(UnwritableCommitError, match="drop branches and tags"):
        catalog.revert(position)
    with table.transaction() as transaction:
        transaction.delete("id = 7")
        transaction.manage_snapshots().remove_branch("b").commit()
    assert rows_elsewhere(warehouse) == [1]
    assert catalog.verify().ok


def test_the_next_open_says_which_table_is_stuck_and_why(
    catalog: icecore.Catalog,
    monkeypatch: pytest.MonkeyPatch,
    open_again: Callable[[], icecore.Catalog],
) -> None:
    _, position = poisoned(catalog, monkeypatch)
    with pytest.warns(MaterializationWarning, match=rf"ns.t: the commit at position {position} .*revert"):
        open_again()


@pytest.mark.parametrize("version, change", [
    (2, {"first_row_id": 3}),
    (1, {"first_row_id": 3, "equality_ids": (1,), "referenced_data_file": "x"}),
    (2, {"value_counts": {1: None}, "split_offsets": (4, None), "content_offset": 1}),
])  # fmt: skip
def test_what_a_manifest_does_without_is_left_out_and_the_table_heals_by_itself(
    catalog: icecore.Catalog,
    monkeypatch: pytest.MonkeyPatch,
    warehouse: Path,
    open_again: Callable[[], icecore.Catalog],
    version: int,
    change: dict[str, Any],
) -> None:
    """Row ids in a v2 table, metrics that are null: the next open writes the files."""
    table = catalog.create_table("ns.t", SCHEMA, format_version=version)
    table.append([{"id": 1}])
    file = a_file(catalog, **change)
    as_earlier(monkeypatch, lambda: table.append_files([file]))
    assert rows_elsewhere(warehouse) == [1]
    again = open_again()
    assert rows_elsewhere(warehouse) == [1, 7]
    assert again.verify().ok


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("what", POISON)
def test_entries_that_are_no_data_files_are_reverted(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, warehouse: Path, what: str, version: int
) -> None:
    """Also where the manifest could not even say that they are gone."""
    table = catalog.create_table("ns.t", SCHEMA, format_version=version)
    table.append([{"id": 1}])
    file = a_file(catalog, **POISON[what])
    before = table.snapshots()[-1]
    as_earlier(monkeypatch, lambda: table.append_files([file]))
    with pytest.raises(UnwritableCommitError):
        table.refresh().append([{"id": 2}])
    table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    table.append([{"id": 2}])
    assert rows_elsewhere(warehouse) == [1, 2]
    assert catalog.verify().ok


def test_a_table_that_is_written_out_by_hand_refuses_at_once_and_has_the_same_way_out(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, warehouse: Path
) -> None:
    table, position = poisoned(catalog, monkeypatch, **{"icecore.materialize": "manual"})
    with pytest.raises(UnwritableCommitError, match=rf"position {position}"):
        catalog.materialize("ns.t")
    catalog.revert(position)
    catalog.materialize("ns.t")
    position = catalog.position
    given = evolve(next(t.file for t in catalog.load_table("ns.source").scan().plan_files()), partition=(b"abc",))
    assert rows_elsewhere(warehouse) == [1]
    assert catalog.verify().ok
    with monkeypatch.context() as unsafe:
        unsafe.setattr(add_files, "added_entries", unchecked)
        unsafe.setattr(add_files, "check_data_files", lambda files: files)
        file = evolve(given, content=DataFileContent.EQUALITY_DELETES)
        with pytest.raises(ValidationError, match=r"can't be written to manifests: .*equality_ids"):
            table.append_files([file])
    assert catalog.position == position


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_of_several_tables_refuses_what_no_manifest_can_hold_as_the_commit_does(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    file = a_file(catalog, **POISON["equality deletes without ids"])
    catalog.create_table("ns.t", SCHEMA)
    position = catalog.position
    monkeypatch.setattr(add_files, "added_entries", unchecked)
    monkeypatch.setattr(add_files, "check_data_files", lambda files: files)
    transaction = catalog.transaction(dry_run=dry_run)
    transaction.table("ns.t").append_files([file])
    with pytest.raises(ValidationError, match=r"can't be written to manifests: .*equality_ids"):
        transaction.commit()
    assert catalog.position == position
