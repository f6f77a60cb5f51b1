"""Columns of binary single values as typed Arrow columns, and back into bytes that are equal where the values are.

Spec: Appendix D, Binary single-value serialization (M9, T10). Typed columns hold the numbers as they are in the bytes:
days for date, microseconds or nanoseconds for times and timestamps; uuid, fixed, geometry and the like stay binary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from icecore.engine.formats import arrays
from icecore.engine.formats.arrays import Mask
from icecore.engine.formats.binary_columns import (
    Bytes,
    Ints,
    Places,
    from_matrix,
    from_suffixes,
    gather,
    little_endian,
    minimal_lengths,
    to_arrays,
    validity,
)
from icecore.engine.spec.single_value import US_PER_DAY, decimal_size
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

_DECIMAL_BYTES = 16
_INT64_DIGITS = 18


def arrow_type(iceberg_type: PrimitiveType) -> pa.DataType:
    """The Arrow type of a typed column."""
    match iceberg_type:
        case BooleanType():
            return pa.bool_()
        case IntegerType() | DateType():
            return pa.int32()
        case (
            LongType() | TimeType() | TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType()
        ):
            return pa.int64()
        case FloatType():
            return pa.float32()
        case DoubleType():
            return pa.float64()
        case DecimalType(precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case StringType():
            return pa.string()
        case UUIDType() | FixedType() | BinaryType() | GeometryType() | GeographyType() | VariantType() | UnknownType():
            return pa.binary()
        case _:
            assert_never(iceberg_type)


def typed_values(
    iceberg_type: PrimitiveType,
    values: pa.BinaryArray,
    places: Places | None = None,
    *,
    nan_is_null: bool = False,
    is_partition: bool = False,
) -> pa.Array:
    """The typed column of binary single values; a value whose bytes fit no reading of the type is null.

    With `places` the column takes its values from those places of `values`. Values from before a promotion are told by
    their length (T10). `nan_is_null` is for bounds, which must not be NaN (M5). With `is_partition` a decimal may have
    one digit more than its type, as truncating the least values gives.
    """
    if (readings := _readings(iceberg_type)) is not None:
        places = places or Places(np.arange(len(values)), None, len(values))
        return _number_column(iceberg_type, readings, values, places, nan_is_null)
    values = values if places is None else places.take(values)
    match iceberg_type:
        case StringType():
            return _strings(values)
        case DecimalType(precision=precision, scale=scale):
            return _decimals(values, precision, scale, is_partition)
        case UUIDType():
            return _of_length(values, 16)
        case UnknownType():
            return pa.nulls(len(values), pa.binary())
        case _:
            return values


def identity_bytes(typed: pa.Array) -> pa.BinaryArray:
    """Bytes of typed values that are equal exactly where the values are the same one; null stays null.

    NaNs of all kinds are one value, -0.0 and 0.0 are two (SP5).
    """
    kind = typed.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return typed.cast(pa.binary())
    valid: Mask = arrays.to_mask(typed.is_valid())
    if pa.types.is_decimal(kind):
        rows = decimal_rows(typed)
        rows[~valid] = 0
        return from_suffixes(rows, np.where(valid, minimal_lengths(rows), 0), valid)
    if pa.types.is_boolean(kind):
        typed = typed.cast(pa.uint8())
    numbers = arrays.to_numbers(typed.fill_null(0))
    if numbers.dtype.kind == "f":
        numbers = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)
    return from_matrix(little_endian(numbers), valid)


def decimal_rows(column: pa.Array) -> Bytes:
    """The unscaled values of a decimal column, sixteen bytes each, most significant first; anything where null."""
    data = np.frombuffer(column.buffers()[1], np.uint8)
    start = column.offset * _DECIMAL_BYTES
    rows = data[start : start + len(column) * _DECIMAL_BYTES].reshape(len(column), _DECIMAL_BYTES)
    return np.ascontiguousarray(rows[:, ::-1])


@frozen
class _Readings:
    """The numpy type of a column's numbers, and for each length of stored bytes their type and a factor."""

    kept: str
    by_length: Mapping[int, tuple[str, int]]


def _readings(iceberg_type: PrimitiveType) -> _Readings | None:
    """The ways to read the numbers of a type; None for a type whose values are no numbers, or have no fixed length."""
    match iceberg_type:
        case BooleanType():
            return _Readings("u1", {1: ("u1", 1)})
        case IntegerType() | DateType():
            return _Readings("<i4", {4: ("<i4", 1)})
        case LongType() | TimeType():
            return _Readings("<i8", {8: ("<i8", 1), 4: ("<i4", 1)})
        case TimestampType() | TimestamptzType():
            return _Readings("<i8", {8: ("<i8", 1), 4: ("<i4", US_PER_DAY)})
        case TimestampNanoType() | TimestamptzNanoType():
            return _Readings("<i8", {8: ("<i8", 1), 4: ("<i4", US_PER_DAY * 1000)})
        case FloatType():
            return _Readings("<f4", {4: ("<f4", 1)})
        case DoubleType():
            return _Readings("<f8", {8: ("<f8", 1), 4: ("<f4", 1)})
        case _:
            return None


def _number_column(
    iceberg_type: PrimitiveType, readings: _Readings, values: pa.BinaryArray, places: Places, nan_is_null: bool
) -> pa.Array:
    found, fits = _numbers(values, places.index, readings)
    if nan_is_null and found.dtype.kind == "f":
        fits &= ~np.isnan(found)
    if values.null_count:
        fits &= arrays.to_mask(values.is_valid())[places.index]
    if places.rows is None:
        numbers, valid = found, fits
    else:
        numbers, valid = np.zeros(places.count, found.dtype), np.zeros(places.count, np.bool_)
        numbers[places.rows], valid[places.rows] = found, fits
    if isinstance(iceberg_type, BooleanType):
        return arrays.booleans(numbers != 0, missing=~valid)
    numbers = numbers if valid.all() else np.where(valid, numbers, 0)
    return pa.Array.from_buffers(arrow_type(iceberg_type), len(numbers), [validity(valid), pa.py_buffer(numbers)])


def _numbers(values: pa.BinaryArray, positions: Ints | slice, readings: _Readings) -> tuple[npt.NDArray[Any], Mask]:
    """The numbers at positions, zero if no reading fits the length, and a mask of those that fit; both are new."""
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, values.offset * 4)
    starts = ends[positions].astype(np.int64)
    lengths = ends[1:][positions] - starts
    found = np.zeros(len(starts), readings.kept)
    fits = np.zeros(len(starts), np.bool_)
    for length, (dtype, factor) in readings.by_length.items():
        those = lengths == length
        if not those.any():
            continue
        # Mostly it is all of them, and none need be picked out.
        chosen = slice(None) if those.all() else those
        numbers = gather(np.frombuffer(data, np.uint8), starts[chosen], length).view(dtype)[:, 0]
        if factor == 1:
            fits[chosen] = True
        else:
            numbers = numbers.astype(np.int64)
            fits[chosen] = fitting = np.abs(numbers) <= np.iinfo(np.int64).max // factor
            numbers = np.where(fitting, numbers, 0) * factor
        found[chosen] = numbers
    return found, fits


def _strings(values: pa.BinaryArray) -> pa.StringArray:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(v) for v in values.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _of_length(values: pa.BinaryArray, length: int) -> pa.BinaryArray:
    offsets, _ = to_arrays(values)
    wrong = arrays.to_mask(values.is_valid()) & (np.diff(offsets) != length)
    return values.take(arrays.numbers(np.arange(len(values)), missing=wrong)) if wrong.any() else values


def _decimals(values: pa.BinaryArray, precision: int, scale: int, is_partition: bool) -> pa.Array:
    offsets, data = to_arrays(values)
    lengths = np.diff(offsets)
    valid: Mask = arrays.to_mask(values.is_valid()) & (lengths > 0) & (lengths <= _DECIMAL_BYTES)
    # Written from the right into sixteen bytes, most significant first, with the sign repeated to the left.
    rows = np.zeros((len(values), _DECIMAL_BYTES), np.uint8)
    for length in np.flatnonzero(np.bincount(lengths[valid])):
        chosen = valid & (lengths == length)
        numbers = gather(data, offsets[:-1][chosen], int(length))
        rows[chosen, _DECIMAL_BYTES - length :] = numbers
        rows[chosen, : _DECIMAL_BYTES - length] = np.where(numbers[:, :1] & 0x80, 0xFF, 0)
    valid &= minimal_lengths(rows) <= decimal_size(precision) if is_partition else _within(rows, precision)
    rows[~valid] = 0
    high, low = rows.view(">u8").astype("<u8").T
    buffers = [validity(valid), pa.py_buffer(np.column_stack([low, high]))]
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(values), buffers)


def _within(rows: Bytes, precision: int) -> Mask:
    """A mask of the numbers, sixteen bytes each, that have at most that many digits."""
    limit = 10**precision
    if precision <= _INT64_DIGITS:
        high, low = rows.view(">i8").astype("<i8").T
        small: Mask = (high == low >> 63) & (low > -limit) & (low < limit)
        return small
    fits: Mask = minimal_lengths(rows) < decimal_size(precision)
    for i in np.flatnonzero(~fits):
        fits[i] = abs(int.from_bytes(rows[i].tobytes(), "big", signed=True)) < limit
    return fits
