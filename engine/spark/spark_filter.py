"""Bound expressions as Spark SQL text.

The condition is true for the same rows as in `evaluate`; where it is not true it may be null, as SQL conditions are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, assert_never

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.nodes import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundTerm,
    Expression,
    Not,
    Or,
    Predicate,
    PredicateOperator,
)
from icecore.engine.expression.sql.duckdb_sql import COMPARISONS
from icecore.engine.expression.strings import like_parts
from icecore.engine.spark.spark_sql_text import literal, text_literal
from icecore.engine.spec.types import FLOATING_TYPES, DateType, TimestamptzType, Type

_ESCAPE = "~"
_YEAR_1900 = -25567
_US_PER_DAY = 86_400_000_000


def to_spark_sql(bound: Expression, column: Callable[[BoundTerm], str]) -> str:
    """The expression as a condition.

    `column` gives SQL of a whole term, with its transform, in the stored form of `engine/spark/spark_types.py`: a uuid
    or fixed as BINARY, a time or a nanosecond timestamp as BIGINT. Literals are constants whose meaning depends on no
    setting of the session. Raises ExpressionError where the expression is not bound.
    """
    match bound:
        case AlwaysTrue():
            return "TRUE"
        case AlwaysFalse():
            return "FALSE"
        case And(children=children):
            return "(" + " AND ".join(to_spark_sql(c, column) for c in children) + ")"
        case Or(children=children):
            return "(" + " OR ".join(to_spark_sql(c, column) for c in children) + ")"
        case Not():
            raise ExpressionError("a bound expression has no NOT")
        case Predicate(term=BoundTerm() as term):
            return _predicate(bound.op, term, bound.literals, column(term))
        case Predicate():
            raise ExpressionError(f"the predicate on {bound.term.name!r} is not bound")
        case _:
            assert_never(bound)


def _predicate(op: PredicateOperator, term: BoundTerm, literals: Sequence[Any], value: str) -> str:
    value = _not_pushed(term.result_type, literals, value)
    match op:
        case PredicateOperator.IS_NULL:
            return f"({value} IS NULL)"
        case PredicateOperator.NOT_NULL:
            return f"({value} IS NOT NULL)"
        case PredicateOperator.IS_NAN:
            return f"isnan({value})"
        case PredicateOperator.NOT_NAN:
            # For a null isnan is false.
            return f"({value} IS NOT NULL AND NOT isnan({value}))"
        case PredicateOperator.IN | PredicateOperator.NOT_IN:
            return _in(op, term, literals, value)
        case PredicateOperator.STARTS_WITH:
            return f"startswith({value}, {text_literal(literals[0])})"
        case PredicateOperator.NOT_STARTS_WITH:
            return f"(NOT startswith({value}, {text_literal(literals[0])}))"
        case PredicateOperator.LIKE | PredicateOperator.NOT_LIKE:
            negation = "NOT " if op is PredicateOperator.NOT_LIKE else ""
            return f"({value} {negation}LIKE {_like_pattern(*literals)} ESCAPE '{_ESCAPE}')"
        case (
            PredicateOperator.LT
            | PredicateOperator.LT_EQ
            | PredicateOperator.GT
            | PredicateOperator.GT_EQ
            | PredicateOperator.EQ
            | PredicateOperator.NOT_EQ
        ):
            return f"({value} {COMPARISONS[op]} {literal(term.result_type, literals[0])})"
        case _:
            assert_never(op)


def _not_pushed(kind: Type, literals: Sequence[Any], value: str) -> str:
    """The value, in a form by which Spark skips no row groups where it would compare with another literal.

    It takes literals before 1900 for those of the Julian calendar: see `PlannedParquet.java`.
    """
    match kind:
        case DateType() if any(v < _YEAR_1900 for v in literals):
            return f"date_add({value}, 0)"
        case TimestamptzType() if any(v < _YEAR_1900 * _US_PER_DAY for v in literals):
            return f"timestampadd(MICROSECOND, 0, {value})"
        case _:
            return value


def _in(op: PredicateOperator, term: BoundTerm, literals: Sequence[Any], value: str) -> str:
    values = [literal(term.result_type, v) for v in literals]
    positive = op is PredicateOperator.IN
    if isinstance(term.result_type, FLOATING_TYPES):
        # Spark looks long lists up in a hash set, where 0.0 and -0.0 differ.
        sign, word = ("=", " OR ") if positive else ("<>", " AND ")
        return "(" + word.join(f"{value} {sign} {v}" for v in values) + ")"
    return f"({value} {'IN' if positive else 'NOT IN'} ({', '.join(values)}))"


def _like_pattern(pattern: str, escape: str | None = None) -> str:
    """The pattern with an escape character of our own, because Spark refuses escapes before ordinary characters."""
    parts = []
    for kind, text in like_parts(pattern, escape):
        parts.append("".join(_ESCAPE + c if c in "%_" + _ESCAPE else c for c in text) if kind == "text" else kind)
    return text_literal("".join(parts))
