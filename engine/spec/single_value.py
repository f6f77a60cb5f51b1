"""Single values: their internal form, binary form and JSON form.

Spec: Appendix D (M9, MD9, T10). The internal form of a value is what the rest of the engine computes with:

    boolean bool · int, long int · float, double float · decimal Decimal · date int (days since 1970-01-01)
    time int (us since midnight) · timestamp, timestamptz int (us) · timestamp_ns, timestamptz_ns int (ns)
    string str · uuid uuid.UUID · fixed, binary, geometry, geography, variant bytes
    struct dict (field id -> value) · list list · map list of (key, value)

Integers rather than datetimes: bounds of real tables lie outside of what Python's datetime can hold.
"""

from __future__ import annotations

import datetime as dt
import re
import struct
import uuid
from decimal import Decimal, InvalidOperation
from typing import Any, assert_never

from icecore.engine.errors import ValidationError
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
    PrimitiveType,
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

EPOCH = dt.date(1970, 1, 1)
US_PER_SECOND = 1_000_000
US_PER_DAY = 86_400 * US_PER_SECOND
NS_PER_SECOND = 1_000_000_000

_INT, _LONG, _FLOAT, _DOUBLE = (struct.Struct(f) for f in ("<i", "<q", "<f", "<d"))


def decimal_to_unscaled(value: Decimal, scale: int) -> int:
    """The unscaled integer of a decimal at `scale`; raises ValidationError where digits would be lost."""
    sign, digits, exponent = value.as_tuple()
    # With a huge exponent the integer would take all memory.
    if not isinstance(exponent, int) or abs(exponent) > 1_000:
        raise ValidationError(f"{value} is not a finite decimal of a size that fits")
    unscaled = int("".join(map(str, digits)) or "0")
    shift = exponent + scale
    if shift >= 0:
        unscaled *= int(10**shift)
    else:
        unscaled, rest = divmod(unscaled, int(10 ** (-shift)))
        if rest:
            raise ValidationError(f"{value} has more than {scale} digits after the point")
    return -unscaled if sign else unscaled


def unscaled_to_decimal(unscaled: int, scale: int) -> Decimal:
    """The decimal of an unscaled integer at `scale`, exact at any precision."""
    return Decimal((1 if unscaled < 0 else 0, tuple(map(int, str(abs(unscaled)))), -scale))


def signed_big_endian(value: int) -> bytes:
    """Two's-complement big-endian bytes of the fewest possible length (at least one)."""
    length = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return value.to_bytes(length, "big", signed=True)


def decimal_size(precision: int) -> int:
    """The fewest bytes that hold every unscaled value of that many digits."""
    return int(10**precision - 1).bit_length() // 8 + 1


def partition_to_bytes(iceberg_type: PrimitiveType, value: Any) -> bytes:
    """The binary form of a partition value: as `to_bytes`, but a decimal may have one digit more than its type.

    Truncating the least values gives such decimals; they must fit into the fixed size that manifests have for the type.
    """
    if isinstance(iceberg_type, DecimalType) and isinstance(value, Decimal):
        data = signed_big_endian(decimal_to_unscaled(value, iceberg_type.scale))
        if len(data) <= decimal_size(iceberg_type.precision):
            return data
    return to_bytes(iceberg_type, value)


def to_bytes(iceberg_type: PrimitiveType, value: Any) -> bytes:
    """The binary single-value form of an internal value (Spec: Appendix D).

    Raises ValidationError where the value does not fit the type.
    """
    try:
        match iceberg_type:
            case BooleanType():
                return b"\x01" if value else b"\x00"
            case IntegerType() | DateType():
                return _INT.pack(value)
            case (
                LongType()
                | TimeType()
                | TimestampType()
                | TimestamptzType()
                | TimestampNanoType()
                | TimestamptzNanoType()
            ):
                return _LONG.pack(value)
            case FloatType():
                return _FLOAT.pack(value)
            case DoubleType():
                return _DOUBLE.pack(value)
            case DecimalType():
                return _decimal_to_bytes(iceberg_type, value)
            case StringType():
                return str(value).encode("utf-8", "surrogatepass")
            case UUIDType():
                return bytes(value.bytes)
            case FixedType() | BinaryType() | GeometryType() | GeographyType() | VariantType():
                return bytes(value)
            case UnknownType():
                raise ValidationError("a column of type unknown has no values")
            case _:
                assert_never(iceberg_type)
    except (struct.error, AttributeError, TypeError, OverflowError) as e:
        raise ValidationError(f"{value!r} is not a value of type {iceberg_type}: {e}") from e


def _decimal_to_bytes(iceberg_type: DecimalType, value: Decimal) -> bytes:
    unscaled = decimal_to_unscaled(value, iceberg_type.scale)
    if abs(unscaled) >= int(10**iceberg_type.precision):
        raise ValidationError(f"{value} has more than {iceberg_type.precision} digits, too many for {iceberg_type}")
    return signed_big_endian(unscaled)


def from_bytes(iceberg_type: PrimitiveType, data: bytes) -> Any:  # noqa: C901  # one case a type
    """The internal value of a binary single value.

    Values written before a promotion are told by their length (T10): four bytes under `long` are an int, under
    `double` a float, under a timestamp a date. Raises ValidationError where the bytes fit no reading.
    """
    try:
        match iceberg_type:
            case BooleanType():
                if len(data) != 1:
                    raise ValidationError(f"a boolean has one byte, found {len(data)}")
                return data != b"\x00"
            case IntegerType() | DateType():
                return _INT.unpack(data)[0]
            case LongType() | TimeType():
                return (_INT if len(data) == 4 else _LONG).unpack(data)[0]
            case TimestampType() | TimestamptzType():
                return _INT.unpack(data)[0] * US_PER_DAY if len(data) == 4 else _LONG.unpack(data)[0]
            case TimestampNanoType() | TimestamptzNanoType():
                return _INT.unpack(data)[0] * US_PER_DAY * 1000 if len(data) == 4 else _LONG.unpack(data)[0]
            case FloatType():
                return _FLOAT.unpack(data)[0]
            case DoubleType():
                return (_FLOAT if len(data) == 4 else _DOUBLE).unpack(data)[0]
            case DecimalType(scale=scale):
                if not data:
                    raise ValidationError("a decimal has at least one byte")
                return unscaled_to_decimal(int.from_bytes(data, "big", signed=True), scale)
            case StringType():
                return data.decode("utf-8")
            case UUIDType():
                return uuid.UUID(bytes=bytes(data))
            case FixedType() | BinaryType() | GeometryType() | GeographyType() | VariantType():
                return bytes(data)
            case UnknownType():
                return None
            case _:
                assert_never(iceberg_type)
    except (struct.error, ValueError) as e:
        raise ValidationError(f"{data!r} is not a binary value of type {iceberg_type}: {e}") from e


_DATE = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
_OFFSET = re.compile(r"(Z|[+-]\d\d(?::?\d\d)?)$", re.IGNORECASE)


def parse_date(text: str) -> int:
    """Days since 1970-01-01 of an ISO date; years of more than four digits and negative years too.

    Raises ValidationError.
    """
    m = _DATE.fullmatch(text)
    if not m:
        raise ValidationError(f"{text!r} is not a date (YYYY-MM-DD)")
    year, month, day = int(m[1]), int(m[2]), int(m[3])
    cycles, year_in_cycle = divmod(year - 1, 400)
    try:
        return (dt.date(year_in_cycle + 1, month, day) - EPOCH).days + cycles * 146_097
    except ValueError as e:
        raise ValidationError(f"{text!r} is not a date: {e}") from e


def format_date(days: int) -> str:
    """The ISO date of a number of days since 1970-01-01."""
    cycles, rest = divmod(days + 719_162, 146_097)
    d = dt.date.fromordinal(rest + 1)
    year = d.year + 400 * cycles
    text = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{text}-{d.month:02d}-{d.day:02d}"


def _parse_time(text: str, per_second: int) -> int:
    m = _TIME.fullmatch(text)
    if not m or int(m[1]) > 23 or int(m[2]) > 59 or int(m[3] or 0) > 59:
        raise ValidationError(f"{text!r} is not a time (HH:MM:SS.ffffff)")
    fraction = int((m[4] or "").ljust(9, "0"))
    divisor = NS_PER_SECOND // per_second
    if fraction % divisor:
        raise ValidationError(f"{text!r} is finer than the type's unit")
    return (int(m[1]) * 3600 + int(m[2]) * 60 + int(m[3] or 0)) * per_second + fraction // divisor


def _format_time(value: int, per_second: int) -> str:
    seconds, fraction = divmod(value, per_second)
    digits = len(str(per_second)) - 1
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:0{digits}d}"


def parse_timestamp(text: str, *, with_zone: bool, per_second: int = US_PER_SECOND) -> int:
    """Units since 1970-01-01T00:00 of an ISO timestamp; a zone is required or forbidden by `with_zone`.

    Raises ValidationError.
    """
    body = text.strip()
    day, sep, clock = body.replace(" ", "T", 1).partition("T")
    offset_seconds = 0
    if m := _OFFSET.search(clock):
        if not with_zone:
            raise ValidationError(f"{text!r} has a zone, a timestamp without zone was expected")
        clock = clock[: m.start()]
        if m[1].upper() != "Z":
            digits = m[1][1:].replace(":", "").ljust(4, "0")
            offset_seconds = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (1 if m[1][0] == "+" else -1)
    elif with_zone:
        raise ValidationError(f"{text!r} lacks a zone, a timestamp with zone was expected")
    days = parse_date(day)
    units = _parse_time(clock, per_second) if sep else 0
    return (days * 86_400 - offset_seconds) * per_second + units


def format_timestamp(value: int, *, with_zone: bool, per_second: int = US_PER_SECOND) -> str:
    """The ISO timestamp of units since 1970-01-01T00:00, with `+00:00` where the type has a zone."""
    days, rest = divmod(value, 86_400 * per_second)
    return f"{format_date(days)}T{_format_time(rest, per_second)}{'+00:00' if with_zone else ''}"


def to_json(iceberg_type: Type, value: Any) -> Any:
    """The JSON single-value form of an internal value; None stays None."""
    if value is None:
        return None
    match iceberg_type:
        case BooleanType() | IntegerType() | LongType() | FloatType() | DoubleType() | StringType():
            return value
        case DecimalType(scale=scale):
            return str(value) if scale < 0 else format(value, "f")
        case DateType():
            return format_date(value)
        case TimeType():
            return _format_time(value, US_PER_SECOND)
        case TimestampType() | TimestamptzType():
            return format_timestamp(value, with_zone=isinstance(iceberg_type, TimestamptzType))
        case TimestampNanoType() | TimestamptzNanoType():
            zone = isinstance(iceberg_type, TimestamptzNanoType)
            return format_timestamp(value, with_zone=zone, per_second=NS_PER_SECOND)
        case UUIDType():
            return str(value)
        case FixedType() | BinaryType() | VariantType() | GeometryType() | GeographyType():
            return bytes(value).hex()
        case UnknownType():
            return None
        case StructType() | ListType() | MapType():
            return _nested_to_json(iceberg_type, value)
        case _:
            assert_never(iceberg_type)


def _nested_to_json(iceberg_type: StructType | ListType | MapType, value: Any) -> Any:
    match iceberg_type:
        case StructType(fields=fields):
            return {str(f.field_id): to_json(f.field_type, value[f.field_id]) for f in fields if f.field_id in value}
        case ListType(element=element):
            return [to_json(element, v) for v in value]
        case MapType(key=key, value=item):
            return {"keys": [to_json(key, k) for k, _ in value], "values": [to_json(item, v) for _, v in value]}
        case _:
            assert_never(iceberg_type)


def _expect(condition: bool, iceberg_type: Type, value: Any) -> None:
    if not condition:
        raise ValidationError(f"{value!r} is not a JSON value of type {iceberg_type}")


def from_json(iceberg_type: Type, value: Any) -> Any:
    """The internal value of a JSON single value; None stays None. Raises ValidationError."""
    if value is None:
        return None
    try:
        return _from_json(iceberg_type, value)
    except (InvalidOperation, ValueError, AttributeError, TypeError, KeyError, OverflowError) as e:
        if isinstance(e, ValidationError):
            raise
        raise ValidationError(f"{value!r} is not a JSON value of type {iceberg_type}: {e}") from e


def _from_json(iceberg_type: Type, value: Any) -> Any:
    match iceberg_type:
        case BooleanType():
            _expect(isinstance(value, bool), iceberg_type, value)
            return value
        case IntegerType() | LongType():
            _expect(isinstance(value, int) and not isinstance(value, bool), iceberg_type, value)
            _expect(iceberg_type.min <= value <= iceberg_type.max, iceberg_type, value)
            return value
        case FloatType() | DoubleType():
            _expect(isinstance(value, (int, float)) and not isinstance(value, bool), iceberg_type, value)
            # Java writes only as many digits as identify a float, so the text must be rounded to a float, not a double.
            return _FLOAT.unpack(_FLOAT.pack(float(value)))[0] if isinstance(iceberg_type, FloatType) else float(value)
        case DecimalType() | DateType() | TimeType() | StringType():
            _expect(isinstance(value, str), iceberg_type, value)
            return _from_text(iceberg_type, value)
        case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
            zone = isinstance(iceberg_type, (TimestamptzType, TimestamptzNanoType))
            _expect(isinstance(value, str) and (not zone or _is_utc(value)), iceberg_type, value)
            in_us = isinstance(iceberg_type, (TimestampType, TimestamptzType))
            return parse_timestamp(value, with_zone=zone, per_second=US_PER_SECOND if in_us else NS_PER_SECOND)
        case UUIDType():
            return uuid.UUID(value)
        case FixedType() | BinaryType() | VariantType() | GeometryType() | GeographyType():
            data = bytes.fromhex(value)
            _expect(not isinstance(iceberg_type, FixedType) or len(data) == iceberg_type.length, iceberg_type, value)
            return data
        case UnknownType():
            raise ValidationError("a column of type unknown has no values")
        case StructType() | ListType() | MapType():
            return _nested_from_json(iceberg_type, value)
        case _:
            assert_never(iceberg_type)


def _from_text(iceberg_type: DecimalType | DateType | TimeType | StringType, value: str) -> Any:
    match iceberg_type:
        case DecimalType(scale=scale):
            return unscaled_to_decimal(decimal_to_unscaled(Decimal(value), scale), scale)
        case DateType():
            return parse_date(value)
        case TimeType():
            return _parse_time(value, US_PER_SECOND)
        case StringType():
            return value
        case _:
            assert_never(iceberg_type)


def _nested_from_json(iceberg_type: StructType | ListType | MapType, value: Any) -> Any:
    match iceberg_type:
        case StructType(fields=fields):
            _expect(isinstance(value, dict), iceberg_type, value)
            return {
                f.field_id: _or_none(f.field_type, value[str(f.field_id)]) for f in fields if str(f.field_id) in value
            }
        case ListType(element=element):
            _expect(isinstance(value, list), iceberg_type, value)
            return [_or_none(element, v) for v in value]
        case MapType(key=key, value=item):
            keys, values = value["keys"], value["values"]
            _expect(len(keys) == len(values), iceberg_type, value)
            return [(_or_none(key, k), _or_none(item, v)) for k, v in zip(keys, values, strict=True)]
        case _:
            assert_never(iceberg_type)


def _is_utc(text: str) -> bool:
    """Whether the text ends with UTC's offset, as a timestamp with zone must in JSON (MD9)."""
    return text.endswith(("+00:00", "-00:00", "+00", "Z", "z"))


def _or_none(iceberg_type: Type, value: Any) -> Any:
    return None if value is None else _from_json(iceberg_type, value)
