"""Partition and sort transforms over Arrow arrays; each value is transformed as by `Transform.apply`.

Spec: Partition Transforms, Appendix B (PT3 to PT6).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.arrow.arrow_schema import type_to_arrow
from icecore.engine.data.arrow.murmur3 import hash_each, hash_longs
from icecore.engine.errors import ValidationError
from icecore.engine.formats.arrays import Longs
from icecore.engine.spec.single_value import US_PER_DAY, decimal_size, signed_big_endian, unscaled_to_decimal
from icecore.engine.spec.transform import (
    INT_MAX,
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
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

_NANOS = (TimestampNanoType, TimestamptzNanoType)
_US_PER_HOUR = 3_600_000_000
_INTEGERS = {32: np.int32, 64: np.int64}


def apply_transform(
    transform: Transform, source: PrimitiveType, array: pa.Array | pa.ChunkedArray, *, for_order: bool = False
) -> pa.Array:
    """The transformed values, in the Arrow form of the transform's result type; null stays null.

    `array` has the Arrow form of `source`. The least values truncate to below the type's range: int and long wrap
    around, as in Java, and decimals get one digit more, for which a manifest may have room. With `for_order` they stop
    at the end of the range instead, so that the order stays. Raises ValidationError where the transform is unknown,
    isn't defined for the type, or, naming the value, a result can't be written.
    """
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    if isinstance(transform, UnknownTransform) or not transform.can_transform(source):
        raise ValidationError(f"{transform} can't be applied to {source}")
    result = type_to_arrow(transform.result_type(source))
    match transform:
        case IdentityTransform():
            return array
        case VoidTransform():
            return pa.nulls(len(array), result)
        case BucketTransform(num_buckets=buckets):
            return _bucket(source, array, buckets)
        case TruncateTransform(width=width):
            return _truncate(source, array, width, for_order)
        case YearTransform():
            return _calendar(source, array, "Y").cast(result)
        case MonthTransform():
            return _calendar(source, array, "M").cast(result)
        case DayTransform():
            return _checked(_days(source, array), array, transform).cast(result)
        case HourTransform():
            return _checked(_longs(array) // (_US_PER_HOUR * _scale(source)), array, transform)
        case _:
            raise ValidationError(f"{transform} can't be applied to {source}")


def _longs(array: pa.Array) -> Longs:
    """The integers behind an array, zero where null."""
    narrow = pa.int32() if array.type.bit_width == 32 else pa.int64()
    integers = array.cast(narrow) if pa.types.is_integer(array.type) else array.view(narrow)
    return np.asarray(pc.fill_null(integers, 0)).astype(np.int64, copy=False)


def _with_nulls(values: npt.NDArray[Any], like: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    return pa.array(values, arrow_type, mask=np.asarray(like.is_null()) if like.null_count else None)


def _checked(values: Longs, like: pa.Array, transform: Transform) -> pa.Array:
    if len(values) and (values.min() < -INT_MAX - 1 or values.max() > INT_MAX):
        wrong = values[(values < -INT_MAX - 1) | (values > INT_MAX)][0]
        raise ValidationError(f"{transform} gives {wrong}, which is outside of the range of int")
    return _with_nulls(values.astype(np.int32), like, pa.int32())


def _scale(source: PrimitiveType) -> int:
    return 1000 if isinstance(source, _NANOS) else 1


def _days(source: PrimitiveType, array: pa.Array) -> Longs:
    values = _longs(array)
    return values if isinstance(source, DateType) else values // (US_PER_DAY * _scale(source))


def _calendar(source: PrimitiveType, array: pa.Array, unit: str) -> pa.Array:
    units = _days(source, array).astype("datetime64[D]").astype(f"datetime64[{unit}]").astype(np.int64)
    return _with_nulls(units.astype(np.int32), array, pa.int32())


def _bucket(source: PrimitiveType, array: pa.Array, buckets: int) -> pa.Array:
    valid = array.drop_null()
    match source:
        case IntegerType() | LongType() | DateType() | TimeType() | TimestampType() | TimestamptzType():
            hashes = hash_longs(_longs(valid))
        case TimestampNanoType() | TimestamptzNanoType():
            hashes = hash_longs(_longs(valid) // 1000)
        case DecimalType():
            hashes = hash_each([signed_big_endian(v) for v in unscaled(valid)])
        case UUIDType():
            hashes = hash_each(valid.storage.to_pylist())
        case StringType() | BinaryType() | FixedType():
            hashes = hash_each(valid.to_pylist())
        case _:
            raise ValidationError(f"bucket is not defined for type {source}")
    out = np.zeros(len(array), dtype=np.int32)
    out[np.asarray(array.is_valid())] = (hashes & np.int32(INT_MAX)) % np.int32(buckets)
    return _with_nulls(out, array, pa.int32())


def _truncate(source: PrimitiveType, array: pa.Array, width: int, for_order: bool) -> pa.Array:
    match source:
        case IntegerType() | LongType():
            values = _longs(array)
            rest = values % width
            truncated = values - rest
            if for_order:
                truncated = np.where(values < source.min + rest, source.min, truncated)
            return _with_nulls(truncated.astype(_INTEGERS[array.type.bit_width]), array, array.type)
        case DecimalType(precision=precision):
            whole = unscaled(array.fill_null(0) if array.null_count else array)
            units = [v - v % width for v in whole]
            least = -(10**precision) if for_order else -(1 << (8 * decimal_size(precision) - 1))
            if units and min(units) < least:
                if not for_order:
                    wrong = next(v for v, u in zip(whole, units, strict=True) if u < least)
                    raise _unwritable(width, source, wrong)
                units = [max(u, least) for u in units]
            return decimals(units, array)
        case StringType():
            return pc.utf8_slice_codeunits(array, 0, width)
        case BinaryType():
            return pc.binary_slice(array, 0, width)
        case _:
            raise ValidationError(f"truncate is not defined for type {source}")


def _unwritable(width: int, source: DecimalType, value: int) -> ValidationError:
    return ValidationError(
        f"truncate[{width}] of {unscaled_to_decimal(value, source.scale)} is below the range of {source}, and "
        f"manifests have {decimal_size(source.precision)} bytes for it"
    )


def unscaled(array: pa.Array) -> list[int]:
    """The unscaled integers of a decimal128 array without nulls."""
    if not len(array):
        return []
    words = np.frombuffer(array.buffers()[1], dtype="<i8").reshape(-1, 2)[array.offset : array.offset + len(array)]
    low, high = words[:, 0], words[:, 1]
    if np.array_equal(low >> 63, high):
        return [int(v) for v in low.tolist()]
    return [(h << 64) | (v & 0xFFFFFFFFFFFFFFFF) for v, h in zip(low.tolist(), high.tolist(), strict=True)]


def decimals(values: list[int], like: pa.Array) -> pa.Array:
    """A decimal128 array of unscaled integers with the type and nulls of `like`."""
    data = b"".join(v.to_bytes(16, "little", signed=True) for v in values)
    out = pa.Array.from_buffers(like.type, len(values), [None, pa.py_buffer(data)])
    if not like.null_count:
        return out
    return pc.if_else(like.is_valid(), out, pa.nulls(len(values), like.type))
