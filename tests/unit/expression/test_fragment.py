"""Pieces of SQL: put together as values, written once, with their literals bound."""

from __future__ import annotations

import duckdb
import pytest

from icecore.engine.expression.sql.fragment import (
    ALWAYS,
    NEVER,
    BoundParameters,
    Fragment,
    conjunction,
    disjunction,
    joined,
    literal,
    sql,
)


def test_literals_follow_their_places() -> None:
    first, second = sql("x < ?", literal("BIGINT", 1)), sql("? = s", literal("VARCHAR", "?"))
    both = sql("(? OR NOT (?))", first, joined(" AND ", [second, first]))
    assert both.text == "(x < ? OR NOT (? = s AND x < ?))"
    assert [v.value for v in both.literals] == [1, "?", 1]


def test_a_text_takes_as_many_parts_as_it_has_places() -> None:
    for parts in ((), (ALWAYS,), (ALWAYS, ALWAYS, ALWAYS)):
        with pytest.raises(ValueError):
            sql("? AND ?", *parts)


def test_constants_are_folded_and_repetitions_left_out() -> None:
    x, y = sql("x < ?", literal("BIGINT", 1)), sql("y < ?", literal("BIGINT", 1))
    assert conjunction(x, ALWAYS, x) == x and conjunction(x, NEVER) == NEVER and conjunction() == ALWAYS
    assert disjunction(x, NEVER, x) == x and disjunction(x, ALWAYS) == ALWAYS and disjunction() == NEVER
    assert conjunction(x, y, x) == Fragment("(x < ? AND y < ?)", (*x.literals, *y.literals))


def test_a_value_of_a_type_is_bound_once() -> None:
    """That a value may itself hold a question mark means nothing; what Python holds equal is told apart by its type."""
    parameters = BoundParameters()
    written = parameters.write(
        joined(", ", [literal("VARCHAR", "?"), literal("BIGINT", 1), literal("BOOLEAN", True), literal("BIGINT", 1)])
    )
    assert written == "$p0::VARCHAR, $p1::BIGINT, $p2::BOOLEAN, $p1::BIGINT"
    listed = parameters.write(sql("list_sum(?)", literal("BIGINT[]", (1, 2, 4))))
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {written}, {listed}", parameters.values).fetchone()
    assert found == ("?", 1, True, 1, 7)
