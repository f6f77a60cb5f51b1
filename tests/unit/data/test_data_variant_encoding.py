"""Shredded values of every type and size become the bytes that they have in a variant. Spec: T1; VariantEncoding."""

from __future__ import annotations

import struct
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icecore.engine.spec.types import VariantType

from .reading import content_file, rows
from .variant_columns import AB, EMPTY, OBJECT, one, read, variant, with_id
from .variants import Shape, Value, decoded, metadata, shredded

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
