"""Predicates on a transform of a column as predicates on the column itself.

year, month, day, hour and truncate keep the order of their source, so a comparison of theirs is a range of the source.
Results of year, month and hour count from 1970 in Iceberg and are compared with what SQL users write: a calendar year,
a month as a date or `YYYY-MM`, an hour as a timestamp or `YYYY-MM-DD-HH`. A `TypedValue` of type int is an ordinal.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, assert_never

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.comparison import at_slot, compare, negated
from icecore.engine.expression.literals import NS_PER_DAY, Slot, slot_of
from icecore.engine.expression.nodes import (
    FALSE,
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundTerm,
    Expression,
    Not,
    Or,
    Predicate,
    PredicateOperator,
    TypedValue,
)
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.expression.strings import bytes_successor, string_successor
from icecore.engine.expression.temporal import month_start
from icecore.engine.spec import single_value
from icecore.engine.spec.single_value import US_PER_DAY, decimal_to_unscaled, unscaled_to_decimal
from icecore.engine.spec.transform import DayTransform, HourTransform, MonthTransform, TruncateTransform, YearTransform
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

_YEAR = re.compile(r"[+-]?\d{4,}")
_MONTH = re.compile(r"([+-]?\d{4,})-(\d\d)")
_HOUR = re.compile(r"([+-]?\d{4,}-\d\d-\d\d)-(\d\d)")
_NANO = (TimestampNanoType, TimestamptzNanoType)
_DATES = (DateType, TimestampType, TimestamptzType, *_NANO)


def unwrap_predicate(op: PredicateOperator, term: BoundTerm, literals: tuple[Any, ...]) -> Expression:
    """The predicate on a transformed column as an expression over the column.

    Raises ExpressionError where a literal is no result of the transform, or the operator does not apply to it.
    """
    column = BoundTerm(term.field, term.name)
    match op:
        case PredicateOperator.IN:
            if isinstance(term.transform, (YearTransform, MonthTransform, DayTransform, HourTransform)):
                return _ordinals_in(column, term, literals)
            return or_(*(unwrap_predicate(PredicateOperator.EQ, term, (v,)) for v in literals))
        case PredicateOperator.NOT_EQ | PredicateOperator.NOT_IN | PredicateOperator.GT_EQ | PredicateOperator.GT:
            # Each of these operators is the opposite of one below; nulls satisfy neither.
            return _complement(unwrap_predicate(negated(op), term, literals), column)
        case PredicateOperator.NOT_STARTS_WITH | PredicateOperator.NOT_LIKE:
            return _complement(unwrap_predicate(negated(op), term, literals), column)
        case _:
            pass
    match term.transform, term.source_type:
        case TruncateTransform(width=width), StringType() | BinaryType():
            return _truncated_prefix(op, column, literals[0], width)
        case TruncateTransform(width=width), _:
            return _truncated_number(op, column, literals[0], width)
        case _:
            return _ordinal_range(op, column, term, _ordinal(term, literals[0]))


def _complement(e: Expression, column: BoundTerm) -> Expression:
    """The rows where the column is not null and the expression, which is over that column alone, is not true."""
    match e:
        case AlwaysFalse():
            return Predicate(PredicateOperator.NOT_NULL, column)
        case AlwaysTrue() | Predicate(op=PredicateOperator.NOT_NULL):
            return FALSE
        case And(children=children):
            return or_(*(_complement(c, column) for c in children))
        case Or(children=children):
            return and_(*(_complement(c, column) for c in children))
        case Predicate():
            return Predicate(negated(e.op), e.term, e.literals)
        case Not(child=child):
            return child
        case _:
            assert_never(e)


def _start(term: BoundTerm, ordinal: int) -> int:
    """The first value of the source type in a year, month, day or hour."""
    per_day = NS_PER_DAY if isinstance(term.source_type, _NANO) else US_PER_DAY
    match term.transform:
        case YearTransform():
            days = month_start(ordinal * 12)
        case MonthTransform():
            days = month_start(ordinal)
        case HourTransform():
            return ordinal * (per_day // 24)
        case _:
            days = ordinal
    return days if isinstance(term.source_type, DateType) else days * per_day


def _at_least(column: BoundTerm, value: int) -> Expression:
    return at_slot(PredicateOperator.GT_EQ, column, _limited(column, value))


def _less(column: BoundTerm, value: int) -> Expression:
    return at_slot(PredicateOperator.LT, column, _limited(column, value))


def _limited(column: BoundTerm, value: int) -> Slot:
    limits = IntegerType if isinstance(column.source_type, DateType) else LongType
    ceiling = None if value > limits.max else max(value, limits.min)
    floor = None if value < limits.min else min(value, limits.max)
    return Slot(ceiling, floor, limits.min, limits.max)


def _ordinal_range(op: PredicateOperator, column: BoundTerm, term: BoundTerm, ordinal: int) -> Expression:
    match op:
        case PredicateOperator.EQ:
            return and_(_at_least(column, _start(term, ordinal)), _less(column, _start(term, ordinal + 1)))
        case PredicateOperator.LT:
            return _less(column, _start(term, ordinal))
        case PredicateOperator.LT_EQ:
            return _less(column, _start(term, ordinal + 1))
        case _:
            raise ExpressionError(f"{op} does not apply to {term.transform}")


def _ordinals_in(column: BoundTerm, term: BoundTerm, literals: tuple[Any, ...]) -> Expression:
    """Runs of adjacent units become one range each."""
    ordinals = sorted({_ordinal(term, v) for v in literals})
    runs: list[list[int]] = []
    for o in ordinals:
        if runs and o == runs[-1][1] + 1:
            runs[-1][1] = o
        else:
            runs.append([o, o])
    return or_(*(and_(_at_least(column, _start(term, a)), _less(column, _start(term, b + 1))) for a, b in runs))


def _ordinal(term: BoundTerm, literal: Any) -> int:
    """The transform's result that a literal stands for."""
    transform, source = term.transform, term.source_type
    if isinstance(literal, TypedValue) and isinstance(literal.type, IntegerType):
        return int(literal.value)
    try:
        match transform, literal:
            case YearTransform(), bool():
                pass
            case YearTransform(), int():
                return literal - 1970
            case YearTransform(), str() if _YEAR.fullmatch(literal.strip()):
                return int(literal) - 1970
            case MonthTransform(), str() if m := _MONTH.fullmatch(literal.strip()):
                return _month(int(m[1]), int(m[2]))
            case HourTransform(), str() if m := _HOUR.fullmatch(literal.strip()):
                return _hour(single_value.parse_date(m[1]), int(m[2]))
            case ((YearTransform() | MonthTransform() | DayTransform()), _) if _is_day(literal):
                return int(transform.apply(DateType(), slot_of(DateType(), literal).floor))
            case HourTransform(), _ if _is_moment(literal):
                micro = (
                    TimestamptzType() if isinstance(source, (TimestamptzType, TimestamptzNanoType)) else TimestampType()
                )
                return int(transform.apply(micro, slot_of(micro, literal).floor))
            case _:
                pass
    except ExpressionError as e:
        raise ExpressionError(f"{literal!r} is no {transform}: {e}") from e
    raise ExpressionError(f"{transform}(...) is compared with {_WANTED[type(transform)]}, found {literal!r}")


_WANTED: dict[type, str] = {
    YearTransform: "a calendar year, such as 2024",
    MonthTransform: "a date or 'YYYY-MM'",
    DayTransform: "a date",
    HourTransform: "a timestamp or 'YYYY-MM-DD-HH'",
}


def _month(year: int, month: int) -> int:
    if not 1 <= month <= 12:
        raise ExpressionError(f"there is no month {month}")
    return (year - 1970) * 12 + month - 1


def _hour(day: int, hour: int) -> int:
    if not 0 <= hour <= 23:
        raise ExpressionError(f"there is no hour {hour}")
    return day * 24 + hour


def _is_day(literal: Any) -> bool:
    """Whether a literal is a date, or a timestamp at midnight."""
    if isinstance(literal, (str, dt.date, TypedValue)) and _is_moment(literal):
        return slot_of(DateType(), literal).is_value
    return False


def _is_moment(literal: Any) -> bool:
    return isinstance(literal, (str, dt.date)) or (isinstance(literal, TypedValue) and isinstance(literal.type, _DATES))


def _truncated_number(op: PredicateOperator, column: BoundTerm, literal: Any, width: int) -> Expression:
    slot = slot_of(column.source_type, literal)
    scale = column.source_type.scale if isinstance(column.source_type, DecimalType) else None

    def units(value: Any) -> int:
        return int(value) if scale is None else decimal_to_unscaled(value, scale)

    def value(units: int) -> Any:
        return units if scale is None else unscaled_to_decimal(units, scale)

    def below(units: int) -> Expression:
        return compare(PredicateOperator.LT, column, value(units))

    match op:
        case PredicateOperator.EQ:
            if not slot.is_value:
                if slot.is_between:
                    return FALSE
                raise ExpressionError(f"{literal!r} equals several values of {column.source_type}")
            n = units(slot.ceiling)
            if n % width:
                return FALSE
            return and_(compare(PredicateOperator.GT_EQ, column, value(n)), below(n + width))
        case PredicateOperator.LT:
            # Truncated values are multiples of the width: one is below the literal if below the next multiple from it.
            if slot.ceiling is None:
                return Predicate(PredicateOperator.NOT_NULL, column)
            return below(-(-units(slot.ceiling) // width) * width)
        case PredicateOperator.LT_EQ:
            return FALSE if slot.floor is None else below(units(slot.floor) // width * width + width)
        case _:
            raise ExpressionError(f"{op} does not apply to truncate of {column.source_type}")


def _truncated_prefix(op: PredicateOperator, column: BoundTerm, literal: Any, width: int) -> Expression:
    value: str | bytes = slot_of(column.source_type, literal).ceiling
    after = string_successor(value[:width]) if isinstance(value, str) else bytes_successor(value[:width])
    up_to_head = (
        Predicate(PredicateOperator.NOT_NULL, column)
        if after is None
        else Predicate(PredicateOperator.LT, column, (after,))
    )
    match op:
        case PredicateOperator.EQ if len(value) > width:
            return FALSE
        case PredicateOperator.EQ if len(value) < width:
            return Predicate(PredicateOperator.EQ, column, (value,))
        case PredicateOperator.EQ if isinstance(value, bytes):
            return and_(Predicate(PredicateOperator.GT_EQ, column, (value,)), up_to_head)
        case PredicateOperator.EQ:
            return Predicate(PredicateOperator.STARTS_WITH, column, (value,))
        case PredicateOperator.LT if len(value) <= width:
            return Predicate(PredicateOperator.LT, column, (value,))
        case PredicateOperator.LT_EQ if len(value) < width:
            return Predicate(PredicateOperator.LT_EQ, column, (value,))
        case PredicateOperator.LT | PredicateOperator.LT_EQ:
            return up_to_head
        case PredicateOperator.STARTS_WITH if not value:
            return Predicate(PredicateOperator.NOT_NULL, column)
        case PredicateOperator.STARTS_WITH if isinstance(value, str):
            return FALSE if len(value) > width else Predicate(PredicateOperator.STARTS_WITH, column, (value,))
        case _:
            raise ExpressionError(f"{op} does not apply to truncate of {column.source_type}")
