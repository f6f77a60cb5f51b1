"""Walking expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from icecore.engine.expression.depth import operands
from icecore.engine.expression.nodes import AlwaysFalse, AlwaysTrue, And, BoundTerm, Expression, Not, Or, Predicate
from icecore.engine.expression.simplify import and_, or_


def references(expression: Expression) -> set[int]:
    """The ids of the fields that a bound expression reads."""
    return {p.term.field.field_id for p in predicates(expression) if isinstance(p.term, BoundTerm)}


def predicates(expression: Expression) -> tuple[Predicate, ...]:
    """The leaves of an expression, each once, from left to right."""
    out: dict[Predicate, None] = {}
    waiting = [expression]
    while waiting:
        e = waiting.pop()
        match e:
            case Predicate():
                out[e] = None
            case And(children=children) | Or(children=children):
                waiting.extend(reversed(children))
            case Not(child=child):
                waiting.append(child)
            case AlwaysTrue() | AlwaysFalse():
                pass
            case _:
                assert_never(e)
    return tuple(out)


def rewrite(expression: Expression, leaf: Callable[[Predicate], Expression]) -> Expression:
    """The expression with each leaf replaced, and simplified."""
    match expression:
        case Predicate():
            return leaf(expression)
        case And():
            return and_(*[rewrite(c, leaf) for c in operands(expression)])
        case Or():
            return or_(*[rewrite(c, leaf) for c in operands(expression)])
        case Not(child=child):
            return Not(rewrite(child, leaf))
        case AlwaysTrue() | AlwaysFalse():
            return expression
        case _:
            assert_never(expression)
