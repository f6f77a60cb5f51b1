"""Type promotion: which types a column may widen to, and what happens to partitions and defaults.

Spec: Schema Evolution, valid primitive type promotions (T7).
"""

from __future__ import annotations

from typing import Any

from icecore.engine.errors import ValidationError
from icecore.engine.spec.single_value import US_PER_DAY
from icecore.engine.spec.transform import (
    DayTransform,
    MonthTransform,
    Transform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    TimestampNanoType,
    TimestampType,
    Type,
    UnknownType,
)

_NS_PER_DAY = US_PER_DAY * 1000


def can_promote(source: Type, target: Type, format_version: int) -> bool:
    """Whether a column of type `source` may become `target`; a type may always become itself (T7).

    v1 and v2: int to long, float to double, a decimal to one of the same scale and more digits. v3 adds unknown to
    any type, and date to timestamp or timestamp_ns, never to those with a zone.
    """
    if source == target:
        return True
    match source, target:
        case IntegerType(), LongType():
            return True
        case FloatType(), DoubleType():
            return True
        case DecimalType(precision=p, scale=s), DecimalType(precision=wider, scale=other):
            return s == other and p < wider
        case UnknownType(), _:
            return format_version >= 3
        case DateType(), TimestampType() | TimestampNanoType():
            return format_version >= 3
        case _:
            return False


def promotion_keeps_partitions(source: Type, target: Type, transform: Transform) -> bool:
    """Whether a partition field over the column has the same values after an allowed promotion (T7).

    int, float and decimal keep theirs under every transform, and nulls are all that unknown has. A date that becomes a
    timestamp keeps its year, month and day; its identity and bucket change.
    """
    if source == target or isinstance(transform, VoidTransform):
        return True
    if isinstance(transform, UnknownTransform):
        return False
    if isinstance(source, DateType):
        return isinstance(transform, (YearTransform, MonthTransform, DayTransform))
    return True


def promote_value(source: Type, target: Type, value: Any) -> Any:
    """The internal form that a value of `source` has in `target`; None stays None.

    Raises ValidationError where a date lies outside of what the timestamp can hold.
    """
    if value is None or not isinstance(source, DateType) or source == target:
        return value
    promoted = value * (_NS_PER_DAY if isinstance(target, TimestampNanoType) else US_PER_DAY)
    if not LongType.min <= promoted <= LongType.max:
        raise ValidationError(f"the date {value} days from 1970-01-01 is outside of the range of {target}")
    return promoted
