"""Parameters of every Python type, and those of numpy, pandas and Arrow."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.build import EqualTo
from icecore.engine.expression.nodes import FALSE, BoundTerm, Expression, Predicate, PredicateOperator
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import NestedField, parse_primitive

TYPES: tuple[str, ...] = (
    "int",
    "long",
    "float",
    "double",
    "decimal(9,2)",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "timestamp_ns",
)
TYPES += ("timestamptz_ns", "string", "uuid", "binary", "boolean")
NAMES = [t.partition("(")[0] for t in TYPES]
SCHEMA = Schema(
    tuple(NestedField(i + 1, n, parse_primitive(t)) for i, (n, t) in enumerate(zip(NAMES, TYPES, strict=True)))
)
HOUR = 3_600_000_000
THREE = 1_704_078_000_000_000
EAST = dt.timezone(dt.timedelta(hours=2))


def bound(text: str, *parameters: Any) -> Expression:
    return bind(parse_filter(text, parameters), SCHEMA)


def literals(e: Expression) -> tuple[Any, ...]:
    assert isinstance(e, Predicate) and isinstance(e.term, BoundTerm), e
    return e.literals


def plain(value: Any) -> str:
    """The value as text, or its type where the text would hold an address: names of tests must not change."""
    text = repr(value)
    return type(value).__name__ if " at 0x" in text else text


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("int", 1, 1),
        ("int", np.int8(1), 1),
        ("int", np.uint64(1), 1),
        ("long", pa.scalar(2**40), 2**40),
        ("int", 1.0, 1),
        ("double", np.float64(0.1), 0.1),
        ("float", np.float32(0.1), float(np.float32(0.1))),
        ("double", np.float32(0.1), float(np.float32(0.1))),
        ("float", np.float16(1.5), 1.5),
        ("decimal", Decimal("0.250"), Decimal("0.25")),
        ("boolean", np.bool_(True), True),
        ("string", np.str_("a"), "a"),
        ("binary", bytearray(b"a"), b"a"),
        ("binary", memoryview(b"a"), b"a"),
        ("uuid", uuid.UUID(int=1), uuid.UUID(int=1)),
        ("uuid", uuid.UUID(int=1).bytes, uuid.UUID(int=1)),
        ("date", dt.date(1970, 1, 2), 1),
        ("date", np.datetime64("1970-01-02"), 1),
        ("date", dt.date.max, 2932896),
        ("time", dt.time(1), HOUR),
        ("timestamp", dt.datetime(2024, 1, 1, 3), THREE),
        ("timestamp", dt.datetime(2024, 1, 1, 5, tzinfo=EAST), THREE),
        ("timestamptz", dt.datetime(2024, 1, 1, 5, tzinfo=EAST), THREE),
        ("timestamp", np.datetime64("2024-01-01T03:00:00", "s"), THREE),
        ("timestamp", np.datetime64("2024-01-01T03:00:00", "ns"), THREE),
        ("timestamp_ns", np.datetime64("2024-01-01T03:00:00.000000001"), THREE * 1000 + 1),
        ("timestamp_ns", pd.Timestamp("2024-01-01T03:00:00.000000001"), THREE * 1000 + 1),
        ("timestamptz", pd.Timestamp("2024-01-01T05:00", tz="Europe/Helsinki"), THREE),
        ("timestamptz_ns", pa.scalar(THREE * 1000 + 1, pa.timestamp("ns", "UTC")), THREE * 1000 + 1),
    ],
    ids=plain,
)
def test_a_value_is_taken_as_the_columns_type(column: str, value: Any, expected: Any) -> None:
    assert literals(bound(f'"{column}" = ?', value)) == (expected,)
    assert literals(bind(EqualTo(column, value), SCHEMA)) == (expected,)


@pytest.mark.parametrize("value", [None, np.datetime64("NaT"), pd.NaT, pd.NA, pa.scalar(None, pa.int64())], ids=plain)
def test_null_in_any_form_equals_nothing(value: Any) -> None:
    assert bound("int = ?", value) == bound("timestamp <> ?", value) == FALSE
    assert bind(EqualTo("timestamp", value), SCHEMA) == FALSE
    assert bound("int NOT IN (1, ?)", value) == FALSE


@pytest.mark.parametrize(
    "values", [[1, 2], (2, 1), {1, 2}, range(1, 3), np.array([1, 2]), pa.array([2, 1]), pd.Series([1, 2])], ids=plain
)
def test_a_collection_fits_after_in(values: Any) -> None:
    assert literals(bound("int IN (?)", values)) == (1, 2)
    assert literals(bound("int IN ?", values)) == (1, 2)
    with pytest.raises(ExpressionError, match="fits only IN"):
        bound("int = ?", values)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("string", "\ud800"),
        ("long", np.datetime64("2024-01-01", "ns")),
        ("timestamp", np.timedelta64(1, "s")),
        ("int", np.array(1)),
        ("date", np.datetime64("2024", "Y")),
        ("int", object()),
        ("int", 1j),
        ("int", "x"),
        ("decimal", Decimal("sNaN")),
        ("time", dt.time(1, tzinfo=EAST)),
        ("timestamp", pa.scalar([1])),
    ],
    ids=plain,
)
def test_a_value_that_is_none_of_the_type_is_an_expression_error(column: str, value: Any) -> None:
    with pytest.raises(ExpressionError):
        bound(f'"{column}" = ?', value)


def test_half_a_surrogate_pair_is_no_text() -> None:
    for text in ("string LIKE ?", "starts_with(string, ?)", "string IN (?)"):
        with pytest.raises(ExpressionError, match="surrogate"):
            bound(text, "a\udfff")


def test_numbers_beyond_all_floats_are_compared_still() -> None:
    assert literals(bound("double < ?", 10**400)) == (float("inf"),)
    assert literals(bound("float > ?", -(10**400))) == (float("-inf"),)


def test_moments_at_the_ends_of_the_calendar_have_no_overflow() -> None:
    last = dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-5)))
    first = dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=5)))
    assert literals(bound("timestamptz > ?", last)) == (253402300799999999 + 5 * HOUR,)
    assert literals(bound("timestamptz > ?", first)) == (-62135596800000000 - 5 * HOUR,)


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("date = CAST(? AS DATE)", dt.datetime(1970, 1, 2, 5), 1),
        ("date = ?::DATE", "1970-01-02", 1),
        ("date = ?::DATE", dt.date(1970, 1, 2), 1),
        ("timestamp = ?::TIMESTAMP", dt.date(1970, 1, 2), 24 * HOUR),
        ("timestamptz = ?::TIMESTAMPTZ", dt.datetime(2024, 1, 1, 5, tzinfo=EAST), THREE),
        ("timestamp_ns = ?::TIMESTAMP_NS", dt.datetime(2024, 1, 1, 3), THREE * 1000),
        ("time = ?::TIME", dt.time(1), HOUR),
        ("uuid = ?::UUID", uuid.UUID(int=3), uuid.UUID(int=3)),
    ],
)
def test_a_cast_parameter_need_not_be_text(text: str, value: Any, expected: Any) -> None:
    assert literals(bound(text, value)) == (expected,)


def test_operator_is_kept() -> None:
    e = bound("int >= ?", np.int64(3))
    assert isinstance(e, Predicate) and e.op is PredicateOperator.GT_EQ
