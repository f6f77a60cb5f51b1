"""Filters made with PyIceberg's classes are ours, value for value; what can't be is refused by name."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import pytest
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, In, NotIn, Or, StartsWith
from pyiceberg.schema import Schema as TheirSchema
from pyiceberg.types import LongType as TheirLong
from pyiceberg.types import NestedField as TheirField

from icecore.engine.errors import ExpressionError
from icecore.engine.expression import build
from icecore.engine.expression.bind import bind
from icecore.engine.expression.evaluate import evaluate
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

AN_ID = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
NOON = dt.datetime(2024, 2, 29, 12, 30, 0, 5)


@pytest.mark.parametrize(
    ("kind", "literal"),
    [
        (BooleanType(), True),
        (DateType(), dt.date(2024, 2, 29)),
        (TimeType(), dt.time(12, 30, 0, 5)),
        (TimestampType(), NOON),
        (TimestamptzType(), NOON.replace(tzinfo=dt.UTC)),
        (DecimalType(9, 2), Decimal("12.50")),
        (StringType(), "x"),
        (UUIDType(), AN_ID),
        (BinaryType(), b"\x00\xff"),
    ],
    ids=str,
)
def test_a_literal_is_the_same_value(kind: PrimitiveType, literal: object) -> None:
    schema = Schema((NestedField(1, "x", kind, required=False),))
    assert bind(parse_filter(EqualTo("x", literal)), schema) == bind(build.EqualTo("x", literal), schema)


def test_a_naive_timestamp_is_utc_in_a_column_with_a_zone_as_in_pyiceberg() -> None:
    schema = Schema((NestedField(1, "x", TimestamptzType(), required=False),))
    expected = bind(build.EqualTo("x", NOON.replace(tzinfo=dt.UTC)), schema)
    assert bind(parse_filter(EqualTo("x", NOON)), schema) == expected


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (AlwaysTrue(), TRUE),
        (And(EqualTo("a", 1), EqualTo("b.c", 2)), build.And(build.EqualTo("a", 1), build.EqualTo("b.c", 2))),
        (Or(EqualTo("a", 1), StartsWith("s", "x")), build.Or(build.EqualTo("a", 1), build.StartsWith("s", "x"))),
        (~EqualTo("a", 1), build.NotEqualTo("a", 1)),
        (In("a", [2, 1]), build.In("a", [1, 2])),
        (NotIn("a", [1, 2]), build.NotIn("a", [1, 2])),
    ],
    ids=str,
)
def test_a_condition_is_the_same(theirs: BooleanExpression, ours: Expression) -> None:
    assert parse_filter(theirs) == ours


def test_not_in_does_not_select_a_null() -> None:
    schema = Schema((NestedField(1, "s", StringType(), required=False),))
    bound = bind(parse_filter(NotIn("s", ["a", "b"])), schema)
    assert not evaluate(bound, lambda _: None)
    assert not evaluate(bound, lambda _: "a")
    assert evaluate(bound, lambda _: "c")


def test_a_bound_filter_is_refused_by_its_name() -> None:
    bound = EqualTo("a", 1).bind(TheirSchema(TheirField(1, "a", TheirLong())))
    with pytest.raises(ExpressionError, match="PyIceberg's BoundEqualTo is not known here"):
        parse_filter(bound)


def test_a_filter_that_is_too_deep_is_an_error_of_ours() -> None:
    deep: BooleanExpression = EqualTo("a", 1)
    for i in range(5000):
        deep = And(deep, EqualTo("a", i)) if i % 2 else Or(deep, EqualTo("a", i))
    with pytest.raises(ExpressionError, match="too deep"):
        parse_filter(deep)
