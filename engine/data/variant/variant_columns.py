"""Variants encoded a column at a time: primitives from typed columns, arrays and objects from encoded values.

Spec: parquet-format, VariantEncoding and the table of Shredded Value Types. Encoded values are large_binary arrays.
All functions raise ValueError for a value that a variant can't hold.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.arrow.arrow_schema import is_binary_like, is_string_like
from icecore.engine.data.variant.variant_encoding import (
    ARRAY,
    COUNT_MAX,
    OBJECT,
    SHORT_STRING,
    SHORT_STRING_MAX,
    byte_width,
)
from icecore.engine.formats.arrays import to_mask
from icecore.engine.formats.binary_columns import Ints

VALUES = pa.large_binary()
_TRUE, _FALSE = 1, 2
_DECIMALS = ((9, 8, 4), (18, 9, 8), (38, 10, 16))
_BINARY, _STRING, _UUID = 15, 16, 20
# The Arrow types of fixed width: the number of the variant's type and the bytes of a value.
_FIXED = {
    pa.int8(): (3, 1),
    pa.int16(): (4, 2),
    pa.int32(): (5, 4),
    pa.int64(): (6, 8),
    pa.float64(): (7, 8),
    pa.date32(): (11, 4),
    pa.float32(): (14, 4),
    pa.time64("us"): (17, 8),
}
_TIMESTAMPS = {("us", True): 12, ("us", False): 13, ("ns", True): 18, ("ns", False): 19}


def is_typed(t: pa.DataType) -> bool:
    """Whether a shredded `typed_value` may have this Arrow type, by the spec's table."""
    types = pa.types
    if types.is_dictionary(t):
        return is_typed(t.value_type)
    if types.is_decimal(t):
        return bool(t.precision <= _DECIMALS[-1][0] and t.scale >= 0)
    if types.is_timestamp(t):
        return t.unit in ("us", "ns")
    return t in _FIXED or types.is_boolean(t) or isinstance(t, pa.UuidType) or is_string_like(t) or is_binary_like(t)


def primitives(array: pa.Array) -> pa.LargeBinaryArray:
    """A typed column as variants; null where it is null."""
    t, types = array.type, pa.types
    if types.is_dictionary(t):
        return primitives(array.dictionary_decode())
    # Arrow's readers check neither the digits of decimals nor UTF-8.
    array.validate(full=True)
    if types.is_boolean(t):
        headers = np.where(np.asarray(array.fill_null(False)), _TRUE << 2, _FALSE << 2)
        return _fixed(array, headers.astype(np.uint8), np.empty((len(array), 0), np.uint8))
    if types.is_decimal(t):
        return _decimals(array)
    if types.is_timestamp(t):
        return _numbers(array, _TIMESTAMPS[t.unit, t.tz is not None], 8)
    if isinstance(t, pa.UuidType):
        return _numbers(array.storage, _UUID, 16)
    if is_string_like(t):
        return _texts(array.cast(VALUES))
    if is_binary_like(t):
        return _prefixed(array.cast(VALUES), _BINARY)
    return _numbers(array, *_FIXED[t])


def _numbers(array: pa.Array, type_id: int, width: int) -> pa.LargeBinaryArray:
    data = np.frombuffer(array.buffers()[1] or b"", np.uint8)[array.offset * width :][: len(array) * width]
    return _fixed(array, np.full(len(array), type_id << 2, np.uint8), data.reshape(-1, width))


def _decimals(array: pa.Array) -> pa.LargeBinaryArray:
    precision, scale = array.type.precision, array.type.scale
    type_id, width = next((i, w) for digits, i, w in _DECIMALS if precision <= digits)
    wide = array.cast(pa.decimal128(precision, scale))
    data = np.frombuffer(wide.buffers()[1] or b"", np.uint8)[wide.offset * 16 :][: len(wide) * 16]
    scales = np.full((len(wide), 1), scale, np.uint8)
    headers = np.full(len(wide), type_id << 2, np.uint8)
    return _fixed(array, headers, np.hstack((scales, data.reshape(-1, 16)[:, :width])))


def _fixed(array: pa.Array, headers: npt.NDArray[np.uint8], data: npt.NDArray[np.uint8]) -> pa.LargeBinaryArray:
    rows = np.hstack((headers[:, None], data))
    offsets = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
    return _null_with(_values(offsets, rows.tobytes()), array)


def _texts(array: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Strings: short ones have their length in the first byte."""
    lengths = _lengths(array)
    short = lengths <= SHORT_STRING_MAX
    headers = np.where(short, lengths << 2 | SHORT_STRING, _STRING << 2)
    return _join(_heads(headers, [(lengths, np.where(short, 0, 4))]), array)


def _prefixed(array: pa.LargeBinaryArray, type_id: int) -> pa.LargeBinaryArray:
    lengths = _lengths(array)
    return _join(_heads(np.full(len(array), type_id << 2), [(lengths, np.full(len(array), 4))]), array)


def arrays(offsets: Ints, values: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Variant arrays of consecutive values, none null. `offsets` start at zero and have one more entry than arrays."""
    return _containers(ARRAY, offsets, values, None)


def objects(columns: list[pa.LargeBinaryArray], ids: Ints) -> pa.LargeBinaryArray:
    """Variant objects, one per row, with a field for each column that is not null in the row.

    The columns are sorted by name; `ids` has a row per object and, for each column, the metadata id of its name.
    """
    count = len(ids)
    present = np.column_stack([to_mask(c.is_valid()) for c in columns])
    row, column_number = np.nonzero(present)
    values = pa.concat_arrays(columns).take(pa.array(column_number * count + row))
    offsets = np.concatenate(([0], np.cumsum(present.sum(axis=1))))
    return _containers(OBJECT, offsets, values, ids[row, column_number])


def _containers(kind: int, offsets: Ints, values: pa.LargeBinaryArray, ids: Ints | None) -> pa.LargeBinaryArray:
    """Arrays or objects, each of consecutive values; `ids` are the field ids of the values of objects."""
    counts = np.diff(offsets)
    starts = np.zeros(1, np.int64)
    if len(values):
        starts = np.frombuffer(values.buffers()[1], np.int64)[values.offset :][: len(values) + 1]
    begins = starts[offsets]
    sizes = np.diff(begins)
    byte_width(int(sizes.max(initial=0)))
    offset_widths = _widths(sizes)
    large = counts > COUNT_MAX
    count_widths = np.where(large, 4, 1)
    row = np.repeat(np.arange(len(counts)), counts)
    if ids is None:
        id_widths = np.zeros_like(counts)
        headers = large << 2 | offset_widths - 1
    else:
        largest = np.zeros_like(counts)
        np.maximum.at(largest, row, ids)
        id_widths = _widths(largest)
        headers = large << 4 | id_widths - 1 << 2 | offset_widths - 1
    lengths = 1 + count_widths + counts * id_widths + (counts + 1) * offset_widths
    ends = np.concatenate(([0], np.cumsum(lengths)))
    out = np.zeros(ends[-1], np.uint8)
    out[ends[:-1]] = headers << 2 | kind
    at = ends[:-1] + 1
    _put(out, at, counts, count_widths)
    number = np.arange(len(row)) - offsets[row]
    at = at + count_widths
    if ids is not None:
        _put(out, at[row] + number * id_widths[row], ids, id_widths[row])
    at = at + counts * id_widths
    _put(out, at[row] + number * offset_widths[row], starts[:-1] - begins[row], offset_widths[row])
    _put(out, at + counts * offset_widths, sizes, offset_widths)
    body = pa.Array.from_buffers(VALUES, len(counts), [None, pa.py_buffer(begins.tobytes()), values.buffers()[2]])
    return _join(_values(ends, out.tobytes()), body)


def _widths(numbers: Ints) -> Ints:
    """The number of bytes, one to four, that each number takes."""
    return 1 + np.searchsorted([1 << 8, 1 << 16, 1 << 24], numbers, side="right")


def _heads(headers: Ints, numbers: list[tuple[Ints, Ints]]) -> pa.LargeBinaryArray:
    """For each row its header byte, then its numbers, each with a width of its own."""
    ends = np.concatenate(([0], np.cumsum(1 + sum(widths for _, widths in numbers))))
    out = np.zeros(ends[-1], np.uint8)
    out[ends[:-1]] = headers
    at = ends[:-1] + 1
    for values, widths in numbers:
        _put(out, at, values, widths)
        at = at + widths
    return _values(ends, out.tobytes())


def _put(out: npt.NDArray[np.uint8], at: Ints, numbers: Ints, widths: Ints) -> None:
    """Writes each number at its place, as so many little-endian bytes as its width says."""
    for i in range(int(widths.max(initial=0))):
        wide = widths > i
        out[at[wide] + i] = numbers[wide] >> 8 * i & 0xFF


def _lengths(array: pa.LargeBinaryArray) -> Ints:
    lengths: Ints = np.asarray(pc.fill_null(pc.binary_length(array), 0), dtype=np.int64)
    byte_width(int(lengths.max(initial=0)))
    return lengths


def _values(offsets: Ints, data: bytes) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(offsets.astype(np.int64).tobytes()), pa.py_buffer(data)]
    return pa.Array.from_buffers(VALUES, len(offsets) - 1, buffers)


def _join(heads: pa.LargeBinaryArray, bodies: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    return pc.binary_join_element_wise(heads, bodies, pa.scalar(b"", VALUES))


def _null_with(values: pa.LargeBinaryArray, like: pa.Array) -> pa.LargeBinaryArray:
    return pc.if_else(like.is_valid(), values, pa.scalar(None, VALUES)) if like.null_count else values
