"""Z-order: a sort key of interleaved bits, in which all columns count alike, as Java's `zorder(c1, c2)` makes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.data.arrow.arrow_partitions import nested_column
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
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

Words = npt.NDArray[np.uint64]
_SIGN = np.uint64(1 << 63)
_WORD_BYTES = 8
_ROWS_AT_ONCE = 1 << 16
_LONGS = (
    IntegerType,
    LongType,
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
)
_BYTES = (StringType, BinaryType, FixedType, UUIDType)
_ORDERED = (*_LONGS, *_BYTES, BooleanType, FloatType, DoubleType, DecimalType)


@frozen
class ZOrder:
    """A z-order by columns, given by their field ids; a sort order of the spec can't express it."""

    source_ids: tuple[int, ...]

    @classmethod
    def of(cls, columns: Iterable[str], schema: Schema) -> ZOrder:
        """The order by columns, nested ones by path. Raises ValidationError for one that has no order in bytes."""
        ids = [schema.find_field(name).field_id for name in columns]
        if not ids or len(set(ids)) < len(ids):
            raise ValidationError(
                f"a z-order is of different columns, at least one, found {[*map(schema.name_of, ids)]}"
            )
        order = cls(tuple(ids))
        order.check(schema)
        return order

    def check(self, schema: Schema) -> None:
        """Raises ValidationError where a column is not in the schema, or can't be ordered."""
        for source_id in self.source_ids:
            field = schema.get_field(source_id)
            if field is None:
                raise ValidationError(f"a z-order needs the column with id {source_id}, which the schema lacks")
            if not isinstance(field.field_type, _ORDERED) or schema.is_in_list_or_map(source_id):
                raise ValidationError(f"a z-order can't be of {schema.name_of(source_id)!r}: {field.field_type}")


def z_order_words(table: pa.Table, order: ZOrder, schema: Schema) -> list[pa.Array]:
    """The key of each row as unsigned words, the most significant first, as many as the order has columns.

    Each column adds 8 bytes that sort as its values do: null is zeros, NaN is above all numbers, text and binary are
    their first 8 bytes.
    """
    words = [
        ordered_word(nested_column(table, schema.path(i)), schema.find_field(i).primitive_type)
        for i in order.source_ids
    ]
    return [pa.array(word) for word in interleaved(words)]


def interleaved(words: Sequence[Words]) -> Sequence[Words]:
    """The words with their bits interleaved, the most significant first."""
    if len(words) == 1:
        return words
    out = [np.empty(len(words[0]), np.uint64) for _ in words]
    for start in range(0, len(words[0]), _ROWS_AT_ONCE):
        piece = slice(start, start + _ROWS_AT_ONCE)
        each = [np.unpackbits(w[piece].astype(">u8").view(np.uint8).reshape(-1, _WORD_BYTES), axis=1) for w in words]
        rows = len(each[0])
        packed = np.packbits(np.stack(each, axis=2).reshape(rows, -1), axis=1)
        for i, column in enumerate(packed.view(">u8").reshape(rows, len(words)).T):
            out[i][piece] = column
    return out


def ordered_word(array: pa.Array, kind: PrimitiveType) -> Words:
    """8 bytes of each value, as numbers that have the values' order; 0 for null."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    match kind:
        case BooleanType():
            word = np.where(_filled(array, False), _SIGN, np.uint64(0))
        case FloatType() | DoubleType():
            word = _of_doubles(_filled(array.cast(pa.float64()), 0.0))
        case DecimalType(precision=precision):
            word = _of_longs(_unscaled(array, precision))
        case _ if isinstance(kind, _BYTES):
            word = _prefix(array)
        case _:
            word = _of_longs(
                _filled(array.view(pa.int32()) if array.type.bit_width == 32 else array.view(pa.int64()), 0)
            )
    if array.null_count:
        word[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return word


def _filled(array: pa.Array, value: object) -> npt.NDArray[np.generic]:
    filled: npt.NDArray[np.generic] = pc.fill_null(array, value).to_numpy(zero_copy_only=False)
    return filled


def _of_longs(values: npt.NDArray[np.generic]) -> Words:
    return values.astype(np.int64).view(np.uint64) ^ _SIGN


def _of_doubles(values: npt.NDArray[np.generic]) -> Words:
    """The bits of doubles, flipped for negative values, so that they sort as the doubles do; all NaN are one."""
    doubles = values.astype(np.float64)
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _unscaled(array: pa.Array, precision: int) -> npt.NDArray[np.int64]:
    """The unscaled values; of a large precision only the highest 64 of the bits that a value can have."""
    halves = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset :][: 2 * len(array)].reshape(-1, 2)
    low, high = halves[:, 0], halves[:, 1].view(np.int64)
    shift = max(0, (10**precision).bit_length() + 1 - 64)
    if not shift:
        return low.view(np.int64).copy()
    if shift == 64:
        return high.copy()
    return (high << np.int64(64 - shift)) | (low >> np.uint64(shift)).view(np.int64)


def _prefix(array: pa.Array) -> Words:
    """The first 8 bytes, with zeros behind shorter values."""
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    wide = array.cast(pa.large_binary())
    offsets = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + len(wide) + 1]
    data = np.frombuffer(wide.buffers()[2] or b"", np.uint8)
    word = np.zeros(len(wide), np.uint64)
    for i in range(_WORD_BYTES):
        at = offsets[:-1] + i
        there = at < offsets[1:]
        byte = np.zeros(len(wide), np.uint64)
        byte[there] = data[at[there]]
        word = (word << np.uint64(8)) | byte
    return word
