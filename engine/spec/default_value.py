"""Column defaults: plain Python values in the internal form of a type. Spec: Default values (T2, T9)."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, assert_never

from icecore.engine.errors import ValidationError
from icecore.engine.spec.single_value import (
    EPOCH,
    NS_PER_SECOND,
    US_PER_SECOND,
    decimal_to_unscaled,
    from_json,
    parse_timestamp,
    unscaled_to_decimal,
)
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
    Type,
    UnknownType,
    UUIDType,
    VariantType,
)

_MIDNIGHT = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def default_value(field_type: Type, value: Any) -> Any:
    """The internal value (see `single_value`) of a default that a person gave; None stays None.

    Takes Python's own values, ISO text for times and decimals, and internal values as they are. A struct's default is
    `{}` or None, since its fields have defaults of their own (T9). Raises ValidationError naming value and type.
    """
    if value is None:
        return None
    try:
        return _convert(field_type, value)
    except ValidationError:
        raise
    except (InvalidOperation, ValueError, TypeError, OverflowError) as e:
        raise _refusal(field_type, value) from e


def check_struct_default(field: NestedField) -> None:
    """Raises ValidationError where `{}` is the default of a struct with a required field that has none (T9)."""
    if not isinstance(field.field_type, StructType) or field.initial_default is None:
        return
    for f in field.field_type.fields:
        if f.required and f.initial_default is None:
            raise ValidationError(
                f"column {field.name!r} can't default to {{}}: its required field {f.name!r} has no default"
            )
        check_struct_default(f)


def _refusal(field_type: Type, value: Any) -> ValidationError:
    return ValidationError(f"{value!r} is not a default of type {field_type}")


def _convert(field_type: Type, value: Any) -> Any:
    match field_type:
        case IntegerType() | LongType():
            return _integer(field_type, value, field_type.min, field_type.max)
        case DecimalType():
            return _decimal(field_type, value)
        case DateType() | TimeType():
            return _date_or_time(field_type, value)
        case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
            return _timestamp(field_type, value)
        case BooleanType() | FloatType() | DoubleType() | StringType() | UUIDType() | FixedType() | BinaryType():
            return _plain(field_type, value)
        case UnknownType() | VariantType() | GeometryType() | GeographyType():
            raise ValidationError(f"a column of type {field_type} must default to null, found {value!r}")
        case StructType() | ListType() | MapType():
            return _nested(field_type, value)
        case _:
            assert_never(field_type)


def _plain(field_type: Type, value: Any) -> Any:
    match field_type:
        case BooleanType() if isinstance(value, bool):
            return value
        case FloatType() | DoubleType() if isinstance(value, (int, float)) and not isinstance(value, bool):
            if not math.isfinite(value):
                raise ValidationError(f"{value!r} can't be a default: JSON has no form of it")
            return float(value)
        case StringType() if isinstance(value, str):
            return value
        case UUIDType() if isinstance(value, (uuid.UUID, str)):
            return value if isinstance(value, uuid.UUID) else uuid.UUID(value)
        case FixedType(length=length) if isinstance(value, (bytes, bytearray)) and len(value) == length:
            return bytes(value)
        case BinaryType() if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        case _:
            raise _refusal(field_type, value)


def _nested(field_type: StructType | ListType | MapType, value: Any) -> Any:
    match field_type:
        case StructType():
            if value != {}:
                raise ValidationError(f"a struct defaults to {{}} or null, its fields have their own; found {value!r}")
            return {}
        case ListType(element=element) if isinstance(value, (list, tuple)):
            return [_item(element, v, field_type.element_required) for v in value]
        case MapType(key=key, value=item) if isinstance(value, (Mapping, list, tuple)):
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(_item(key, k, True), _item(item, v, field_type.value_required)) for k, v in pairs]
        case _:
            raise _refusal(field_type, value)


def _item(field_type: Type, value: Any, required: bool) -> Any:
    if value is None and required:
        raise ValidationError(f"null is not allowed in the default of a required {field_type}")
    return default_value(field_type, value)


def _integer(field_type: Type, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _refusal(field_type, value)
    return value


def _decimal(field_type: DecimalType, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (Decimal, int, float, str)):
        raise _refusal(field_type, value)
    number = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
    unscaled = decimal_to_unscaled(number, field_type.scale)
    if abs(unscaled) >= 10**field_type.precision:
        raise _refusal(field_type, value)
    return unscaled_to_decimal(unscaled, field_type.scale)


def _date_or_time(field_type: DateType | TimeType, value: Any) -> Any:
    if isinstance(value, str):
        return from_json(field_type, value)
    if isinstance(field_type, DateType):
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return (value - EPOCH).days
        return _integer(field_type, value, IntegerType.min, IntegerType.max)
    if isinstance(value, dt.time) and value.tzinfo is None:
        return (dt.datetime.combine(EPOCH, value) - _MIDNIGHT) // _MICROSECOND
    return _integer(field_type, value, 0, 86_400_000_000 - 1)


def _timestamp(
    field_type: TimestampType | TimestamptzType | TimestampNanoType | TimestamptzNanoType, value: Any
) -> Any:
    if isinstance(value, str):
        # A person may write any zone; only in JSON must it be UTC (MD9).
        zone = isinstance(field_type, (TimestamptzType, TimestamptzNanoType))
        nanos = isinstance(field_type, (TimestampNanoType, TimestamptzNanoType))
        return parse_timestamp(value, with_zone=zone, per_second=NS_PER_SECOND if nanos else US_PER_SECOND)
    if not isinstance(value, dt.datetime):
        return _integer(field_type, value, LongType.min, LongType.max)
    with_zone = isinstance(field_type, (TimestamptzType, TimestamptzNanoType))
    if with_zone != (value.utcoffset() is not None):
        raise ValidationError(f"{value!r} {'needs' if with_zone else 'must not have'} a zone for type {field_type}")
    start = _MIDNIGHT.replace(tzinfo=dt.UTC) if with_zone else _MIDNIGHT
    nanoseconds = isinstance(field_type, (TimestampNanoType, TimestamptzNanoType))
    micros = (value - start) // _MICROSECOND
    # A pandas Timestamp has nanoseconds, which its difference to a datetime has not.
    below = getattr(value, "nanosecond", 0)
    if below and not nanoseconds:
        raise ValidationError(f"{value!r} has nanoseconds, and {field_type} has none")
    return _integer(field_type, micros * 1000 + below if nanoseconds else micros, LongType.min, LongType.max)
