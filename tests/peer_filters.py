"""Bound filters as PyIceberg's expressions that select the same rows, and its verdicts about files."""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyiceberg import expressions as pe

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
from icecore.engine.expression.strings import like_prefix
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import FLOATING_TYPES

_PLAIN: dict[PredicateOperator, Any] = {
    PredicateOperator.EQ: pe.EqualTo,
    PredicateOperator.LT: pe.LessThan,
    PredicateOperator.LT_EQ: pe.LessThanOrEqual,
    PredicateOperator.GT: pe.GreaterThan,
    PredicateOperator.GT_EQ: pe.GreaterThanOrEqual,
    PredicateOperator.STARTS_WITH: pe.StartsWith,
    PredicateOperator.IN: pe.In,
}
# In PyIceberg these are true of nulls as well, in ours of none.
_NEGATIVE: dict[PredicateOperator, Any] = {
    PredicateOperator.NOT_EQ: pe.NotEqualTo,
    PredicateOperator.NOT_IN: pe.NotIn,
    PredicateOperator.NOT_STARTS_WITH: pe.NotStartsWith,
}
_UNARY: dict[PredicateOperator, Any] = {
    PredicateOperator.IS_NULL: pe.IsNull,
    PredicateOperator.NOT_NULL: pe.NotNull,
    PredicateOperator.IS_NAN: pe.IsNaN,
}


def peer_filter(bound: Expression) -> Any:
    """The same filter for PyIceberg; None where it has no such thing."""
    match bound:
        case AlwaysTrue():
            return pe.AlwaysTrue()
        case AlwaysFalse():
            return pe.AlwaysFalse()
        case And(children=children) | Or(children=children):
            found = [peer_filter(c) for c in children]
            if any(f is None for f in found):
                return None
            return reduce(pe.And if isinstance(bound, And) else pe.Or, found)
        case Predicate(term=BoundTerm(transform=IdentityTransform())):
            return _leaf(bound)
        case Not() | Predicate():
            return None


def _leaf(p: Predicate) -> Any:
    name, op = p.term.name, p.op
    assert isinstance(p.term, BoundTerm)
    if op in _UNARY:
        return _UNARY[op](name)
    if op is PredicateOperator.NOT_NAN:
        return pe.And(pe.NotNull(name), pe.NotNaN(name))
    if op is PredicateOperator.LIKE:
        prefix = like_prefix(*p.literals)
        return pe.StartsWith(name, prefix) if prefix else pe.NotNull(name)
    if op is PredicateOperator.NOT_LIKE:
        return None
    literal = set(p.literals) if op in (PredicateOperator.IN, PredicateOperator.NOT_IN) else p.literals[0]
    if op in _NEGATIVE:
        return pe.And(pe.NotNull(name), _NEGATIVE[op](name, literal))
    found = _PLAIN[op](name, literal)
    if op in (PredicateOperator.GT, PredicateOperator.GT_EQ) and isinstance(p.term.source_type, FLOATING_TYPES):
        # NaN is greater than every number here, and no answer to `>` there.
        return pe.Or(found, pe.IsNaN(name))
    return found
