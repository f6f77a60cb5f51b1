"""Filters from SQL text."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pytest

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.build import (
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Like,
    Not,
    NotEqualTo,
    NotIn,
    NotNull,
    Or,
    StartsWith,
)
from icecore.engine.expression.nodes import AlwaysFalse, AlwaysTrue, Expression, TransformTerm, TypedValue
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.spec.transform import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from icecore.engine.spec.types import (
    DateType,
    DoubleType,
    FloatType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

A = "12345678-1234-1234-1234-123456789abc"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", EqualTo("x", 1)),
        ("x == 1", EqualTo("x", 1)),
        ("x <> -1 -- why not", NotEqualTo("x", -1)),
        ("x != 1.50", NotEqualTo("x", Decimal("1.50"))),
        ("1 < x", GreaterThan("x", 1)),
        ("1 >= x", LessThanOrEqual("x", 1)),
        ("x >= 'a''b'", GreaterThanOrEqual("x", "a'b")),
        ("x IN (1, 2, NULL)", In("x", [1, 2, None])),
        ("x NOT IN ('a')", Not(In("x", ["a"]))),
        ("x IS NULL", IsNull("x")),
        ("x IS NOT NULL", Not(IsNull("x"))),
        ("isnan(x) OR x IS NAN", IsNaN("x")),
        ("x IS NOT DISTINCT FROM 3", And(Not(IsNull("x")), EqualTo("x", 3))),
        ("x IS DISTINCT FROM 3", Or(IsNull("x"), NotEqualTo("x", 3))),
        ("x IS DISTINCT FROM NULL", Not(IsNull("x"))),
        ("x LIKE 'a%'", Like("x", "a%")),
        ("x NOT LIKE 'a!_' ESCAPE '!'", Not(Like("x", "a!_", "!"))),
        ("starts_with(x, 'p')", StartsWith("x", "p")),
        ("x ^@ 'p'", StartsWith("x", "p")),
        ("prefix(x, 'p')", StartsWith("x", "p")),
        ("x BETWEEN 1 AND 2", And(GreaterThanOrEqual("x", 1), LessThanOrEqual("x", 2))),
        ("x NOT BETWEEN 1 AND 2", Not(And(GreaterThanOrEqual("x", 1), LessThanOrEqual("x", 2)))),
        ("5 BETWEEN x AND y", And(LessThanOrEqual("x", 5), GreaterThanOrEqual("y", 5))),
        ("a AND NOT b", And(EqualTo("a", True), Not(EqualTo("b", True)))),
        ("a IS TRUE", And(NotNull("a"), EqualTo("a", True))),
        ("TRUE", AlwaysTrue()),
        ("1 = 1 AND 2 < 1.5", AlwaysFalse()),
        ("(x = 1 OR (y = 2)) AND z = 3", And(Or(EqualTo("x", 1), EqualTo("y", 2)), EqualTo("z", 3))),
        ('a.b.c = 1 OR "a.b"."c d" = 2', Or(EqualTo("a.b.c", 1), EqualTo("a.b.c d", 2))),
        ('"a"."b"."c"."d"."e" = 1', EqualTo("a.b.c.d.e", 1)),
        ("date = 1 AND timestamp = 2 AND day = 3", And(EqualTo("date", 1), EqualTo("timestamp", 2), EqualTo("day", 3))),
    ],
)
def test_conditions(text: str, expected: Expression) -> None:
    assert parse_filter(text) == expected


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("1e3", TypedValue(DoubleType(), 1000.0)),
        ("-(-5)", 5),
        ("0.1::FLOAT", TypedValue(FloatType(), 0.10000000149011612)),
        ("'NaN'::DOUBLE", None),
        ("5::DOUBLE", TypedValue(DoubleType(), 5.0)),
        ("'4.999'::DECIMAL(10, 2)", Decimal("5.00")),
        ("-4.995::DECIMAL(10, 2)", Decimal("-5.00")),
        ("CAST('12' AS BIGINT)", 12),
        ("'true'::BOOLEAN", True),
        ("DATE '1969-12-31'", TypedValue(DateType(), -1)),
        ("DATE '12024-01-01'", TypedValue(DateType(), 3672148)),
        ("TIME '01:00'", TypedValue(TimeType(), 3_600_000_000)),
        ("TIMESTAMP '1970-01-01 00:00:01.5'", TypedValue(TimestampType(), 1_500_000)),
        ("TIMESTAMP_NS '1970-01-01 00:00:00.000000001'", TypedValue(TimestampNanoType(), 1)),
        ("'1970-01-01 00:00:01.5'::TIMESTAMP_MS", TypedValue(TimestampType(), 1_500_000)),
        ("TIMESTAMPTZ '1970-01-01 01:00:00+01'", TypedValue(TimestamptzType(), 0)),
        ("TIMESTAMPTZ '1970-01-01'", TypedValue(TimestamptzType(), 0)),
        (f"'{A}'::UUID", TypedValue(UUIDType(), uuid.UUID(A))),
        ("X'00fF'", b"\x00\xff"),
        (r"'a\xAAb'::BLOB", b"a\xaab"),
        ("'12345678901234567890.123456789012345678901'", "12345678901234567890.123456789012345678901"),
        ("1.23456789012345678901234567890123456789", TypedValue(DoubleType(), 1.2345678901234568)),
    ],
)
def test_literals(literal: str, expected: Any) -> None:
    found = parse_filter(f"x = {literal}").literals  # type: ignore[union-attr]
    if expected is None:
        assert found[0].value != found[0].value
    else:
        assert found == (expected,) and type(found[0]) is type(expected)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("bucket(16, id)", BucketTransform(16)),
        ("truncate(4, id)", TruncateTransform(4)),
        ("truncate(id, 4)", TruncateTransform(4)),
        ("year(id)", YearTransform()),
        ("months(id)", MonthTransform()),
        ("day(id)", DayTransform()),
        ("CAST(id AS DATE)", DayTransform()),
        ("hours(id)", HourTransform()),
    ],
)
def test_transform_terms(term: str, expected: Any) -> None:
    assert parse_filter(f"{term} = 3") == EqualTo(TransformTerm("id", expected), 3)


@pytest.mark.parametrize(
    ("text", "parameters", "expected"),
    [
        ("x = $a OR x = :b", {"a": 1, "b": "z"}, Or(EqualTo("x", 1), EqualTo("x", "z"))),
        ("x = ? AND ? < y", [1, 2], And(EqualTo("x", 1), GreaterThan("y", 2))),
        ("x BETWEEN ? AND ? OR y IN (?, ?)", (1, 2, 3, 4), Or(parse_filter("x BETWEEN 1 AND 2"), In("y", [3, 4]))),
        ("x = $2 AND y = $1", ["one", "two"], And(EqualTo("x", "two"), EqualTo("y", "one"))),
        ("x IN $ids", {"ids": [3, 1]}, In("x", [3, 1])),
        ("x NOT IN ($ids)", {"ids": (3, None)}, Not(In("x", [3, None]))),
        ("x = $f", {"f": 0.1}, EqualTo("x", TypedValue(DoubleType(), 0.1))),
        ("x = $n", {"n": None}, EqualTo("x", None)),
    ],
)
def test_parameters(text: str, parameters: Any, expected: Expression) -> None:
    assert parse_filter(text, parameters) == expected


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("x + 1 = 2", "x + 1"),
        ("x = y", "must compare a column with a literal: y is read as a column, as a text it is 'y'"),
        ('x = "it\'s"', "literal: \"it's\" is read as a column, as a text it is 'it''s'"),
        ('x IN (1, "it\'s")', "needs: \"it's\" is read as a column, as a text it is 'it''s'"),
        ('x LIKE "a%"', "needs: \"a%\" is read as a column, as a text it is 'a%'"),
        ("x BETWEEN a AND 'b'", "needs: a is read as a column, as a text it is 'a'"),
        ("x IN (SELECT 1)", "subquery"),
        ("x = (SELECT 1)", "must compare"),
        ("foo(x) = 1", "FOO(x)"),
        ("x ILIKE 'a'", "ILIKE"),
        ("x ~ 'a'", "REGEXP"),
        ("NULL", "NULL"),
        ("x = 1 garbage", "can't parse"),
        ("x = 1; DROP TABLE t", "can't parse"),
        ("SELECT 1", "can't parse"),
        ("", "can't parse"),
        ("x = $a", "'a'"),
        ("x = ?", "'?'"),
        ("x = TRY_CAST('1' AS INT)", "must compare"),
        ("x BETWEEN SYMMETRIC 2 AND 1", "write the bounds in order"),
        ("DATE '2024-13-01' = x", "2024-13-01"),
        ("x = 'abc'::INT", "'abc'"),
        ("x = TIMESTAMP '2024-01-01 00:00:00+02'", "zone"),
        ("x = TIMESTAMP_S '2024-01-01 00:00:00.5'", "TIMESTAMP_S"),
        ("x > '2024-01-01 00:00:00.0005'::TIMESTAMP_MS", "TIMESTAMP_MS"),
        ("x = INTERVAL 1 DAY", "must compare"),
        ("a[1] = 2", "a[1]"),
        ("day(year(x)) = 1", "transform"),
        ("CASE WHEN a THEN b END", "CASE"),
        ("x IS JSON", "IS JSON"),
        ("bucket(x) = 1", "bucket(<number>, <column>)"),
        ("x = '2024-01-01'::INTERVAL", "not supported"),
        ("x < 1 < 2", "not a column"),
        ("x = 'a' COLLATE nocase", "must compare"),
    ],
)
def test_what_is_not_understood_is_named(text: str, piece: str) -> None:
    with pytest.raises(ExpressionError) as e:
        parse_filter(text)
    assert piece in str(e.value)


def test_parameters_must_match_the_question_marks() -> None:
    with pytest.raises(ExpressionError, match="2 parameters, 1 values"):
        parse_filter("x = ? AND y = ?", [1])
    with pytest.raises(ExpressionError, match="fits only IN"):
        parse_filter("x = $l", {"l": [1]})


def test_an_expression_and_none_need_no_parsing() -> None:
    e = EqualTo("x", 1)
    assert parse_filter(e) is e
    assert parse_filter(None) == AlwaysTrue()
    with pytest.raises(ExpressionError, match="found int"):
        parse_filter(5)  # type: ignore[arg-type]


def test_long_chains_and_deep_nesting() -> None:
    """A thousand ORs are flat; nesting beyond reason is an error, not a crash."""
    text = " OR ".join(f"x = {i}" for i in range(3000))
    assert len(parse_filter(text).children) == 3000  # type: ignore[union-attr]
    with pytest.raises(ExpressionError):
        parse_filter("(" * 5000 + "x = 1" + ")" * 5000)


def test_not_in_keeps_its_null_until_it_is_bound() -> None:
    assert parse_filter("x NOT IN (1, NULL)") == Not(In("x", [1, None]))
    assert NotIn("x", {2, 1}) == NotIn("x", [1, 2])
    assert LessThan("x", 1) != LessThan("x", 1.5)
