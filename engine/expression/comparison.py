"""Comparisons of a bound term with literals that need not be values of its type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.literals import Slot, slot_of
from icecore.engine.expression.nodes import FALSE, BoundTerm, Expression, Predicate, PredicateOperator
from icecore.engine.expression.simplify import and_, or_

_OPPOSITES = (
    (PredicateOperator.LT, PredicateOperator.GT_EQ),
    (PredicateOperator.LT_EQ, PredicateOperator.GT),
    (PredicateOperator.EQ, PredicateOperator.NOT_EQ),
    (PredicateOperator.IN, PredicateOperator.NOT_IN),
    (PredicateOperator.IS_NULL, PredicateOperator.NOT_NULL),
    (PredicateOperator.IS_NAN, PredicateOperator.NOT_NAN),
    (PredicateOperator.STARTS_WITH, PredicateOperator.NOT_STARTS_WITH),
    (PredicateOperator.LIKE, PredicateOperator.NOT_LIKE),
)
_NEGATED = dict(_OPPOSITES) | {b: a for a, b in _OPPOSITES}
_FLIPPED = {
    PredicateOperator.LT: PredicateOperator.GT,
    PredicateOperator.LT_EQ: PredicateOperator.GT_EQ,
    PredicateOperator.GT: PredicateOperator.LT,
    PredicateOperator.GT_EQ: PredicateOperator.LT_EQ,
}
_OVER_NAN = {
    PredicateOperator.EQ: PredicateOperator.IS_NAN,
    PredicateOperator.GT_EQ: PredicateOperator.IS_NAN,
    PredicateOperator.NOT_EQ: PredicateOperator.NOT_NAN,
    PredicateOperator.LT: PredicateOperator.NOT_NAN,
    PredicateOperator.LT_EQ: PredicateOperator.NOT_NULL,
}


def negated(op: PredicateOperator) -> PredicateOperator:
    """The operator that is true exactly where this one is false."""
    return _NEGATED[op]


def flipped(op: PredicateOperator) -> PredicateOperator:
    """The operator that says the same with its sides exchanged."""
    return _FLIPPED.get(op, op)


def compare(op: PredicateOperator, term: BoundTerm, literal: Any) -> Expression:
    """`term op literal` in values of the term's type. Raises ExpressionError where the types don't fit."""
    return at_slot(op, term, slot_of(term.result_type, literal))


def at_slot(op: PredicateOperator, term: BoundTerm, slot: Slot) -> Expression:
    """`term op slot`, where the slot is of the term's type. Raises ExpressionError where the operator doesn't apply."""
    if slot.nan:
        return Predicate(_OVER_NAN[op], term) if op in _OVER_NAN else FALSE
    match op:
        case PredicateOperator.LT:
            return _below(term, slot.ceiling, PredicateOperator.LT, slot.least)
        case PredicateOperator.GT_EQ:
            return _above(term, slot.ceiling, PredicateOperator.GT_EQ, slot.least)
        case PredicateOperator.LT_EQ:
            return _above(term, slot.floor, PredicateOperator.LT_EQ, slot.greatest)
        case PredicateOperator.GT:
            return _below(term, slot.floor, PredicateOperator.GT, slot.greatest)
        case PredicateOperator.EQ:
            return _equal(term, slot)
        case PredicateOperator.NOT_EQ:
            return _unequal(term, slot)
        case _:
            raise ExpressionError(f"{op} is not a comparison")


def _equal(term: BoundTerm, slot: Slot) -> Expression:
    if slot.is_value:
        return Predicate(PredicateOperator.EQ, term, (slot.ceiling,))
    if slot.is_between:
        return FALSE
    return and_(at_slot(PredicateOperator.GT_EQ, term, slot), at_slot(PredicateOperator.LT_EQ, term, slot))


def _unequal(term: BoundTerm, slot: Slot) -> Expression:
    if slot.is_value and isinstance(slot.ceiling, bool):
        return Predicate(PredicateOperator.EQ, term, (not slot.ceiling,))
    if slot.is_value:
        return Predicate(PredicateOperator.NOT_EQ, term, (slot.ceiling,))
    if slot.is_between:
        return Predicate(PredicateOperator.NOT_NULL, term)
    return or_(at_slot(PredicateOperator.LT, term, slot), at_slot(PredicateOperator.GT, term, slot))


def in_values(op: PredicateOperator, term: BoundTerm, literals: Iterable[Any]) -> Expression:
    """`term IN literals` or `term NOT IN literals`, for at least one literal and none that is null."""
    positive = op is PredicateOperator.IN
    slots = [slot_of(term.result_type, v) for v in literals]
    values = sorted({s.ceiling for s in slots if s.is_value})
    others = [s for s in slots if not s.is_value and not s.is_between]
    single = PredicateOperator.EQ if positive else PredicateOperator.NOT_EQ
    parts = [at_slot(single, term, s) for s in others]
    if values:
        parts.append(Predicate(op if len(values) > 1 else single, term, tuple(values)))
    if positive:
        return or_(*parts)
    return and_(Predicate(PredicateOperator.NOT_NULL, term), *parts)


def _below(term: BoundTerm, value: Any, op: PredicateOperator, limit: Any) -> Expression:
    """A strict comparison; true of all but null if there is no bound, AlwaysFalse at the limit of the type."""
    if value is None:
        return Predicate(PredicateOperator.NOT_NULL, term)
    return FALSE if limit is not None and value == limit else Predicate(op, term, (value,))


def _above(term: BoundTerm, value: Any, op: PredicateOperator, limit: Any) -> Expression:
    """A comparison that includes its bound; AlwaysFalse if there is no bound, true of all but null at the limit."""
    if value is None:
        return FALSE
    return (
        Predicate(PredicateOperator.NOT_NULL, term)
        if limit is not None and value == limit
        else Predicate(op, term, (value,))
    )
