"""Expression JSON in both spellings. Spec: Expressions (E1 to E4)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import TypeAdapter
from pyiceberg.expressions import BooleanExpression

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.build import And, EqualTo, IsNull, NotEqualTo, Or
from icecore.engine.expression.evaluate import evaluate
from icecore.engine.expression.json.expression_json import from_json, to_json
from icecore.engine.expression.nodes import FALSE, TRUE, Expression
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

SCHEMA = Schema(
    (
        NestedField(1, "x", IntegerType()),
        NestedField(2, "s", StringType()),
        NestedField(3, "f", DoubleType()),
        NestedField(4, "ts", TimestampType()),
        NestedField(5, "tz", TimestamptzType()),
        NestedField(6, "d", DateType()),
        NestedField(7, "dec", DecimalType(9, 2)),
        NestedField(8, "u", UUIDType()),
        NestedField(9, "bin", BinaryType()),
        NestedField(10, "id", LongType()),
    )
)
FILTERS = [
    "x = 1",
    "x <> 1",
    "x < 1 OR x >= 10",
    "x IN (1, 2, 3)",
    "x NOT IN (1, 2)",
    "x IS NULL AND s IS NOT NULL",
    "NOT (x > 1 AND s = 'a')",
    "starts_with(s, 'ab') OR NOT starts_with(s, 'a')",
    "isnan(f) OR f > 1.5",
    "NOT isnan(f)",
    "f <= 2.5 AND f <> 0",
    "ts >= TIMESTAMP '2024-01-01 00:00:00.000001'",
    "tz = TIMESTAMPTZ '2024-01-01 00:00:00+01'",
    "d <> DATE '1969-12-31'",
    "dec > 4.999",
    "u = '12345678-1234-1234-1234-123456789abc'",
    "bin < X'00FF'",
    "bucket(16, id) = 3",
    "x IS DISTINCT FROM 3",
    "x = 1 AND s = 'a' AND f = 1 AND id = 5 AND d = '2024-01-01'",
    "TRUE",
    "x = NULL",
]
ROWS: list[dict[str, Any]] = [
    {"x": x, "s": s, "f": f, "ts": 1_704_067_200_000_001, "tz": 1_704_063_600_000_000, "d": d, "id": 5}
    for x in (None, 0, 1, 2, 3, 10)
    for s, f, d in ((None, None, None), ("a", math.nan, -1), ("ab", 1.0, 19723), ("b", 2.5, 0), ("abc", -math.inf, 1))
]


def selected(e: Expression) -> list[bool]:
    bound = bind(e, SCHEMA)
    return [evaluate(bound, lambda term, row=row: row.get(term.name)) for row in ROWS]  # type: ignore[misc]


@pytest.mark.parametrize("children", [False, True])
@pytest.mark.parametrize("text", FILTERS)
def test_round_trip(text: str, children: bool) -> None:
    """Written and read, in both spellings, a filter selects the same rows."""
    bound = bind(parse_filter(text), SCHEMA)
    written = json.loads(json.dumps(to_json(bound, children=children), allow_nan=False))
    back = bind(from_json(written, SCHEMA), SCHEMA)
    assert selected(back) == selected(bound)
    if "f" not in text:
        assert back == bound


@pytest.mark.parametrize("text", FILTERS)
def test_unbound_filters_are_written_as_they_are_bound(text: str) -> None:
    e = parse_filter(text)
    assert selected(from_json(to_json(e), SCHEMA)) == selected(e)


@pytest.mark.parametrize("text", [t for t in FILTERS if "bucket" not in t and "NULL" not in t])
def test_pyiceberg_reads_what_is_written(text: str) -> None:
    bound = bind(parse_filter(text), SCHEMA)
    adapter: TypeAdapter[BooleanExpression] = TypeAdapter(BooleanExpression)
    peer = adapter.validate_python(to_json(bound))
    again = json.loads(peer.model_dump_json())
    assert selected(from_json(again, SCHEMA)) == selected(bound)


def test_the_two_values_of_the_spec_are_kept_apart_from_sqls_three() -> None:
    """E1: x <> 1 is written with not-null; not-eq of the spec is true of null."""
    not_eq = {"type": "not-eq", "term": "x", "value": 1}
    assert to_json(NotEqualTo("x", 1)) == {"type": "and", "left": {"type": "not-null", "term": "x"}, "right": not_eq}
    assert from_json(not_eq) == Or(NotEqualTo("x", 1), IsNull("x"))
    assert from_json({"type": "not", "child": not_eq}) == EqualTo("x", 1)
    not_less = {"type": "not", "child": {"type": "lt", "term": "x", "value": 1}}
    assert selected(from_json(not_less)) == [row["x"] is None or row["x"] >= 1 for row in ROWS]


def test_nan_is_read_generously() -> None:
    greater = {"type": "gt", "term": "f", "value": 1}
    nan = [row["f"] is not None and math.isnan(row["f"]) for row in ROWS]
    for obj in (greater, {"type": "not", "child": greater}):
        assert all(s for s, n in zip(selected(from_json(obj, SCHEMA)), nan, strict=True) if n)


def test_columns_in_any_case_have_the_values_of_their_types() -> None:
    """Numbers that stand for dates, bytes, and NaN, as with the column's own name."""
    greater = {"type": "gt", "term": "F", "value": 1}
    day, data = {"type": "gt", "term": "D", "value": 19723}, {"type": "eq", "term": "BIN", "value": "00ff"}
    for obj in (greater, {"type": "not", "child": greater}, day, data):
        found = bind(from_json(obj, SCHEMA, case_sensitive=False), SCHEMA, case_sensitive=False)
        assert found == bind(from_json(_in_lower_case(obj), SCHEMA), SCHEMA)


def _in_lower_case(obj: Any) -> Any:
    if not isinstance(obj, dict):
        return obj
    return {k: v.lower() if k == "term" else _in_lower_case(v) for k, v in obj.items()}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (True, TRUE),
        ({"type": "false"}, FALSE),
        ({"type": "eq", "term": {"type": "reference", "term": "x"}, "value": 1}, "x = 1"),
        ({"type": "eq", "left": {"type": "reference", "name": "x"}, "right": 1}, "x = 1"),
        ({"type": "lt", "left": 1, "right": {"type": "reference", "id": 1}}, "x > 1"),
        ({"type": "is-null", "child": {"type": "reference", "id": 2}}, "s IS NULL"),
        ({"type": "in", "child": {"type": "reference", "name": "x"}, "values": [1, 2]}, "x IN (1, 2)"),
        (
            {"type": "in", "term": "x", "values": {"type": "literals", "values": [1, 2], "data-type": "int"}},
            "x IN (1, 2)",
        ),
        ({"type": "eq", "term": "x", "value": {"type": "literal", "value": 5, "data-type": "long"}}, "x = 5"),
        (
            {"type": "gt", "term": "d", "value": {"type": "literal", "value": "1970-01-02", "data-type": "date"}},
            "d > DATE '1970-01-02'",
        ),
        ({"type": "gt", "term": "ts", "value": 1_704_067_200_000_000}, "ts > TIMESTAMP '2024-01-01'"),
        ({"type": "gt", "term": "d", "value": 19723}, "d > DATE '2024-01-01'"),
        ({"type": "eq", "term": "bin", "value": "00ff"}, "bin = X'00ff'"),
        ({"type": "eq", "term": "dec", "value": "1.50"}, "dec = 1.5"),
        ({"type": "starts-with", "term": "s", "value": "a"}, "s LIKE 'a%'"),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "bucket[16]", "term": "id"}, "value": 3},
            "bucket(16, id) = 3",
        ),
        (
            {"type": "eq", "term": {"type": "transform", "transform": "year", "term": "ts"}, "value": 54},
            "year(ts) = 2024",
        ),
        (
            {"type": "lt", "term": {"type": "transform", "transform": "day", "term": "ts"}, "value": "2024-01-01"},
            "ts < TIMESTAMP '2024-01-01'",
        ),
        (
            {
                "type": "lt",
                "left": {
                    "type": "apply",
                    "function": {"catalog": "iceberg_functions", "identifier": ["truncate"]},
                    "arguments": [10, {"type": "reference", "name": "x"}],
                },
                "right": 20,
            },
            "x < 20",
        ),
    ],
)
def test_reading(obj: Any, expected: str | Expression) -> None:
    assert bind(from_json(obj, SCHEMA), SCHEMA) == bind(parse_filter(expected), SCHEMA)


@pytest.mark.parametrize(
    "obj",
    [
        None,
        5,
        [],
        {},
        {"type": "nope", "term": "x"},
        {"type": "like", "term": "x", "value": "a"},
        {"type": "eq", "term": "x"},
        {"type": "eq", "value": 1},
        {"type": "eq", "term": "x", "value": None},
        {"type": "eq", "term": "x", "value": [1]},
        {"type": "in", "term": "x", "values": 5},
        {"type": "and", "left": True},
        {"type": "not"},
        {"type": "eq", "term": {"type": "reference", "id": 99}, "value": 1},
        {"type": "eq", "term": {"type": "reference"}, "value": 1},
        {"type": "eq", "term": {"type": "transform", "transform": "zorder", "term": "x"}, "value": 1},
        {"type": "eq", "term": {"type": "apply", "function": "f", "arguments": []}, "value": 1},
        {"type": "eq", "term": {"type": "apply", "function": {"catalog": "other"}, "arguments": [1]}, "value": 1},
        {"type": "eq", "term": "d", "value": {"type": "literal", "value": "x", "data-type": "date"}},
        {"type": "eq", "left": {"type": "reference", "name": "x"}, "right": {"type": "reference", "name": "id"}},
    ],
)
def test_what_is_no_expression_is_refused(obj: Any) -> None:
    with pytest.raises(ExpressionError):
        from_json(obj, SCHEMA)


def test_like_and_infinity_have_no_json() -> None:
    like = bind(parse_filter("s LIKE 'ab%c' AND s NOT LIKE '%z'"), SCHEMA)
    with pytest.raises(ExpressionError, match="LIKE"):
        to_json(like)
    weaker = from_json(to_json(like, inclusive=True), SCHEMA)
    assert bind(weaker, SCHEMA) == bind(parse_filter("starts_with(s, 'ab')"), SCHEMA)
    with pytest.raises(ExpressionError, match="inf"):
        to_json(bind(parse_filter("f < 'Infinity'::DOUBLE"), SCHEMA))
    with pytest.raises(ExpressionError, match="before it is bound"):
        to_json(parse_filter("year(ts) = 2024"))


def test_a_long_chain_is_not_deep() -> None:
    e = Or(*(EqualTo("x", i) for i in range(3000)))
    assert from_json(json.loads(json.dumps(to_json(e)))) == e
    assert And(e) == e
