"""Every operator against every small file of every type: what bounds, counts and partitions may and must say."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb
import pytest
from expression_cases import VALUES, metrics, transforms_of

from icecore.engine.expression.bind import bind
from icecore.engine.expression.evaluate import evaluate
from icecore.engine.expression.nodes import Expression, Or, Predicate, PredicateOperator, Reference, TypedValue
from icecore.engine.expression.project import project_inclusive, project_strict
from icecore.engine.expression.sql.fragment import BoundParameters, Fragment
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FLOATING_TYPES, BinaryType, NestedField, PrimitiveType, StringType
from icecore.projections.plan.predicate import manifest_predicate, plan_predicate
from icecore.projections.segments.duckdb_types import raw_type

COMPARISONS = (
    PredicateOperator.EQ,
    PredicateOperator.NOT_EQ,
    PredicateOperator.LT,
    PredicateOperator.LT_EQ,
    PredicateOperator.GT,
    PredicateOperator.GT_EQ,
)
TYPES = pytest.mark.parametrize("column_type", list(VALUES), ids=str)
AT_ONCE = 6
# How DuckDB rewrites a condition is its own affair and takes a third of the time; test_predicate_pruning asks with it.
AS_WRITTEN = "SET threads = 1; PRAGMA disable_optimizer"
PATTERNS = ("a%", "%", "ab_%", "_", "abc", "\U0010ffff%", "%c", "abcdefghijklmnop_%")


def schema_of(column_type: PrimitiveType) -> Schema:
    return Schema((NestedField(1, "c", column_type),))


def filters(column_type: PrimitiveType) -> list[Expression]:
    """Bound leaves of every operator, with values of the type as literals."""
    term, values = Reference("c"), [TypedValue(column_type, v) for v in VALUES[column_type]]
    found = [Predicate(op, term, (v,)) for op in COMPARISONS for v in values]
    for size in (2, 3):
        sets = itertools.islice(itertools.combinations(values, size), 1, None, 5)
        found += [Predicate(op, term, s) for s in sets for op in (PredicateOperator.IN, PredicateOperator.NOT_IN)]
    found += [Predicate(PredicateOperator.IS_NULL, term), Predicate(PredicateOperator.NOT_NULL, term)]
    if isinstance(column_type, FLOATING_TYPES):
        found += [Predicate(PredicateOperator.IS_NAN, term), Predicate(PredicateOperator.NOT_NAN, term)]
    if isinstance(column_type, StringType):
        prefixes = [v.value for v in values]
        found += [
            Predicate(o, term, (v,))
            for v in prefixes
            for o in (PredicateOperator.STARTS_WITH, PredicateOperator.NOT_STARTS_WITH)
        ]
        found += [
            Predicate(op, term, (p,)) for p in PATTERNS for op in (PredicateOperator.LIKE, PredicateOperator.NOT_LIKE)
        ]
    return [bind(e, schema_of(column_type)) for e in found]


def small_files(column_type: PrimitiveType) -> list[tuple[Any, ...]]:
    values = [None, *VALUES[column_type]]
    return [tuple(values[i] for i in places) for places in places_of(len(values))]


def places_of(count: int) -> list[tuple[int, ...]]:
    """The rows of small files as places among so many values, of which the first is null."""
    pairs = list(itertools.combinations_with_replacement(range(count), 2))
    return [*((i,) for i in range(count)), *pairs, *((*p, 0) for p in pairs[::3])]


def matches(bound: Expression, values: Iterable[Any]) -> list[bool]:
    return [evaluate(bound, lambda _, v=v: v) for v in values]  # type: ignore[misc]


def asked(
    connection: duckdb.DuckDBPyConnection, questions: list[tuple[Fragment, ...]]
) -> Iterator[list[tuple[Any, ...]]]:
    """What the rows of the table answer to each question of several conditions; a few questions share a query."""
    for start in range(0, len(questions), AT_ONCE):
        some, parameters = questions[start : start + AT_ONCE], BoundParameters()
        select = ", ".join(parameters.write(condition) for question in some for condition in question)
        rows = connection.execute(f"SELECT {select} FROM t", parameters.values).fetchall()
        at = 0
        for question in some:
            yield [row[at : at + len(question)] for row in rows]
            at += len(question)


def table(connection: duckdb.DuckDBPyConnection, columns: dict[str, tuple[str, list[Any]]]) -> None:
    select = ", ".join(f'unnest($v{i}::{kind}[]) AS "{name}"' for i, (name, (kind, _)) in enumerate(columns.items()))
    raw = [[getattr(v, "bytes", v) for v in values] for _, values in columns.values()]
    connection.execute(f"CREATE OR REPLACE TABLE t AS SELECT {select}", {f"v{i}": v for i, v in enumerate(raw)})


@pytest.mark.parametrize(
    ("column_type", "width"), [*((t, 16) for t in VALUES), (StringType(), 2), (BinaryType(), 2)], ids=str
)
def test_metrics_leave_out_no_matching_file_and_promise_no_other(column_type: PrimitiveType, width: int) -> None:
    """SP1, SP8, M5: with whole and with truncated bounds."""
    files = small_files(column_type)
    found = [metrics(column_type, list(f), width) for f in files]
    kind = raw_type(column_type) or ""
    columns = {
        "spec_id": ("INTEGER", [0] * len(files)),
        **{f"{n}_1": (kind if n in ("lower", "upper") else "BIGINT", [m[n] for m in found]) for n in found[0]},
    }
    pruned = certain = 0
    values, places = [None, *VALUES[column_type]], places_of(len(VALUES[column_type]) + 1)
    with duckdb.connect() as connection:
        connection.execute(AS_WRITTEN)
        table(connection, columns)
        kinds = {n: k for n, (k, _) in columns.items()}
        bounds = filters(column_type)
        plans = [plan_predicate(bound, {}, schema_of(column_type), kinds) for bound in bounds]
        questions = [(plan.where, *plan.leaf_all) for plan in plans]
        for bound, answers in zip(bounds, asked(connection, questions), strict=True):
            of_value = matches(bound, values)
            for rows, (might, *surely) in zip(places, answers, strict=True):
                holds = [of_value[i] for i in rows]
                assert might is True or not any(holds), (bound, rows)
                assert surely != [True] or all(holds), (bound, rows)
                pruned += not might
                certain += surely == [True]
    assert pruned > len(files) and certain > len(files)


@TYPES
def test_a_metric_that_no_file_has_is_one_of_nulls(column_type: PrimitiveType) -> None:
    """SP1, SP8: there is a column only where some file has the metric, so a plan must not depend on which there are."""
    files = [metrics(column_type, list(f), 16) for f in small_files(column_type)]
    names, kind = list(files[0]), raw_type(column_type) or ""
    some = Or(tuple(filters(column_type)[::6]))
    with duckdb.connect() as connection:
        connection.execute(AS_WRITTEN)
        for there in [*([n] for n in names), *([n for n in names if n != without] for without in names)]:
            answers = []
            for columns in (names, there):
                kinds = {f"{n}_1": kind if n in ("lower", "upper") else "BIGINT" for n in columns}
                values = [[f[n] if n in there else None for f in files] for n in columns]
                table(connection, dict(zip(kinds, zip(kinds.values(), values, strict=True), strict=True)))
                plan = plan_predicate(some, {}, schema_of(column_type), kinds)
                parameters = BoundParameters()
                conditions = map(parameters.write, (*plan.leaf_might, *plan.leaf_all))
                sql = f"SELECT [{', '.join(conditions)}] FROM t"
                answers.append(connection.execute(sql, parameters.values).fetchall())
            assert answers[0] == answers[1], there


@TYPES
def test_partitions_leave_out_no_matching_row_and_promise_no_other(column_type: PrimitiveType) -> None:
    """SP1, SP8: projections through every transform, in Python and as SQL over entries and over manifest summaries."""
    schema, values = schema_of(column_type), [None, *VALUES[column_type]]
    bounds = filters(column_type)
    for transform in transforms_of(column_type):
        spec = PartitionSpec((PartitionField((1,), 1000, transform, "p"),), 7)
        partitions = [transform.apply(column_type, v) for v in values]
        kind = raw_type(spec.fields[0].result_type(schema)) or ""
        summaries = [metrics(spec.fields[0].result_type(schema), [p], 16) for p in partitions]
        columns = {
            "spec_id": ("INTEGER", [7] * len(values)),
            "part_1000": (kind, partitions),
            "pf0_lower": (kind, [s["lower"] for s in summaries]),
            "pf0_upper": (kind, [s["upper"] for s in summaries]),
            "pf0_no_bounds": ("BOOLEAN", [s["lower"] is None and s["upper"] is None for s in summaries]),
            "pf0_contains_null": ("BOOLEAN", [p is None for p in partitions]),
            "pf0_contains_nan": ("BOOLEAN", [bool(s["nans"]) for s in summaries]),
        }
        with duckdb.connect() as connection:
            connection.execute(AS_WRITTEN)
            table(connection, columns)
            questions = []
            for bound in bounds:
                plan = plan_predicate(bound, {7: spec}, schema, {"part_1000": kind})
                questions.append((plan.where, manifest_predicate(bound, spec, schema), *plan.leaf_all))
            same = [[j for j, q in enumerate(partitions) if repr(q) == repr(p)] for p in partitions]
            for bound, answers in zip(bounds, asked(connection, questions), strict=True):
                inclusive = matches(project_inclusive(bound, spec, schema), partitions)
                strict = matches(project_strict(bound, spec, schema), partitions)
                holds = matches(bound, values)
                for i, (might, of_manifest, *surely) in enumerate(answers):
                    where = (str(transform), bound, values[i])
                    assert (might is True and of_manifest is True and inclusive[i]) or not holds[i], where
                    assert not (strict[i] or surely == [True]) or all(holds[j] for j in same[i]), where
