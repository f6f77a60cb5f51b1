"""The difference of two positions, from the log alone."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
from decimal import Decimal

import pyarrow as pa
import pytest
from core_tables import make_table, pyiceberg_catalog, rows

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.metadata.fold import TableState
from icecore.engine.scan import snapshot_diff
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.history.object_diff import DIFF_SCHEMA, Change, FileChanges
from icecore.projections.inspect.live_files import live_files
from icecore.projections.plan.planner import Planner


def lines(table: pa.Table) -> list[tuple[str | None, ...]]:
    columns = ("kind", "name", "action", "what", "key", "before", "after")
    return [tuple(r[c] for c in columns) for r in table.to_pylist()]


def test_what_came_went_and_was_renamed(catalog: icecore.Catalog) -> None:
    """Namespaces, tables and views; a table made anew under its name is another one."""
    make_table(catalog, "stays")
    make_table(catalog, "goes").append(rows(1))
    make_table(catalog, "moves")
    catalog.create_view("ns.v", "SELECT 1 AS x")
    catalog.create_namespace("old", {"a": "1"})
    start = catalog.position
    catalog.drop_table("ns.goes")
    make_table(catalog, "goes")
    make_table(catalog, "passing")
    catalog.drop_table("ns.passing")
    catalog.rename_table("ns.moves", "ns.moved")
    catalog.drop_view("ns.v")
    catalog.create_view("ns.w", "SELECT 2 AS y", properties={"p": "q"})
    catalog.drop_namespace("old")
    catalog.create_namespace("new", {"k": "v"})
    catalog.update_namespace_properties("ns", updates={"owner": "me"})
    found = catalog.diff(start)
    assert [(o.kind, o.name, o.action) for o in found.objects] == [
        ("namespace", ("new",), "added"),
        ("namespace", ("ns",), "changed"),
        ("namespace", ("old",), "removed"),
        ("table", ("ns", "goes"), "removed"),
        ("table", ("ns", "goes"), "added"),
        ("table", ("ns", "moved"), "renamed"),
        ("view", ("ns", "v"), "removed"),
        ("view", ("ns", "w"), "added"),
    ]
    assert found.namespaces[1].changes == (Change("property", "owner", None, "me"),)
    text = lines(found.to_arrow())
    assert ("table", "ns.moved", "renamed", "table", None, "ns.moves", "ns.moved") in text
    assert ("view", "ns.w", "added", "sql", "duckdb", None, "SELECT 2 AS y") in text
    assert ("view", "ns.w", "added", "property", "p", None, "q") in text
    assert found.to_arrow().schema == DIFF_SCHEMA


def test_what_changed_of_a_table(catalog: icecore.Catalog) -> None:
    """Columns by id, spec, sort order, properties, refs and snapshots, each with what it was and is."""
    table = make_table(catalog, properties={"a": "1", "gone": "x"})
    table.append(rows(1))
    first = table.current_snapshot()
    assert first is not None
    start = catalog.position
    with table.update_schema() as update:
        update.rename_column("name", "title").add_column("extra", "double")
    with table.update_spec() as spec:
        spec.add_field("bucket(4, id)")
    with table.update_sort_order() as order:
        order.asc("id")
    table.set_properties({"a": "2"})
    table.remove_properties("gone")
    table.manage_snapshots().create_tag(first.snapshot_id, "kept").commit()
    (found,) = catalog.diff(start).objects
    changes = {(c.what, c.key): (c.action, c.before, c.after) for c in found.changes}
    assert changes["column", "title"] == ("changed", "name string", "title string")
    assert changes["column", "extra"] == ("added", None, "extra double")
    assert changes["schema", ""] == ("changed", "schema 0", "schema 1")
    assert changes["spec", ""] == ("changed", "spec 0 []", "spec 1 [id_bucket_4: bucket[4](1)]")
    assert changes["sort-order", ""][1:] == ("order 0 []", "order 1 [identity(1) asc nulls-first]")
    assert changes["property", "a"] == ("changed", "1", "2")
    assert changes["property", "gone"] == ("removed", "x", None)
    assert changes["ref", "kept"] == ("added", None, f"tag -> {first.snapshot_id}")
    assert len(changes) == 8 and found.files == () and found.action == "changed"


def test_two_snapshots_differ_in_metadata_too(catalog: icecore.Catalog) -> None:
    """Columns and schema as each was written by, the specs of its files, totals, and counted files: in one form."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.manage_snapshots().create_tag(table.snapshots()[0].snapshot_id, "t").commit()
    with table.update_schema() as update:
        update.rename_column("name", "title").add_column("extra", "double")
    with table.update_spec() as spec:
        spec.add_field("bucket(4, id)")
    table.delete("id = 1")
    table.append([{"id": 3}])
    [tag, _, main] = table.snapshots()
    found = table.diff("t").metadata()
    assert found.schema == DIFF_SCHEMA and set(found["name"].to_pylist()) == {"ns.t"}
    changes = {(what, key): (action, before, after) for _, _, action, what, key, before, after in lines(found)}
    assert changes == {
        ("snapshot", ""): ("changed", f"append {tag.snapshot_id}", f"append {main.snapshot_id}"),
        ("column", "title"): ("changed", "name string", "title string"),
        ("column", "extra"): ("added", None, "extra double"),
        ("schema", ""): ("changed", "schema 0", "schema 1"),
        ("spec", "0"): ("removed", "spec 0 []", None),
        ("spec", "1"): ("added", None, "spec 1 [id_bucket_4: bucket[4](1)]"),
        ("summary", "total-data-files"): ("changed", "1", "2"),
        ("summary", "total-files-size"): changes["summary", "total-files-size"],
        ("data-files", None): ("changed", None, None),
    }
    [files] = [r for r in found.to_pylist() if r["what"] == "data-files"]
    assert [files[n] for n in DIFF_SCHEMA.names[-4:]] == [2, 2, 1, 2]
    assert table.diff("main", "t").metadata().num_rows == found.num_rows
    assert table.diff("t", "t").metadata().num_rows == 0
    since_the_beginning = catalog.diff_table("ns.t", 0).metadata().to_pylist()
    assert {r["action"] for r in since_the_beginning if r["what"] != "data-files"} == {"added"}


def test_the_live_files_of_a_snapshot_are_read_once(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of large tables are not kept."""
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    read = []

    def counted(planner: Planner, state: TableState, snapshot: Snapshot | None) -> pa.Table:
        read.append(snapshot)
        return live_files(planner, state, snapshot)

    monkeypatch.setattr(snapshot_diff, "live_files", counted)
    found = table.diff(table.snapshots()[0].snapshot_id)
    assert found.metadata().num_rows and read == [found.before, found.after]


def test_files_and_rows_come_from_the_log_alone(catalog: icecore.Catalog) -> None:
    """Counts by branch and kind; what came and went between is no difference; not one file is read."""
    table = make_table(catalog, format_version=2)
    table.append(rows(1, 2))
    table.append(rows(3))
    start = catalog.position
    table.append(rows(4, 5, 6))
    table.delete("id = 3")
    table.append(rows(7))
    table.delete("id = 7")
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "b").commit()
    table.append(rows(8), branch="b")
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("id = 1")
    end = catalog.position
    shutil.rmtree(catalog.path / "ns")
    found = catalog.diff(start, end).table(("ns", "t"))
    assert found is not None
    assert found.files == (
        FileChanges("main", "data-files", 1, 3, 1, 1),
        FileChanges("main", "position-delete-files", 1, 1, 0, 0),
        FileChanges("b", "data-files", 1, 1, 0, 0),
    )
    snapshots = [c for c in found.changes if c.what == "snapshot"]
    assert [(c.action, c.after) for c in snapshots] == [
        ("added", o) for o in ("append", "delete", "append", "delete", "append", "delete")
    ]
    assert catalog.diff(start, start).is_empty
    counted = [r for r in catalog.diff(start, end).to_arrow().to_pylist() if r["added_files"] is not None]
    assert [(r["key"], r["what"], r["added_rows"], r["removed_rows"]) for r in counted] == [
        ("main", "data-files", 3, 1),
        ("main", "position-delete-files", 1, 0),
        ("b", "data-files", 1, 0),
    ]


def test_positions_must_be_in_the_log_and_in_order(catalog: icecore.Catalog) -> None:
    make_table(catalog)
    for first, last in ((2, 1), (-1, 1), (0, 3)):
        with pytest.raises(ValidationError, match=r"the log goes from 0 to 2"):
            catalog.diff(first, last)
    assert [o.kind for o in catalog.diff(0, 2).objects] == ["namespace", "table"]


def test_what_another_engine_expired_again_is_counted_by_its_summaries(catalog: icecore.Catalog) -> None:
    """The log has no files of its snapshots, and the metadata at the end has not all of them."""
    make_table(catalog)
    before = catalog.position
    with contextlib.closing(pyiceberg_catalog(catalog.path)) as peer:
        theirs = peer.load_table("ns.t")
        theirs.append(rows(1))
        theirs.append(rows(2, 3))
        theirs.maintenance.expire_snapshots().by_id(theirs.snapshots()[0].snapshot_id).commit()
    [found] = catalog.diff(before).tables
    assert found.files == (FileChanges("main", "data-files", 2, 3, 0, 0),)
    assert len(catalog.load_table("ns.t").snapshots()) == 1


def test_files_of_another_engine_are_told_with_the_branch_that_it_wrote_to(catalog: icecore.Catalog) -> None:
    """Beside our own of the same branch, in one count."""
    table = make_table(catalog)
    before = catalog.position
    table.append(rows(1))
    with contextlib.closing(pyiceberg_catalog(catalog.path)) as peer:
        peer.load_table("ns.t").append(rows(2, 3))
    table.refresh()
    found = catalog.diff(before).table(("ns", "t"))
    assert found is not None and found.files == (FileChanges("main", "data-files", 2, 3, 0, 0),)


@pytest.mark.parametrize("version", [1, 2])
def test_a_widened_column_is_told_once_and_changes_no_row(catalog: icecore.Catalog, version: int) -> None:
    """Whatever version the files were written with, before and after; a date that gets times is one too."""
    fields = {"i": pa.int32(), "f": pa.float32(), "d": pa.decimal128(6, 2), "t": pa.date32()}
    nested = {"s": pa.struct({"x": pa.int32()}), "l": pa.list_(pa.int32()), "m": pa.map_(pa.string(), pa.float32())}
    table = catalog.create_table("ns.t", pa.schema({**fields, **nested}), format_version=version)
    day = dt.date(2024, 1, 2)
    row = {"f": 0.1, "d": Decimal("1.10"), "t": day, "s": {"x": 3}, "l": [4], "m": [("k", 0.3)]}
    table.append([{"i": i, **row} for i in range(3)])
    start, files = catalog.position, table.files()
    table.upgrade(3)
    wider = {
        "i": "long",
        "f": "double",
        "d": "decimal(12, 2)",
        "t": "timestamp",
        "s.x": "long",
        "l.element": "long",
        "m.value": "double",
    }
    with table.update_schema() as schema:
        for name, kind in wider.items():
            schema.update_column(name, kind)
    changed = [(c.key, c.after) for o in catalog.diff(start).objects for c in o.changes if c.what == "column"]
    assert changed == [(name, f"{name} {kind}") for name, kind in wider.items()]
    table.delete("i = 2")
    table.rewrite_data_files(options={"rewrite-all": "true"})
    assert table.files()["file_path"] != files["file_path"]
    gone = catalog.diff_table("ns.t", start).rows()
    assert [(r["i"], r["t"], r["_change_type"]) for r in gone.to_pylist()] == [(2, dt.datetime(2024, 1, 2), "DELETE")]
