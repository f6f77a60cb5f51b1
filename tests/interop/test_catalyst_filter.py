"""A query's filter as Spark hands it to a file index: what can't be said of it leaves out no row."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

from icecore.engine.expression.nodes import BoundTerm
from icecore.engine.expression.sql.sql_text import expression_text
from icecore.engine.spark.relation.catalyst_filter import filter_of
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    UUIDType,
)

TYPES: dict[str, PrimitiveType] = {
    "a": LongType(),
    "s": StringType(),
    "f": DoubleType(),
    "d": DecimalType(9, 2),
    "t": DateType(),
    "u": UUIDType(),
}
COLUMNS: dict[tuple[str, ...], BoundTerm] = {
    (name,): BoundTerm(NestedField(n, name, t), name) for n, (name, t) in enumerate(TYPES.items())
}


def col(*names: str) -> list[str]:
    return [n.encode().hex() for n in names]


def long(value: int) -> list[str]:
    return ["bigint", str(value)]


LESS = ["<", col("a"), long(5)]
EQUAL = ["=", col("a"), long(7)]
ODD = ["=", col("nowhere"), long(1)]
CASES: list[tuple[Any, str]] = [
    (LESS, "a < 5"),
    (["and", LESS, None], "a < 5"),
    (["or", LESS, None], "TRUE"),
    (["not", ["and", LESS, None]], "TRUE"),
    (["not", ["or", LESS, None]], "a >= 5"),
    (["not", ["not", ["and", LESS, None]]], "a < 5"),
    (["not", None], "TRUE"),
    (["and", LESS, ODD], "a < 5"),
    (["not", ["and", LESS, EQUAL]], "a >= 5 OR a <> 7"),
    (["<=>", col("a"), long(7)], "a = 7"),
    (["not", ["<=>", col("a"), long(7)]], "TRUE"),
    (["in", col("a"), [long(7), long(8)]], "a IN (7, 8)"),
    (["not", ["in", col("a"), [long(7), long(8)]]], "a NOT IN (7, 8)"),
    (["in", col("a"), []], "TRUE"),
    (["not", ["in", col("a"), []]], "TRUE"),
    (["is-null", col("u"), None], "u IS NULL"),
    (["not", ["is-null", col("a"), None]], "a IS NOT NULL"),
    (["is-nan", col("f"), None], "isnan(f)"),
    (["not", ["is-nan", col("f"), None]], "TRUE"),
    ([">", col("f"), ["double", "NaN"]], "FALSE"),
    (["=", col("f"), ["double", "-0.0"]], "f = 0.0"),
    (["=", col("a"), ["int", "7"]], "TRUE"),
    (["=", col("d"), ["decimal(9,2)", "1.50"]], "d = 1.50"),
    (["=", col("d"), ["decimal(10,2)", "1.50"]], "TRUE"),
    (["=", col("t"), ["date", "1"]], "t = DATE '1970-01-02'"),
    (["=", col("u"), ["binary", "00" * 16]], "TRUE"),
    (["starts-with", col("s"), ["string", "6162"]], "starts_with(s, 'ab')"),
    (["not", ["starts-with", col("s"), ["string", "6162"]]], "NOT starts_with(s, 'ab')"),
    (["starts-with", col("s"), ["string", ""]], "TRUE"),
    (["=", col("s"), ["string", "ff"]], "TRUE"),
    (["later", col("a"), long(1)], "TRUE"),
    (["=", col("a", "b"), long(1)], "TRUE"),
]


@pytest.mark.parametrize("node, wanted", CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_what_is_said_and_what_is_left_out(node: Any, wanted: str) -> None:
    assert expression_text(filter_of(json.dumps(node), COLUMNS)) == wanted
