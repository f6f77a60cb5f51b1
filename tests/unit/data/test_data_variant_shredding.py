"""Shredded variants of Parquet files. Spec: T1, Appendix A Parquet; parquet-format, VariantShredding."""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

import icecore.engine.data.read.file_sources as sources_module
from icecore.engine.data.variant.variant_shredding import read_variants
from icecore.engine.errors import CorruptFileError, IcecoreError, ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    Type,
    VariantType,
)

from .reading import content_file, rows
from .test_data_v3_types import local, write
from .variants import ARROW, Shape, Value, decode, decode_metadata, decoded, encode, metadata, shredded

NULL: Value = ("null", None)
EMPTY = metadata([])


def one(t: Type) -> Schema:
    return Schema((NestedField(1, "v", t),))


def with_id(array: pa.Array, **types: Any) -> pa.Table:
    f = pa.field("v", array.type, metadata={"PARQUET:field_id": "1"}, **types)
    return pa.table([array], schema=pa.schema([f]))


def read(array: pa.Array, folder: Path, *, store_schema: bool = False) -> list[dict[str, bytes] | None]:
    """What a Parquet file with the array as its column is read as."""
    path = folder / "f.parquet"
    pq.write_table(with_id(array), path, store_schema=store_schema)
    return [r["v"] for r in rows(content_file(path), one(VariantType()))]


def group(typed: pa.DataType | None, value: bool = True) -> pa.DataType:
    fields = [pa.field("value", pa.binary())] if value else []
    return pa.struct([*fields, *([] if typed is None else [pa.field("typed_value", typed)])])


def variant(typed: pa.DataType | None, value: bool = True) -> pa.DataType:
    return pa.struct([pa.field("metadata", pa.binary(), nullable=False), *group(typed, value)])


def required(name: str, t: pa.DataType) -> pa.Field:
    return pa.field(name, t, nullable=False)


def test_value_shredding_of_the_specs_measurements(tmp_path: Path) -> None:
    """`34, null, "n/a", 100`, and a group of neither value, where a value is required: a variant null."""
    array = pa.array(
        [
            {"metadata": EMPTY, "typed_value": 34},
            {"metadata": EMPTY, "value": b"\x00"},
            {"metadata": EMPTY, "value": b"\x0dn/a"},
            {"metadata": EMPTY, "typed_value": 100},
            {"metadata": EMPTY},
            None,
        ],
        variant(pa.int64()),
    )
    found = read(array.fill_null({"metadata": EMPTY}), tmp_path)
    assert found[0] == {"metadata": EMPTY, "value": b"\x18\x22\x00\x00\x00\x00\x00\x00\x00"}
    assert [decoded(v) for v in found[1:]] == [NULL, ("string", "n/a"), ("int64", 100), NULL, NULL]


def test_a_row_without_a_variant_is_no_variant_null(tmp_path: Path) -> None:
    values: list[Value | None] = [("int64", 5), None, NULL]
    column = shredded(values, Shape("int64"))
    assert [decoded(v) for v in read(column, tmp_path)] == values
    made = read_variants(column, "v")
    assert [made.field(i).null_count for i in range(2)] == [0, 0], "the fields are required, Arrow could write no nulls"


def test_a_value_that_is_missing_without_shredding_is_a_variant_null(tmp_path: Path) -> None:
    array = pa.array([{"metadata": EMPTY, "value": None}, {"metadata": EMPTY, "value": b"\x04"}], variant(None))
    assert [decoded(v) for v in read(array, tmp_path)] == [NULL, ("boolean", True)]


def test_arrays_of_the_specs_tags(tmp_path: Path) -> None:
    tags: list[Value | None] = [
        ("array", [("string", "comedy"), ("string", "drama")]),
        ("array", [("string", "horror"), NULL]),
        ("array", [("string", "comedy"), ("string", "drama"), ("string", "romance")]),
        NULL,
        ("array", []),
    ]
    array = shredded(tags, Shape("array", element=Shape("string")))
    assert array.field("typed_value").to_pylist()[1][1] == {"value": b"\x00", "typed_value": None}
    found = read(array, tmp_path)
    assert [decoded(v) for v in found] == tags
    assert found[4] == {"metadata": metadata([], width=4), "value": b"\x03\x00\x00"}


def test_objects_of_the_specs_events(tmp_path: Path) -> None:
    """Each valid row of the table, whole, partly shredded, of other types, missing and null."""
    text, at = ("string", "noop"), ("timestamptz", 1729794114937)
    events: list[Value | None] = [
        ("object", {"event_type": text, "event_ts": at}),
        ("object", {"event_type": text, "event_ts": at, "email": ("string", "user@example.com")}),
        ("object", {"error_msg": ("string", "malformed: ...")}),
        ("string", "malformed: not an object"),
        ("object", {"event_ts": at, "click": ("string", "_button")}),
        ("object", {"event_type": NULL, "event_ts": at}),
        ("object", {"event_type": text, "event_ts": ("string", "2024-10-24")}),
        ("object", {}),
        NULL,
        None,
    ]
    shape = Shape("object", {"event_type": Shape("string"), "event_ts": Shape("timestamptz")})
    found = read(shredded(events, shape), tmp_path)
    assert [decoded(v) for v in found] == events
    assert found[7] is not None
    assert found[7]["value"] == b"\x02\x00\x00"


def test_nested_shredding(tmp_path: Path) -> None:
    """An object in an object, an array in an object, objects in an array, arrays in an array."""
    place = ("object", {"latitude": ("double", 1.5), "longitude": ("double", -2.0)})
    values: list[Value | None] = [
        ("object", {"location": place, "tags": ("array", [("string", "a"), ("int8", 1)])}),
        ("object", {"location": ("object", {"latitude": ("double", 0.0), "name": ("string", "x")}), "other": place}),
        ("object", {"location": ("string", "nowhere"), "tags": ("array", [])}),
        ("object", {"list": ("array", [("array", [("int64", 1), place]), ("array", []), NULL])}),
        ("object", {"list": ("array", [place, ("array", [place, ("object", {})])])}),
    ]
    location = Shape("object", {"latitude": Shape("double"), "longitude": Shape("double")})
    inner = Shape("array", element=Shape("object", {"latitude": Shape("double")}))
    fields = {"tags": Shape("array", element=Shape("string")), "location": location}
    shape = Shape("object", {**fields, "list": Shape("array", element=inner)})
    assert [decoded(v) for v in read(shredded(values, shape), tmp_path)] == values


NAN = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
UUID = uuid.UUID("f24f9b64-81fa-49d1-b74e-8c09a6e31c56")
PRIMITIVES: list[tuple[pa.DataType, Any, str]] = [
    (pa.bool_(), True, "04"),
    (pa.bool_(), False, "08"),
    (pa.int8(), -34, "0c de"),
    (pa.int16(), -1234, "10 2efb"),
    (pa.int32(), 2**31 - 1, "14 ffffff7f"),
    (pa.int64(), -(2**63), "18 0000000000000080"),
    (pa.float64(), NAN, "1c 010000000000f8ff"),
    (pa.float32(), -0.0, "38 00000080"),
    (pa.decimal128(9, 4), Decimal("-12345.6789"), "20 04 eb32a4f8"),
    (pa.decimal128(18, 9), Decimal("123456789.987654321"), "24 09 b1fa52e04b9bb601"),
    (pa.decimal128(38, 0), Decimal(-1), "28 00 " + "ff" * 16),
    (pa.decimal128(19, 9), Decimal("0.000000001"), "28 09 01" + "00" * 15),
    (pa.date32(), -1, "2c ffffffff"),
    (pa.timestamp("us", "UTC"), 1, "30 0100000000000000"),
    (pa.timestamp("us"), -1, "34 ffffffffffffffff"),
    (pa.binary(), b"\x0a\x0b", "3c 02000000 0a0b"),
    (pa.binary(), b"", "3c 00000000"),
    (pa.string(), "", "01"),
    (pa.string(), "é" * 31, "f9" + "c3a9" * 31),
    (pa.string(), "x" * 63, "fd" + "78" * 63),
    (pa.string(), "x" * 64, "40 40000000" + "78" * 64),
    (pa.time64("us"), 86_399_999_999, "44 ff5fd71d14000000"),
    (pa.timestamp("ns", "UTC"), -1, "48 ffffffffffffffff"),
    (pa.timestamp("ns"), 2**63 - 1, "4c ffffffffffffff7f"),
    (pa.uuid(), UUID, "50 f24f9b6481fa49d1b74e8c09a6e31c56"),
]


@pytest.mark.parametrize("store_schema", [True, False])
@pytest.mark.parametrize("typed, value, expected", PRIMITIVES)
def test_shredded_value_types(
    tmp_path: Path, typed: pa.DataType, value: Any, expected: str, store_schema: bool
) -> None:
    """Every type of the spec's table as its bytes, beside rows of other types."""
    plain = pa.array([value.bytes, None, None], pa.binary(16)).cast(typed) if typed == pa.uuid() else None
    if plain is None:
        plain = pa.array([value, None, None], typed)
    values = pa.array([None, b"\x00", b"\x0c\x05"], pa.binary())
    heads = pa.array([EMPTY] * 3, pa.binary())
    array = pa.StructArray.from_arrays([heads, values, plain], fields=list(variant(typed)))
    found = read(array, tmp_path, store_schema=store_schema)
    assert [v and v["value"] for v in found] == [bytes.fromhex(expected), b"\x00", b"\x0c\x05"]


def test_decimals_kept_in_other_ways(tmp_path: Path) -> None:
    """As integers in the file, and as Arrow's narrow decimals."""
    array = pa.array([{"metadata": EMPTY, "typed_value": Decimal("-1.5")}], variant(pa.decimal128(4, 1)))
    path = tmp_path / "f.parquet"
    pq.write_table(with_id(array), path, store_decimal_as_integer=True, store_schema=False)
    (row,) = rows(content_file(path), one(VariantType()))
    assert row["v"]["value"].hex() == "2001f1ffffff"
    narrow = pa.array([{"metadata": EMPTY, "typed_value": Decimal("-1.5")}], variant(pa.decimal32(4, 1)))
    assert read(narrow, tmp_path, store_schema=True) == [row["v"]]


def test_other_forms_of_arrow_that_a_file_may_ask_for(tmp_path: Path) -> None:
    """Arrow's own schema in the footer can make dictionaries and large types of the same columns."""
    heads = pa.array([EMPTY] * 3, pa.large_binary())
    typed = pa.array(["a", None, "b"], pa.large_string()).dictionary_encode()
    elements = pa.array([[{"typed_value": "a"}], None, []], pa.large_list(group(pa.large_string(), False)))
    values = pa.array([None, b"\x00", None], pa.large_binary())
    for column, want in (
        (typed, [("string", "a"), NULL, ("string", "b")]),
        (elements, [("array", [("string", "a")]), NULL, ("array", [])]),
    ):
        array = pa.StructArray.from_arrays([heads, values, column], names=["metadata", "value", "typed_value"])
        assert [decoded(v) for v in read(array, tmp_path, store_schema=True)] == want


def test_slices_of_arrays(tmp_path: Path) -> None:
    """Batches of a file may be parts of longer arrays."""
    values: list[Value | None] = [
        (
            "object",
            {"i": ("int64", i), "d": ("decimal4", (i, 2)), "l": ("array", [("string", str(i))] * (i % 3)), "x": NULL},
        )
        for i in range(20)
    ]
    element = Shape("string")
    fields = {"i": Shape("int64"), "d": Shape("decimal4"), "l": Shape("array", element=element), "u": Shape("uuid")}
    column = shredded(values, Shape("object", fields))
    for start, length in ((0, 20), (3, 9), (7, 1), (19, 1), (20, 0)):
        part = read_variants(column.slice(start, length), "v")
        part.validate(full=True)
        assert [decoded(v) for v in part.to_pylist()] == values[start : start + length]


def test_typed_columns_of_bytes_that_their_type_forbids() -> None:
    """Strings that are not UTF-8 and decimals of too many digits, which Arrow's reader lets through."""
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    wide = pa.Array.from_buffers(pa.decimal128(9, 0), 1, pa.array([Decimal(10**9)], pa.decimal128(10, 0)).buffers())
    for typed in (text, wide):
        array = pa.StructArray.from_arrays([pa.array([EMPTY]), typed], names=["metadata", "typed_value"])
        with pytest.raises(CorruptFileError, match=r"^here: "):
            read_variants(array, "here")


OBJECT = pa.struct([required("a", group(pa.int32())), required("b", group(pa.string()))])
AB = metadata(["a", "b"])
NO_FIELDS: dict[str, dict[str, Any]] = {"a": {}, "b": {}}


@pytest.mark.parametrize(
    "typed, row, message",
    [
        (pa.int64(), {"value": b"\x00", "typed_value": 5}, "both a value and a typed value"),
        (pa.list_(group(pa.int64())), {"value": b"\x00", "typed_value": []}, "both a value and a typed value"),
        (
            pa.list_(group(pa.int64())),
            {"typed_value": [{"value": b"\x00", "typed_value": 5}]},
            "both a value and a typed value",
        ),
        (OBJECT, {"value": b"\x05a", "typed_value": NO_FIELDS}, "a value that is no object"),
        (OBJECT, {"value": b"", "typed_value": NO_FIELDS}, "a value without bytes"),
        (OBJECT, {"typed_value": {"a": {"value": b""}, "b": {}}}, "a value without bytes"),
        (pa.list_(group(None)), {"typed_value": [{"value": b""}]}, "a value without bytes"),
        (None, {"value": b""}, "a value without bytes"),
        (OBJECT, {"typed_value": {"a": {"value": b"\x00", "typed_value": 1}, "b": {}}}, "both a value and a typed"),
        (OBJECT, {"metadata": EMPTY, "typed_value": {"a": {"typed_value": 1}, "b": {}}}, "lacks the field name 'a'"),
        (OBJECT, {"metadata": b"", "typed_value": {"a": {"typed_value": 1}, "b": {}}}, "should be of version 1"),
        (OBJECT, {"metadata": b"\x02\x00\x00", "typed_value": NO_FIELDS}, "should be of version 1"),
        (OBJECT, {"metadata": b"\xc1\xff\xff\xff\xff", "typed_value": NO_FIELDS}, "ends before their offsets do"),
        (OBJECT, {"metadata": b"\x01\x02\x00\x02\x01ab", "typed_value": NO_FIELDS}, "don't lie in order"),
        (OBJECT, {"value": b"\x02\x01\x07\x00\x01\x00", "typed_value": NO_FIELDS}, "field id 7"),
        (OBJECT, {"value": b"\x02\x01\x00\x00\x09\x00", "typed_value": NO_FIELDS}, "don't lie within it"),
        (OBJECT, {"value": b"\x02\x01\x00\x09\x01\x00", "typed_value": NO_FIELDS}, "start after the end"),
        (OBJECT, {"value": b"\x02\xff\x00", "typed_value": NO_FIELDS}, "ends before their offsets do"),
        (OBJECT, {"value": b"\x02\x02\x00\x00\x00\x01\x02\x00\x00", "typed_value": NO_FIELDS}, "a field twice"),
        (OBJECT, {"value": b"\x02\x01\x00\x00\x01\xfc", "typed_value": NO_FIELDS}, "no primitive variant type 63"),
    ],
)
def test_rows_that_break_the_rules_are_refused(
    tmp_path: Path, typed: pa.DataType, row: dict[str, Any], message: str
) -> None:
    """With the file and the column named; the same row without its fault is read by the other tests."""
    array = pa.array([{"metadata": AB, **row}], variant(typed))
    with pytest.raises(CorruptFileError, match=rf"f\.parquet: column 'v': .*{message}"):
        read(array, tmp_path)


@pytest.mark.parametrize(
    "typed",
    [
        pa.uint8(), pa.uint32(), pa.uint64(), pa.float16(), pa.binary(16), pa.binary(4), pa.time32("ms"),
        pa.time64("ns"), pa.timestamp("ms"), pa.timestamp("ms", "UTC"), pa.decimal256(40, 2), pa.list_(pa.int64()),
        pa.map_(pa.string(), group(pa.int64())), pa.struct([pa.field("a", pa.int64())]), pa.null(),
        pa.struct([pa.field("a", pa.struct([pa.field("b", pa.int64())]))]), pa.list_(group(pa.uint8())),
        pa.struct([pa.field("a", group(pa.uint8()))]),
        pa.struct([pa.field("a", pa.struct([pa.field("value", pa.int64())]))]),
    ],
)  # fmt: skip
def test_types_that_shredding_does_not_know_are_refused(tmp_path: Path, typed: pa.DataType) -> None:
    """Even where every row is null there: the column's meaning is not known."""
    array = pa.array([{"metadata": EMPTY, "value": b"\x00"}], variant(typed))
    with pytest.raises(CorruptFileError, match=r"f\.parquet: column 'v'"):
        read(array, tmp_path, store_schema=True)


@pytest.mark.parametrize(
    "t",
    [
        pa.int64(),
        pa.binary(),
        pa.list_(group(pa.int64())),
        group(pa.int64()),
        pa.struct([pa.field("metadata", pa.binary())]),
        pa.struct([pa.field("metadata", pa.int64()), pa.field("value", pa.binary())]),
        pa.struct([pa.field("metadata", pa.binary()), pa.field("value", pa.string())]),
    ],
)
def test_columns_that_are_no_variant_are_refused(tmp_path: Path, t: pa.DataType) -> None:
    with pytest.raises(CorruptFileError, match=r"f\.parquet: column 'v' should"):
        read(pa.array([None], t), tmp_path)


def test_a_variant_without_metadata_is_refused(tmp_path: Path) -> None:
    fields = [pa.field("metadata", pa.binary()), pa.field("value", pa.binary())]
    with pytest.raises(CorruptFileError, match="no metadata"):
        read(pa.array([{"metadata": None, "value": b"\x00"}], pa.struct(fields)), tmp_path)


@pytest.mark.parametrize(
    "leftover, typed, expected",
    [
        ({"b": ("int8", 9)}, {"a": {"typed_value": 1}, "b": {"typed_value": "x"}}, {"a": 1, "b": "x"}),
        ({"b": ("int8", 9), "c": ("int32", 3)}, {"a": {"typed_value": 1}, "b": {}}, {"a": 1, "c": 3}),
    ],
)
def test_shredded_columns_win_over_the_same_field_in_the_value(
    tmp_path: Path, leftover: dict[str, Value], typed: dict[str, Any], expected: dict[str, Any]
) -> None:
    """No writer may do it; a reader of one column would see the shredded one, missing or not."""
    names = ["a", "b", "c"]
    row = {"metadata": metadata(names), "value": encode(("object", leftover), names), "typed_value": typed}
    (found,) = read(pa.array([row], variant(OBJECT)), tmp_path)
    kind, fields = decoded(found) or NULL
    assert (kind, {k: v for k, (_, v) in fields.items()}) == ("object", expected)


def test_groups_of_fields_that_are_optional(tmp_path: Path) -> None:
    """Against the spec, but what it means is plain: there is no such field."""
    typed = pa.struct([pa.field("a", group(pa.int32())), pa.field("b", group(pa.string()))])
    array = pa.array([{"metadata": AB, "typed_value": {"a": {"typed_value": 34}, "b": None}}], variant(typed))
    assert [decoded(v) for v in read(array, tmp_path)] == [("object", {"a": ("int32", 34)})]


def test_columns_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    fields = [pa.field("typed_value", pa.int32()), pa.field("x", pa.int64()), *reversed(list(variant(None)))]
    array = pa.array([{"metadata": EMPTY, "typed_value": 1, "x": 7}], pa.struct(fields))
    assert [decoded(v) for v in read(array, tmp_path)] == [("int32", 1)]


@pytest.mark.parametrize("count", [0, 1, 255, 256, 300])
def test_many_fields_and_elements(tmp_path: Path, count: int) -> None:
    """More than 255 need counts of four bytes and ids of two; long values need wide offsets."""
    fields = {f"f{i}": ("string", "x" * (i % 70)) for i in range(count)}
    objects: list[Value | None] = [("object", fields), ("object", {}), ("object", {**fields, "g": ("int8", 1)})]
    shape = Shape("object", {n: Shape("string") for n in fields} or {"h": Shape("int8")})
    assert [decoded(v) for v in read(shredded(objects, shape), tmp_path)] == objects
    arrays: list[Value | None] = [("array", [*fields.values()]), ("array", [("int64", 5)] * count), ("array", [])]
    assert [decoded(v) for v in read(shredded(arrays, Shape("array", element=Shape("int64"))), tmp_path)] == arrays


@pytest.mark.parametrize("size", [0xFB, 0xFC, 0xFFFB, 0xFFFC, 0xFF_FFFB, 0xFF_FFFC])
def test_widths_of_offsets(tmp_path: Path, size: int) -> None:
    """One row whose values take as many bytes as a width of offsets can tell, or one more; another that is short."""
    long = ("binary", b"b" * (size - 1))
    values: list[Value | None] = [("array", [long]), ("array", [("binary", b"")]), ("object", {"a": long})]
    found = read(shredded(values[:2], Shape("array", element=Shape("binary"))), tmp_path)
    assert [decoded(v) for v in found] == values[:2]
    width = 1 + sum(size + 4 > limit for limit in (0xFF, 0xFFFF, 0xFF_FFFF))
    assert found[0] is not None
    assert found[0]["value"][0] == 3 | (width - 1) << 2
    assert [
        decoded(v) for v in read(shredded(values[2:], Shape("object", {"a": Shape("binary")})), tmp_path)
    ] == values[2:]


def test_rows_may_have_metadata_of_their_own(tmp_path: Path) -> None:
    """Neither sorted nor unique nor of the same width; each row's ids are those of its own names."""
    heads = [metadata(["b", "a"]), metadata(["x", "a", "b", "a"], width=2), metadata(["é", "b"], width=3), AB]
    typed = [{"a": {"typed_value": i}, "b": {"typed_value": str(i)}} for i in range(4)]
    typed[2]["a"] = {}
    array = pa.array([{"metadata": h, "typed_value": t} for h, t in zip(heads, typed, strict=True)], variant(OBJECT))
    found = read(array, tmp_path)
    assert [v and v["metadata"] for v in found] == heads
    for i, v in enumerate(found):
        a = {} if i == 2 else {"a": ("int32", i)}
        assert decoded(v) == ("object", {**a, "b": ("string", str(i))})


def test_fields_are_sorted_by_their_bytes(tmp_path: Path) -> None:
    """UTF-8 puts U+FFFF before U+10000, UTF-16 after it; the decoder of these tests checks the order."""
    fields = {n: ("int32", i) for i, n in enumerate(["\U00010000", "\uffff", "b.c", "B", "", "a'b", "é", "value"])}
    shape = Shape("object", {n: Shape("int32") for n in list(fields)[:5]})
    values: list[Value | None] = [("object", fields), ("object", dict(list(fields.items())[:5]))]
    assert [decoded(v) for v in read(shredded(values, shape), tmp_path)] == values


def test_shredded_variants_inside_other_types(tmp_path: Path) -> None:
    """In structs, lists and maps, also where these are null or empty."""
    shape = Shape("object", {"a": Shape("int64"), "b": Shape("array", element=Shape("string"))})
    inner: list[Value | None] = [("object", {"a": ("int64", 1), "c": NULL}), ("string", "x"), None, ("object", {})]
    column = shredded(inner, shape)
    field_ = pa.field("v", column.type, metadata={"PARQUET:field_id": "2"})
    number = pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "3"})
    nulls = pa.array([False, False, False, True])
    in_struct = pa.StructArray.from_arrays([pa.array([1, 2, 3, 4]), column], fields=[number, field_], mask=nulls)
    offsets = pa.array([0, 2, 2, 3, 4], pa.int32())
    in_list = pa.ListArray.from_arrays(offsets, column, mask=pa.array([False, True, False, False]))
    in_list = in_list.cast(pa.list_(pa.field("element", column.type, metadata={"PARQUET:field_id": "2"})))
    keys = pa.array(["k", "l", "m", "n"])
    in_map = pa.MapArray.from_arrays(offsets, keys, column)
    in_map = in_map.cast(pa.map_(
        pa.field("key", pa.string(), False, {"PARQUET:field_id": "3"}), field_.with_name("value")
    ))  # fmt: skip
    path = tmp_path / "f.parquet"

    def found(array: pa.Array, t: Type) -> list[Any]:
        pq.write_table(with_id(array), path, row_group_size=3)
        return [r["v"] for r in rows(content_file(path), one(t))]

    struct_type = StructType((NestedField(2, "v", VariantType()), NestedField(3, "n", LongType())))
    structs = found(in_struct, struct_type)
    assert [s and (decoded(s["v"]), s["n"]) for s in structs] == [(inner[0], 1), (inner[1], 2), (None, 3), None]
    lists = found(in_list, ListType(2, VariantType()))
    assert [x and [decoded(v) for v in x] for x in lists] == [inner[:2], None, inner[2:3], inner[3:]]
    maps = found(in_map, MapType(3, StringType(), 2, VariantType()))
    assert [[(k, decoded(v)) for k, v in m] for m in maps] == [
        [("k", inner[0]), ("l", inner[1])], [], [("m", inner[2])], [("n", inner[3])],
    ]  # fmt: skip


def test_only_the_columns_of_the_variant_asked_for_are_read(tmp_path: Path) -> None:
    """Beside another variant whose columns are damaged in name only: it is not looked at."""
    good = shredded([("int64", 5)], Shape("int64"))
    bad = pa.array([{"metadata": EMPTY, "typed_value": 5}], variant(pa.uint64()))
    fields = [pa.field(n, a.type, metadata={"PARQUET:field_id": str(i)}) for i, n, a in ((1, "v", good), (2, "w", bad))]
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([good, bad], schema=pa.schema(fields)), path)
    schema = Schema((NestedField(1, "v", VariantType()), NestedField(2, "w", VariantType())))
    (row,) = rows(content_file(path), schema, projection=one(VariantType()))
    assert decoded(row["v"]) == ("int64", 5)
    with pytest.raises(CorruptFileError, match="'w' has a typed value of type uint64"):
        rows(content_file(path), schema)


DUCKDB_ROWS = [
    "{'a': 1, 'b': 'x', 'c': {'d': 1.5, 'e': [1, 2, 3]}, 't': TIMESTAMP '2024-01-02 03:04:05'}",
    "{'a': 2, 'b': 'y', 'c': {'d': 2.5, 'e': []}, 't': TIMESTAMP '1969-01-02 03:04:05'}",
    "{'a': 'text', 'c': {'d': NULL, 'f': true}}",
    "[1, 2, 3]",
    "'only text'",
    "DATE '2020-02-02'",
]


@pytest.mark.parametrize("count", [2, 6])
def test_duckdb_shreds_and_reads_back_what_we_read(tmp_path: Path, count: int) -> None:
    """What DuckDB shredded by its own choice; our rows, unshredded, say the same to DuckDB as its own file."""
    db = duckdb.connect()
    union = " UNION ALL ".join(f"SELECT {i} AS i, {sql}::VARIANT AS v" for i, sql in enumerate(DUCKDB_ROWS[:count]))
    path = tmp_path / "theirs.parquet"
    db.execute(f"COPY ({union} ORDER BY i) TO '{path}' (FORMAT parquet, FIELD_IDS {{i: 2, v: 1}})")
    assert "typed_value" in str(pq.ParquetFile(path).schema)
    found = [r["v"] for r in rows(content_file(path), one(VariantType()))]
    kinds = [decode(v["value"], decode_metadata(v["metadata"]))[0] for v in found]
    assert kinds == ["object", "object", "object", "array", "string", "date"][:count]
    own = tmp_path / "ours.parquet"
    table = pa.table(
        {"i": range(count), "metadata": [v["metadata"] for v in found], "value": [v["value"] for v in found]}
    )
    _write_as_variant(table, own)
    sql = "SELECT i, v::VARCHAR, variant_typeof(v) FROM '{}' ORDER BY i"
    assert db.execute(sql.format(own)).fetchall() == db.execute(sql.format(path)).fetchall()


def test_files_that_arrow_refuses_may_have_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB, which reads those, puts shredded variants together itself."""
    path = tmp_path / "f.parquet"
    sql = "SELECT CASE i WHEN 3 THEN NULL ELSE {'a': i, 'b': ['x']}::VARIANT END AS v, [i] AS l FROM range(5) t(i)"
    duckdb.sql(
        f"COPY ({sql}) TO '{path}' (FORMAT parquet, FIELD_IDS {{v: 1, l: {{__duckdb_field_id: 2, element: 3}}}})"
    )
    assert "typed_value" in str(pq.ParquetFile(path).schema)
    schema = Schema((NestedField(2, "l", ListType(3, LongType())), NestedField(1, "v", VariantType())))
    expected = [(r["l"], decoded(r["v"])) for r in rows(content_file(path), schema)]
    assert expected[4] == ([4], ("object", {"a": ("int64", 4), "b": ("array", [("string", "x")])}))
    assert [v for _, v in expected if v is None] == [None]

    def refuse(*_: object) -> None:
        raise CorruptFileError("refused")

    monkeypatch.setattr(sources_module, "ParquetSource", refuse)
    assert [(r["l"], decoded(r["v"])) for r in rows(content_file(path), schema)] == expected


def _write_as_variant(table: pa.Table, path: Path) -> None:
    """A file with the VARIANT annotation, which pyarrow can't write: by our own writer."""
    fields = [pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)]
    column = pa.StructArray.from_arrays(
        [table.column(n).combine_chunks() for n in ("metadata", "value")], fields=fields
    )
    schema = Schema((NestedField(2, "i", LongType()), NestedField(1, "v", VariantType())))
    file = write(pa.table({"i": table.column("i"), "v": column}), path.parent / "written", schema)
    Path(local(file)).rename(path)


NAMES = st.sampled_from(["a", "b", "c", "a.b", "value", "typed_value", "é", "\uffff", "\U00010000", ""])
NUMBERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "date": 32, "timestamptz": 64, "timestamp": 64,
           "timestamptz_ns": 64, "timestamp_ns": 64}  # fmt: skip
DECIMALS = {"decimal4": (9, 2), "decimal8": (18, 0), "decimal16": (38, 10)}


def _signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _decimal(name: str) -> st.SearchStrategy[Value]:
    digits, scale = DECIMALS[name]
    numbers = st.integers(1 - 10**digits, 10**digits - 1)
    return st.tuples(st.just(name), st.tuples(numbers, st.sampled_from([scale, scale, 1])))


SCALARS: st.SearchStrategy[Value] = st.one_of(
    st.just(NULL),
    st.tuples(st.just("boolean"), st.booleans()),
    *[st.tuples(st.just(n), _signed(bits)) for n, bits in NUMBERS.items()],
    st.tuples(st.just("time"), st.integers(0, 86_399_999_999)),
    st.tuples(st.just("float"), st.floats(width=32, allow_nan=False)),
    st.tuples(st.just("double"), st.floats(allow_nan=False)),
    *[_decimal(n) for n in DECIMALS],
    st.tuples(st.just("string"), st.text(max_size=80)),
    st.tuples(st.just("binary"), st.binary(max_size=8)),
    st.tuples(st.just("uuid"), st.binary(min_size=16, max_size=16)),
)
VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.tuples(st.just("array"), st.lists(inner, max_size=4)),
        st.tuples(st.just("object"), st.dictionaries(NAMES, inner, max_size=5)),
    ),
    max_leaves=12,
)


@st.composite
def shapes(draw: st.DrawFn, depth: int = 3) -> Shape:
    kinds = [None, "object", "object", "array", *ARROW] if depth else [None, *ARROW]
    kind, omit = draw(st.sampled_from(kinds)), draw(st.booleans())
    if kind == "array":
        return Shape(kind, element=draw(shapes(depth=depth - 1)), omit_value=omit)
    if kind == "object":
        fields = draw(st.dictionaries(NAMES, shapes(depth=depth - 1), min_size=1, max_size=4))
        return Shape(kind, fields, omit_value=omit)
    return Shape(kind, omit_value=omit)


def shape_of(value: Value, draw: st.DrawFn) -> Shape:
    """A shape that the value fits into, here and there with another inside."""
    kind, inside = value
    if kind == "null" or draw(st.integers(0, 5)) == 0:
        return draw(shapes(depth=1))
    omit = draw(st.booleans())
    if kind == "array":
        return Shape(kind, element=shape_of(inside[0], draw) if inside else Shape("int8"), omit_value=omit)
    if kind == "object":
        fields = {n: shape_of(v, draw) for n, v in inside.items() if draw(st.booleans())}
        return Shape(kind, fields or {"zz": Shape("string")}, omit_value=omit)
    return Shape(kind, omit_value=omit)


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[Value | None], Shape]:
    """Rows, and a shape made for one of them or for none."""
    values = draw(st.lists(st.one_of(VALUES, VALUES, st.none()), min_size=1, max_size=6))
    model = draw(st.sampled_from(values))
    return values, draw(shapes()) if model is None else shape_of(model, draw)


@examples(60, 2100)
@given(column=columns(), store_schema=st.booleans())
def test_what_was_shredded_comes_back(
    column: tuple[list[Value | None], Shape], store_schema: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Any values, shredded in any way by the tests' own shredder, are read as they were: types, order, nulls."""
    values, shape = column
    found = read(shredded(values, shape), tmp_path_factory.getbasetemp(), store_schema=store_schema)
    assert [decoded(v) for v in found] == values


@examples(35, 1400)
@given(column=columns(), damage=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_bytes_end_in_our_errors(
    column: tuple[list[Value | None], Shape],
    damage: list[tuple[int, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Bytes of metadata and values changed anywhere: rows, or an error that names the file; never another exception."""
    values, shape = column
    array = shredded(values, shape)
    parts = [array.field(i) for i in range(array.type.num_fields)]
    for at, byte in damage:
        number = at % len(parts)
        rows_of = parts[number].to_pylist() if pa.types.is_binary(array.type.field(number).type) else []
        if rows_of and rows_of[at % len(rows_of)]:
            data = bytearray(rows_of[at % len(rows_of)])
            data[at // 7 % len(data)] = byte
            rows_of[at % len(rows_of)] = bytes(data)
            parts[number] = pa.array(rows_of, pa.binary())
    damaged = pa.StructArray.from_arrays(parts, fields=list(array.type), mask=array.is_null())
    try:
        found = read(damaged, tmp_path_factory.getbasetemp())
    except IcecoreError as e:
        assert "f.parquet" in str(e)
    else:
        assert len(found) == len(values)


def test_shredded_data_can_be_written(tmp_path: Path) -> None:
    """As an Arrow table that was read of another's file: it is stored whole. What is no variant is refused."""
    schema = one(VariantType())
    values: list[Value | None] = [("object", {"a": ("int64", 1), "b": NULL}), None, ("string", "x")]
    column = shredded(values, Shape("object", {"a": Shape("int64")}))
    file = write(pa.table({"v": column}), tmp_path, schema)
    assert [decoded(r["v"]) for r in rows(file, schema)] == values
    assert "typed_value" not in str(pq.ParquetFile(local(file)).schema)
    conflict = pa.array([{"metadata": EMPTY, "value": b"\x00", "typed_value": 1}], variant(pa.int64()))
    for wrong, message in (
        (conflict, "both a value and a typed value"),
        (pa.array([{"metadata": EMPTY, "typed_value": 1}], variant(pa.uint8(), False)), "typed value of type uint8"),
        (pa.array([{"value": b"\x00", "typed_value": 1}], group(pa.int64())), "has metadata"),
    ):
        with pytest.raises(ValidationError, match=f"column 'v'.*{message}"):
            write(pa.table({"v": wrong}), tmp_path, schema)
