"""Type promotion: which types a column may widen to, and what happens to partitions, defaults and written files.

Spec: Schema Evolution, valid primitive type promotions (T7).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
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
    NestedField,
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


def misread_columns(written: Schema, schema: Schema, format_version: int) -> Iterator[str]:
    """The names of columns by which files of an earlier schema would lose values under a later one, or can't be read.

    A column may have been renamed or dropped since, but its name must not be another column's. Its type must still read
    the values, and what is required by now must have been so then, or have a default.
    """
    if written == schema:
        return
    for field_id in sorted(written.field_ids):
        old, new, name = written.find_field(field_id), schema.get_field(field_id), written.name_of(field_id)
        is_there = new is not None and schema.path(field_id) == written.path(field_id)
        is_another = schema.has_name(name) and not is_there
        if is_another or not (new is None or _holds(old, new, format_version)):
            yield name
    yield from lacking_columns(written, schema)


def _holds(old: NestedField, new: NestedField, format_version: int) -> bool:
    """Whether the column may be what it was when values were written."""
    before, now = old.field_type, new.field_type
    reads = can_promote(before, now, format_version) if before.is_primitive else type(before) is type(now)
    return reads and (old.required or new.optional)


def unmet_columns(written: Schema, schema: Schema) -> Iterator[str]:
    """The names of required columns of which rows of an earlier schema may have no value: optional or lacking then."""
    for field_id in sorted(written.field_ids & schema.field_ids):
        if schema.find_field(field_id).required and written.find_field(field_id).optional:
            yield schema.name_of(field_id)
    yield from lacking_columns(written, schema)


def lacking_columns(written: Schema, schema: Schema) -> Iterator[str]:
    """The names of columns that files of one schema lack though another requires them and has no default for them."""
    for field_id in sorted(schema.field_ids - written.field_ids):
        new, parent = schema.find_field(field_id), schema.parent_id(field_id)
        if new.required and new.initial_default is None and (parent is None or parent in written.field_ids):
            yield schema.name_of(field_id)
