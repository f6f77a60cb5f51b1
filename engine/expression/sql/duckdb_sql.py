"""Bound expressions as DuckDB SQL over rows of data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from attrs import frozen

from icecore.engine.errors import ExpressionError
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
from icecore.engine.spec.transform import BucketTransform
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

INLINE_LITERALS = 20
"""Up to so many literals of an IN become parameters, more a table: DuckDB's client copies a list at each use."""

COMPARISONS = {
    PredicateOperator.LT: "<",
    PredicateOperator.LT_EQ: "<=",
    PredicateOperator.GT: ">",
    PredicateOperator.GT_EQ: ">=",
    PredicateOperator.EQ: "=",
    PredicateOperator.NOT_EQ: "<>",
}


def to_sql(
    bound: Expression,
    column: Callable[[BoundTerm], str],
    parameters: dict[str, Any],
    bucket: Callable[[BoundTerm], str] | None = None,
    listed: Callable[[tuple[Any, ...]], str] | None = None,
) -> str:
    """A DuckDB condition that selects the rows of a bound expression.

    `column` gives the SQL of a term's column, quoted, of the DuckDB type that its Iceberg type is read as; dates and
    times must be integers, because DuckDB's own have a smaller range and infinities. Values go to `parameters` as
    `p0`, `p1` and so on, after those that are there. `bucket` gives the SQL of a term's bucket number; without it a
    predicate on a bucket raises ExpressionError, because DuckDB has no such function. `listed` makes a table with the
    many values of an IN in its column `value`, and gives its name; without it each value is a parameter.
    """

    def sql(e: Expression) -> str:
        match e:
            case AlwaysTrue():
                return "TRUE"
            case AlwaysFalse():
                return "FALSE"
            case And(children=children):
                return "(" + " AND ".join(map(sql, children)) + ")"
            case Or(children=children):
                return "(" + " OR ".join(map(sql, children)) + ")"
            case Not():
                raise ExpressionError("a bound expression has no NOT")
            case Predicate(term=BoundTerm() as term):
                return _leaf(e, _term_sql(term, column, bucket), _RowValues(term.result_type, parameters, listed))
            case Predicate():
                raise ExpressionError(f"the predicate on {e.term.name!r} is not bound")
            case _:
                assert_never(e)

    return sql(bound)


def _add_parameter(parameters: dict[str, Any], value: Any) -> str:
    """The reference to a new named parameter with that value."""
    name = f"p{len(parameters)}"
    parameters[name] = value
    return f"${name}"


def _term_sql(term: BoundTerm, column: Callable[[BoundTerm], str], bucket: Callable[[BoundTerm], str] | None) -> str:
    if not isinstance(term.transform, BucketTransform):
        return column(term)
    if bucket is None:
        raise ExpressionError(f"{term.transform} of column {term.name!r} can't be computed in SQL")
    return bucket(term)


@frozen
class _RowValues:
    """Literals of one type as SQL, in DuckDB's own types."""

    type: PrimitiveType
    parameters: dict[str, Any]
    listed: Callable[[tuple[Any, ...]], str] | None

    def one(self, value: Any) -> str:
        ref = _add_parameter(self.parameters, value)
        match self.type:
            case BooleanType() | StringType():
                return ref
            case _:
                return f"{ref}::{self.name()}"

    def many(self, column: str, values: tuple[Any, ...]) -> str:
        """`column IN values`."""
        if self.listed is None or len(values) <= INLINE_LITERALS:
            return f"{column} IN ({', '.join(map(self.one, values))})"
        source = f"SELECT value::{self.name()} FROM {self.listed(values)}"
        return f"{column} IN ({source})"

    def name(self) -> str:
        """The type as DuckDB has it; a decimal's name is the same there."""
        return _PLAIN.get(type(self.type)) or str(self.type)


_PLAIN: dict[type[PrimitiveType], str] = {
    BooleanType: "BOOLEAN",
    IntegerType: "INTEGER",
    LongType: "BIGINT",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
    DateType: "INTEGER",
    TimeType: "BIGINT",
    TimestampType: "BIGINT",
    TimestamptzType: "BIGINT",
    TimestampNanoType: "BIGINT",
    TimestamptzNanoType: "BIGINT",
    StringType: "VARCHAR",
    UUIDType: "UUID",
    FixedType: "BLOB",
    BinaryType: "BLOB",
}


def _leaf(p: Predicate, column: str, values: _RowValues) -> str:
    match p.op:
        case PredicateOperator.IS_NULL:
            return f"{column} IS NULL"
        case PredicateOperator.NOT_NULL:
            return f"{column} IS NOT NULL"
        case PredicateOperator.IS_NAN:
            return f"isnan({column})"
        case PredicateOperator.NOT_NAN:
            return f"NOT isnan({column})"
        case PredicateOperator.IN:
            return values.many(column, p.literals)
        case PredicateOperator.NOT_IN:
            return f"NOT ({values.many(column, p.literals)})"
        case PredicateOperator.STARTS_WITH:
            return f"starts_with({column}, {values.one(p.literals[0])})"
        case PredicateOperator.NOT_STARTS_WITH:
            return f"NOT starts_with({column}, {values.one(p.literals[0])})"
        case PredicateOperator.LIKE | PredicateOperator.NOT_LIKE:
            pattern, *escape = map(values.one, p.literals)
            word = "LIKE" if p.op is PredicateOperator.LIKE else "NOT LIKE"
            return f"{column} {word} {pattern}" + (f" ESCAPE {escape[0]}" if escape else "")
        case (
            PredicateOperator.LT
            | PredicateOperator.LT_EQ
            | PredicateOperator.GT
            | PredicateOperator.GT_EQ
            | PredicateOperator.EQ
            | PredicateOperator.NOT_EQ
        ):
            return f"{column} {COMPARISONS[p.op]} {values.one(p.literals[0])}"
        case _:
            assert_never(p.op)
