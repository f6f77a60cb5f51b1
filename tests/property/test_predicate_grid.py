"""Every operator against every small file of every type: what bounds, counts and partitions may and must say."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import duckdb
import pytest
from expression_cases import VALUES, metrics, transforms_of

from icecore.engine.expression.bind import bind
from icecore.engine.expression.evaluate import evaluate
from icecore.engine.expression.nodes import Expression, Or, Predicate, PredicateOperator, Reference, TypedValue
from icecore.engine.expression.project import project_inclusive, project_strict
from icecore.engine.expression.sql.fragment import Parameters
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
    pairs = list(itertools.combinations_with_replacement(values, 2))
    return [*((v,) for v in values), *pairs, *((*p, None) for p in pairs[::3])]


def matches(bound: Expression, values: Iterable[Any]) -> list[bool]:
    return [evaluate(bound, lambda _, v=v: v) for v in values]  # type: ignore[misc]


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
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        table(connection, columns)
        for bound in filters(column_type):
            plan = plan_predicate(bound, {}, schema_of(column_type), {n: k for n, (k, _) in columns.items()})
            parameters = Parameters()
            select = ", ".join(map(parameters.write, (plan.where, *plan.leaf_all)))
            answers = connection.execute(f"SELECT {select} FROM t", parameters.values).fetchall()
            for values, (might, *surely) in zip(files, answers, strict=True):
                holds = matches(bound, values)
                assert might is True or not any(holds), (bound, values)
                assert surely != [True] or all(holds), (bound, values)
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
        connection.execute("SET threads = 1")
        for there in [*([n] for n in names), *([n for n in names if n != without] for without in names)]:
            answers = []
            for columns in (names, there):
                kinds = {f"{n}_1": kind if n in ("lower", "upper") else "BIGINT" for n in columns}
                values = [[f[n] if n in there else None for f in files] for n in columns]
                table(connection, dict(zip(kinds, zip(kinds.values(), values, strict=True), strict=True)))
                plan = plan_predicate(some, {}, schema_of(column_type), kinds)
                parameters = Parameters()
                conditions = map(parameters.write, (*plan.leaf_might, *plan.leaf_all))
                sql = f"SELECT [{', '.join(conditions)}] FROM t"
                answers.append(connection.execute(sql, parameters.values).fetchall())
            assert answers[0] == answers[1], there


@TYPES
def test_partitions_leave_out_no_matching_row_and_promise_no_other(column_type: PrimitiveType) -> None:
    """SP1, SP8: projections through every transform, in Python and as SQL over entries and over manifest summaries."""
    schema, values = schema_of(column_type), [None, *VALUES[column_type]]
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
            connection.execute("SET threads = 1")
            table(connection, columns)
            for bound in filters(column_type):
                plan = plan_predicate(bound, {7: spec}, schema, {"part_1000": kind})
                parameters = Parameters()
                conditions = (plan.where, manifest_predicate(bound, spec, schema), *plan.leaf_all)
                select = ", ".join(map(parameters.write, conditions))
                answers = connection.execute(f"SELECT {select} FROM t", parameters.values).fetchall()
                inclusive = matches(project_inclusive(bound, spec, schema), partitions)
                strict = matches(project_strict(bound, spec, schema), partitions)
                for i, holds in enumerate(matches(bound, values)):
                    might, of_manifest, *surely = answers[i]
                    where = (str(transform), bound, values[i])
                    assert (might is True and of_manifest is True and inclusive[i]) or not holds, where
                    same = [
                        matches(bound, [v])[0]
                        for v, p in zip(values, partitions, strict=True)
                        if repr(p) == repr(partitions[i])
                    ]
                    assert not (strict[i] or surely == [True]) or all(same), where
