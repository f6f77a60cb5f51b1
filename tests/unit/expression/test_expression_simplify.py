"""Simplifying, prefixes and LIKE patterns."""

from __future__ import annotations

import pytest

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.build import And, EqualTo, In, IsNull, Not, NotIn, NotNull, Or
from icecore.engine.expression.nodes import FALSE, TRUE
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.expression.strings import bytes_successor, like_parts, like_prefix, like_regex, string_successor
from icecore.engine.expression.walk import predicates, rewrite
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import DoubleType, IntegerType, LongType, NestedField

SCHEMA = Schema((NestedField(1, "x", IntegerType()), NestedField(2, "y", IntegerType())))
X, Y = EqualTo("x", 1), EqualTo("y", 2)


def test_and_and_or_are_flat_and_fold_constants() -> None:
    assert And() == TRUE and Or() == FALSE
    assert And(X, TRUE, And(Y, X)) == And(X, Y)
    assert Or(X, FALSE, Or(Y, X)) == Or(X, Y)
    assert And(X, FALSE) == FALSE and Or(X, TRUE) == TRUE
    assert And(X) == X and Not(Not(X)) == X and Not(TRUE) == FALSE


def test_null_tests_of_unbound_expressions_are_kept() -> None:
    """Under NOT, `x IS NOT NULL AND x = 1` is true of nulls and `x = 1` is not."""
    both = And(NotNull("x"), X)
    assert predicates(both) == (NotNull("x"), X)
    assert bind(both, SCHEMA) == bind(X, SCHEMA)
    assert bind(Not(both), SCHEMA) == bind(Or(IsNull("x"), Not(X)), SCHEMA)


def test_rewrite_simplifies() -> None:
    bound = bind(Or(And(X, Y), EqualTo("x", 5)), SCHEMA)
    x = predicates(bound)[0]
    assert rewrite(bound, lambda p: TRUE if p == x else p) == bind(Or(Y, EqualTo("x", 5)), SCHEMA)
    assert rewrite(bound, lambda p: FALSE) == FALSE


@pytest.mark.parametrize(
    ("prefix", "successor"),
    [
        ("a", "b"),
        ("ab", "ac"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("", None),
        ("\ud7ff", "\ue000"),
        ("\x7f", "\x80"),
        ("\uffff", "\U00010000"),
    ],
)
def test_string_successor(prefix: str, successor: str | None) -> None:
    """E2: in the order of UTF-8 bytes, and never a surrogate."""
    assert string_successor(prefix) == successor
    if successor is not None:
        assert (prefix + "\U0010ffff" * 3).encode() < successor.encode()


def test_bytes_successor() -> None:
    assert bytes_successor(b"a\xff\xff") == b"b"
    assert bytes_successor(b"\xff") is None and bytes_successor(b"") is None


def test_like_patterns() -> None:
    assert like_parts("a!%b%_", "!") == (("text", "a%b"), ("%", ""), ("_", ""))
    assert like_prefix("ab%c") == "ab" and like_prefix("%a") == "" and like_prefix("") == ""
    assert like_regex("a_c%").fullmatch("a\nc\n\n") and not like_regex("a.c").fullmatch("abc")
    for pattern, escape in (("a!", "!"), ("a", "ab")):
        with pytest.raises(ExpressionError):
            like_parts(pattern, escape)


def test_many_equalities_of_a_column_are_one_set() -> None:
    """However a filter spells them: a thousand leaves would each be planned by themselves."""
    schema = Schema((NestedField(1, "id", LongType()), NestedField(2, "x", DoubleType())))
    ids = range(1000)
    assert bind(parse_filter(" OR ".join(f"id = {i}" for i in ids)), schema) == bind(In("id", ids), schema)
    assert bind(parse_filter(" AND ".join(f"id <> {i}" for i in ids)), schema) == bind(NotIn("id", ids), schema)
    mixed = bind(parse_filter("id = 3 OR x > 1 OR id IN (1, 2) OR id = 3 OR x = 2"), schema)
    assert mixed == bind(parse_filter("id IN (1, 2, 3) OR x > 1 OR x = 2"), schema)
