"""Binding: literals of every kind against columns of every type, three-valued logic, folding."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pytest

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.build import (
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    LessThan,
    Like,
    Not,
    NotEqualTo,
    NotIn,
    NotNull,
)
from icecore.engine.expression.nodes import (
    FALSE,
    TRUE,
    BoundTerm,
    Expression,
    Predicate,
    PredicateOperator,
    TransformTerm,
)
from icecore.engine.expression.sql.duckdb_sql import to_sql
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.expression.walk import references
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import BucketTransform, VoidTransform
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

INNER = StructType((NestedField(31, "need", IntegerType(), True), NestedField(32, "a.b", IntegerType(), False)))
SCHEMA = Schema(
    (
        NestedField(1, "id", LongType(), True),
        NestedField(2, "s", StringType()),
        NestedField(3, "ts", TimestampType()),
        NestedField(4, "d", DateType()),
        NestedField(5, "dec", DecimalType(12, 2)),
        NestedField(6, "f", FloatType()),
        NestedField(7, "i", IntegerType()),
        NestedField(8, "b", BooleanType()),
        NestedField(9, "bin", BinaryType()),
        NestedField(10, "u", UUIDType()),
        NestedField(11, "tz", TimestamptzType()),
        NestedField(12, "ns", TimestampNanoType()),
        NestedField(13, "x", DoubleType()),
        NestedField(14, "t", TimeType()),
        NestedField(15, "fix", FixedType(2)),
        NestedField(16, "nothing", UnknownType()),
        NestedField(17, "v", VariantType()),
        NestedField(18, "tags", ListType(19, StringType())),
        NestedField(20, "opt", INNER),
        NestedField(21, "req", StructType((NestedField(33, "need", IntegerType(), True),)), True),
    )
)


def sql(e: str | Expression) -> str:
    """The bound filter as text with its values inside."""
    parameters: dict[str, Any] = {}
    text = to_sql(bind(parse_filter(e), SCHEMA), lambda t: t.name, parameters, lambda t: f"bucket({t.name})")
    for name in sorted(parameters, key=len, reverse=True):
        text = text.replace(f"${name}", repr(parameters[name]))
    return text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i < 5.5", "i < 6::INTEGER"),
        ("i <= 5.5", "i <= 5::INTEGER"),
        ("i = 5.5", "FALSE"),
        ("i <> 5.5", "i IS NOT NULL"),
        ("i = 5.0", "i = 5::INTEGER"),
        ("i > -0.5", "i > -1::INTEGER"),
        ("i < 99999999999", "i IS NOT NULL"),
        ("i > 99999999999", "FALSE"),
        ("i <> 99999999999", "i IS NOT NULL"),
        ("i >= -2147483648", "i IS NOT NULL"),
        ("i < -2147483648", "FALSE"),
        ("i > 2147483647", "FALSE"),
        ("i < 'Infinity'::DOUBLE", "i IS NOT NULL"),
        ("i >= 'NaN'::DOUBLE", "FALSE"),
        ("i < 'NaN'::DOUBLE", "i IS NOT NULL"),
        ("i IN (1, 2, 2.0, 5.5)", "i IN (1::INTEGER, 2::INTEGER)"),
        ("i NOT IN (5.5)", "i IS NOT NULL"),
        ("i = '12'", "i = 12::INTEGER"),
        ("id > 9007199254740992e0", "id > 9007199254740993::BIGINT"),
        ("id = 9007199254740992e0", "(id >= 9007199254740992::BIGINT AND id <= 9007199254740993::BIGINT)"),
        ("id <> 99999999999999999999", "TRUE"),
        ("dec > 4.999", "dec > Decimal('4.99')::decimal(12, 2)"),
        ("dec < 4.999", "dec < Decimal('5.00')::decimal(12, 2)"),
        ("dec = 4.999", "FALSE"),
        ("dec = 5", "dec = Decimal('5.00')::decimal(12, 2)"),
        ("dec = 0.1e0", "dec = Decimal('0.10')::decimal(12, 2)"),
        ("dec < 99999999999", "dec IS NOT NULL"),
        ("dec = '5.00'", "dec = Decimal('5.00')::decimal(12, 2)"),
        ("f = 0.1", "f = 0.10000000149011612::FLOAT"),
        ("f > 1e-1", "f > 0.09999999403953552::FLOAT"),
        ("f <= 1e-1", "f <= 0.09999999403953552::FLOAT"),
        ("f = 1e-1", "FALSE"),
        ("f < 1e39", "f < inf::FLOAT"),
        ("f > 'NaN'::DOUBLE", "FALSE"),
        ("f < 'NaN'::DOUBLE", "NOT isnan(f)"),
        ("f >= 'NaN'", "isnan(f)"),
        ("f <= 'NaN'::FLOAT", "f IS NOT NULL"),
        ("f <> 'NaN'::FLOAT", "NOT isnan(f)"),
        ("x IN ('NaN'::DOUBLE, 1e0)", "(isnan(x) OR x = 1.0::DOUBLE)"),
        ("x NOT IN ('NaN'::DOUBLE, 1e0)", "(NOT isnan(x) AND x <> 1.0::DOUBLE)"),
        ("x = 0.1::FLOAT", "x = 0.10000000149011612::DOUBLE"),
        ("d < TIMESTAMP '1970-01-01 12:00:00'", "d < 1::INTEGER"),
        ("d = TIMESTAMP '1970-01-01 12:00:00'", "FALSE"),
        ("d <= TIMESTAMP '1969-12-31 23:00:00'", "d <= -1::INTEGER"),
        ("d = '1970-01-01T00:00:00'", "d = 0::INTEGER"),
        ("ts = DATE '1970-01-02'", "ts = 86400000000::BIGINT"),
        ("ts = TIMESTAMPTZ '1970-01-01 01:00:00+01'", "ts = 0::BIGINT"),
        ("ts = '1970-01-01T00:00Z'", "ts = 0::BIGINT"),
        ("ts < TIMESTAMP_NS '1970-01-01 00:00:00.000000001'", "ts < 1::BIGINT"),
        ("ns >= TIMESTAMP '1970-01-01 00:00:00.000001'", "ns >= 1000::BIGINT"),
        ("ts < TIMESTAMP '294247-01-11'", "ts IS NOT NULL"),
        ("t = '00:00:01'", "t = 1000000::BIGINT"),
        ("b <> TRUE", "b = False"),
        ("b = 'TRUE'", "b = True"),
        ("fix > X'0001'", "fix > b'\\x00\\x01'::BLOB"),
        ("u = '00000000-0000-0000-0000-000000000001'", f"u = {uuid.UUID(int=1)!r}::UUID"),
        ("nothing = 1", "FALSE"),
        ("nothing IS NULL", "TRUE"),
        ("v IS NULL OR tags IS NULL OR opt IS NULL", "(v IS NULL OR tags IS NULL OR opt IS NULL)"),
        ("id IS NULL", "FALSE"),
        ("id IS NOT NULL AND req.need IS NOT NULL", "TRUE"),
        ("opt.need IS NULL", "opt.need IS NULL"),
        ('opt."a.b" = 1', "opt.a.b = 1::INTEGER"),
        ("bucket(16, id) = 3", "bucket(id) = 3::INTEGER"),
        ("bucket(16, i) IS NULL", "i IS NULL"),
    ],
)
def test_comparisons_in_values_of_the_column(text: str, expected: str) -> None:
    assert sql(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = NULL", "FALSE"),
        ("NOT (i = NULL)", "FALSE"),
        ("i <> NULL OR i > 1", "i > 1::INTEGER"),
        ("i IN (1, NULL)", "i = 1::INTEGER"),
        ("i NOT IN (1, NULL)", "FALSE"),
        ("NOT (i NOT IN (1, NULL))", "i = 1::INTEGER"),
        ("NOT (i < 1)", "i >= 1::INTEGER"),
        ("NOT (i < 1 AND s = 'a')", "(i >= 1::INTEGER OR s <> 'a')"),
        ("NOT (i IS NULL)", "i IS NOT NULL"),
        ("NOT (NOT i = 1)", "i = 1::INTEGER"),
        ("i IS DISTINCT FROM 3", "(i IS NULL OR i <> 3::INTEGER)"),
        ("i IS NOT DISTINCT FROM 3", "i = 3::INTEGER"),
        ("NOT (i IS NOT DISTINCT FROM 3)", "(i IS NULL OR i <> 3::INTEGER)"),
        ("b IS NOT TRUE", "(b IS NULL OR b = False)"),
        ("s LIKE NULL", "FALSE"),
        ("NOT (f > 5)", "f <= 5.0::FLOAT"),
        ("i NOT BETWEEN 1 AND NULL", "i < 1::INTEGER"),
        ("s LIKE 'abc'", "s = 'abc'"),
        ("s LIKE 'ab%'", "starts_with(s, 'ab')"),
        ("s NOT LIKE 'ab%'", "NOT starts_with(s, 'ab')"),
        ("s LIKE 'a!%' ESCAPE '!'", "s = 'a%'"),
        ("s LIKE '%'", "s IS NOT NULL"),
        ("s NOT LIKE '%'", "FALSE"),
        ("s LIKE 'a_%'", "s LIKE 'a_%'"),
        ("starts_with(s, '')", "s IS NOT NULL"),
        ("i > 1 AND i IS NOT NULL", "i > 1::INTEGER"),
        ("i > 1 AND i IS NULL", "FALSE"),
        ("i > 1 OR i IS NOT NULL", "i IS NOT NULL"),
        ("i IS NULL OR i IS NOT NULL", "TRUE"),
        ("i = 1 AND (i = 1 AND (s = 'a' OR TRUE))", "i = 1::INTEGER"),
    ],
)
def test_three_valued_logic_and_folding(text: str, expected: str) -> None:
    assert sql(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("year(ts) = 2024", "(ts >= 1704067200000000::BIGINT"),
        ("year(d) > 2024", "d >= 20089::INTEGER"),
        ("month(d) <= '1970-02'", "d < 59::INTEGER"),
        ("month(d) <= DATE '1970-02-28'", "d < 59::INTEGER"),
        ("day(ts) <= DATE '1969-12-31'", "ts < 0::BIGINT"),
        ("hour(ts) < '1970-01-01-05'", "ts < 18000000000::BIGINT"),
        ("hour(ts) < TIMESTAMP '1970-01-01 05:59:00'", "ts < 18000000000::BIGINT"),
        ("truncate(10, i) = 20", "(i >= 20::INTEGER AND i < 30::INTEGER)"),
        ("truncate(10, i) = 25", "FALSE"),
        ("truncate(10, i) < 25", "i < 30::INTEGER"),
        ("truncate(10, i) <= -1", "i < 0::INTEGER"),
        ("truncate(4, s) = 'abcd'", "starts_with(s, 'abcd')"),
        ("truncate(4, s) = 'abc'", "s = 'abc'"),
        ("truncate(3, s) > 'abcd'", "s >= 'abd'"),
        (
            "truncate(50, dec) = 1.5",
            "(dec >= Decimal('1.50')::decimal(12, 2) AND dec < Decimal('2.00')::decimal(12, 2))",
        ),
        ("truncate(1, bin) <> X'AA'", "(bin < b'\\xaa'::BLOB OR bin >= b'\\xab'::BLOB)"),
    ],
)
def test_transforms_become_ranges_of_their_column(text: str, expected: str) -> None:
    assert sql(text).startswith(expected)


def test_runs_of_days_become_one_range() -> None:
    text = ", ".join(f"DATE '2024-01-{d:02d}'" for d in (*range(1, 20), 25))
    assert sql(f"day(ts) IN ({text})").count("::BIGINT") == 4


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (EqualTo("f", 0.1), "f = 0.10000000149011612::FLOAT"),
        (GreaterThan("x", float("nan")), "FALSE"),
        (EqualTo("d", dt.date(1970, 1, 2)), "d = 1::INTEGER"),
        (EqualTo("ts", dt.datetime(1969, 12, 31, 23, 59, 59, 999999)), "ts = -1::BIGINT"),
        (
            EqualTo("ts", dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
            "ts = 0::BIGINT",
        ),
        (EqualTo("t", dt.time(0, 0, 1)), "t = 1000000::BIGINT"),
        (EqualTo("u", uuid.UUID(int=1).bytes), f"u = {uuid.UUID(int=1)!r}::UUID"),
        (EqualTo("bin", bytearray(b"a")), "bin = b'a'::BLOB"),
        (EqualTo("dec", Decimal("1E+2")), "dec = Decimal('100.00')::decimal(12, 2)"),
        (LessThan("dec", Decimal("1E-400")), "dec < Decimal('0.01')::decimal(12, 2)"),
        (GreaterThan("dec", Decimal("-1E+400")), "dec IS NOT NULL"),
        (In("i", []), "FALSE"),
        (NotIn("i", []), "TRUE"),
        (Not(Like("s", "a_")), "s NOT LIKE 'a_'"),
        (NotEqualTo("id", 5), "id <> 5::BIGINT"),
    ],
)
def test_python_literals(e: Expression, expected: str) -> None:
    assert sql(e) == expected


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("zz = 1", ["'zz'", "there are: id"]),
        ("i = 'x'", ["'i'", "int", "'x'"]),
        ("i = TRUE", ["'i'", "bool True"]),
        ("i = '5.5'", ["5.5"]),
        ("b = 1", ["'b'", "boolean", "int 1"]),
        ("d = 5", ["'d'", "date", "int 5"]),
        ("d = '2024-01-01T12:00:00'", ["time of day"]),
        ("ts = 5", ["'ts'"]),
        ("ts = '2024-01-01T00:00:00+02:00'", ["zone"]),
        ("ts = '2024-01-01T00:00:00.0000001'", ["finer"]),
        ("s = 5", ["'s'", "string"]),
        ("u = 'x'", ["uuid", "'x'"]),
        ("bin = 'abc'", ["binary"]),
        ("fix = X'00'", ["1 bytes", "fixed[2]"]),
        ("dec = '4.999'", ["4.999"]),
        ("isnan(i)", ["float and double"]),
        ("i LIKE 'a%'", ["string"]),
        ("day(ts) = 15", ["day", "a date", "15"]),
        ("month(ts) = 3", ["month", "YYYY-MM"]),
        ("year(s) = 2024", ["year", "'s'"]),
        ("bucket(4, f) = 1", ["bucket[4]", "'f'"]),
        ("v = 1", ["variant", "null"]),
        ("tags = 'a'", ["list", "null"]),
        ("tags.element = 'a'", ["inside a list"]),
        ("s LIKE 'a!' ESCAPE '!'", ["escape"]),
        ("hour(d) = '2024-01-01-01'", ["hour", "'d'"]),
    ],
)
def test_errors_name_column_type_and_literal(text: str, pieces: list[str]) -> None:
    with pytest.raises(ExpressionError) as e:
        bind(parse_filter(text), SCHEMA)
    assert all(p in str(e.value) for p in pieces), str(e.value)


def test_case_insensitive_names_and_references() -> None:
    bound = bind(parse_filter("ID = 1 AND OPT.NEED > 2"), SCHEMA, case_sensitive=False)
    assert references(bound) == {1, 31}
    with pytest.raises(ExpressionError):
        bind(parse_filter("ID = 1"), SCHEMA)


def test_a_bound_expression_stays_as_it_is() -> None:
    text = "i > 1 AND s LIKE 'a%' OR NOT (x IS NULL OR f = 0.5)"
    bound = bind(parse_filter(text), SCHEMA)
    assert bind(bound, SCHEMA) == bound
    assert bind(Not(bound), SCHEMA) == bind(parse_filter(f"NOT ({text})"), SCHEMA)


def test_the_leaf_of_a_bucket_keeps_its_transform() -> None:
    bound = bind(EqualTo(TransformTerm("id", BucketTransform(16)), 3), SCHEMA)
    field = SCHEMA.find_field("id")
    assert bound == Predicate(PredicateOperator.EQ, BoundTerm(field, "id", BucketTransform(16)), (3,))
    with pytest.raises(ExpressionError, match="can't be computed"):
        bind(EqualTo(TransformTerm("id", VoidTransform()), 3), SCHEMA)
    assert bind(IsNull("id"), SCHEMA) == FALSE and bind(NotNull("id"), SCHEMA) == TRUE
