"""Predicates on transforms select the rows whose transformed value satisfies them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from icecore.engine.expression.bind import bind
from icecore.engine.expression.evaluate import evaluate
from icecore.engine.expression.nodes import Predicate, PredicateOperator, TransformTerm, TypedValue
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import parse_transform
from icecore.engine.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
)

DAY = 86_400_000_000
MOMENTS = [-1, 0, 1, -DAY, -DAY - 1, DAY - 1, 31 * DAY, -365 * DAY - 1, 1_704_110_400_123_456, 3_600_000_000]
TEXTS = ["", "a", "ab", "abc", "abd", "b", "é", "a\U0010ffff", "\U0010ffff" * 3, "\ud7ff", "\ue000", "\ud7ffa"]
SOURCES: dict[PrimitiveType, tuple[list[Any], list[str]]] = {
    IntegerType(): ([-21, -20, -11, -10, -1, 0, 1, 9, 10, 2**31 - 1], ["truncate[10]", "bucket[4]"]),
    LongType(): ([-21, -20, -1, 0, 1, 9, 10, 2**63 - 1], ["truncate[7]", "bucket[4]"]),
    DecimalType(9, 2): ([Decimal(v).scaleb(-2) for v in (-101, -50, -1, 0, 1, 49, 50, 999_999_999)], ["truncate[50]"]),
    StringType(): (TEXTS, ["truncate[1]", "truncate[2]", "bucket[4]"]),
    BinaryType(): (
        [b"", b"a", b"ab", b"abc", b"b", b"\xff", b"\xff\xff", b"\xff\xffa"],
        ["truncate[1]", "truncate[2]"],
    ),
    DateType(): ([-366, -365, -32, -31, -1, 0, 1, 31, 58, 59, 365, 19723], ["year", "month", "day"]),
    TimestampType(): (MOMENTS, ["year", "month", "day", "hour"]),
    TimestamptzType(): (MOMENTS, ["year", "month", "day", "hour"]),
    TimestampNanoType(): ([v for m in MOMENTS for v in (m * 1000, m * 1000 - 1)], ["year", "month", "day", "hour"]),
}
OPERATORS: dict[PredicateOperator, Callable[[Any, Any], bool]] = {
    PredicateOperator.EQ: operator.eq,
    PredicateOperator.NOT_EQ: operator.ne,
    PredicateOperator.LT: operator.lt,
    PredicateOperator.LT_EQ: operator.le,
    PredicateOperator.GT: operator.gt,
    PredicateOperator.GT_EQ: operator.ge,
}
CASES = [(source, text) for source, (_, texts) in SOURCES.items() for text in texts]


def literal(result: PrimitiveType, value: Any) -> Any:
    return TypedValue(result, value)


@pytest.mark.parametrize(("source", "text"), CASES, ids=str)
def test_a_transformed_column_is_compared_by_its_results(source: PrimitiveType, text: str) -> None:
    values, transform = SOURCES[source][0], parse_transform(text)
    schema, term = Schema((NestedField(1, "c", source),)), TransformTerm("c", transform)
    result = transform.result_type(source)
    results = {v: transform.apply(source, v) for v in values}
    # Values that are no result themselves are literals too: truncate(10, c) < 25.
    literals = [*dict.fromkeys(results.values()), *(values if result == source else ())]
    for lit in literals:
        for op, holds in OPERATORS.items():
            bound = bind(Predicate(op, term, (literal(result, lit),)), schema)
            for v in values:
                assert evaluate(bound, lambda _, v=v: v) == holds(results[v], lit), (op, lit, v, bound)  # type: ignore[misc]
            assert not evaluate(bound, lambda _: None)
    for op in (PredicateOperator.IN, PredicateOperator.NOT_IN):
        several = tuple(literals[::2])
        bound = bind(Predicate(op, term, tuple(literal(result, lit) for lit in several)), schema)
        for v in values:
            expected = (results[v] in several) is (op is PredicateOperator.IN)
            assert evaluate(bound, lambda _, v=v: v) == expected, (op, v)  # type: ignore[misc]
        assert not evaluate(bound, lambda _: None)


@pytest.mark.parametrize("prefix", TEXTS)
@pytest.mark.parametrize("width", [1, 2, 3])
def test_prefixes_of_truncated_text(prefix: str, width: int) -> None:
    schema = Schema((NestedField(1, "c", StringType()),))
    term = TransformTerm("c", parse_transform(f"truncate[{width}]"))
    for op in (PredicateOperator.STARTS_WITH, PredicateOperator.NOT_STARTS_WITH):
        bound = bind(Predicate(op, term, (prefix,)), schema)
        for v in TEXTS:
            wanted = v[:width].startswith(prefix) is (op is PredicateOperator.STARTS_WITH)
            assert evaluate(bound, lambda _, v=v: v) == wanted, (op, v, bound)  # type: ignore[misc]
