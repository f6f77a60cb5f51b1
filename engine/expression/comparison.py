"""Comparisons of a bound term with literals that need not be values of its type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.literals import Slot, slot_of
from icecore.engine.expression.nodes import FALSE, BoundTerm, Expression, Operation, Predicate
from icecore.engine.expression.simplify import and_, or_

_OPPOSITES = (
    (Operation.LT, Operation.GT_EQ),
    (Operation.LT_EQ, Operation.GT),
    (Operation.EQ, Operation.NOT_EQ),
    (Operation.IN, Operation.NOT_IN),
    (Operation.IS_NULL, Operation.NOT_NULL),
    (Operation.IS_NAN, Operation.NOT_NAN),
    (Operation.STARTS_WITH, Operation.NOT_STARTS_WITH),
    (Operation.LIKE, Operation.NOT_LIKE),
)
_NEGATED = dict(_OPPOSITES) | {b: a for a, b in _OPPOSITES}
_OVER_NAN = {
    Operation.EQ: Operation.IS_NAN,
    Operation.GT_EQ: Operation.IS_NAN,
    Operation.NOT_EQ: Operation.NOT_NAN,
    Operation.LT: Operation.NOT_NAN,
    Operation.LT_EQ: Operation.NOT_NULL,
}


def negated(op: Operation) -> Operation:
    """The operator that is true exactly where this one is false."""
    return _NEGATED[op]


def compare(op: Operation, term: BoundTerm, literal: Any) -> Expression:
    """`term op literal` in values of the term's type. Raises ExpressionError where the types don't fit."""
    return at_slot(op, term, slot_of(term.result_type, literal))


def at_slot(op: Operation, term: BoundTerm, slot: Slot) -> Expression:
    """`term op slot`, where the slot is of the term's type."""
    if slot.nan:
        return Predicate(_OVER_NAN[op], term) if op in _OVER_NAN else FALSE
    match op:
        case Operation.LT:
            return _below(term, slot.ceiling, Operation.LT, slot.least)
        case Operation.GT_EQ:
            return _above(term, slot.ceiling, Operation.GT_EQ, slot.least)
        case Operation.LT_EQ:
            return _above(term, slot.floor, Operation.LT_EQ, slot.greatest)
        case Operation.GT:
            return _below(term, slot.floor, Operation.GT, slot.greatest)
        case Operation.EQ:
            if slot.is_value:
                return Predicate(Operation.EQ, term, (slot.ceiling,))
            if slot.is_between:
                return FALSE
            return and_(at_slot(Operation.GT_EQ, term, slot), at_slot(Operation.LT_EQ, term, slot))
        case Operation.NOT_EQ:
            if slot.is_value and isinstance(slot.ceiling, bool):
                return Predicate(Operation.EQ, term, (not slot.ceiling,))
            if slot.is_value:
                return Predicate(Operation.NOT_EQ, term, (slot.ceiling,))
            if slot.is_between:
                return Predicate(Operation.NOT_NULL, term)
            return or_(at_slot(Operation.LT, term, slot), at_slot(Operation.GT, term, slot))
        case _:
            raise ExpressionError(f"{op} is not a comparison")


def in_values(op: Operation, term: BoundTerm, literals: Iterable[Any]) -> Expression:
    """`term IN literals` or `term NOT IN literals`, none of them null and at least one there."""
    positive = op is Operation.IN
    slots = [slot_of(term.result_type, v) for v in literals]
    values = sorted({s.ceiling for s in slots if s.is_value})
    others = [s for s in slots if not s.is_value and not s.is_between]
    single = Operation.EQ if positive else Operation.NOT_EQ
    parts = [at_slot(single, term, s) for s in others]
    if values:
        parts.append(Predicate(op if len(values) > 1 else single, term, tuple(values)))
    if positive:
        return or_(*parts)
    return and_(Predicate(Operation.NOT_NULL, term), *parts)


def _below(term: BoundTerm, value: Any, op: Operation, limit: Any) -> Expression:
    """A strict comparison; AlwaysTrue where there is no bound, AlwaysFalse at the limit of the type."""
    if value is None:
        return Predicate(Operation.NOT_NULL, term)
    return FALSE if limit is not None and value == limit else Predicate(op, term, (value,))


def _above(term: BoundTerm, value: Any, op: Operation, limit: Any) -> Expression:
    """A comparison that includes its bound; AlwaysFalse where there is no bound, AlwaysTrue at the limit."""
    if value is None:
        return FALSE
    return (
        Predicate(Operation.NOT_NULL, term) if limit is not None and value == limit else Predicate(op, term, (value,))
    )
