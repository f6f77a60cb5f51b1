"""Filters that Spark pushes down, as filters of a scan.

Spark applies all of them again, so that one which is left out here costs time alone. Each that is taken selects no
fewer rows than Spark does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from pyspark.sql import datasource as spark

from icecore.engine.errors import IcecoreError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import Expression, Not, Predicate, PredicateOperator, Reference
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import TimestampNanoType, TimestamptzNanoType, TimeType, Type, UUIDType

_COMPARISONS = {
    spark.EqualTo: PredicateOperator.EQ,
    spark.EqualNullSafe: PredicateOperator.EQ,
    spark.LessThan: PredicateOperator.LT,
    spark.LessThanOrEqual: PredicateOperator.LT_EQ,
    spark.GreaterThan: PredicateOperator.GT,
    spark.GreaterThanOrEqual: PredicateOperator.GT_EQ,
    spark.StringStartsWith: PredicateOperator.STARTS_WITH,
}
_NULL_TESTS = {spark.IsNull: PredicateOperator.IS_NULL, spark.IsNotNull: PredicateOperator.NOT_NULL}
# What a DataFrame shows is not what is stored, so that comparisons differ.
_SHOWN_DIFFERENTLY = (TimeType, TimestampNanoType, TimestamptzNanoType)


def taken_filters(filters: Iterable[spark.Filter], schema: Schema) -> list[Expression]:
    """The bound expressions of the filters that can be had."""
    found = []
    for f in filters:
        try:
            expression = _expression(f, schema)
            if expression is not None:
                found.append(bind(expression, schema))
        except IcecoreError:
            # A literal that doesn't fit the column.
            continue
    return found


def _expression(f: spark.Filter, schema: Schema) -> Expression | None:
    if isinstance(f, spark.Not):
        # NOT (a <=> 1) is true for nulls, which NOT (a = 1) is not.
        child = None if isinstance(f.child, spark.EqualNullSafe) else _expression(f.child, schema)
        return None if child is None else Not(child)
    path = getattr(f, "attribute", ())
    if not path or any("." in part for part in path):
        return None
    name = ".".join(path)
    field_type = schema.find_field(name).field_type
    if type(f) in _NULL_TESTS:
        return Predicate(_NULL_TESTS[type(f)], Reference(name))
    if isinstance(field_type, _SHOWN_DIFFERENTLY):
        return None
    if isinstance(f, spark.In):
        values = tuple(v for v in f.value if v is not None)
        return _compared(PredicateOperator.IN, name, field_type, values)
    if type(f) in _COMPARISONS:
        if f.value is None:
            is_safe = isinstance(f, spark.EqualNullSafe)
            return Predicate(PredicateOperator.IS_NULL, Reference(name)) if is_safe else None
        return _compared(_COMPARISONS[type(f)], name, field_type, (f.value,))
    return None


def _compared(op: PredicateOperator, name: str, t: Type, values: tuple[Any, ...]) -> Expression | None:
    if isinstance(t, UUIDType):
        # Text is compared as text: only the usual form of a UUID is a UUID's.
        if op not in (PredicateOperator.EQ, PredicateOperator.IN) or not all(_is_uuid_text(v) for v in values):
            return None
        values = tuple(UUID(v) for v in values)
    return Predicate(op, Reference(name), values)


def _is_uuid_text(value: Any) -> bool:
    try:
        return isinstance(value, str) and str(UUID(value)) == value
    except ValueError:
        return False
