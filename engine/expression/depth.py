"""The limit of how deep expressions nest.

A chain of one kind, `a OR (b OR (c OR ...))`, is flat however it was built; what counts is AND inside OR inside AND,
and NOT. All code over bound expressions may recurse, because `bind` and the constructors refuse deeper ones.
"""

from __future__ import annotations

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.nodes import And, Expression, Not, Or

MAX_DEPTH = 100
"""Levels of AND, OR and NOT within each other. SQL text may have some 40 levels of parentheses, if called from a
shallow stack; more raise ExpressionError too."""


def operands(e: And | Or) -> list[Expression]:
    """The children of a node, with those of children of the same kind in their place, from left to right."""
    out: list[Expression] = []
    waiting = list(reversed(e.children))
    while waiting:
        child = waiting.pop()
        if type(child) is type(e):
            waiting.extend(reversed(child.children))
        else:
            out.append(child)
    return out


def check_depth(expression: Expression) -> None:
    """Raises ExpressionError where an expression nests deeper than MAX_DEPTH."""
    waiting: list[tuple[Expression, int]] = [(expression, 1)]
    while waiting:
        e, depth = waiting.pop()
        if not isinstance(e, (And, Or, Not)):
            continue
        if depth > MAX_DEPTH:
            raise too_deep()
        inner = (e.child,) if isinstance(e, Not) else operands(e)
        waiting.extend((c, depth + 1) for c in inner)


def too_deep() -> ExpressionError:
    """The error for an expression that nests deeper than MAX_DEPTH."""
    return ExpressionError(f"the filter is nested too deeply: AND, OR and NOT may be {MAX_DEPTH} levels deep")
