"""Changelog scans: what each kind of commit is told as."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from core_tables import local, make_table, pyiceberg_catalog, rows

import icecore
from icecore.engine.data.read import row_buckets
from icecore.engine.data.read.row_diff import RowDiff
from icecore.engine.errors import MissingFileError, NoSuchSnapshotError, StorageError, ValidationError

MERGE = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}


def changes(table: icecore.Table, **options: Any) -> list[tuple[Any, ...]]:
    """Ordinal, type, id and name of each change, in order."""
    found = table.incremental_changelog_scan(**options).to_arrow().to_pylist()
    return [(r["_change_ordinal"], r["_change_type"], r["id"], r["name"]) for r in found]


def last(table: icecore.Table, number: int = 1) -> int:
    """The parent of the last `number` snapshots."""
    return table.snapshots()[-number - 1].snapshot_id


def test_columns_and_commits(catalog: icecore.Catalog) -> None:
    """The changelog's columns come last, ordinals count the commits, and each change has its commit's snapshot."""
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    found = table.incremental_changelog_scan(selected_fields=("name",)).to_arrow()
    assert found.schema == pa.schema(
        [
            ("name", pa.string()),
            pa.field("_change_type", pa.string(), nullable=False),
            ("_change_ordinal", pa.int32()),
            ("_commit_snapshot_id", pa.int64()),
        ]
    )
    assert found["_commit_snapshot_id"].to_pylist() == [s.snapshot_id for s in table.snapshots()]
    assert changes(table) == [(0, "INSERT", 1, "n1"), (1, "INSERT", 2, "n2")]
    con = table.incremental_changelog_scan().to_duckdb()
    assert con.sql("SELECT count(*) FROM changes").fetchall() == [(2,)]
    assert table.incremental_changelog_scan(from_snapshot_id_exclusive=last(table)).count() == 1
    assert make_table(catalog, "empty").incremental_changelog_scan().count() == 0


@pytest.mark.parametrize("format_version", [2, 3])
def test_rows_deleted_by_position_are_deleted_once(catalog: icecore.Catalog, format_version: int) -> None:
    """A second delete of the same file takes away only what the first had left."""
    table = make_table(catalog, format_version=format_version, properties=MERGE)
    table.append(rows(1, 2, 3, 4))
    table.delete("id = 2")
    table.delete("id IN (2, 3)")
    start = table.snapshots()[0].snapshot_id
    assert changes(table, from_snapshot_id_exclusive=start) == [(0, "DELETE", 2, "n2"), (1, "DELETE", 3, "n3")]
    assert len(table.scan().plan_files()[0].delete_files) >= 1


@pytest.mark.parametrize("format_version", [2, 3])
def test_rows_deleted_by_value_are_deleted_once(catalog: icecore.Catalog, format_version: int) -> None:
    """Keys that are deleted again, or that no row has, are no change; a row that came later is not touched."""
    table = make_table(catalog, format_version=format_version)
    table.append(rows(1, 2))
    table.delete_keys(pa.table({"id": [1, 7]}), ["id"])
    table.append(rows(1))
    table.delete_keys(pa.table({"id": [7]}), ["id"])
    start = table.snapshots()[0].snapshot_id
    assert changes(table, from_snapshot_id_exclusive=start) == [(0, "DELETE", 1, "n1"), (1, "INSERT", 1, "n1")]


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_rows_of_a_rewritten_file_are_carried_over(catalog: icecore.Catalog, format_version: int) -> None:
    """Copy-on-write: only the deleted row is a change, one of two equal rows too."""
    table = make_table(catalog, format_version=format_version)
    table.append(rows(1, 2, 2, 3))
    table.delete("id = 3")
    assert changes(table, from_snapshot_id_exclusive=last(table)) == [(0, "DELETE", 3, "n3")]
    table.delete("id = 2")
    assert changes(table, from_snapshot_id_exclusive=last(table)) == [(0, "DELETE", 2, "n2")] * 2


def test_equal_rows_of_other_ids_are_changes_where_there_are_row_ids(catalog: icecore.Catalog) -> None:
    """An overwrite by the same values is nothing in v2, and another row in v3."""
    for version, expected in ((2, []), (3, [(0, "DELETE", 1, "n1"), (0, "INSERT", 1, "n1")])):
        table = make_table(catalog, f"v{version}", format_version=version)
        table.append(rows(1))
        table.overwrite(rows(1))
        assert changes(table, from_snapshot_id_exclusive=last(table)) == expected


def test_rows_from_before_row_ids_are_carried_over_by_their_values(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.upgrade(3)
    table.delete("id = 1")
    assert changes(table, from_snapshot_id_exclusive=last(table)) == [(0, "DELETE", 1, "n1")]


def test_a_replace_changes_nothing_and_has_no_ordinal(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    for i in range(4):
        table.append(rows(i))
    table.rewrite_manifests()
    assert table.snapshots()[-1].operation == "replace"
    table.append(rows(9))
    start = table.snapshots()[3].snapshot_id
    assert changes(table, from_snapshot_id_exclusive=start) == [(0, "INSERT", 9, "n9")]


@pytest.mark.parametrize(("format_version", "properties"), [(2, {}), (2, MERGE), (3, {}), (3, MERGE)])
def test_updates_have_both_images(catalog: icecore.Catalog, format_version: int, properties: dict[str, str]) -> None:
    """What an upsert changed comes as it was and as it is, what it added as inserted."""
    table = make_table(catalog, format_version=format_version, properties=properties)
    table.append(rows(1, 2, 3))
    table.upsert(pa.table({"id": [2, 3, 4], "name": ["new", "n3", "n4"]}), ["id"])
    table.delete("id = 1")
    start = table.snapshots()[0].snapshot_id
    found = changes(table, from_snapshot_id_exclusive=start, compute_updates=True, identifier_columns=("id",))
    assert found == [
        (0, "UPDATE_BEFORE", 2, "n2"),
        (0, "UPDATE_AFTER", 2, "new"),
        (0, "INSERT", 4, "n4"),
        (1, "DELETE", 1, "n1"),
    ]
    plain = changes(table, from_snapshot_id_exclusive=start)
    assert [c[1:3] for c in plain] == [("DELETE", 2), ("INSERT", 2), ("INSERT", 4), ("DELETE", 1)] or [
        c[1:3] for c in plain
    ] == [("DELETE", 2), ("INSERT", 4), ("INSERT", 2), ("DELETE", 1)]


def test_updates_are_told_by_row_id_where_no_column_tells_them(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, format_version=3)
    table.append(rows(1, 2))
    table.upsert(pa.table({"id": [2], "name": ["new"]}), ["id"])
    scan = table.incremental_changelog_scan(
        from_snapshot_id_exclusive=last(table), compute_updates=True, selected_fields=("*", "_row_id")
    )
    found = scan.to_arrow().to_pylist()
    assert [(r["_change_type"], r["_row_id"]) for r in found] == [("UPDATE_BEFORE", 1), ("UPDATE_AFTER", 1)]


def test_updates_that_cannot_be_told_are_refused(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1, 1))
    table.overwrite(pa.table({"id": [1], "name": ["new"]}))
    with pytest.raises(ValidationError, match="identifier_columns"):
        table.incremental_changelog_scan(compute_updates=True)
    with pytest.raises(ValidationError, match="top-level"):
        table.incremental_changelog_scan(compute_updates=True, identifier_columns=("nothing",))
    scan = table.incremental_changelog_scan(compute_updates=True, identifier_columns=("id",))
    with pytest.raises(ValidationError, match="several deleted rows"):
        scan.to_arrow()


def test_a_filter_sees_rows_come_and_go(catalog: icecore.Catalog) -> None:
    """A row that is changed so that the filter no longer selects it is deleted for the filter."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.upsert(pa.table({"id": [2], "name": ["other"]}), ["id"])
    options = {"from_snapshot_id_exclusive": last(table)}
    assert changes(table, row_filter="name = 'n2'", **options) == [(0, "DELETE", 2, "n2")]
    assert changes(table, row_filter="name = 'other'", **options) == [(0, "INSERT", 2, "other")]
    assert changes(table, row_filter="id = 1", **options) == []


def test_nested_columns_are_compared_whole(catalog: icecore.Catalog) -> None:
    """Lists, maps and structs of rows that are carried over are equal, and different ones are not."""
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("l", pa.list_(pa.struct([("t", pa.timestamp("us")), ("f", pa.float64())]))),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("s", pa.struct([("a", pa.struct([("b", pa.binary())]))])),
        ]
    )
    table = catalog.create_table(("ns", "nested"), schema)
    nan = float("nan")
    row = {"l": [{"t": None, "f": nan}, None], "m": [("a", 1), ("b", None)], "s": {"a": {"b": b"x"}}}
    others = [
        {"id": 2, **row},
        {"id": 2, **row, "l": []},
        {"id": 2, **row, "l": None},
        {"id": 2, **row, "m": [("a", 1)]},
        {"id": 2, **row, "s": {"a": None}},
        {"id": 2, **row, "s": None},
    ]
    table.append(pa.Table.from_pylist([{"id": 1, **row}, *others], schema=schema))
    table.delete("id = 1")
    scan = table.incremental_changelog_scan(from_snapshot_id_exclusive=last(table))
    assert [(r["id"], r["_change_type"]) for r in scan.to_arrow().to_pylist()] == [(1, "DELETE")]
    table.overwrite(pa.Table.from_pylist(others[:3], schema=schema))
    assert table.incremental_changelog_scan(from_snapshot_id_exclusive=last(table)).count() == 3


def test_an_expired_parent_leaves_only_appends_to_be_told(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.delete("id = 1")
    table.append(rows(4))
    first, second, third, _ = (s.snapshot_id for s in table.snapshots())
    table.maintenance.expire_snapshots().by_id(first).clean_files(False).commit()
    assert changes(table, from_snapshot_id_exclusive=first)[:2] == [(0, "INSERT", 3, "n3"), (1, "DELETE", 1, "n1")]
    table.maintenance.expire_snapshots().by_id(second).clean_files(False).commit()
    with pytest.raises(ValidationError, match="expired"):
        changes(table, from_snapshot_id_exclusive=second)
    assert changes(table, from_snapshot_id_exclusive=third) == [(0, "INSERT", 4, "n4")]


def test_a_parent_that_another_engine_expired_counts_still(catalog: icecore.Catalog) -> None:
    """PyIceberg makes its child a first snapshot, which would have brought all rows: what it added is told."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    table.delete("id = 1")
    table.append(rows(4))
    first, second, third = (s.snapshot_id for s in table.snapshots())
    for expired in (second, first):
        with contextlib.closing(pyiceberg_catalog(catalog.path)) as peer:
            peer.load_table("ns.t").maintenance.expire_snapshots().by_id(expired).commit()
        assert table.refresh().snapshots()[-1].parent_snapshot_id is None
        assert changes(table, from_snapshot_id_inclusive=third) == [(0, "INSERT", 4, "n4")]
    table.delete("id = 2")
    table.append(rows(5))
    deleting = table.snapshots()[-2].snapshot_id
    with contextlib.closing(pyiceberg_catalog(catalog.path)) as peer:
        peer.load_table("ns.t").maintenance.expire_snapshots().by_id(third).commit()
    with pytest.raises(ValidationError, match=f"its parent {third} was expired"):
        changes(table.refresh(), from_snapshot_id_inclusive=deleting)


def test_rows_have_the_schema_of_now_and_reserved_names_are_kept(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1, 2))
    table.update_schema().rename_column("name", "label").commit()
    table.delete("id = 1")
    found = table.incremental_changelog_scan(from_snapshot_id_exclusive=last(table)).to_arrow()
    assert found["label"].to_pylist() == ["n1"]
    table.update_schema().rename_column("label", "_change_type").commit()
    with pytest.raises(ValidationError, match="_change_type"):
        table.incremental_changelog_scan()
    with pytest.raises(NoSuchSnapshotError):
        table.incremental_changelog_scan(to_snapshot_id_inclusive=7)


def test_a_file_that_is_in_the_table_twice_counts_twice(catalog: icecore.Catalog) -> None:
    """The same file added again is inserted again; a delete takes both away."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    [task] = table.scan().plan_files()
    table.append_files([task.file])
    assert changes(table, from_snapshot_id_exclusive=last(table)) == [(0, "INSERT", 1, "n1"), (0, "INSERT", 2, "n2")]
    table.delete("id > 0")
    assert [c[1:3] for c in changes(table, from_snapshot_id_exclusive=last(table))] == [
        ("DELETE", i) for i in (1, 2, 1, 2)
    ]


def test_a_commit_that_only_deletes_is_read_file_by_file(catalog: icecore.Catalog) -> None:
    """Where nothing can have been carried over, files are opened as the stream gets to them, and none is held."""
    table = make_table(catalog)
    for i in range(12):
        table.append(rows(i))
    table.delete("id >= 0")
    last_of_all = table.scan(snapshot_id=last(table)).plan_files()[-1]
    local(last_of_all.file.file_path).unlink()
    reader = table.incremental_changelog_scan(from_snapshot_id_exclusive=last(table)).to_arrow_batch_reader()
    assert reader.read_next_batch()["_change_type"].to_pylist() == ["DELETE"]
    with pytest.raises(MissingFileError):
        reader.read_all()


def test_a_commit_that_does_not_fit_in_memory_is_compared_in_parts(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row is put by in a file of its bucket; what changed is told as where all is in memory."""
    table = make_table(catalog)
    table.append(rows(*range(1000)))
    table.append(rows(*range(1000, 2000)))
    table.overwrite(rows(*range(5), *range(6, 2000)))
    compared: list[int] = []
    without_carried_over = RowDiff.without_carried_over

    def counted(diff: RowDiff, columns: Sequence[str]) -> RowDiff:
        compared.append(diff.deleted.num_rows + diff.inserted.num_rows)
        return without_carried_over(diff, columns)

    monkeypatch.setattr(RowDiff, "without_carried_over", counted)
    whole = changes(table, from_snapshot_id_exclusive=last(table))
    assert whole == [(0, "DELETE", 5, "n5")] and compared == [3999]
    compared.clear()
    monkeypatch.setattr(row_buckets, "MOST_BYTES", 1)
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        assert changes(table, from_snapshot_id_exclusive=last(table)) == whole
        assert os.listdir(folder) == []
    assert sum(compared) == 3999 and max(compared) < 3999 // 16


def test_rows_that_find_no_room_are_told_with_their_folder(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog)
    table.append(rows(1, 2))
    table.overwrite(rows(2, 3))
    scan = table.incremental_changelog_scan(from_snapshot_id_exclusive=last(table))
    monkeypatch.setattr(row_buckets, "MOST_BYTES", 1)
    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            with pytest.raises(StorageError, match=f"can't write rows to {folder}/icecore-"):
                scan.to_arrow()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert os.listdir(folder) == []


def test_a_file_that_was_brought_back_has_its_old_deletes(catalog: icecore.Catalog) -> None:
    """Its rows that were deleted before are not inserted, and that is so after the snapshot before was expired too."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    table.delete_keys(rows(1).select(["id"]), ["id"])
    table.delete("id >= 0")
    catalog.revert(catalog.position)
    table.refresh()
    head = table.snapshots()[-1]
    assert head.operation == "append"
    assert changes(table, from_snapshot_id_inclusive=head.snapshot_id) == [(0, "INSERT", 2, "n2")]
    table.maintenance.expire_snapshots().by_id(last(table)).commit()
    assert changes(table, from_snapshot_id_inclusive=head.snapshot_id) == [(0, "INSERT", 2, "n2")]
