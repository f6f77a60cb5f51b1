"""Constructors of unbound filters, under the names that PyIceberg's users know.

A term is a column's dotted name or a `TransformTerm`; a literal is a plain Python value or a `TypedValue`. As in SQL, a
comparison with null is neither true nor false.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.depth import check_depth
from icecore.engine.expression.nodes import (
    AlwaysFalse,
    AlwaysTrue,
    BoundTerm,
    Expression,
    Predicate,
    PredicateOperator,
    Reference,
    Term,
    TransformTerm,
)
from icecore.engine.expression.nodes import Not as NotNode
from icecore.engine.expression.simplify import and_, or_


def EqualTo(term: str | Term, literal: Any) -> Predicate:
    """`term = literal`."""
    return _comparison(PredicateOperator.EQ, term, literal)


def NotEqualTo(term: str | Term, literal: Any) -> Predicate:
    """`term <> literal`; not true of nulls."""
    return _comparison(PredicateOperator.NOT_EQ, term, literal)


def LessThan(term: str | Term, literal: Any) -> Predicate:
    """`term < literal`."""
    return _comparison(PredicateOperator.LT, term, literal)


def LessThanOrEqual(term: str | Term, literal: Any) -> Predicate:
    """`term <= literal`."""
    return _comparison(PredicateOperator.LT_EQ, term, literal)


def GreaterThan(term: str | Term, literal: Any) -> Predicate:
    """`term > literal`; true of NaN."""
    return _comparison(PredicateOperator.GT, term, literal)


def GreaterThanOrEqual(term: str | Term, literal: Any) -> Predicate:
    """`term >= literal`; true of NaN."""
    return _comparison(PredicateOperator.GT_EQ, term, literal)


def In(term: str | Term, literals: Iterable[Any]) -> Predicate:
    """`term IN (literals)`."""
    return Predicate(PredicateOperator.IN, _term(term), _literals(literals))


def NotIn(term: str | Term, literals: Iterable[Any]) -> Predicate:
    """`term NOT IN (literals)`; never true where a literal is null."""
    return Predicate(PredicateOperator.NOT_IN, _term(term), _literals(literals))


def IsNull(term: str | Term) -> Predicate:
    """`term IS NULL`."""
    return Predicate(PredicateOperator.IS_NULL, _term(term))


def NotNull(term: str | Term) -> Predicate:
    """`term IS NOT NULL`."""
    return Predicate(PredicateOperator.NOT_NULL, _term(term))


def IsNaN(term: str | Term) -> Predicate:
    """`isnan(term)`."""
    return Predicate(PredicateOperator.IS_NAN, _term(term))


def NotNaN(term: str | Term) -> Predicate:
    """`NOT isnan(term)`; not true of nulls."""
    return Predicate(PredicateOperator.NOT_NAN, _term(term))


def StartsWith(term: str | Term, literal: Any) -> Predicate:
    """`starts_with(term, literal)`."""
    return _comparison(PredicateOperator.STARTS_WITH, term, literal)


def NotStartsWith(term: str | Term, literal: Any) -> Predicate:
    """`NOT starts_with(term, literal)`; not true of nulls."""
    return _comparison(PredicateOperator.NOT_STARTS_WITH, term, literal)


def Like(term: str | Term, pattern: str, escape: str | None = None) -> Predicate:
    """`term LIKE pattern [ESCAPE escape]`: `%` stands for any text, `_` for one character."""
    return Predicate(PredicateOperator.LIKE, _term(term), (pattern,) if escape is None else (pattern, escape))


def And(*children: Expression) -> Expression:
    """All of the children; true without any. Raises ExpressionError for a child deeper than `depth.MAX_DEPTH`."""
    return and_(*_not_too_deep(children))


def Or(*children: Expression) -> Expression:
    """At least one of the children; false without any. Raises ExpressionError as `And` does."""
    return or_(*_not_too_deep(children))


def Not(child: Expression) -> Expression:
    """SQL's NOT of the child."""
    if isinstance(child, NotNode):
        return child.child
    if isinstance(child, AlwaysTrue):
        return AlwaysFalse()
    return AlwaysTrue() if isinstance(child, AlwaysFalse) else NotNode(child)


def _not_too_deep(children: tuple[Expression, ...]) -> tuple[Expression, ...]:
    for c in children:
        check_depth(c)
    return children


def _term(term: str | Term) -> Term:
    match term:
        case str():
            return Reference(term)
        case Reference() | TransformTerm() | BoundTerm():
            return term
        case _:
            raise ExpressionError(f"a term must be a column name or a transform term, found {type(term).__name__}")


def _comparison(op: PredicateOperator, term: str | Term, literal: Any) -> Predicate:
    return Predicate(op, _term(term), (literal,))


def _literals(literals: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(literals, (str, bytes)):
        raise ExpressionError(f"IN takes a collection of literals, found {type(literals).__name__} {literals!r}")
    # A set has no order of its own; sorting keeps equal filters equal.
    return tuple(sorted(literals, key=repr)) if isinstance(literals, (set, frozenset)) else tuple(literals)
