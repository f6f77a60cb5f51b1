"""Expressions of any depth: handled, or refused with ExpressionError, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from icecore.engine.data.arrow.row_filter import keep_rows
from icecore.engine.errors import ExpressionError
from icecore.engine.expression import build, nodes
from icecore.engine.expression.bind import bind
from icecore.engine.expression.depth import MAX_DEPTH
from icecore.engine.expression.evaluate import evaluate
from icecore.engine.expression.json.expression_json import from_json, to_json
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.project import project_inclusive, project_strict
from icecore.engine.expression.sql.fragment import ALWAYS
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.expression.sql.sql_text import expression_text
from icecore.engine.expression.walk import predicates
from icecore.engine.spark.spark_filter import to_spark_sql
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import BucketTransform
from icecore.engine.spec.types import DoubleType, LongType, NestedField
from icecore.projections.plan.predicate import manifest_predicate, plan_predicate
from icecore.projections.plan.residuals import residual

SCHEMA = Schema((NestedField(1, "id", LongType(), True), NestedField(2, "x", DoubleType(), False)), 0)
SPEC = PartitionSpec((PartitionField((1,), 1000, BucketTransform(4), "b"),), 1)
DEEP = [MAX_DEPTH + 1, 300, 5000]
COLUMNS = {"lower_1": "BIGINT", "upper_1": "BIGINT", "lower_2": "DOUBLE", "upper_2": "DOUBLE"}


def alternating(levels: int) -> Expression:
    """AND in OR in AND, built of nodes, past the constructors' checks; true where x = 0.5."""
    e: Expression = build.EqualTo("x", 0.5)
    for i in range(levels):
        kind = nodes.Or if i % 2 else nodes.And
        e = kind((build.GreaterThan("id", 10 + i) if i % 2 else build.LessThan("id", 1000 + i), e))
    return e


def nested_json(levels: int, *kinds: str) -> dict[str, Any]:
    obj: dict[str, Any] = {"type": "eq", "term": "id", "value": -1}
    for i in range(levels):
        obj = {"type": kinds[i % len(kinds)], "left": obj, "right": {"type": "eq", "term": "id", "value": i}}
    return obj


USES: dict[str, Callable[[Expression], Any]] = {
    "bind": lambda e: bind(e, SCHEMA),
    "to_json": to_json,
    "text": expression_text,
    "and": lambda e: build.And(e, build.IsNull("x")),
    "or": lambda e: build.Or(e, build.IsNull("x")),
}


@pytest.mark.parametrize("levels", DEEP)
@pytest.mark.parametrize("use", USES)
def test_what_is_too_deep_is_refused(use: str, levels: int) -> None:
    """Each way in says so."""
    with pytest.raises(ExpressionError, match="nested too deeply"):
        USES[use](alternating(levels))


@pytest.mark.parametrize("levels", DEEP)
def test_chains_of_not_are_refused(levels: int) -> None:
    """They can only be built of nodes."""
    e: Expression = build.EqualTo("id", 1)
    for _ in range(levels):
        e = nodes.Not(e)
    for use in USES.values():
        with pytest.raises(ExpressionError, match="nested too deeply"):
            use(e)


def test_constructors_refuse_one_level_too_many() -> None:
    """An expression that the constructors make can be hashed, compared and shown."""
    e: Expression = build.EqualTo("x", 0.5)
    with pytest.raises(ExpressionError, match="nested too deeply"):
        for i in range(5000):
            e = (build.Or if i % 2 else build.And)(build.EqualTo("id", i), e)
    assert hash(e) == hash(e) and len(predicates(e)) in (MAX_DEPTH + 1, MAX_DEPTH + 2)


@pytest.mark.parametrize("levels", DEEP)
def test_chains_of_one_kind_may_be_long(levels: int) -> None:
    """However they nest, they are flat when bound."""
    left: Expression = build.EqualTo("id", -1)
    right: Expression = build.EqualTo("id", -1)
    for i in range(levels):
        left, right = nodes.Or((left, build.EqualTo("id", i))), nodes.Or((build.EqualTo("id", i), right))
    for e in (left, right, from_json(nested_json(levels, "or"), SCHEMA), from_json(to_json(left))):
        (leaf,) = predicates(bind(e, SCHEMA))
        assert leaf.literals == tuple(range(-1, levels))


@pytest.mark.parametrize("levels", DEEP)
def test_deep_json_is_refused(levels: int) -> None:
    """AND and OR in turns, and chains of NOT."""
    negations: Any = nested_json(0)
    for _ in range(20 * levels):
        negations = {"type": "not", "child": negations}
    for obj in (nested_json(levels, "or", "and"), negations):
        with pytest.raises(ExpressionError, match="nested too deeply"):
            from_json(obj, SCHEMA)


@pytest.mark.parametrize("levels", [100, 1000, 5000])
@pytest.mark.parametrize(
    "text",
    [
        lambda n: "(" * n + "id = 1" + ")" * n,
        lambda n: "NOT (" * n + "id = 1" + ")" * n,
        lambda n: "".join(f"(id = {i} {'AND' if i % 2 else 'OR'} " for i in range(n)) + "id = 1" + ")" * n,
        lambda n: "(" * n + "id = 1" + "".join(f" {'AND' if i % 2 else 'OR'} id > {i})" for i in range(n)),
        lambda n: "id = " + "CAST(" * n + "1" + " AS INT)" * n,
        lambda n: "(" * n + "id = 1",
        lambda n: "id = " + "[" * n,
        lambda n: "CASE WHEN " * n,
    ],
    ids=["parentheses", "not", "right", "left", "casts", "unclosed", "lists", "case"],
)
def test_deep_text_is_refused(text: Callable[[int], str], levels: int) -> None:
    """The parser runs out of stack before MAX_DEPTH."""
    with pytest.raises(ExpressionError) as raised:
        parse_filter(text(levels))
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("chain", ["NOT ", "- ", "a.", "::INT"])
@pytest.mark.parametrize("levels", [50, 500, 5000])
def test_long_chains_in_text_are_read_or_refused(chain: str, levels: int) -> None:
    """Nothing but ExpressionError comes out."""
    links = chain * levels
    text = {"NOT ": f"{links}id = 1", "- ": f"id = {links}1", "a.": f"{links}id = 1", "::INT": f"id = 1{links}"}[chain]
    try:
        bind(parse_filter(text), SCHEMA)
    except ExpressionError as e:
        assert len(str(e)) < 1000


@pytest.mark.parametrize("levels", [20, MAX_DEPTH])
def test_what_is_deep_enough_goes_all_the_way(levels: int) -> None:
    """Through bind, JSON, projections, conditions of a plan, residuals, DuckDB's and Spark's SQL."""
    bound = bind(alternating(levels), SCHEMA)
    assert bind(from_json(to_json(bound)), SCHEMA) == bound
    assert str(bound) and expression_text(bound) and to_spark_sql(bound, lambda t: t.name)
    project_inclusive(bound, SPEC, SCHEMA), project_strict(bound, SPEC, SCHEMA)
    manifest_predicate(bound, SPEC, SCHEMA)
    plan = plan_predicate(bound, {1: SPEC}, SCHEMA, COLUMNS)
    assert len(plan.leaves) == levels + 1 and plan.where != ALWAYS
    everything = (1 << len(plan.leaves)) - 1
    assert residual(bound, everything, 0) == bound
    rows = pa.table({"id": pa.array([0, 0, 5000], pa.int64()), "x": [0.5, 1.0, 0.5]})
    kept = [r for r in rows.to_pylist() if evaluate(bound, lambda t, row=r: row[t.name])]  # type: ignore[misc]
    assert [r["id"] for r in kept] == [0, 5000]
    assert keep_rows(rows, bound, SCHEMA).to_pylist() == kept
