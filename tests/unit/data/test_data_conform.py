"""Users' Arrow data made to fit a schema: by name, without loss, with errors that name the column."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.nested import map_parts
from icecore.engine.data.write.conform import conform
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

NESTED = Schema(
    (
        NestedField(1, "id", LongType(), required=True),
        NestedField(
            2, "s", StructType((NestedField(5, "x", LongType(), required=True), NestedField(6, "y", StringType())))
        ),
        NestedField(3, "l", ListType(7, DoubleType(), element_required=True)),
        NestedField(4, "m", MapType(8, StringType(), 9, StructType((NestedField(10, "z", LongType()),)))),
    )
)


def one(t: PrimitiveType, array: pa.Array) -> pa.Array:
    return conform(pa.table({"c": array}), Schema((NestedField(1, "c", t),))).column("c").combine_chunks()


def test_nested_data_is_reordered_cast_and_filled() -> None:
    """Columns and struct fields are found by name at every level; what is missing and optional is null."""
    data = pa.table(
        {
            "m": pa.array([[("k", {"z": 1})], None, []], pa.map_(pa.large_string(), pa.struct([("z", pa.int8())]))),
            "l": pa.array([[1, 2], None, []], pa.large_list(pa.int32())),
            "s": pa.array([{"x": 1}, None, {"x": 3}], pa.struct([("x", pa.int16())])),
            "id": pa.array([1, 2, 3], pa.uint32()),
        }
    )
    out = conform(data, NESTED)
    out.validate(full=True)
    assert out.schema.equals(schema_to_arrow(NESTED), check_metadata=True)
    assert out.to_pylist() == [
        {"id": 1, "s": {"x": 1, "y": None}, "l": [1.0, 2.0], "m": [("k", {"z": 1})]},
        {"id": 2, "s": None, "l": None, "m": None},
        {"id": 3, "s": {"x": 3, "y": None}, "l": [], "m": []},
    ]
    assert conform(data.slice(1), NESTED).to_pylist() == out.to_pylist()[1:]


def test_data_that_fits_is_handed_through() -> None:
    schema = Schema((NestedField(1, "a", LongType()), NestedField(2, "b", StringType())))
    table = pa.table([pa.array([1]), pa.array(["x"])], schema=schema_to_arrow(schema))
    assert conform(table, schema) is table


def test_null_maps_that_hide_entries_lose_them() -> None:
    """A null map may span entries in Arrow; they must not move to its neighbours."""
    entries = pa.map_(pa.string(), pa.int32())
    keys, values = pa.array(["a", "b", "c", "d"]), pa.array([1, 2, 3, 4], pa.int32())
    offsets = pa.array([0, 1, 3, 4], pa.int32())
    array = pa.MapArray.from_arrays(offsets, keys, values, type=entries, mask=pa.array([False, True, False]))
    schema = Schema((NestedField(1, "m", MapType(2, StringType(), 3, LongType())),))
    out = conform(pa.table({"m": array}), schema)
    out.validate(full=True)
    assert out.column("m").to_pylist() == [[("a", 1)], None, [("d", 4)]]
    _, kept, _ = map_parts(array)
    assert kept.to_pylist() == ["a", "d"]
    assert [p.to_pylist() for p in map_parts(array.slice(1))] == [[0, 0, 1], ["d"], [4]]


def test_t9_missing_columns_take_the_write_default() -> None:
    schema = Schema(
        (
            NestedField(1, "a", LongType()),
            NestedField(2, "d", StringType(), required=True, initial_default="old", write_default="new"),
            NestedField(3, "ts", TimestampType(), write_default=1_000_000),
        )
    )
    assert conform(pa.table({"a": [1, 2]}), schema).to_pylist() == [
        {"a": a, "d": "new", "ts": dt.datetime(1970, 1, 1, 0, 0, 1)} for a in (1, 2)
    ]


U = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.mark.parametrize(
    ("t", "array", "expected"),
    [
        (IntegerType(), pa.array([1, None], pa.int64()), [1, None]),
        (LongType(), pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
        (FloatType(), pa.array([0.5, float("inf"), None], pa.float64()), [0.5, float("inf"), None]),
        (DoubleType(), pa.array([1.5], pa.float16()), [1.5]),
        (DoubleType(), pa.array([3], pa.int64()), [3.0]),
        (DecimalType(9, 2), pa.array([Decimal("1.5")], pa.decimal128(3, 1)), [Decimal("1.50")]),
        (DecimalType(5, 2), pa.array([7], pa.int64()), [Decimal("7.00")]),
        (DateType(), pa.array([dt.date(2020, 1, 1)], pa.date64()), [dt.date(2020, 1, 1)]),
        (TimeType(), pa.array([1], pa.time32("s")), [dt.time(0, 0, 1)]),
        (TimestampType(), pa.array([1], pa.timestamp("s")), [dt.datetime(1970, 1, 1, 0, 0, 1)]),
        (TimestampType(), pa.array([1000], pa.timestamp("ns")), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
        (TimestampType(), pa.array([1], pa.date32()), [dt.datetime(1970, 1, 2)]),
        (StringType(), pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (StringType(), pa.array(["a"], pa.string_view()), ["a"]),
        (UUIDType(), pa.array([str(U), None]), [U, None]),
        (UUIDType(), pa.array([U.bytes], pa.binary()), [U]),
        (UUIDType(), pa.array([U.bytes], pa.binary(16)), [U]),
        (FixedType(2), pa.array([b"ab", None]), [b"ab", None]),
        (BinaryType(), pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        (UnknownType(), pa.array([None], pa.int32()), [None]),
        (StringType(), pa.nulls(2), [None, None]),
    ],
)
def test_lossless_casts(t: PrimitiveType, array: pa.Array, expected: list[Any]) -> None:
    out = one(t, array)
    assert out.to_pylist() == expected
    assert out.type == schema_to_arrow(Schema((NestedField(1, "c", t),))).field("c").type


@pytest.mark.parametrize("t", [GeometryType(), GeographyType(), VariantType()])
def test_nulls_of_an_extension_type_are_nulls(t: PrimitiveType) -> None:
    """As drivers of databases give a column whose type they don't know."""
    array = pa.ExtensionArray.from_storage(pa.opaque(pa.null(), "shape", "db"), pa.nulls(2))
    assert one(t, array).to_pylist() == [None, None]


def test_zones_become_utc() -> None:
    noon = dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)
    out = one(TimestamptzType(), pa.array([noon], pa.timestamp("ms", "America/New_York")))
    assert out.type == pa.timestamp("us", "UTC")
    assert out.to_pylist() == [noon]


@pytest.mark.parametrize(
    ("t", "array"),
    [
        (IntegerType(), pa.array([2**31])),
        (LongType(), pa.array([2**63], pa.uint64())),
        (FloatType(), pa.array([0.1])),
        (FloatType(), pa.array([1e300])),
        (DoubleType(), pa.array([2**53 + 1])),
        (DecimalType(9, 1), pa.array([Decimal("1.55")])),
        (DecimalType(3, 2), pa.array([10])),
        (TimestampType(), pa.array([1], pa.timestamp("ns"))),
        (TimestampNanoType(), pa.array([2**62], pa.timestamp("us"))),
        (UUIDType(), pa.array(["nonsense"])),
        (UUIDType(), pa.array([b"short"])),
        (FixedType(3), pa.array([b"ab"])),
        (FixedType(3), pa.array([b"ab"], pa.binary(2))),
    ],
)
def test_lossy_casts_are_refused(t: PrimitiveType, array: pa.Array) -> None:
    with pytest.raises(ValidationError, match=r"column 'c': .* can't become .* without loss"):
        one(t, array)


@pytest.mark.parametrize(
    ("t", "array"),
    [
        (IntegerType(), pa.array(["1"])),
        (StringType(), pa.array([1])),
        (TimestampType(), pa.array([1], pa.timestamp("us", "UTC"))),
        (TimestamptzType(), pa.array([1], pa.timestamp("us"))),
        (TimestamptzType(), pa.array([1], pa.date32())),
        (DateType(), pa.array([1], pa.timestamp("us"))),
        (DecimalType(9, 2), pa.array([1.5])),
        (StringType(), pa.array([[1]])),
        (LongType(), pa.array([True])),
    ],
)
def test_other_kinds_are_refused(t: PrimitiveType, array: pa.Array) -> None:
    with pytest.raises(ValidationError, match="column 'c': the table has"):
        one(t, array)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"id": [1], "q": [1]}, "no column 'q'"),
        ({"s": [{"x": 1}]}, "required column 'id' is missing"),
        ({"id": [None]}, "column 'id' is required, found 1 nulls"),
        ({"id": [1], "s": [{"x": 1, "w": 1}]}, r"no column 's\.w'"),
        ({"id": [1], "s": [{"y": "a"}]}, r"required column 's\.x' is missing"),
        ({"id": [1, 2], "s": [{"x": None}, None]}, r"column 's\.x' is required, found 1 nulls"),
        ({"id": [1], "l": [[1.0, None]]}, r"column 'l\.element' is required, found 1 nulls"),
        ({"id": [1], "s": [1]}, "column 's': the table has struct"),
        ({"id": [1], "l": [1]}, "column 'l': the table has list"),
        ({"id": [1], "m": [1]}, "column 'm': the table has map"),
    ],
)
def test_errors_name_the_column(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        conform(pa.table(data), NESTED)


@pytest.mark.parametrize(
    "array",
    [
        pa.RunEndEncodedArray.from_arrays([1, 3], pa.array([7, None], pa.int64())),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array([7, None], pa.int64())),
    ],
)
def test_nulls_among_the_values_of_runs_and_dictionaries_are_counted(array: pa.Array) -> None:
    """Arrow counts none there; in a struct each became a zero."""
    parts = pa.StructArray.from_arrays([array], ["x"], mask=pa.array([False, True, False]))
    elements = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), array)
    for name, column, nulls in (("id", array, 2), ("s.x", parts, 1), ("l.element", elements, 2)):
        top = name.partition(".")[0]
        with pytest.raises(ValidationError, match=rf"column '{name}' is required, found {nulls} nulls"):
            conform(pa.table({"id": [1, 2, 3]} | {top: column}), NESTED)
    assert conform(pa.table({"id": [1, 2], "s": parts[:2]}), NESTED)["s"].to_pylist() == [{"x": 7, "y": None}, None]


def test_a_name_that_comes_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="'id' comes twice"):
        conform(pa.table([pa.array([1]), pa.array([2])], names=["id", "id"]), NESTED)


@pytest.mark.parametrize("values", [["a", None, "c"], [None, None, None]])
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.string_view(), pa.binary_view(), pa.dictionary(pa.int8(), pa.string_view())], ids=str
)
@pytest.mark.parametrize(("first", "last"), [(0, 6), (1, 5), (3, 3), (5, 6)])
def test_runs_of_any_kind_of_text_are_its_values(
    values: list[str | None], kind: pa.DataType, first: int, last: int
) -> None:
    """Also of views and of dictionaries, which Arrow decodes no runs of."""
    is_dictionary = pa.types.is_dictionary(kind)
    plain = pa.array(values, kind.value_type if is_dictionary else kind)
    if is_dictionary:
        plain = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), plain)
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5, 6], pa.int32()), plain).slice(first, last - first)
    column = Schema((NestedField(1, "s", BinaryType() if pa.types.is_binary_view(kind) else StringType()),))
    expected = [values[place] for place in (0, 0, 1, 1, 1, 2)][first:last]
    found = conform(pa.table({"s": runs}), column)["s"].to_pylist()
    assert [v.decode() if isinstance(v, bytes) else v for v in found] == expected
