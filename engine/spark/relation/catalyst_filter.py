"""A query's filter, as Spark's optimizer hands it to a file index, as a filter of the engine.

The result may select more rows than Spark's filter, never fewer: a part without a counterpart is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from attrs import frozen

from icecore.engine.errors import IcecoreError
from icecore.engine.expression.comparison import compare, in_values, negated
from icecore.engine.expression.nodes import TRUE, BoundTerm, Expression, Predicate, PredicateOperator, TypedValue
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.spark.spark_types import stored_type
from icecore.engine.spec.types import (
    FLOATING_TYPES,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

Columns = Mapping[tuple[str, ...], BoundTerm]

_COMPARISONS = {
    "=": PredicateOperator.EQ,
    "<=>": PredicateOperator.EQ,
    "<": PredicateOperator.LT,
    "<=": PredicateOperator.LT_EQ,
    ">": PredicateOperator.GT,
    ">=": PredicateOperator.GT_EQ,
}
_TESTS = {
    "is-null": PredicateOperator.IS_NULL,
    "not-null": PredicateOperator.NOT_NULL,
    "is-nan": PredicateOperator.IS_NAN,
}
_WHOLE = (IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType)
_BYTES = (BinaryType, FixedType)


class _UnsaidError(Exception):
    """A part of a filter that has no counterpart."""


def filter_of(text: str, columns: Columns) -> Expression:
    """The bound filter of a text that `FilterText` made; `columns` are by the names that Spark reads them by."""
    return _Reader(columns).expression(json.loads(text), negate=False)


def exact_filter_of(text: str, columns: Columns) -> Expression | None:
    """The same filter where it is sure to select the very rows that Spark's does, else None."""
    told = {names: term for names, term in columns.items() if not isinstance(term.field.field_type, FLOATING_TYPES)}
    try:
        return _Reader(told, is_exact=True).expression(json.loads(text), negate=False)
    except _UnsaidError:
        return None


@frozen
class _Reader:
    columns: Columns
    is_exact: bool = False

    def expression(self, node: Any, *, negate: bool) -> Expression:
        match node:
            case ["and" | "or" as word, *parts]:
                made = [self.expression(p, negate=negate) for p in parts]
                # De Morgan holds for three values as well.
                return and_(*made) if (word == "and") is not negate else or_(*made)
            case ["not", part]:
                return self.expression(part, negate=not negate)
            case [word, names, value]:
                try:
                    return self.leaf(word, names, value, negate=negate)
                except (_UnsaidError, IcecoreError, ValueError):
                    return self.unsaid()
            case _:
                return self.unsaid()

    def unsaid(self) -> Expression:
        """The expression that stands for a part without a counterpart; an exact filter has none."""
        if self.is_exact:
            raise _UnsaidError
        return TRUE

    def leaf(self, word: str, names: Sequence[str], value: Any, *, negate: bool) -> Expression:
        term = self.columns.get(tuple(_text(n) for n in names))
        if term is None or (word == "<=>" and negate):
            # For a null `<=>` is false, so its negation is true.
            raise _UnsaidError
        if word in _TESTS:
            return self.test(_TESTS[word], term, negate=negate)
        if word == "in":
            if not value:
                # NOT IN of an empty list is true for a null, too.
                raise _UnsaidError
            op = PredicateOperator.NOT_IN if negate else PredicateOperator.IN
            return in_values(op, term, [_value(term, v) for v in value])
        found = _value(term, value)
        if word == "starts-with":
            return _starts_with(term, found, negate=negate)
        if word not in _COMPARISONS:
            raise _UnsaidError
        op = _COMPARISONS[word]
        return compare(negated(op) if negate else op, term, found)

    def test(self, op: PredicateOperator, term: BoundTerm, *, negate: bool) -> Expression:
        if op is not PredicateOperator.IS_NAN:
            return Predicate(negated(op) if negate else op, term)
        # For a null Spark's isnan is false, and its negation true.
        if negate or not isinstance(term.field.field_type, (FloatType, DoubleType)):
            raise _UnsaidError
        return Predicate(op, term)


def _starts_with(term: BoundTerm, prefix: TypedValue, *, negate: bool) -> Expression:
    if not prefix.value or not isinstance(prefix.type, StringType):
        raise _UnsaidError
    op = PredicateOperator.NOT_STARTS_WITH if negate else PredicateOperator.STARTS_WITH
    return Predicate(op, term, (prefix.value,))


def _value(term: BoundTerm, value: Any) -> TypedValue:
    """A value of exactly the column's type."""
    t = term.field.field_type
    spark_type, text = value
    if not isinstance(t, PrimitiveType) or stored_type(t).simpleString() != spark_type:
        raise _UnsaidError
    return TypedValue(t, _internal(t, text))


def _internal(t: PrimitiveType, text: str) -> Any:
    match t:
        case StringType():
            return _text(text)
        case BooleanType():
            return text == "1"
        case DecimalType():
            return Decimal(text)
        case FloatType() | DoubleType():
            # Java writes Infinity and NaN as Python reads them; and a zero has no sign.
            return float(text) + 0.0
        case _ if isinstance(t, _WHOLE):
            return int(text)
        case _ if isinstance(t, _BYTES):
            return bytes.fromhex(text)
        case _:
            raise _UnsaidError


def _text(hexadecimal: str) -> str:
    return bytes.fromhex(hexadecimal).decode()
