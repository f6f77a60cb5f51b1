"""Arrow schemas of Iceberg schemas and back. Spec: Schemas and Data Types (T1, T4), Appendix A Parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import pyarrow_to_schema

from icecore.engine.data.arrow.arrow_schema import arrow_to_schema, assign_fresh_ids, schema_to_arrow
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

ALL = Schema(
    (
        NestedField(1, "bool", BooleanType()),
        NestedField(2, "int", IntegerType(), required=True),
        NestedField(3, "long", LongType()),
        NestedField(4, "float", FloatType()),
        NestedField(5, "double", DoubleType()),
        NestedField(6, "dec", DecimalType(9, 2)),
        NestedField(7, "date", DateType()),
        NestedField(8, "time", TimeType()),
        NestedField(9, "ts", TimestampType()),
        NestedField(10, "tz", TimestamptzType()),
        NestedField(11, "s", StringType()),
        NestedField(12, "u", UUIDType()),
        NestedField(13, "fx", FixedType(5)),
        NestedField(14, "bin", BinaryType()),
        NestedField(15, "st", StructType((NestedField(20, "a", LongType()), NestedField(21, "b", UUIDType())))),
        NestedField(16, "li", ListType(22, StructType((NestedField(23, "x", StringType()),)), element_required=True)),
        NestedField(17, "ma", MapType(24, StringType(), 25, ListType(26, DoubleType()), value_required=False)),
    )
)
NANO = Schema((NestedField(1, "ns", TimestampNanoType()), NestedField(2, "nz", TimestamptzNanoType())))


def ids(schema: pa.Schema) -> dict[str, int]:
    """Every path of a schema with its field id."""
    out: dict[str, int] = {}

    def visit(f: pa.Field, path: str) -> None:
        out[path] = int(f.metadata[b"PARQUET:field_id"])
        if pa.types.is_struct(f.type):
            for c in f.type:
                visit(c, f"{path}.{c.name}")
        elif pa.types.is_list(f.type):
            visit(f.type.value_field, f"{path}.element")
        elif pa.types.is_map(f.type):
            visit(f.type.key_field, f"{path}.key")
            visit(f.type.item_field, f"{path}.value")

    for f in schema:
        visit(f, f.name)
    return out


def test_t4_every_level_carries_its_id() -> None:
    """Struct fields, list elements, map keys and map values have their ids in the Arrow schema."""
    found = ids(schema_to_arrow(ALL))
    assert found == {ALL.name_of(i): i for i in ALL.field_ids}


def test_required_is_not_nullable() -> None:
    arrow = schema_to_arrow(ALL, with_ids=False)
    assert not arrow.field("int").nullable
    assert arrow.field("long").nullable
    assert not arrow.field("li").type.value_field.nullable
    assert arrow.field("int").metadata is None


def test_round_trip_through_arrow_keeps_types_and_required() -> None:
    """A schema's Arrow form reads back as the same schema, up to fresh ids."""
    assert arrow_to_schema(schema_to_arrow(ALL)).same_fields(assign_fresh_ids(ALL))
    assert arrow_to_schema(schema_to_arrow(NANO), format_version=3).same_fields(NANO)


def test_pyiceberg_reads_the_same_schema_from_our_arrow_schema() -> None:
    """PyIceberg finds our ids at all levels and the same types."""
    theirs = pyarrow_to_schema(schema_to_arrow(ALL))
    assert Schema.from_dict(json.loads(theirs.model_dump_json(by_alias=True))).same_fields(ALL)


def test_parquet_file_schema_has_logical_types_and_ids(tmp_path: Path) -> None:
    """uuid is FIXED_LEN_BYTE_ARRAY(16) with UUID, times are in microseconds, decimals are integers, ids are set."""
    path = f"{tmp_path}/x.parquet"
    pq.write_table(pa.Table.from_batches([], schema=schema_to_arrow(ALL)), path, store_decimal_as_integer=True)
    text = str(pq.ParquetFile(path).schema)
    assert "fixed_len_byte_array(16) field_id=12 u (UUID)" in text
    assert "fixed_len_byte_array(5) field_id=13 fx" in text
    assert "int32 field_id=6 dec (Decimal(precision=9, scale=2))" in text
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in text
    assert ids(pq.ParquetFile(path).schema_arrow) == {ALL.name_of(i): i for i in ALL.field_ids}


def test_fresh_ids_count_a_struct_before_what_is_inside() -> None:
    """Top-level columns come first, then the fields of each, as Java and PyIceberg assign ids."""
    schema = arrow_to_schema(
        pa.schema(
            [
                ("a", pa.struct([("x", pa.struct([("p", pa.int32())])), ("y", pa.int32())])),
                ("b", pa.list_(pa.struct([("q", pa.int32())]))),
                ("c", pa.map_(pa.string(), pa.int32())),
            ]
        )
    )
    assert {schema.name_of(i): i for i in schema.field_ids} == {
        "a": 1, "b": 2, "c": 3, "a.x": 4, "a.y": 5, "a.x.p": 6, "b.element": 7, "b.element.q": 8,
        "c.key": 9, "c.value": 10,
    }  # fmt: skip


def test_fresh_ids_take_identifier_fields_along() -> None:
    schema = Schema((NestedField(7, "a", LongType(), required=True), NestedField(3, "b", LongType())), 0, (7,))
    fresh = assign_fresh_ids(schema)
    assert [f.field_id for f in fresh.fields] == [1, 2]
    assert fresh.identifier_field_ids == (1,)


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.int8(), IntegerType()),
        (pa.uint16(), IntegerType()),
        (pa.uint32(), LongType()),
        (pa.float16(), FloatType()),
        (pa.large_string(), StringType()),
        (pa.string_view(), StringType()),
        (pa.dictionary(pa.int8(), pa.string()), StringType()),
        (pa.run_end_encoded(pa.int32(), pa.int64()), LongType()),
        (pa.json_(), StringType()),
        (pa.large_binary(), BinaryType()),
        (pa.binary(7), FixedType(7)),
        (pa.date64(), DateType()),
        (pa.time32("s"), TimeType()),
        (pa.timestamp("s"), TimestampType()),
        (pa.timestamp("ms", "Asia/Tokyo"), TimestamptzType()),
        (pa.decimal32(5, 2), DecimalType(5, 2)),
        (pa.decimal256(38, 2), DecimalType(38, 2)),
        (pa.uuid(), UUIDType()),
    ],
)
def test_types_widen_to_what_iceberg_has(arrow: pa.DataType, expected: object) -> None:
    assert arrow_to_schema(pa.schema([("c", arrow)])).fields[0].field_type == expected


def test_nanoseconds_need_v3() -> None:
    ns = pa.schema([("t", pa.timestamp("ns")), ("z", pa.timestamp("ns", "UTC"))])
    with pytest.raises(ValidationError, match=r"'t'.*format version 3"):
        arrow_to_schema(ns)
    v3 = arrow_to_schema(ns, format_version=3)
    assert [f.field_type for f in v3.fields] == [TimestampNanoType(), TimestamptzNanoType()]


def test_unknown_needs_v3() -> None:
    nothing = pa.schema([("n", pa.null())])
    assert arrow_to_schema(nothing, format_version=3).fields[0].field_type == UnknownType()
    with pytest.raises(ValidationError, match="until v3"):
        arrow_to_schema(nothing)


@pytest.mark.parametrize(
    "arrow", [pa.uint64(), pa.duration("s"), pa.month_day_nano_interval(), pa.decimal256(50, 2), pa.decimal128(5, -2)]
)
def test_types_without_an_iceberg_type_are_named(arrow: pa.DataType) -> None:
    with pytest.raises(ValidationError, match=r"'s\.c'"):
        arrow_to_schema(pa.schema([("s", pa.struct([("c", arrow)]))]))


def test_variant_is_its_two_binaries() -> None:
    arrow = schema_to_arrow(Schema((NestedField(1, "v", VariantType()),)), with_ids=False)
    assert arrow.field("v").type == pa.struct(
        [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
    )
