"""A schema that a client makes current must be one that the data which stays can be read by."""

from __future__ import annotations

from typing import Any

import pytest

import icecore
from icecore.engine.errors import ValidationError

STRUCT: dict[str, Any] = {"type": "struct", "fields": [{"id": 3, "name": "q", "required": False, "type": "long"}]}
LIST: dict[str, Any] = {"type": "list", "element-id": 3, "element-required": False, "element": "string"}
CURRENT = {"action": "set-current-schema", "schema-id": -1}


def add_schema(kind: Any, required: bool = False, more: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "x", "required": required, "type": kind},
        *more,
    ]
    return {"action": "add-schema", "schema": {"type": "struct", "schema-id": 7, "fields": fields}}


def made(catalog: icecore.Catalog, kind: Any = "long", **options: Any) -> icecore.Table:
    catalog.create_namespace("types")
    schema = icecore.Schema.from_dict(add_schema(kind)["schema"])
    table: icecore.Table = catalog.create_table("types.t", schema, **options)
    return table


def commit(catalog: icecore.Catalog, table: icecore.Table, *updates: dict[str, Any]) -> icecore.Table:
    catalog.commit_table(table, [], list(updates))
    return table.refresh()


@pytest.mark.parametrize(
    ("before", "after", "version"),
    [
        ("long", "string", 2),
        ("long", "int", 2),
        ("long", "date", 3),
        ("long", STRUCT, 2),
        (STRUCT, "long", 2),
        (STRUCT, {**STRUCT, "fields": [{**STRUCT["fields"][0], "type": "string"}]}, 2),
        (LIST, {**LIST, "element": "long"}, 2),
        (LIST, STRUCT, 2),
        ("date", "timestamp", 2),
    ],
)
def test_t7_a_type_that_the_data_can_not_become_is_refused(
    catalog: icecore.Catalog, before: Any, after: Any, version: int
) -> None:
    table = made(catalog, before, format_version=version)
    table.append([{"id": 1}])
    position = catalog.position
    with pytest.raises(ValidationError, match=r"column 'x.*' can't be .*, which stays the current one, has it as"):
        commit(catalog, table, add_schema(after), CURRENT)
    added = commit(catalog, table, add_schema(after))
    with pytest.raises(ValidationError, match="which stays the current one"):
        commit(catalog, table, {"action": "set-current-schema", "schema-id": added.metadata.schemas[-1].schema_id})
    assert catalog.position == position + 1, "the schema that is not current"
    assert table.refresh().scan().to_arrow().to_pylist() == [{"id": 1, "x": None}]


def test_t7_promotions_and_columns_that_become_required_are_taken(catalog: icecore.Catalog) -> None:
    """A type that no row was written by may go back: what counts is what the data has."""
    table = made(catalog, "int")
    table.append([{"id": 1, "x": 5}])
    commit(catalog, table, add_schema("long"), CURRENT)
    commit(catalog, table, add_schema("int"), CURRENT)
    commit(catalog, table, add_schema("long", required=True), CURRENT)
    assert table.refresh().scan().to_arrow().to_pylist() == [{"id": 1, "x": 5}]
    table.append([{"id": 2, "x": 2**40}])
    with pytest.raises(ValidationError, match="column 'x' can't be int"):
        commit(catalog, table, add_schema("int"), CURRENT)


def test_t7_a_promotion_that_changes_partition_values_is_refused(catalog: icecore.Catalog) -> None:
    table = made(catalog, "date", format_version=3, partition_spec=["bucket(4, x)"])
    commit(catalog, table, add_schema("timestamp"), CURRENT)
    commit(catalog, table, add_schema("date"), CURRENT)
    table.refresh().append([{"id": 1}])
    with pytest.raises(ValidationError, match="column 'x' can't be timestamp"):
        commit(catalog, table, add_schema("timestamp"), CURRENT)


def test_a_table_without_its_rows_may_have_any_type(catalog: icecore.Catalog) -> None:
    """As Java's clients replace tables: ids are used again by name, and the branch goes in the same commit."""
    table = made(catalog)
    commit(catalog, table, add_schema("string"), CURRENT)
    table.append([{"id": 1, "x": "a"}])
    gone = {"action": "remove-snapshot-ref", "ref-name": "main"}
    after = commit(catalog, table, gone, add_schema(STRUCT), CURRENT)
    assert after.scan().to_arrow().num_rows == 0
    after.append([{"id": 2, "x": {"q": 3}}])
    assert after.refresh().scan().to_arrow().to_pylist() == [{"id": 2, "x": {"q": 3}}]


def test_t7_a_type_that_stays_is_no_change(catalog: icecore.Catalog) -> None:
    """Partition fields may come after a promotion, and a branch may go back to where a column had another type."""
    new = ({"id": 9, "name": "y", "required": False, "type": "long"},)
    table = made(catalog, "date", format_version=3)
    table.append([{"id": 1}])
    commit(catalog, table, add_schema("timestamp"), CURRENT)
    field = {"source-id": 2, "field-id": 1000, "name": "x_bucket", "transform": "bucket[4]"}
    spec = {"action": "add-spec", "spec": {"spec-id": 1, "fields": [field]}}
    commit(catalog, table, spec, {"action": "set-default-spec", "spec-id": -1})
    commit(catalog, table, add_schema("timestamp", more=new), CURRENT)
    assert table.refresh().scan().to_arrow().to_pylist() == [{"id": 1, "x": None, "y": None}]
    head = table.metadata.current_snapshot_id
    commit(catalog, table, {"action": "remove-snapshot-ref", "ref-name": "main"}, add_schema("string"), CURRENT)
    back = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": head}
    commit(catalog, table, back)
    commit(catalog, table, add_schema("string", more=new), CURRENT)
    with pytest.raises(ValidationError, match="column 'x' can't be long"):
        commit(catalog, table, add_schema("long"), CURRENT)


def test_a_table_whose_rows_were_deleted_may_have_any_type(catalog: icecore.Catalog) -> None:
    table = made(catalog)
    table.append([{"id": 1, "x": 5}])
    table.delete("true")
    after = commit(catalog, table, add_schema("string"), CURRENT)
    after.append([{"id": 2, "x": "a"}])
    assert after.refresh().scan().to_arrow().to_pylist() == [{"id": 2, "x": "a"}]


@pytest.mark.parametrize(("before", "after"), [("string", "binary"), ("binary", "string"), ("fixed[16]", "uuid")])
def test_a_type_that_pyiceberg_changes_by_itself_is_taken(catalog: icecore.Catalog, before: str, after: str) -> None:
    """T7 has none of them, but the rows are read; not where a partition field has values of the column."""
    rows = [{"id": 1, "x": "s" if before == "string" else b"sixteen letters."}]
    table = made(catalog, before)
    table.append(rows)
    commit(catalog, table, add_schema(after), CURRENT)
    assert len(table.refresh().scan().to_arrow()) == 1
    schema = icecore.Schema.from_dict(add_schema(before)["schema"])
    parted = catalog.create_table("types.parted", schema, partition_spec=["x"])
    parted.append(rows)
    with pytest.raises(ValidationError, match="which stays the current one"):
        commit(catalog, parted, add_schema(after), CURRENT)
