"""Filters made with `pyiceberg.expressions`, as icecore's; known by their class names, without importing PyIceberg.

Their literals keep their values: a timestamp of PyIceberg is microseconds of UTC, whatever column it is compared with.
Nulls are compared as in SQL, so that `NotIn` does not select them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from icecore.engine.errors import ExpressionError
from icecore.engine.expression import build
from icecore.engine.expression.nodes import FALSE, TRUE, Expression, Term, TransformTerm, TypedValue
from icecore.engine.spec.transform import UnknownTransform, parse_transform
from icecore.engine.spec.types import DateType, TimestampType, TimeType

_UNARY: dict[str, Callable[[Any], Expression]] = {
    "IsNull": build.IsNull,
    "NotNull": build.NotNull,
    "IsNaN": build.IsNaN,
    "NotNaN": build.NotNaN,
}
_COMPARISONS: dict[str, Callable[[Any, Any], Expression]] = {
    "EqualTo": build.EqualTo,
    "NotEqualTo": build.NotEqualTo,
    "LessThan": build.LessThan,
    "LessThanOrEqual": build.LessThanOrEqual,
    "GreaterThan": build.GreaterThan,
    "GreaterThanOrEqual": build.GreaterThanOrEqual,
    "StartsWith": build.StartsWith,
    "NotStartsWith": build.NotStartsWith,
}
_SETS: dict[str, Callable[[Any, Any], Expression]] = {"In": build.In, "NotIn": build.NotIn}


def is_pyiceberg_expression(given: object) -> bool:
    """Whether that is a filter of PyIceberg's, found out without importing it."""
    return type(given).__module__.startswith("pyiceberg.expressions")


def expression_of(given: Any) -> Expression:
    """The filter. Raises ExpressionError for one that is bound to a schema, or has a term that isn't known here."""
    try:
        return _expression(given)
    except RecursionError:
        raise ExpressionError("the filter is too deep") from None


def _expression(given: Any) -> Expression:
    kind = type(given).__name__
    if kind == "AlwaysTrue":
        return TRUE
    if kind == "AlwaysFalse":
        return FALSE
    if kind == "And":
        return build.And(_expression(given.left), _expression(given.right))
    if kind == "Or":
        return build.Or(_expression(given.left), _expression(given.right))
    if kind == "Not":
        return build.Not(_expression(given.child))
    if kind in _UNARY:
        return _UNARY[kind](_term(given.term))
    if kind in _COMPARISONS:
        return _COMPARISONS[kind](_term(given.term), _literal(given.literal))
    if kind in _SETS:
        return _SETS[kind](_term(given.term), sorted((_literal(v) for v in given.literals), key=repr))
    raise ExpressionError(f"PyIceberg's {kind} is not known here: give an unbound filter, or one as SQL text")


def _term(given: Any) -> str | Term:
    name = getattr(given, "name", None)
    if type(given).__name__ == "Reference" and isinstance(name, str):
        return name
    transform, inner = getattr(given, "transform", None), getattr(given, "term", None)
    parsed = None if transform is None else parse_transform(str(transform))
    column = getattr(inner, "name", None)
    if parsed is None or isinstance(parsed, UnknownTransform) or not isinstance(column, str):
        raise ExpressionError(f"PyIceberg's term {given!r} is not known here")
    return TransformTerm(column, parsed)


def _literal(given: Any) -> Any:
    kind, value = type(given).__name__, given.value
    match kind:
        case "DateLiteral":
            return TypedValue(DateType(), value)
        case "TimestampLiteral":
            return TypedValue(TimestampType(), value)
        case "TimeLiteral":
            return TypedValue(TimeType(), value)
        case "UUIDLiteral":
            return value if isinstance(value, uuid.UUID) else uuid.UUID(bytes=value)
        case _:
            return value
