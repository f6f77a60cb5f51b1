"""No plan loses a row: pruning, residuals and row filters against DuckDB's own reading of the filter's SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from attrs import frozen
from budgets import examples
from expression_cases import TYPES, VALUES, filter_texts, metrics, native, transforms_of
from hypothesis import assume, given
from hypothesis import strategies as st

from icecore.engine.expression.bind import bind
from icecore.engine.expression.evaluate import evaluate
from icecore.engine.expression.nodes import TRUE, BoundTerm, Expression
from icecore.engine.expression.project import project_inclusive, project_strict
from icecore.engine.expression.sql.duckdb_sql import to_sql
from icecore.engine.expression.sql.fragment import BoundParameters
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FLOATING_TYPES, NestedField, PrimitiveType
from icecore.projections.plan.predicate import manifest_predicate, plan_predicate
from icecore.projections.plan.residuals import residual
from icecore.projections.segments.duckdb_types import raw_type

STATISTICS = ("lower", "upper", "nulls", "nans", "values")


@frozen
class Case:
    """A table of a few rows in files by partition, and a filter as SQL."""

    schema: Schema
    spec: PartitionSpec
    rows: tuple[tuple[Any, ...], ...]
    text: str
    width: int
    absent: frozenset[str]
    unknown: bool

    def files(self) -> list[tuple[tuple[Any, ...], list[int]]]:
        """Partition tuples with the numbers of their rows; at most four rows a file, so that some share a partition."""
        groups: dict[str, tuple[tuple[Any, ...], list[int]]] = {}
        for i, row in enumerate(self.rows):
            partition = tuple(
                f.transform.apply(self.schema.fields[f.source_id - 1].field_type, row[f.source_id - 1])  # type: ignore[arg-type]
                for f in self.spec.fields
            )
            # Equal bits, so that -0.0 and 0.0 are different partitions and NaN is one (SP5).
            groups.setdefault(f"{partition!r}{i // 4}", (partition, []))[1].append(i)
        return list(groups.values())


@st.composite
def cases(draw: st.DrawFn) -> Case:
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=2))
    # Few different values, so that files have equal bounds and literals meet them.
    pools = [draw(st.lists(st.sampled_from(VALUES[t]), min_size=1, max_size=4)) for t in types]
    fields = tuple(NestedField(i + 1, f"c{i + 1}", t, required=draw(st.booleans())) for i, t in enumerate(types))
    spec_fields: list[PartitionField] = []
    for f in fields:
        for transform in draw(st.lists(st.sampled_from(transforms_of(f.field_type)), max_size=2, unique=True)):  # type: ignore[arg-type]
            number = len(spec_fields)
            spec_fields.append(PartitionField((f.field_id,), 1000 + number, transform, f"p{number}"))
    cells = [st.sampled_from(p if f.required else [*p, None]) for f, p in zip(fields, pools, strict=True)]
    rows = draw(st.lists(st.tuples(*cells), min_size=1, max_size=14))
    columns = {f.name: (t, p) for f, t, p in zip(fields, types, pools, strict=True)}
    absent = st.sampled_from([f"{s}_{f.field_id}" for s in STATISTICS for f in fields] + ["part_1000"])
    return Case(
        Schema(fields),
        PartitionSpec(tuple(spec_fields), draw(st.sampled_from([0, 3]))),
        tuple(rows),
        draw(filter_texts(columns)),
        draw(st.sampled_from([2, 16])),
        draw(st.frozensets(absent, max_size=3)) if draw(st.booleans()) else frozenset(),
        draw(st.booleans()) and draw(st.booleans()),
    )


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as c:
        c.execute("SET TimeZone = 'UTC'; SET threads = 1")
        yield c


SETTINGS = examples(120, new=1750)


@SETTINGS
@given(case=cases())
def test_no_plan_loses_a_row_and_no_residual_adds_one(case: Case, connection: duckdb.DuckDBPyConnection) -> None:
    """SP1, SP8: a file with a matching row is kept, a dropped residual means that all rows match."""
    load_rows(connection, case)
    wanted = duckdb_rows(connection, case)
    bound = bind(parse_filter(case.text), case.schema)
    assert selected(connection, bound) == wanted
    assert {i for i, row in enumerate(case.rows) if evaluate(bound, getter(row))} == wanted

    columns = load_files(connection, case)
    plan = plan_predicate(bound, {case.spec.spec_id: case.spec}, case.schema, columns)
    assert plan.needed <= set(plan.leaves)
    told = (plan.where, *plan.leaf_might, *plan.leaf_all, *plan.might_of_planned)
    parameters = BoundParameters()
    select = ", ".join(f"({parameters.write(condition)})" for condition in told)
    answers = connection.execute(f"SELECT {select} FROM files ORDER BY file", parameters.values).fetchall()
    for (partition, numbers), (kept, *leaves) in zip(case.files(), answers, strict=True):
        matching = wanted & set(numbers)
        assert None not in (kept, *leaves)
        assert kept or not matching
        count = len(plan.leaves)
        might, surely, of_planned = (bits(leaves[i * count : (i + 1) * count]) for i in range(3))
        assert of_planned == might or not kept
        left = residual(bound, might, surely)
        assert {i for i in numbers if evaluate(left, getter(case.rows[i]))} == matching
        if left == TRUE:
            assert matching == set(numbers)
        if not case.unknown:
            check_projections(case, bound, partition, numbers, matching)


@examples(50, new=560)
@given(case=cases())
def test_no_manifest_with_a_matching_row_is_left_out(case: Case, connection: duckdb.DuckDBPyConnection) -> None:
    """SP1, L1: the summaries of a manifest's partition values."""
    load_rows(connection, case)
    wanted = duckdb_rows(connection, case)
    bound = bind(parse_filter(case.text), case.schema)
    files = case.files()
    for part in (files[::2], files[1::2]):
        if not part:
            continue
        parameters = BoundParameters()
        sql = parameters.write(manifest_predicate(bound, case.spec, case.schema))
        load_summaries(connection, case, [p for p, _ in part])
        (kept,) = connection.execute(f"SELECT {sql} FROM manifests", parameters.values).fetchone() or (None,)
        assert kept is not None
        assert kept or not wanted & {i for _, numbers in part for i in numbers}


def check_projections(
    case: Case, bound: Expression, partition: tuple[Any, ...], numbers: list[int], matching: set[int]
) -> None:
    by_id = {f.field_id: v for f, v in zip(case.spec.fields, partition, strict=True)}

    def value(term: BoundTerm) -> Any:
        return by_id[term.field.field_id]

    if matching:
        assert evaluate(project_inclusive(bound, case.spec, case.schema), value)
    if evaluate(project_strict(bound, case.spec, case.schema), value):
        assert matching == set(numbers)


def getter(row: tuple[Any, ...]) -> Any:
    return lambda term: row[term.field.field_id - 1]


def bits(flags: list[bool]) -> int:
    return sum(1 << i for i, flag in enumerate(flags) if flag)


def duckdb_rows(connection: duckdb.DuckDBPyConnection, case: Case) -> set[int]:
    try:
        found = connection.execute(f"SELECT i FROM rows WHERE {case.text}").fetchall()
    except duckdb.Error:
        # DuckDB refuses some comparisons, as of decimals that have no common type.
        assume(False)
        raise
    return {i for (i,) in found}


def selected(connection: duckdb.DuckDBPyConnection, bound: Expression) -> set[int]:
    parameters: dict[str, Any] = {}
    sql = to_sql(bound, lambda term: f'"{term.name}"', parameters, lambda term: "NULL")
    return {i for (i,) in connection.execute(f"SELECT i FROM rows WHERE {sql}", parameters).fetchall()}


def load_rows(connection: duckdb.DuckDBPyConnection, case: Case) -> None:
    lists, parameters = ["unnest(range($n)) AS i"], {"n": len(case.rows)}
    for k, f in enumerate(case.schema.fields):
        lists.append(f"unnest($v{k}::{native(f.field_type)}[]) AS {f.name}")  # type: ignore[arg-type]
        parameters[f"v{k}"] = [row[k] for row in case.rows]  # type: ignore[assignment]
    connection.execute(f"CREATE OR REPLACE TEMP TABLE rows AS SELECT {', '.join(lists)}", parameters)


def load_files(connection: duckdb.DuckDBPyConnection, case: Case) -> dict[str, str]:
    """The wide entries table; gives its columns."""
    files = case.files()
    spec_id = 99 if case.unknown else case.spec.spec_id
    columns: dict[str, tuple[str, list[Any]]] = {
        "file": ("INTEGER", list(range(len(files)))),
        "spec_id": ("INTEGER", [spec_id] * len(files)),
    }
    for position, p in enumerate(case.spec.fields):
        values = [None if case.unknown else partition[position] for partition, _ in files]
        columns[f"part_{p.field_id}"] = (raw_type(p.result_type(case.schema)) or "", values)
    for k, f in enumerate(case.schema.fields):
        of_files = [metrics(f.field_type, [case.rows[i][k] for i in numbers], case.width) for _, numbers in files]  # type: ignore[arg-type]
        for name in STATISTICS:
            kind = raw_type(f.field_type) if name in ("lower", "upper") else "BIGINT"
            columns[f"{name}_{f.field_id}"] = (kind or "", [m[name] for m in of_files])
    columns = {name: column for name, column in columns.items() if name not in case.absent}
    create(connection, "files", columns)
    return {name: kind for name, (kind, _) in columns.items()}


def load_summaries(connection: duckdb.DuckDBPyConnection, case: Case, partitions: list[tuple[Any, ...]]) -> None:
    columns: dict[str, tuple[str, list[Any]]] = {"one": ("INTEGER", [1])}
    for position, p in enumerate(case.spec.fields):
        result: PrimitiveType = p.result_type(case.schema)
        m = metrics(result, [partition[position] for partition in partitions], case.width)
        nan = m["nans"] > 0 if isinstance(result, FLOATING_TYPES) else None
        kind = raw_type(result) or ""
        columns[f"pf{position}_contains_null"] = ("BOOLEAN", [m["nulls"] > 0])
        columns[f"pf{position}_contains_nan"] = ("BOOLEAN", [nan])
        columns[f"pf{position}_no_bounds"] = ("BOOLEAN", [m["lower"] is None and m["upper"] is None])
        columns[f"pf{position}_lower"] = (kind, [m["lower"]])
        columns[f"pf{position}_upper"] = (kind, [m["upper"]])
    create(connection, "manifests", columns)


def create(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, tuple[str, list[Any]]]) -> None:
    select = ", ".join(f'unnest($v{i}::{kind}[]) AS "{n}"' for i, (n, (kind, _)) in enumerate(columns.items()))
    parameters = {f"v{i}": [raw(v) for v in values] for i, (_, values) in enumerate(columns.values())}
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {select}", parameters)


def raw(value: Any) -> Any:
    return value.bytes if hasattr(value, "bytes") else value
