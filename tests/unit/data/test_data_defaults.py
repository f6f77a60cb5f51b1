"""Defaults when data is written and when old files are read. Spec: Default Values (T9), Column Projection (P1)."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import icecore
from icecore.engine.data.write.conform import conform
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

ALL_FORMATS = pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
ID = pa.schema([("id", pa.int64())])


def new_table(catalog: icecore.Catalog, schema: pa.Schema, file_format: str) -> icecore.Table:
    return catalog.create_table("ns.t", schema, format_version=3, properties={"write.format.default": file_format})


def rows(table: icecore.Table, **scan: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan(**scan).to_arrow().to_pylist()
    return sorted(found, key=lambda r: r["id"])


@ALL_FORMATS
def test_t9_a_required_column_is_added_with_a_default(catalog: icecore.Catalog, file_format: str) -> None:
    """Old rows keep the initial default; rows that lack the column get the write default of their time."""
    table = new_table(catalog, ID, file_format)
    table.append(pa.table({"id": [1]}))
    table.update_schema().add_column("n", IntegerType(), required=True, default_value=7).commit()
    table.append(pa.table({"id": [2]}))
    table.update_schema().set_default_value("n", 8).commit()
    table.append(pa.table({"id": [3]}))
    table.append(pa.table({"id": [4], "n": pa.array([9], pa.int32())}))
    assert rows(table) == [{"id": i, "n": n} for i, n in ((1, 7), (2, 7), (3, 8), (4, 9))]
    assert [r["id"] for r in rows(table, row_filter="n = 7")] == [1, 2]
    assert [r["id"] for r in rows(table, row_filter="n > 7")] == [3, 4]
    with pytest.raises(ValidationError, match="'n' is required"):
        table.append(pa.table({"id": [5], "n": pa.array([None], pa.int32())}))
    table.delete("id = 4")
    assert [(r["id"], r["n"]) for r in rows(table)] == [(1, 7), (2, 7), (3, 8)]


@ALL_FORMATS
def test_t9_a_null_that_is_given_stays_null(catalog: icecore.Catalog, file_format: str) -> None:
    table = new_table(catalog, ID, file_format)
    table.append(pa.table({"id": [1]}))
    table.update_schema().add_column("s", StringType(), default_value="d").commit()
    table.append(pa.table({"id": [2], "s": pa.array([None], pa.string())}))
    table.append(pa.table({"id": [3]}))
    assert [r["s"] for r in rows(table)] == ["d", None, "d"]
    assert [r["id"] for r in rows(table, row_filter="s IS NULL")] == [2]


VALUES: list[tuple[str, Any, Any]] = [
    ("boolean", True, True),
    ("long", -(2**63), -(2**63)),
    ("double", 1.5, 1.5),
    ("decimal(9, 2)", "-1.50", Decimal("-1.50")),
    ("date", dt.date(1969, 12, 31), dt.date(1969, 12, 31)),
    ("time", "01:02:03.000004", dt.time(1, 2, 3, 4)),
    ("timestamp", "2024-01-01T00:00:00.000001", dt.datetime(2024, 1, 1, 0, 0, 0, 1)),
    ("timestamptz", "2024-01-01T02:00:00+02:00", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    ("string", "é", "é"),
    ("uuid", str(uuid.UUID(int=5)), uuid.UUID(int=5)),
    ("fixed[2]", b"ab", b"ab"),
    ("binary", b"", b""),
]


def test_t9_defaults_of_every_type(catalog: icecore.Catalog) -> None:
    table = new_table(catalog, ID, "parquet")
    table.append(pa.table({"id": [1]}))
    update = table.update_schema()
    for i, (t, default, _) in enumerate(VALUES):
        update.add_column(f"c{i}", t, default_value=default)
    update.commit()
    table.append(pa.table({"id": [2]}))
    expected = {f"c{i}": value for i, (_, _, value) in enumerate(VALUES)}
    assert rows(table) == [{"id": 1, **expected}, {"id": 2, **expected}]


NESTED = pa.schema([
    ("id", pa.int64()),
    ("s", pa.struct([("x", pa.int64())])),
    ("l", pa.list_(pa.struct([("x", pa.int64())]))),
    ("m", pa.map_(pa.string(), pa.struct([("x", pa.int64())]))),
])  # fmt: skip


@ALL_FORMATS
def test_p1_fields_added_inside_of_structs_lists_and_maps(catalog: icecore.Catalog, file_format: str) -> None:
    """The default is there in every struct, at any depth, that is not null itself."""
    table = new_table(catalog, NESTED, file_format)
    old = pa.Table.from_pylist(
        [
            {"id": 1, "s": {"x": 1}, "l": [{"x": 1}, None], "m": [("a", {"x": 1}), ("b", None)]},
            {"id": 2, "s": None, "l": None, "m": None},
            {"id": 3, "s": {"x": None}, "l": [], "m": []},
        ],
        schema=NESTED,
    )
    table.append(old)
    update = table.update_schema()
    for path in (("s",), ("l", "element"), ("m", "value")):
        update.add_column((*path, "y"), IntegerType(), required=True, default_value=5)
    update.commit()
    expected: list[dict[str, Any]] = [
        {"id": 1, "s": {"x": 1, "y": 5}, "l": [{"x": 1, "y": 5}, None], "m": [("a", {"x": 1, "y": 5}), ("b", None)]},
        {"id": 2, "s": None, "l": None, "m": None},
        {"id": 3, "s": {"x": None, "y": 5}, "l": [], "m": []},
    ]
    assert rows(table) == expected
    table.append(old.set_column(0, "id", pa.array([4, 5, 6])))
    assert rows(table) == expected + [{**r, "id": r["id"] + 3} for r in expected]
    assert [r["id"] for r in rows(table, row_filter="s.y = 5")] == [1, 3, 4, 6]


@ALL_FORMATS
def test_t9_a_struct_that_defaults_to_empty_takes_the_defaults_of_its_fields(
    catalog: icecore.Catalog, file_format: str
) -> None:
    """Initial defaults for old files, write defaults for new rows (T9)."""
    table = new_table(catalog, ID, file_format)
    table.append(pa.table({"id": [1]}))
    inner = StructType((
        NestedField(101, "a", LongType(), True, initial_default=1, write_default=1),
        NestedField(102, "b", StringType()),
    ))  # fmt: skip
    table.update_schema().add_column("s", inner, required=True, default_value={}).commit()
    table.update_schema().set_default_value(("s", "a"), 2).commit()
    table.append(pa.table({"id": [2]}))
    table.append(pa.table({"id": [3], "s": pa.array([{"b": "q"}])}))
    assert rows(table) == [
        {"id": 1, "s": {"a": 1, "b": None}},
        {"id": 2, "s": {"a": 2, "b": None}},
        {"id": 3, "s": {"a": 2, "b": "q"}},
    ]


def test_t9_defaults_of_lists_and_maps_are_written_whole() -> None:
    schema = Schema((
        NestedField(1, "id", LongType()),
        NestedField(2, "l", ListType(3, LongType()), write_default=[1, None]),
        NestedField(4, "m", MapType(5, StringType(), 6, LongType()), True, write_default=[("k", 1)]),
    ))  # fmt: skip
    found = conform(pa.table({"id": [1, 2]}), schema).to_pylist()
    assert found == [{"id": i, "l": [1, None], "m": [("k", 1)]} for i in (1, 2)]
