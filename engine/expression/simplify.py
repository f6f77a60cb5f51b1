"""Simplification of AND and OR: constants folded, children that others imply dropped.

Over unbound expressions only flattening and the constants are folded, which holds under SQL's three-valued logic. Over
bound ones, where nothing is negated, null tests that other children imply are dropped too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, assert_never

from icecore.engine.expression.depth import operands
from icecore.engine.expression.nodes import (
    FALSE,
    TRUE,
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundTerm,
    Expression,
    Or,
    Predicate,
    PredicateOperator,
)

_FEW_VALUES = 3
"""Fewer values stay as they were written: residuals are easier to read."""


def and_(*children: Expression) -> Expression:
    """The conjunction: flat, each child once, constants folded."""
    flat = _flatten(children, And)
    if any(isinstance(c, AlwaysFalse) for c in flat):
        return FALSE
    parts: list[Expression] = [c for c in flat if not isinstance(c, AlwaysTrue)]
    rejecting, null, not_null = _null_tests(parts)
    if null & (rejecting | not_null):
        return FALSE
    parts = [c for c in parts if not (_is(c, PredicateOperator.NOT_NULL) and _bound(c) in rejecting)]
    parts = _merged(parts, PredicateOperator.NOT_EQ, PredicateOperator.NOT_IN)
    if len(parts) < 2:
        return parts[0] if parts else TRUE
    return And(tuple(parts))


def or_(*children: Expression) -> Expression:
    """The disjunction: flat, each child once, constants folded."""
    flat = _flatten(children, Or)
    if any(isinstance(c, AlwaysTrue) for c in flat):
        return TRUE
    parts: list[Expression] = [c for c in flat if not isinstance(c, AlwaysFalse)]
    _, null, not_null = _null_tests(parts)
    if null & not_null:
        return TRUE
    if not_null:
        parts = [c for c in parts if _is(c, PredicateOperator.NOT_NULL) or _bound(c) not in not_null]
    parts = _merged(parts, PredicateOperator.EQ, PredicateOperator.IN)
    if len(parts) < 2:
        return parts[0] if parts else FALSE
    return Or(tuple(parts))


def _merged(children: list[Expression], single: PredicateOperator, many: PredicateOperator) -> list[Expression]:
    """The children with each term's equalities as one IN, or inequalities as one NOT IN: many leaves plan slowly."""
    values: dict[BoundTerm, list[Any]] = {}
    for c in children:
        if (leaf := _mergeable(c, single, many)) is not None:
            values.setdefault(leaf[0], []).extend(leaf[1])
    merged = {t: Predicate(many, t, tuple(sorted(set(v)))) for t, v in values.items() if len(v) >= _FEW_VALUES}
    if not merged:
        return children
    out: list[Expression] = []
    for c in children:
        leaf = _mergeable(c, single, many)
        combined = None if leaf is None else merged.get(leaf[0])
        if leaf is None or combined is None:
            out.append(c)
        elif values.pop(leaf[0], None) is not None:
            out.append(combined)
    return out


def _mergeable(
    e: Expression, single: PredicateOperator, many: PredicateOperator
) -> tuple[BoundTerm, tuple[Any, ...]] | None:
    """The term and the literals of a leaf that is one of the two operations over a bound term."""
    if isinstance(e, Predicate) and e.op in (single, many) and isinstance(e.term, BoundTerm):
        return e.term, e.literals
    return None


def _flatten(children: Iterable[Expression], kind: type[And] | type[Or]) -> list[Expression]:
    out: dict[Expression, None] = {}
    for c in children:
        out.update(dict.fromkeys(operands(c) if isinstance(c, kind) else (c,)))
    return list(out)


def _is(e: Expression, op: PredicateOperator) -> bool:
    return isinstance(e, Predicate) and e.op is op


def _bound(e: Expression) -> BoundTerm | None:
    return e.term if isinstance(e, Predicate) and isinstance(e.term, BoundTerm) else None


def _null_tests(children: Iterable[Expression]) -> tuple[set[BoundTerm], set[BoundTerm], set[BoundTerm]]:
    """The bound terms that children compare, test for null, and test for not null."""
    rejecting: set[BoundTerm] = set()
    null: set[BoundTerm] = set()
    not_null: set[BoundTerm] = set()
    for c in children:
        term = _bound(c)
        if term is None or not isinstance(c, Predicate):
            continue
        match c.op:
            case PredicateOperator.IS_NULL:
                null.add(term)
            case PredicateOperator.NOT_NULL:
                not_null.add(term)
            case (
                PredicateOperator.LT
                | PredicateOperator.LT_EQ
                | PredicateOperator.GT
                | PredicateOperator.GT_EQ
                | PredicateOperator.EQ
                | PredicateOperator.NOT_EQ
            ):
                rejecting.add(term)
            case PredicateOperator.IN | PredicateOperator.NOT_IN | PredicateOperator.IS_NAN | PredicateOperator.NOT_NAN:
                rejecting.add(term)
            case (
                PredicateOperator.STARTS_WITH
                | PredicateOperator.NOT_STARTS_WITH
                | PredicateOperator.LIKE
                | PredicateOperator.NOT_LIKE
            ):
                rejecting.add(term)
            case _:
                assert_never(c.op)
    return rejecting, null, not_null
