"""Literals as positions among the values of a column's type.

A literal need not be a value of the type: an int column may be compared with 5.5, a date with a timestamp, a decimal
with a double. What matters is which values stand below, at and above it; a `Slot` says that exactly, so that a
comparison with the literal becomes one with a value of the type and selects the same rows.

How numbers compare, as in DuckDB: whole numbers and decimals exactly among themselves; with a double or float literal
as doubles or floats; a float column with a whole or decimal literal, or a plain Python float, as floats (PyIceberg and
Java round the literal too); a float column with a double literal as doubles. NaN stands above all numbers.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn, assert_never

from attrs import frozen

from icecore.engine.errors import ExpressionError, ValidationError
from icecore.engine.expression.nodes import TypedValue
from icecore.engine.expression.temporal import (
    date_of,
    datetime_of,
    parse_date_text,
    parse_time_text,
    parse_timestamp_text,
    time_of,
)
from icecore.engine.spec import single_value
from icecore.engine.spec.single_value import US_PER_DAY, unscaled_to_decimal
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

NS_PER_DAY = US_PER_DAY * 1000


@frozen
class Slot:
    """The place of a literal: `ceiling` is the least value not below it, `floor` the greatest value not above it.

    They are None if there is no such value. If exactly one value equals the literal, both are that value. If several
    values do (as doubles, say), the ceiling is below the floor; if none does, above it. `least` and `greatest` are the
    limits of the type, None where it has none. `nan` is the literal NaN on a floating column.
    """

    ceiling: Any
    floor: Any
    least: Any = None
    greatest: Any = None
    nan: bool = False

    @property
    def is_value(self) -> bool:
        """Whether exactly one value of the type equals the literal."""
        return not self.nan and self.ceiling is not None and bool(self.ceiling == self.floor)

    @property
    def is_between(self) -> bool:
        """Whether no value of the type equals the literal."""
        return not self.nan and (self.ceiling is None or self.floor is None or bool(self.ceiling > self.floor))


def slot_of(column_type: PrimitiveType, literal: Any) -> Slot:
    """The slot of a literal other than None among the values of a type.

    Raises ExpressionError where a literal of its type can't be compared with the column's.
    """
    try:
        return _slot(column_type, literal)
    except ExpressionError:
        raise
    except InvalidOperation as e:
        raise ExpressionError(f"{_show(literal)} can't be compared with {column_type}: it is not a number") from e
    except (ValidationError, ValueError, OverflowError) as e:
        raise ExpressionError(f"{_show(literal)} can't be compared with {column_type}: {e}") from e


def _slot(column_type: PrimitiveType, literal: Any) -> Slot:  # noqa: C901  # one case a type
    value = literal.value if isinstance(literal, TypedValue) else literal
    match column_type:
        case IntegerType() | LongType():
            return _ranged(_scaled(literal, column_type, 0), column_type.min, column_type.max, _same)
        case DecimalType(precision=precision, scale=scale):
            limit = 10**precision - 1
            return _ranged(_scaled(literal, column_type, scale), -limit, limit, lambda u: unscaled_to_decimal(u, scale))
        case FloatType() | DoubleType():
            return _floating(literal, column_type)
        case DateType():
            return _ranged(_over(nanoseconds(literal, column_type), NS_PER_DAY), -(2**31), 2**31 - 1, _same)
        case TimestampType() | TimestamptzType():
            return _ranged(_over(nanoseconds(literal, column_type), 1000), LongType.min, LongType.max, _same)
        case TimestampNanoType() | TimestamptzNanoType():
            return _ranged(_over(nanoseconds(literal, column_type), 1), LongType.min, LongType.max, _same)
        case TimeType():
            return _exact(_time(literal, column_type))
        case BooleanType():
            return _exact(_boolean(literal, column_type))
        case StringType():
            return _exact(text_of(value) if isinstance(value, str) else _refuse(literal, column_type))
        case UUIDType():
            return _exact(_uuid(value, column_type))
        case FixedType() | BinaryType():
            return _exact(_bytes(value, column_type))
        case UnknownType() | VariantType() | GeometryType() | GeographyType():
            raise ExpressionError(f"{_show(literal)} can't be compared with {column_type}")
        case _:
            assert_never(column_type)


def _show(literal: Any) -> str:
    if isinstance(literal, TypedValue):
        return f"the {literal.type} {single_value.to_json(literal.type, literal.value)!r}"
    text = repr(literal)
    return f"the {type(literal).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def _refuse(literal: Any, column_type: PrimitiveType) -> NoReturn:
    raise ExpressionError(f"{_show(literal)} can't be compared with {column_type}")


def _same(value: int) -> int:
    return value


def _exact(value: Any) -> Slot:
    return Slot(value, value)


Bounds = tuple[int | None, int | None]
"""The least integer not below a literal and the greatest not above it; None where there is no such integer."""


def _ranged(bounds: Bounds, least: int, greatest: int, value: Callable[[int], Any]) -> Slot:
    ceiling, floor = bounds
    return Slot(
        None if ceiling is None or ceiling > greatest else value(max(ceiling, least)),
        None if floor is None or floor < least else value(min(floor, greatest)),
        value(least),
        value(greatest),
    )


def _over(value: int, unit: int) -> Bounds:
    return -(-value // unit), value // unit


def _scaled(literal: Any, column_type: PrimitiveType, scale: int) -> Bounds:
    """The bounds of a number in units of 10^-scale."""
    match literal:
        case TypedValue(type=FloatType() | DoubleType() as kind, value=float(number)):
            return _beside(number, scale, single if isinstance(kind, FloatType) else float)
        case float():
            return _beside(literal, scale, float)
        case TypedValue(type=IntegerType() | LongType() | DecimalType(), value=number):
            return _scaled(number, column_type, scale)
        case bool():
            return _refuse(literal, column_type)
        case int():
            return (literal * 10**scale,) * 2
        case Decimal():
            return _scaled_decimal(literal, scale)
        case str():
            ceiling, floor = _scaled_decimal(Decimal(literal.strip()), scale)
            if ceiling != floor:
                raise ExpressionError(
                    f"{_show(literal)} has more digits than {column_type}: write it as a number to compare exactly"
                )
            return ceiling, floor
        case _:
            return _refuse(literal, column_type)


def _scaled_decimal(value: Decimal, scale: int) -> Bounds:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        if value.is_infinite():
            return (-(10**100),) * 2 if sign else (10**100,) * 2
        raise ExpressionError(f"{value} is not a number that can be compared exactly")
    if value and value.adjusted() > 100:
        return (-(10**100),) * 2 if sign else (10**100,) * 2
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    shift = exponent + scale
    if shift >= 0 or not unscaled:
        return (unscaled * 10 ** max(shift, 0),) * 2
    # Any value so small stands between zero and the first unit.
    return _over(unscaled, 10 ** min(-shift, len(digits) + 1))


def _beside(number: float, scale: int, convert: Callable[[Any], float]) -> Bounds:
    """The integers u where u / 10^scale, rounded to a float, is not below and not above the number."""
    if math.isnan(number):
        return None, 10**100
    if math.isinf(number):
        return (None, 10**100) if number > 0 else (-(10**100), None)

    def as_float(unscaled: int) -> float:
        return convert(unscaled_to_decimal(unscaled, scale) if scale else unscaled)

    numerator, denominator = number.as_integer_ratio()
    near = numerator * 10**scale // denominator
    # Integers that round to the number are within an ulp of it; that of a 32-bit float is at most a 2^-23rd of it.
    reach = (abs(near) >> 20) + 2
    low, high = near - reach, near + reach
    return (
        _first(lambda u: as_float(u) >= number, low, high),
        -_first(lambda u: as_float(-u) <= number, -high, -low),
    )


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The least integer in a range that meets a condition, which all greater integers must then meet too."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def single(value: Any) -> float:
    """The nearest 32-bit float; beyond the greatest, infinity."""
    number = _double(value)
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _floating(literal: Any, column_type: FloatType | DoubleType) -> Slot:
    is_single = isinstance(column_type, FloatType)
    match literal:
        case TypedValue(type=FloatType() | DoubleType(), value=float(number)):
            nearest = single(number) if is_single else number
        case TypedValue(type=IntegerType() | LongType() | DecimalType(), value=inner):
            return _floating(inner, column_type)
        case bool():
            return _refuse(literal, column_type)
        case int() | float() | Decimal():
            number = nearest = single(literal) if is_single else _double(literal)
        case str():
            number = nearest = single(literal) if is_single else _double(literal)
        case _:
            return _refuse(literal, column_type)
    if math.isnan(number):
        return Slot(None, None, nan=True)
    ceiling = nearest if nearest >= number else next_single(nearest, math.inf)
    floor = nearest if nearest <= number else next_single(nearest, -math.inf)
    # NaN is above all numbers, so there is a least value and no greatest number to name.
    return Slot(ceiling + 0.0, floor + 0.0, least=-math.inf)


def next_single(value: float, towards: float) -> float:
    """The 32-bit float next to `value`, up or down in the direction of `towards`."""
    if value == towards:
        return value
    if value == 0:
        return math.copysign(2.0**-149, towards)
    if math.isinf(value):
        return math.copysign(float(2**128 - 2**104), value)
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    bits += 1 if (towards > value) == (value > 0) else -1
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


_ZONED = (TimestamptzType, TimestamptzNanoType)
_NANO = (TimestampNanoType, TimestamptzNanoType)


def nanoseconds(literal: Any, column_type: PrimitiveType) -> int:
    """A date or timestamp literal as nanoseconds since 1970; raises ExpressionError for any other."""
    match literal:
        case TypedValue(type=DateType(), value=days):
            return int(days) * NS_PER_DAY
        case TypedValue(type=TimestampType() | TimestamptzType(), value=us):
            return int(us) * 1000
        case TypedValue(type=TimestampNanoType() | TimestamptzNanoType(), value=ns):
            return int(ns)
        case dt.datetime():
            return datetime_of(literal) * 1000
        case dt.date():
            return date_of(literal) * NS_PER_DAY
        case str() if isinstance(column_type, DateType):
            return parse_date_text(literal) * NS_PER_DAY
        case str():
            nano = isinstance(column_type, _NANO)
            value = parse_timestamp_text(literal, zoned=isinstance(column_type, _ZONED), nano=nano)
            return value if nano else value * 1000
        case _:
            return _refuse(literal, column_type)


def _time(literal: Any, column_type: PrimitiveType) -> int:
    match literal:
        case TypedValue(type=TimeType(), value=us):
            return int(us)
        case dt.time():
            return time_of(literal)
        case str():
            return parse_time_text(literal)
        case _:
            return _refuse(literal, column_type)


def _boolean(literal: Any, column_type: PrimitiveType) -> bool:
    value = literal.value if isinstance(literal, TypedValue) else literal
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    return value if isinstance(value, bool) else bool(_refuse(literal, column_type))


def text_of(value: str) -> str:
    """The string; raises ExpressionError where UTF-8 can't hold it."""
    try:
        value.encode()
    except UnicodeEncodeError as e:
        raise ExpressionError(f"{value!r} is not text: half of a surrogate pair stands alone") from e
    return value


def _uuid(value: Any, column_type: PrimitiveType) -> uuid.UUID:
    match value:
        case uuid.UUID():
            return value
        case str():
            return uuid.UUID(value.strip())
        case bytes() if len(value) == 16:
            return uuid.UUID(bytes=value)
        case _:
            return _refuse(value, column_type)


def _bytes(value: Any, column_type: FixedType | BinaryType) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        _refuse(value, column_type)
    data = bytes(value)
    if isinstance(column_type, FixedType) and len(data) != column_type.length:
        raise ExpressionError(f"{_show(data)} has {len(data)} bytes, {column_type} has {column_type.length}")
    return data
