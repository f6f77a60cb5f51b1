"""Revert of schemas and other metadata, refs, names and namespaces; and what has no way back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from core_tables import ids_of, make_table, peer_ids, rows

import icecore
from icecore.engine.errors import (
    CommitConflictError,
    NamespaceNotEmptyError,
    NoSuchTableError,
    ReadOnlyError,
    TableAlreadyExistsError,
    ValidationError,
)
from icecore.engine.revert import revert_schema, revert_table


@pytest.mark.parametrize("mode", ["rewrite", "copy-on-write"])
@pytest.mark.parametrize("is_meanwhile", [False, True])
def test_a_column_whose_rows_were_written_without_it_does_not_come_back_empty(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, mode: str, is_meanwhile: bool
) -> None:
    """Rows that were appended since never had its values. Where what rewrote others is undone first, they have them."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    table.append(rows(3))
    table.update_schema().delete_column("name").commit()
    dropped = catalog.position

    def rewrite() -> None:
        other = catalog.load_table("ns.t")
        other.rewrite_data_files(options={"rewrite-all": "true"}) if mode == "rewrite" else other.delete("id = 1")

    if is_meanwhile:
        check, once = revert_schema.values_check, iter([rewrite])

        def checked_before(*a: Any) -> Any:
            found = check(*a)
            next(once, lambda: None)()
            return found

        monkeypatch.setattr(revert_table, "values_check", checked_before)
    else:
        rewrite()
    with pytest.raises(CommitConflictError, match="written anew since, without the column 'name'"):
        catalog.revert(dropped)
    assert not table.refresh().schema().has_name("name")
    catalog.revert(catalog.position)
    table.append(pa.table({"id": [4]}))
    catalog.revert(dropped)
    found = catalog.load_table("ns.t").scan().to_arrow().sort_by("id").to_pylist()
    assert found == [*rows(1, 2, 3).to_pylist(), {"id": 4, "name": None}]


@pytest.mark.parametrize(
    ("change", "row", "why"),
    [
        (lambda schema: schema.update_column("id", "long"), {"id": 2**40, "kind": "b"}, "where 'id' is long"),
        (lambda schema: schema.make_column_optional("id"), {"id": None, "kind": "b"}, "where 'id' may be null"),
        (lambda schema: schema.delete_column("kind"), {"id": 2}, "where 'kind', which is required, is missing"),
    ],
)
def test_a_column_that_may_hold_more_by_now_stays_as_it_is(
    catalog: icecore.Catalog, change: Callable[[Any], Any], row: dict[str, Any], why: str
) -> None:
    """The file that has it, or lacks it, could not be read, or had nulls where none may be."""
    required = [pa.field("id", pa.int32(), nullable=False), pa.field("kind", pa.string(), nullable=False)]
    table = catalog.create_table("ns.u", pa.schema(required))
    table.append([{"id": 1, "kind": "a"}])
    change(table.update_schema()).commit()
    changed = catalog.position
    table.append([row])
    with pytest.raises(CommitConflictError, match=why):
        catalog.revert(changed)
    catalog.revert(catalog.position)
    catalog.revert(changed)
    assert ids_of(catalog.load_table("ns.u")) == [1]


def test_metadata_is_set_back_part_by_part(catalog: icecore.Catalog) -> None:
    """Schema, spec, order, properties, refs and statistics; each only while it is as the commit left it (T8, PT2)."""
    table = make_table(catalog, properties={"a": "1", "b": "1"})
    table.append(rows(1))
    first = table.current_snapshot()
    assert first is not None
    before = table.metadata
    with table.transaction() as changes:
        changes.update_schema().add_column("extra", "double").rename_column("name", "title").commit()
        changes.update_spec().add_field("bucket(4, id)").commit()
        changes.update_sort_order().asc("title").commit()
        changes.set_properties({"a": "2", "c": "3"})
        changes.remove_properties("b")
        changes.manage_snapshots().create_tag(first.snapshot_id, "tagged").commit()
    shaped = catalog.position
    table.append(rows(2).rename_columns(["id", "title"]))
    catalog.revert(shaped)
    after = table.refresh().metadata
    for name in ("current_schema_id", "default_spec_id", "default_sort_order_id", "properties"):
        assert getattr(after, name) == getattr(before, name)
    assert set(after.refs) == {"main"} and ids_of(table) == [1, 2]
    assert table.scan().to_arrow().column_names == ["id", "name"]
    with pytest.raises(CommitConflictError, match="nothing of it is left to undo"):
        catalog.revert(shaped)
    table.set_properties({"a": "5"})
    changed = catalog.position
    table.set_properties({"a": "6"})
    with pytest.raises(CommitConflictError, match=rf"properties \['a'\] were changed again; .*position {changed + 1}"):
        catalog.revert(changed)
    with table.update_schema() as update:
        update.add_column("late", "string")
    added = catalog.position
    with table.update_sort_order() as order:
        order.asc("late")
    with pytest.raises(CommitConflictError, match=rf"no column with id .*position {added + 1} by tester"):
        catalog.revert(added)
    assert catalog.verify().ok


def test_refs_go_back_where_they_were(catalog: icecore.Catalog) -> None:
    """A rollback is undone while main stays there; a branch that moved on is not taken away."""
    table = make_table(catalog)
    table.append(rows(1))
    first = table.current_snapshot()
    table.append(rows(2))
    assert first is not None
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    rollback = catalog.position
    catalog.revert(rollback)
    assert ids_of(table.refresh()) == [1, 2]
    table.manage_snapshots().create_branch(first.snapshot_id, "b").commit()
    created = catalog.position
    table.append(rows(3), branch="b")
    with pytest.raises(CommitConflictError, match=r"the ref 'b' was changed again"):
        catalog.revert(created)
    catalog.revert(created + 1)
    assert ids_of(table.refresh(), ref="b") == [1] and ids_of(table) == [1, 2]
    table.manage_snapshots().remove_branch("b").commit()
    catalog.revert(catalog.position)
    assert ids_of(table.refresh(), ref="b") == [1] and catalog.verify().ok


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_the_first_snapshot_of_a_branch_is_undone(
    catalog: icecore.Catalog, warehouse: Path, format_version: int
) -> None:
    """Of main by a snapshot that deletes, as readers of changes have to be told; another branch goes as it came."""
    table = make_table(catalog, format_version=format_version)
    table.append(rows(1), branch="b")
    catalog.undo("ns.t")
    assert not table.refresh().refs()
    catalog.revert(catalog.position)
    assert ids_of(table.refresh(), ref="b") == [1]
    table.append(rows(2), branch="b")
    catalog.revert(catalog.position - 3)
    assert ids_of(table.refresh(), ref="b") == [2], "somebody built upon it"
    table.append(rows().slice(0, 0))
    catalog.undo("ns.t")
    assert table.refresh().current_snapshot() is None, "no row came, so none is to be deleted"
    table.append(rows(3))
    catalog.undo("ns.t")
    head = table.refresh().current_snapshot()
    assert head is not None and head.operation == "delete" and ids_of(table) == [] == peer_ids(warehouse)
    changes = table.incremental_changelog_scan().to_arrow().select(["id", "_change_type"]).to_pylist()
    assert [(c["id"], c["_change_type"]) for c in changes] == [(3, "INSERT"), (3, "DELETE")]
    catalog.restore(2, table="ns.t")
    assert table.refresh().current_snapshot() is None and peer_ids(warehouse) == [] and catalog.verify().ok


def test_names_are_undone(catalog: icecore.Catalog) -> None:
    """Create, rename, drop, undrop, of tables and views."""
    make_table(catalog).append(rows(1))
    view = catalog.create_view("ns.v", "SELECT 1 AS x")
    created_view = catalog.position
    catalog.rename_table("ns.t", "ns.u")
    renamed = catalog.position
    catalog.revert(renamed)
    assert ids_of(catalog.load_table("ns.t")) == [1]
    catalog.revert(catalog.position)
    assert catalog.table_exists("ns.u")
    catalog.drop_table("ns.u")
    dropped = catalog.position
    with pytest.raises(CommitConflictError, match=rf"not called ns.u any more; .*position {dropped} by tester"):
        catalog.revert(renamed)
    catalog.revert(dropped)
    catalog.revert(catalog.position)
    assert not catalog.table_exists("ns.u")
    make_table(catalog, "u")
    created = catalog.position
    with pytest.raises(TableAlreadyExistsError):
        catalog.revert(dropped + 2)
    catalog.revert(created)
    with pytest.raises(CommitConflictError, match=r"ns.t was changed since"):
        catalog.revert(2)
    with pytest.raises(NoSuchTableError, match="was dropped"):
        catalog.revert(3)
    view.replace("SELECT 2 AS x")
    catalog.revert(catalog.position)
    assert catalog.load_view("ns.v").sql_for("duckdb").sql == "SELECT 1 AS x"
    with pytest.raises(CommitConflictError, match=r"ns.v was changed since"):
        catalog.revert(created_view)
    catalog.rename_view("ns.v", "ns.w")
    catalog.revert(catalog.position)
    catalog.drop_view("ns.v")
    catalog.revert(catalog.position)
    catalog.load_view("ns.v").set_properties({"k": "v"})
    catalog.revert(catalog.position)
    assert catalog.load_view("ns.v").properties == {} and catalog.verify().ok


def test_namespaces_are_undone(catalog: icecore.Catalog) -> None:
    catalog.create_namespace("n", {"a": "1"})
    created = catalog.position
    catalog.update_namespace_properties("n", ["a"], {"b": "2"})
    updated = catalog.position
    with pytest.raises(CommitConflictError, match=rf"namespace n was changed since.*position {updated} by tester"):
        catalog.revert(created)
    catalog.revert(updated)
    assert catalog.load_namespace_properties("n") == {"a": "1"}
    with pytest.raises(CommitConflictError, match="or is as it was before"):
        catalog.revert(updated)
    catalog.revert(created)
    assert ("n",) not in catalog.list_namespaces()
    catalog.revert(catalog.position)
    assert catalog.load_namespace_properties("n") == {"a": "1"}
    catalog.create_table("n.t", rows().schema)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.revert(created)
    assert catalog.verify().ok


def test_what_has_no_way_back_is_refused(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.upgrade(3)
    end = catalog.position
    with pytest.raises(ValidationError, match="an upgrade of the format version has no way back"):
        catalog.revert(end)
    for position in (0, end + 1):
        with pytest.raises(ValidationError, match=f"no commit at position {position}: the log goes from 1 to {end}"):
            catalog.revert(position)
    with icecore.open(catalog.path, read_only=True) as reader, pytest.raises(ReadOnlyError):
        reader.revert(end)
    assert catalog.position == end
