"""Filters as data: boolean expressions over columns.

An expression is unbound (names and literals as the user gave them) or bound to a schema (fields by id, literals as
internal values of the term's type, no Not). Rows count as in SQL: a predicate that is neither true nor false because
of a null does not select the row. NaN is greater than every other number and equal to itself, as in DuckDB and Spark.
"""

from __future__ import annotations

import enum
from typing import Any, TypeAlias

from attrs import frozen

from icecore.engine.spec.transform import IdentityTransform, Transform
from icecore.engine.spec.types import NestedField, PrimitiveType


class PredicateOperator(enum.StrEnum):
    """The operators, by the spec's names (Spec: Expressions, E4)."""

    LT = "lt"
    LT_EQ = "lt-eq"
    GT = "gt"
    GT_EQ = "gt-eq"
    EQ = "eq"
    NOT_EQ = "not-eq"
    IN = "in"
    NOT_IN = "not-in"
    IS_NULL = "is-null"
    NOT_NULL = "not-null"
    IS_NAN = "is-nan"
    NOT_NAN = "not-nan"
    STARTS_WITH = "starts-with"
    NOT_STARTS_WITH = "not-starts-with"
    LIKE = "like"
    NOT_LIKE = "not-like"


@frozen
class Reference:
    """A column by its dotted name."""

    name: str


@frozen
class TransformTerm:
    """A transform of a column, such as `bucket(16, id)`."""

    name: str
    transform: Transform


@frozen
class BoundTerm:
    """A column of a schema, with identity or another transform. `name` is its dotted name when bound.

    `bind` leaves only identity and bucket: a predicate on any other transform becomes one on the column itself. Only in
    tests for null may the column be of a nested type.
    """

    field: NestedField
    name: str
    transform: Transform = IdentityTransform()

    @property
    def source_type(self) -> PrimitiveType:
        """The type of the column."""
        return self.field.field_type  # type: ignore[return-value]  # only null tests see a nested type

    @property
    def result_type(self) -> PrimitiveType:
        """The type of the term: the column's, transformed."""
        return self.transform.result_type(self.source_type)


@frozen
class TypedValue:
    """A literal that brings its type along: `DATE '2024-01-01'`, `1e0`, `CAST('1' AS FLOAT)`.

    `value` is an internal value of the type (see `engine/spec/single_value.py`). Other literals are plain Python values
    and take their type from the column: None, bool, int, float, Decimal, str, bytes, date, datetime, time, UUID.
    """

    type: PrimitiveType
    value: Any


Term: TypeAlias = Reference | TransformTerm | BoundTerm


@frozen
class AlwaysTrue:
    """Every row."""


@frozen
class AlwaysFalse:
    """No row."""


@frozen
class And:
    """All of the children."""

    children: tuple[Expression, ...]


@frozen
class Or:
    """At least one of the children."""

    children: tuple[Expression, ...]


@frozen
class Not:
    """SQL's NOT: neither true nor false where the child is neither. Never in a bound expression."""

    child: Expression


@frozen
class Predicate:
    """A leaf: an operator over a term, with no literal for null and NaN tests, any number for IN and NOT IN.

    LIKE has the pattern, with `%` and `_` as wildcards, and after it the escape character where one was given.
    """

    op: PredicateOperator
    term: Term
    literals: tuple[Any, ...] = ()


Expression: TypeAlias = AlwaysTrue | AlwaysFalse | And | Or | Not | Predicate

TRUE = AlwaysTrue()
FALSE = AlwaysFalse()
