"""Statements of DuckDB's in Spark's dialect: what sqlglot doesn't turn, and what it must not lose."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from icecore.engine.errors import ValidationError
from icecore.projections.distributed_plan.spark_dialect import Values, to_spark_sql


def turned(condition: str, *parameters: tuple[str, Any]) -> str:
    """A condition over parameters `p0`, `p1` and so on, given as types and values."""
    named = {f"p{i}": p for i, p in enumerate(parameters)}
    values = Values({n: v for n, (_, v) in named.items()}, {n: t for n, (t, _) in named.items()})
    return to_spark_sql(f"FROM t SELECT {condition}", values).removeprefix("SELECT ").removesuffix(" FROM t")


def text(value: str) -> str:
    return f"CAST(X'{value.encode().hex().upper()}' AS STRING)"


@pytest.mark.parametrize(
    ("kind", "value", "literal"),
    [
        ("BIGINT", -(2**63), "CAST('-9223372036854775808' AS BIGINT)"),
        ("INTEGER", 5, "CAST('5' AS INT)"),
        ("DECIMAL(9,2)", Decimal("1E+2"), "CAST('100' AS DECIMAL(9, 2))"),
        ("DOUBLE", float("-inf"), "CAST(CAST('-Infinity' AS DOUBLE) AS DOUBLE)"),
        ("FLOAT", 0.1, "CAST(CAST('0.1' AS DOUBLE) AS FLOAT)"),
        ("BOOLEAN", True, "TRUE"),
        ("BLOB", b"\x00'", "X'0027'"),
        # Whatever the session makes of backslashes and quotes.
        ("VARCHAR", "it's \\n {x}", text("it's \\n {x}")),
    ],
)
def test_values_are_literals_of_their_type(kind: str, value: Any, literal: str) -> None:
    assert turned("x = $p0", (kind, value)) == f"x = {literal}"


def test_a_pattern_names_its_escape_character() -> None:
    """Spark's own is the backslash, which in DuckDB stands for itself."""
    assert turned("x LIKE $p0", ("VARCHAR", "a\\%")) == f"x LIKE {text(chr(97) + chr(92) + '%')} ESCAPE '!'"
    escaped = turned("x NOT LIKE $p0 ESCAPE $p1", ("VARCHAR", "!\\%a\\\\_"), ("VARCHAR", "\\"))
    assert escaped == f"x NOT LIKE {text(f'!~%a{chr(92)}_')} ESCAPE '~'"


def test_a_list_is_written_out() -> None:
    assert turned("x IN (SELECT unnest($p0))", ("INTEGER[]", [1, 2])) == "x IN (CAST('1' AS INT), CAST('2' AS INT))"
    zero, one = (f"CAST(CAST('{v}' AS DOUBLE) AS DOUBLE)" for v in ("-0.0", "1.0"))
    # A set of Spark's has -0.0 and 0.0 apart.
    either = f"NOT ((x = {zero} OR x = {one}))"
    assert turned("NOT (x IN ($p0, $p1))", ("DOUBLE", -0.0), ("DOUBLE", 1.0)) == either
    assert turned("NOT (x IN (SELECT unnest($p0)))", ("DOUBLE[]", [-0.0, 1.0])) == either


def test_conditions_over_lists_are_written_out() -> None:
    lists = (("VARCHAR[]", ["a", "b"]), ("BIGINT[]", [1, 2]))
    items = "list_transform(list_zip($p0, $p1), lambda v: x = v[1] AND y > v[2])"
    parts = [f"(x = {text(a)} AND y > CAST('{b}' AS BIGINT))" for a, b in (("a", 1), ("b", 2))]
    assert turned(f"list_bool_or({items})", *lists) == f"({' OR '.join(parts)})"
    summed = turned("list_sum(list_transform(list_zip($p0), lambda v: v[1]))", ("BIGINT[]", [1, 2, 4]))
    assert [summed.count(f"CAST('{n}' AS BIGINT)") for n in (1, 2, 4)] == [1, 1, 1]
    assert summed.count("+") == 2


@pytest.mark.parametrize(
    "condition",
    ["list_first_of(x)", "list_transform(x, lambda v: v + 1)", "* REPLACE (1 AS x)", "x IN (SELECT y FROM z)"],
)
def test_what_is_not_known_is_refused(condition: str) -> None:
    with pytest.raises(ValidationError, match="can't be said in Spark SQL"):
        turned(condition)
