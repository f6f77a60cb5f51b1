"""Row by row evaluation in Python: slow and plain, for tests and for a handful of rows."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
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
from icecore.engine.expression.strings import like_regex


def evaluate(bound: Expression, getter: Callable[[BoundTerm], Any]) -> bool:
    """Whether a row satisfies a bound expression.

    `getter` gives the row's value of a term's column, internal, before the term's transform. Raises ExpressionError for
    an expression that is not bound.
    """
    match bound:
        case AlwaysTrue():
            return True
        case AlwaysFalse():
            return False
        case And(children=children):
            return all(evaluate(c, getter) for c in children)
        case Or(children=children):
            return any(evaluate(c, getter) for c in children)
        case Not():
            raise ExpressionError("a bound expression has no NOT")
        case Predicate(term=BoundTerm() as term):
            value = getter(term)
            if value is not None and term.field.field_type.is_primitive:
                value = term.transform.apply(term.source_type, value)
            return _holds(bound, value)
        case Predicate():
            raise ExpressionError(f"the predicate on {bound.term.name!r} is not bound")
        case _:
            assert_never(bound)


_ORDERED: dict[PredicateOperator, Callable[[Any, Any], Any]] = {
    PredicateOperator.LT: operator.lt,
    PredicateOperator.LT_EQ: operator.le,
    PredicateOperator.GT: operator.gt,
    PredicateOperator.GT_EQ: operator.ge,
}


def _holds(p: Predicate, value: Any) -> bool:  # noqa: C901  # one case an operator
    if value is None:
        return p.op is PredicateOperator.IS_NULL
    key, keys = _key(value), [_key(v) for v in p.literals]
    match p.op:
        case PredicateOperator.IS_NULL:
            return False
        case PredicateOperator.NOT_NULL:
            return True
        case PredicateOperator.IS_NAN:
            return _is_nan(value)
        case PredicateOperator.NOT_NAN:
            return not _is_nan(value)
        case PredicateOperator.EQ | PredicateOperator.IN:
            return key in keys
        case PredicateOperator.NOT_EQ | PredicateOperator.NOT_IN:
            return key not in keys
        case PredicateOperator.LT | PredicateOperator.LT_EQ | PredicateOperator.GT | PredicateOperator.GT_EQ:
            return bool(_ORDERED[p.op](key, keys[0]))
        case PredicateOperator.STARTS_WITH:
            return bool(value.startswith(p.literals[0]))
        case PredicateOperator.NOT_STARTS_WITH:
            return not value.startswith(p.literals[0])
        case PredicateOperator.LIKE:
            return like_regex(*p.literals).fullmatch(value) is not None
        case PredicateOperator.NOT_LIKE:
            return like_regex(*p.literals).fullmatch(value) is None
        case _:
            assert_never(p.op)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _key(value: Any) -> Any:
    """The sort key of a value: NaN above all numbers and equal to itself."""
    return ((1, 0.0) if math.isnan(value) else (0, value)) if isinstance(value, float) else value
