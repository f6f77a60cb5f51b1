"""Partition and sort transforms.

Spec: Partition Transforms, Appendix B (PT3 to PT6). Values go in and out in the internal form of `single_value`.
"""

from __future__ import annotations

import re
import uuid
from decimal import Decimal
from typing import Any, ClassVar
from urllib.parse import quote_plus

import mmh3
from attrs import frozen

from icecore.engine.errors import ValidationError
from icecore.engine.spec import single_value
from icecore.engine.spec.single_value import US_PER_DAY, decimal_to_unscaled, signed_big_endian, unscaled_to_decimal
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
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
    Type,
    UnknownType,
    UUIDType,
    VariantType,
)

INT_MAX = 2**31 - 1
_MICRO_TIMESTAMPS = (TimestampType, TimestamptzType)
_NANO_TIMESTAMPS = (TimestampNanoType, TimestamptzNanoType)
_DATES = (DateType, *_MICRO_TIMESTAMPS, *_NANO_TIMESTAMPS)


@frozen
class Transform:
    """The base of all transforms.

    `preserves_order`: a <= b implies transform(a) <= transform(b).
    """

    preserves_order: ClassVar[bool] = False

    def can_transform(self, source: Type) -> bool:
        """Whether the transform applies to a source column of that type."""
        raise NotImplementedError  # each transform's own

    def result_type(self, source: PrimitiveType) -> PrimitiveType:
        """The type of the transformed values."""
        raise NotImplementedError  # each transform's own

    def apply(self, source: PrimitiveType, value: Any) -> Any:
        """The transformed value; null stays null."""
        raise NotImplementedError  # each transform's own


@frozen
class IdentityTransform(Transform):
    """`identity`: the value as it is."""

    preserves_order = True

    def can_transform(self, source: Type) -> bool:
        return source.is_primitive and not isinstance(source, (GeometryType, GeographyType, VariantType, UnknownType))

    def result_type(self, source: PrimitiveType) -> PrimitiveType:
        return source

    def apply(self, source: PrimitiveType, value: Any) -> Any:
        return value

    def __str__(self) -> str:
        return "identity"


@frozen
class BucketTransform(Transform):
    """`bucket[N]`: the hash of the value modulo the number of buckets.

    Raises ValidationError for a number that is no positive int.
    """

    num_buckets: int

    def __attrs_post_init__(self) -> None:
        if not 0 < self.num_buckets <= INT_MAX:
            raise ValidationError(f"the number of buckets must be 1 to {INT_MAX}, found {self.num_buckets}")

    def can_transform(self, source: Type) -> bool:
        return isinstance(source, BUCKET_TYPES)

    def result_type(self, source: PrimitiveType) -> PrimitiveType:
        return IntegerType()

    def apply(self, source: PrimitiveType, value: Any) -> Any:
        return None if value is None else (bucket_hash(source, value) & INT_MAX) % self.num_buckets

    def __str__(self) -> str:
        return f"bucket[{self.num_buckets}]"


BUCKET_TYPES = (
    IntegerType,
    LongType,
    DecimalType,
    DateType,
    TimeType,
    *_MICRO_TIMESTAMPS,
    *_NANO_TIMESTAMPS,
    StringType,
    UUIDType,
    FixedType,
    BinaryType,
)


def bucket_hash(source: PrimitiveType, value: Any) -> int:
    """The signed 32-bit murmur3 hash of a value (Spec: Appendix B). Raises ValidationError for a type without one."""
    match source:
        case TimestampNanoType() | TimestamptzNanoType():
            return mmh3.hash((value // 1000).to_bytes(8, "little", signed=True))
        case IntegerType() | LongType() | DateType() | TimeType() | TimestampType() | TimestamptzType():
            return mmh3.hash(value.to_bytes(8, "little", signed=True))
        case DecimalType(scale=scale):
            return mmh3.hash(signed_big_endian(decimal_to_unscaled(value, scale)))
        case StringType():
            return mmh3.hash(value.encode("utf-8"))
        case UUIDType():
            return mmh3.hash(value.bytes)
        case FixedType() | BinaryType():
            return mmh3.hash(bytes(value))
        case _:
            raise ValidationError(f"bucket is not defined for type {source}")


@frozen
class TruncateTransform(Transform):
    """`truncate[W]`: numbers rounded down to a multiple of the width, text and binary cut to their first W.

    Raises ValidationError for a width that is no positive int.
    """

    width: int
    preserves_order = True

    def __attrs_post_init__(self) -> None:
        if not 0 < self.width <= INT_MAX:
            raise ValidationError(f"the truncate width must be 1 to {INT_MAX}, found {self.width}")

    def can_transform(self, source: Type) -> bool:
        return isinstance(source, (IntegerType, LongType, DecimalType, StringType, BinaryType))

    def result_type(self, source: PrimitiveType) -> PrimitiveType:
        return source

    def apply(self, source: PrimitiveType, value: Any) -> Any:
        """The truncated value; null stays null. Raises ValidationError for a type that can't be truncated."""
        if value is None:
            return None
        match source:
            case IntegerType() | LongType():
                return value - value % self.width
            case DecimalType(scale=scale):
                unscaled = decimal_to_unscaled(value, scale)
                return unscaled_to_decimal(unscaled - unscaled % self.width, scale)
            case StringType() | BinaryType():
                return value[: self.width]
            case _:
                raise ValidationError(f"truncate is not defined for type {source}")

    def __str__(self) -> str:
        return f"truncate[{self.width}]"


@frozen
class _TimeTransform(Transform):
    """year, month, day and hour: the number of whole units since 1970-01-01T00:00, rounded down."""

    preserves_order = True
    unit: ClassVar[str]

    def can_transform(self, source: Type) -> bool:
        return isinstance(source, _DATES)

    def result_type(self, source: PrimitiveType) -> PrimitiveType:
        return IntegerType()

    def apply(self, source: PrimitiveType, value: Any) -> Any:
        return None if value is None else self._of_days(self._days(source, value))

    def _days(self, source: PrimitiveType, value: int) -> int:
        match source:
            case DateType():
                return value
            case TimestampType() | TimestamptzType():
                return value // US_PER_DAY
            case TimestampNanoType() | TimestamptzNanoType():
                return value // (US_PER_DAY * 1000)
            case _:
                raise ValidationError(f"{self.unit} is not defined for type {source}")

    def _of_days(self, days: int) -> int:
        raise NotImplementedError  # each unit's own

    def __str__(self) -> str:
        return self.unit


def _year_month(days: int) -> tuple[int, int]:
    year, month, _ = single_value.format_date(days).rsplit("-", 2)
    return int(year), int(month)


@frozen
class YearTransform(_TimeTransform):
    """`year`: years since 1970."""

    unit = "year"

    def _of_days(self, days: int) -> int:
        return _year_month(days)[0] - 1970


@frozen
class MonthTransform(_TimeTransform):
    """`month`: months since January 1970."""

    unit = "month"

    def _of_days(self, days: int) -> int:
        year, month = _year_month(days)
        return (year - 1970) * 12 + month - 1


@frozen
class DayTransform(_TimeTransform):
    """`day`: days since 1970-01-01, of type date."""

    unit = "day"

    def result_type(self, source: PrimitiveType) -> PrimitiveType:
        return DateType()

    def _of_days(self, days: int) -> int:
        return days


@frozen
class HourTransform(_TimeTransform):
    """`hour`: hours since 1970-01-01T00:00."""

    unit = "hour"

    def can_transform(self, source: Type) -> bool:
        return isinstance(source, (*_MICRO_TIMESTAMPS, *_NANO_TIMESTAMPS))

    def apply(self, source: PrimitiveType, value: Any) -> Any:
        if value is None:
            return None
        return value // (3_600_000_000_000 if isinstance(source, _NANO_TIMESTAMPS) else 3_600_000_000)


@frozen
class VoidTransform(Transform):
    """`void`: always null; it takes the place of a dropped field in v1 (Spec: PT3)."""

    def can_transform(self, source: Type) -> bool:
        return True

    def result_type(self, source: PrimitiveType) -> PrimitiveType:
        return source

    def apply(self, source: PrimitiveType, value: Any) -> Any:
        return None

    def __str__(self) -> str:
        return "void"


@frozen
class UnknownTransform(Transform):
    """A transform that this release doesn't know: kept, ignored for filtering, never written with (Spec: PT6)."""

    text: str

    def can_transform(self, source: Type) -> bool:
        return True

    def result_type(self, source: PrimitiveType) -> PrimitiveType:
        return StringType()

    def apply(self, source: PrimitiveType, value: Any) -> Any:
        """Raises ValidationError: nothing is written with a transform that is not known."""
        raise ValidationError(f"the transform {self.text!r} is unknown, so nothing can be written with it")

    def __str__(self) -> str:
        return self.text


TIMES_BY_NAME: dict[str, Transform] = {
    "year": YearTransform(),
    "years": YearTransform(),
    "month": MonthTransform(),
    "months": MonthTransform(),
    "day": DayTransform(),
    "days": DayTransform(),
    "date": DayTransform(),
    "hour": HourTransform(),
    "hours": HourTransform(),
}
"""The transforms of times by what terms and filters call them."""

_PLAIN: dict[str, Transform] = {
    "identity": IdentityTransform(),
    "year": YearTransform(),
    "month": MonthTransform(),
    "day": DayTransform(),
    "hour": HourTransform(),
    "void": VoidTransform(),
}
_WITH_NUMBER = re.compile(r"(bucket|truncate)\s*[\[(]\s*(\d+)\s*[\])]")


def parse_transform(text: str) -> Transform:
    """The transform of a JSON string; an UnknownTransform for one that is not known."""
    name = text.strip().lower()
    if known := _PLAIN.get(name):
        return known
    if m := _WITH_NUMBER.fullmatch(name):
        return BucketTransform(int(m[2])) if m[1] == "bucket" else TruncateTransform(int(m[2]))
    return UnknownTransform(text)


def human_string(transform: Transform, result: PrimitiveType, value: Any) -> str:
    """A partition value as people write it: `2024-01`, `2024-01-31`, `2024-01-31-07`, `null`, base64 for bytes."""
    if value is None:
        return "null"
    match transform:
        case YearTransform():
            return str(1970 + value)
        case MonthTransform():
            return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
        case HourTransform():
            return f"{single_value.format_date(value // 24)}-{value % 24:02d}"
        case _:
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, (bytes, bytearray)):
                import base64

                return base64.b64encode(value).decode()
            if isinstance(value, (Decimal, uuid.UUID)):
                return str(single_value.to_json(result, value))
            return str(single_value.to_json(result, value))


def path_segment(name: str, value: str) -> str:
    """`name=value`, both URL-encoded, as Java names partition folders; `value` is a `human_string`."""
    return f"{quote_plus(name)}={quote_plus(value)}"
