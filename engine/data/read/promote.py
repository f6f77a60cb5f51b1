"""Promotion of columns as files store them to the Arrow form of the expected type.

Spec: Schema Evolution, valid type promotions (T7), Appendix A.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.arrow.arrow_schema import is_binary_like, is_string_like, type_to_arrow
from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.spec.types import (
    TIMESTAMP_TYPES,
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
    UUIDType,
)

_EXTENSIONS = (pa.UuidType, pa.JsonType, pa.Bool8Type)


def check_readable(source: pa.DataType, target: PrimitiveType) -> bool:
    """Whether a file's column of an Arrow type can be read as an Iceberg type."""
    types = pa.types
    if types.is_dictionary(source):
        return check_readable(source.value_type, target)
    if types.is_null(source):
        return True
    if types.is_duration(source):
        # The file has plain 64-bit integers; only the Arrow schema beside them says that they are durations.
        return isinstance(target, LongType)
    if isinstance(source, pa.BaseExtensionType) and not isinstance(source, _EXTENSIONS):
        return check_readable(source.storage_type, target)
    return _holds_values(source, target)


def _holds_values(source: pa.DataType, target: PrimitiveType) -> bool:
    """Whether the values of a plain Arrow type are values of an Iceberg type, or can be promoted to it."""
    types = pa.types
    bytes_like = is_binary_like(source) or types.is_fixed_size_binary(source)
    match target:
        case BooleanType():
            return bool(types.is_boolean(source)) or isinstance(source, pa.Bool8Type)
        case IntegerType() | LongType():
            return bool(types.is_integer(source))
        case FloatType() | DoubleType():
            return bool(types.is_floating(source))
        case DecimalType(scale=scale):
            return bool(types.is_decimal(source)) and source.scale == scale
        case DateType():
            return bool(types.is_date(source)) or source == pa.int32()
        case TimeType():
            return bool(types.is_time(source)) or source == pa.int64()
        case TimestampType() | TimestampNanoType():
            return bool(types.is_timestamp(source) or types.is_date(source)) or source == pa.int64()
        case TimestamptzType() | TimestamptzNanoType():
            return bool(types.is_timestamp(source)) or source == pa.int64()
        case StringType() | BinaryType():
            return is_string_like(source) or bytes_like or isinstance(source, pa.JsonType)
        case UUIDType():
            return isinstance(source, pa.UuidType) or bytes_like
        case FixedType() | GeometryType() | GeographyType():
            return bytes_like
        case _:
            return False


def promoted(array: pa.Array, target: PrimitiveType, where: str) -> pa.Array:
    """The array in the Arrow form of the expected type; `where` names file and column in the CorruptFileError.

    Text is checked to be UTF-8 and decimals to have no digit too many: decoders let both through.
    """
    out = _promoted(array, target, where)
    if isinstance(target, (StringType, DecimalType)):
        try:
            out.validate(full=True)
        except pa.ArrowException as e:
            raise CorruptFileError(f"{where}: the values are not of type {target}: {e}") from e
    return out


def _promoted(array: pa.Array, target: PrimitiveType, where: str) -> pa.Array:
    arrow_type = type_to_arrow(target, with_ids=False)
    if array.type == arrow_type:
        return array
    try:
        if pa.types.is_dictionary(array.type):
            return _promoted(array.dictionary_decode(), target, where)
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        if isinstance(target, TIMESTAMP_TYPES) and not pa.types.is_date(array.type):
            return _timestamp(array, arrow_type)
        if isinstance(target, TIMESTAMP_TYPES):
            return array.cast(pa.timestamp("s")).cast(arrow_type)
        if isinstance(target, UUIDType):
            return array.cast(pa.binary(16)).cast(arrow_type)
        if isinstance(target, BinaryType) and pa.types.is_fixed_size_binary(array.type):
            return array.cast(pa.binary())
        return to_floating(array, arrow_type) if isinstance(target, FloatType) else array.cast(arrow_type)
    except (pa.ArrowException, ValidationError) as e:
        raise CorruptFileError(f"{where}: {array.type} can't be read as {target}: {e}") from e


def to_floating(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Numbers as floats or doubles of the same value. Raises ValidationError, or Arrow's error, where there is none.

    Arrow's safe cast checks integers but not doubles that a float can't hold.
    """
    out = array.cast(target)
    if pa.types.is_floating(array.type) and array.type.bit_width > target.bit_width:
        same = pc.or_(pc.equal(out.cast(array.type), array), pc.is_nan(array))
        if not pc.all(same, min_count=0).as_py():
            raise ValidationError(f"{pc.filter(array, pc.invert(same))[0].as_py()!r} is not a float of 32 bits")
    return out


def _timestamp(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    """The timestamps in another unit, with or without a zone; a zone is added or dropped without shifting instants."""
    if pa.types.is_integer(array.type):
        return array.cast(target)
    if array.type.unit == "ns" and target.unit == "us":
        array = pc.floor_temporal(array, unit="microsecond") if array.null_count < len(array) else array
    plain = array.cast(pa.int64()).cast(pa.timestamp(array.type.unit))
    return plain.cast(pa.timestamp(target.unit)).cast(pa.int64()).cast(target)
