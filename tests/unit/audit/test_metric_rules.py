"""The rules of column metrics: `empty-bounds` and `value-counts`."""

from __future__ import annotations

import itertools
import struct
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from broken_tables import (
    BROKEN,
    Record,
    edit_manifest,
    healthy,
    register,
)

import icecore
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    GeographyType,
    GeometryType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

POINTS = pa.array([struct.pack("<BIdd", 1, 1, x, 9.0) for x in (1.5, 9.0, 10.0)])
DAYS = pa.array([-900_000, -800_000, 0, 2_000_000, 3_000_000], pa.int32()).cast(pa.date32())
TIMES = pa.array([-(8 * 10**16), -(7 * 10**16), 0, 1, 26 * 10**16], pa.timestamp("us"))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (LongType(), pa.array([-(2**63), 9, 10])),
        (DoubleType(), pa.array([float("-inf"), 9.0, 10.0, float("inf")])),
        (DecimalType(38, 2), pa.array([Decimal("-9.00"), Decimal("9.00"), Decimal("10.00")], pa.decimal128(38, 2))),
        (DateType(), DAYS),
        (TimestampType(), TIMES),
        (TimestamptzType(), TIMES.cast(pa.timestamp("us", "UTC"))),
        (TimestampNanoType(), pa.array([-1, 0, 1], pa.timestamp("ns"))),
        (TimeType(), pa.array([0, 1, 86_399_999_999], pa.time64("us"))),
        (StringType(), pa.array(["", "A", "B%", "a", "ÿ", "\uffff", "\U0001f600"])),
        (BooleanType(), pa.array([False, True])),
        (FixedType(1), pa.array([b"\x09", b"\x10", b"\xff"], pa.binary(1))),
        (GeometryType(), POINTS),
        (GeographyType(), POINTS),
    ],
    ids=lambda v: str(v) if isinstance(v, PrimitiveType) else "",
)
def test_bounds_of_any_two_values_are_healthy(catalog: icecore.Catalog, kind: PrimitiveType, values: pa.Array) -> None:
    """Days and times go beyond four digits of a year, and numbers and points are not in the order of their texts."""
    table = catalog.create_table("ns.t", Schema((NestedField(1, "c", kind),)), format_version=3)
    for pair in itertools.combinations(range(len(values)), 2):
        table.append(pa.table({"c": values.take(pa.array(pair))}))
    assert catalog.audit(rules=["empty-bounds"]).findings == ()


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_values_inside_of_others_need_not_be_as_many_as_rows(
    catalog: icecore.Catalog, tmp_path: Path, file_format: str
) -> None:
    """Java's ORC writer counts those of an optional struct where there is one."""
    kinds = [pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64()), pa.struct([("x", pa.int64()), ("y", pa.string())])]
    schema = pa.schema([("a.b", pa.int64()), *((f"c{i}", k) for i, k in enumerate([*kinds, pa.list_(kinds[2])]))])
    filled = {"a.b": 1, "c0": [1, 2, 3], "c1": [("a", 1), ("b", 2)], "c2": {"x": 1, "y": None}, "c3": [{"x": 1}] * 4}

    def count_structs(entries: list[Record]) -> None:
        for count in entries[0]["data_file"]["value_counts"]:
            count["value"] -= count["key"] != 1

    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        properties = {"write.format.default": file_format, "write.metadata.metrics.default": "full"}
        table = theirs.create_table("ns.t", schema, properties=properties)
        table.append(pa.Table.from_pylist([filled, {"a.b": 2}, {"a.b": None, "c0": []}], schema))
        register(catalog, table, "as_written")
        edit_manifest(table, 0, count_structs)
        register(catalog, table, "as_java_does")
    assert catalog.audit(rules=["value-counts"]).findings == ()


def test_values_of_a_file_whose_rows_were_not_counted_are_healthy(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """A record count of -1 says that the number is not known."""

    def uncount(entries: list[Record]) -> None:
        entries[0]["data_file"]["record_count"] = -1

    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        table = healthy(theirs, "t")
        edit_manifest(table, 0, uncount)
        register(catalog, table, "t")
    assert catalog.audit(rules=["value-counts"]).findings == ()


@pytest.mark.parametrize("rule", ["empty-bounds", "value-counts"])
def test_what_is_said_to_mend_metrics_does(catalog: icecore.Catalog, tmp_path: Path, rule: str) -> None:
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        BROKEN[rule](catalog, theirs, "t")
    table = catalog.load_table("ns.t")
    table.rewrite_data_files(options={"rewrite-all": "true"})
    assert catalog.audit(rules=[rule]).findings == ()
    assert table.scan("id = 105").to_arrow().num_rows == 1
