"""Blame of rows, where commits were expired and reverted too; and of files, partitions, columns, properties, refs."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pyarrow as pa
import pytest
from core_tables import make_table, pyiceberg_catalog, rows

import icecore
from icecore.engine.errors import NoSuchTableError, ValidationError


def told(table: icecore.Table, row_filter: str | None = None, **options: object) -> dict[int, tuple[object, ...]]:
    """Message, operation and exactness by id."""
    found = table.blame(row_filter, **options).to_pylist()  # type: ignore[arg-type]
    return {r["id"]: (r["_message"], r["_operation"], r["_is_exact"]) for r in found}


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_row_is_blamed_on_who_brought_it(catalog: icecore.Catalog, format_version: int) -> None:
    """Not on a compaction, an update of its neighbour, or a revert that gave it back (RL6)."""
    table = make_table(catalog, format_version=format_version)
    table.append(rows(1, 2, 3), message="first", author="ann")
    table.upsert(rows(2).set_column(1, "name", [["new"]]), ["id"], message="changed")
    table.delete("id = 3", message="too much")
    catalog.revert(catalog.position)
    table.refresh().rewrite_data_files(options={"rewrite-all": "true"}, message="nightly")
    expected = dict.fromkeys((1, 3), ("first", "append", True)) | {2: ("changed", "overwrite", True)}
    assert told(table) == expected
    assert told(table, "name = ?", parameters=["new"]) == {2: expected[2]}
    [row] = table.blame("id = 1", selected_fields=["name"], limit=1).to_pylist()
    assert (row["_actor"], row["_position"], row["name"]) == ("ann", 3, "n1")
    assert list(row)[:7] == table.blame(limit=0).column_names[:7]


@pytest.mark.parametrize("expired", [False, True])
def test_a_revert_gives_back_what_another_engine_brought(catalog: icecore.Catalog, expired: bool) -> None:
    """The rows are theirs, however often they came back, while their snapshot is there to say so."""
    table = make_table(catalog)
    table.append(rows(9))
    with contextlib.closing(pyiceberg_catalog(catalog.path)) as peer:
        peer.load_table("ns.t").append(rows(1, 2))
    table.refresh()
    theirs = catalog.position
    for _ in range(2):
        table.delete("id < 3")
        catalog.revert(catalog.position)
        table.refresh()
    if expired:
        table.maintenance.expire_snapshots().older_than(2**50).retain_last(1).commit()
    found = {r["id"]: (r["_position"], r["_is_exact"]) for r in table.refresh().blame().to_pylist()}
    assert found[9] == (3, True)
    assert all(row == (theirs, True) or (expired and not row[1]) for row in (found[1], found[2]))


def test_expired_commits_leave_who_came_at_the_latest(catalog: icecore.Catalog) -> None:
    """An append is told for good by the log; what a compaction carried is not, but for row ids (RL6)."""
    for version in (2, 3):
        table = make_table(catalog, f"v{version}", format_version=version)
        table.append(rows(1), message="first")
        table.rewrite_data_files(options={"rewrite-all": "true"}, message="nightly")
        table.append(rows(2), message="second")
        table.append(rows(3), message="third")
        table.maintenance.expire_snapshots().older_than(2**50).retain_last(1).commit()
        kept = ("nightly", "replace", False) if version == 2 else ("first", "append", True)
        expected = {1: kept, 2: ("second", "append", True), 3: ("third", "append", True)}
        assert told(table.refresh()) == expected


def test_rows_from_before_row_ids_keep_their_commit(catalog: icecore.Catalog) -> None:
    """They get ids when they are written again, with the number of the commit that did so (RL4)."""
    table = make_table(catalog)
    table.append(rows(1, 2, 3), message="first")
    table.upgrade(3)
    table.delete("id = 1", message="copied the others")
    table.rewrite_data_files(options={"rewrite-all": "true"})
    table.append(rows(4), message="fourth")
    assert told(table) == {2: ("first", "append", True), 3: ("first", "append", True), 4: ("fourth", "append", True)}


def test_of_a_branch(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1), message="main")
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "b").commit()
    table.append(rows(2), branch="b", message="aside")
    assert told(table, ref="b") == {1: ("main", "append", True), 2: ("aside", "append", True)}
    assert told(table) == {1: ("main", "append", True)}


def test_a_table_may_not_have_the_names_of_blame(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", rows(1).schema.append(rows(1).schema.field("id").with_name("_message")))
    with pytest.raises(ValidationError, match=r"\['_message'\]"):
        table.blame()
    assert table.blame(selected_fields=["id"]).num_rows == 0


@pytest.mark.parametrize("format_version", [2, 3])
def test_what_is_selected_is_what_a_scan_selects(catalog: icecore.Catalog, format_version: int) -> None:
    """Fields of structs and metadata columns too, of a table with odd names; but no deleted rows."""
    kinds = [("id", pa.int64()), ("st", pa.struct([("a", pa.int64()), ("b", pa.string())]))]
    kinds += [(n, pa.string()) for n in ("_path", "_added_by", "_number")]
    table = catalog.create_table("ns.t", pa.schema(kinds), format_version=format_version, partition_spec=["id"])
    odd = {"_path": "p", "_added_by": "a", "_number": "n"}
    table.append([{"id": 1, "st": {"a": 1, "b": "x"}, **odd}, {"id": 1, "st": None, **odd}])
    table.append([{"id": 2, "st": {"a": 2, "b": "y"}, **odd}])
    table.overwrite([{"id": 1, "st": {"a": 1, "b": "x"}, **odd}], "id = 1")
    for selected in (("st.a",), ("_file", "st.b", "_pos"), ("_spec_id", "_partition", "_path"), ("*", "_file"), ()):
        scan, found = table.scan(selected_fields=selected), table.blame(selected_fields=selected)
        assert found.select([f.name for f in scan.projection.fields]).equals(scan.to_arrow())
        assert found["_is_exact"].to_pylist() == [True, True]
    with pytest.raises(ValidationError, match="blame has no '_deleted'"):
        table.blame(selected_fields=("id", "_deleted"))


def test_of_all_else(catalog: icecore.Catalog, warehouse: Path) -> None:
    """The latest first; of a dropped and renamed table too, by the name that it had last."""
    table = make_table(catalog, partition_spec=["id"], properties={"owner": "ann"})
    table.append(rows(1), message="one", author="ann")
    path = table.files()["file_path"].to_pylist()[0]
    table.set_properties({"owner": "bob"}, author="bob")
    with table.update_schema(message="clearer") as schema:
        schema.rename_column("name", "title")
    table.delete("id = 1", message="gone")
    head = table.current_snapshot()
    assert head is not None
    catalog.rename_table("ns.t", "ns.u")
    catalog.drop_table("ns.u")

    def found(*columns: str, **of: str) -> list[tuple[object, ...]]:
        return [tuple(r[c] for c in columns) for r in catalog.blame("ns.u", **of).to_pylist()]

    assert found("message", "change", file=path) == [("gone", "removed"), ("one", "added")]
    assert found("message", file=path.rsplit("/", 1)[-1]) == [("gone",), ("one",)]
    assert found("message", "change", partition="id=1") == [("gone", "removed"), ("one", "added")]
    assert found("message", "column_name", column="name") == [("clearer", "title"), (None, "name")]
    assert found("actor", "value", property="owner")[:1] == [("bob", "bob")]
    assert found("message", "snapshot_id", ref="main")[0] == ("gone", head.snapshot_id)
    assert found("message", property="nothing") == []
    for wrong in ({}, {"file": "x", "ref": "main"}):
        with pytest.raises(ValidationError, match="takes one of file, partition"):
            catalog.blame("ns.u", **wrong)
    with pytest.raises(NoSuchTableError, match=r"never a table or view 'ns\.w'"):
        catalog.blame("ns.w", ref="main")
