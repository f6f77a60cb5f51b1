"""Shredded variants that break the rules of their columns or rows are refused, with the file and the column named."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from icecore.engine.data.variant.variant_shredding import read_variants
from icecore.engine.errors import CorruptFileError

from .variant_columns import AB, EMPTY, OBJECT, group, read, variant


def test_typed_columns_of_bytes_that_their_type_forbids() -> None:
    """Strings that are not UTF-8 and decimals of too many digits, which Arrow's reader lets through."""
    text = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    wide = pa.Array.from_buffers(pa.decimal128(9, 0), 1, pa.array([Decimal(10**9)], pa.decimal128(10, 0)).buffers())
    for typed in (text, wide):
        array = pa.StructArray.from_arrays([pa.array([EMPTY]), typed], names=["metadata", "typed_value"])
        with pytest.raises(CorruptFileError, match=r"^here: "):
            read_variants(array, "here")


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
