"""Splits, pruning, filters as JSON and single values, as Iceberg's own Java classes have them.

The answers are stored in `java_peer/answers.json` with the version that gave them; `java_peer/generate.py` asks anew.
Where we differ we must be right by the values beside the question, and the ways in which we may are named here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from attrs import frozen
from java_peer.questions import COMPARISONS, Question, parse, schema_of

from icecore.engine.data.file.metrics_mode import parse_mode, truncated_lower, truncated_upper
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.bind import bind
from icecore.engine.expression.evaluate import evaluate
from icecore.engine.expression.json.expression_json import from_json, to_json
from icecore.engine.expression.nodes import TRUE, Expression, TypedValue
from icecore.engine.expression.project import project_inclusive, project_strict
from icecore.engine.expression.sql.fragment import BoundParameters, Fragment
from icecore.engine.formats.typed_values import typed_values
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.transform import parse_transform
from icecore.engine.spec.types import FLOATING_TYPES, PrimitiveType, StringType, UUIDType
from icecore.projections.plan.predicate import manifest_predicate, plan_predicate
from icecore.projections.plan.residuals import residual
from icecore.projections.plan.splits import Splitting, combine, split_tasks
from icecore.projections.segments.duckdb_types import raw_type

STORED = json.loads((Path(__file__).parent / "java_peer" / "answers.json").read_text())
ANSWERS: list[tuple[Question, Any]] = STORED["answers"]


def of(kind: str) -> list[tuple[Question, Any]]:
    return [(q, a) for q, a in ANSWERS if q["op"] == kind]


@frozen
class Asked:
    """A filter of a question, bound, and the values of the rows that it is asked of."""

    column_type: PrimitiveType
    bound: Expression
    rows: list[list[Any]]

    @classmethod
    def of(cls, question: Question) -> Asked:
        column_type = parse(question["type"])
        schema = schema_of(column_type)
        rows = [
            [None if v is None else single_value.from_bytes(column_type, bytes.fromhex(v)) for v in row]
            for row in question.get("rows", [])
            if isinstance(row, list)
        ]
        return cls(column_type, bind(from_json(question["expression"], schema), schema), rows)

    def holds(self, value: Any) -> bool:
        return evaluate(self.bound, lambda _: value)

    @property
    def is_ordered_otherwise(self) -> bool:
        """Java has NaN in no comparison, -0.0 below 0.0, and UUIDs as two signed numbers."""
        return isinstance(self.column_type, (*FLOATING_TYPES, UUIDType))


def spec_of(question: Question) -> PartitionSpec:
    return PartitionSpec((PartitionField((1,), 1000, parse_transform(question["transform"]), "p"),), 7)


def table(columns: dict[str, Any]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("t", pa.table(columns))
    return connection


def answers(columns: dict[str, Any], conditions: list[Fragment]) -> list[tuple[bool, ...]]:
    parameters = BoundParameters()
    texts = ", ".join(map(parameters.write, conditions))
    with table(columns) as connection:
        return connection.execute(f"SELECT {texts} FROM t", parameters.values).fetchall()


def typed(column_type: PrimitiveType, bounds: list[str | None]) -> Any:
    raw = pa.array([None if b is None else bytes.fromhex(b) for b in bounds], pa.binary())
    return typed_values(column_type, raw, nan_is_null=True)


def task(name: str, size: int, offsets: list[int] | None, deletes: list[list[int | None]]) -> FileScanTask:
    def file(content: DataFileContent, path: str, length: int, **more: Any) -> ContentFile:
        return ContentFile(content, path, FileFormat.PARQUET, 0, (), 1, length, **more)

    found = tuple(
        file(DataFileContent.POSITION_DELETES, f"{name}-{i}", whole or 0, content_size_in_bytes=part)
        for i, (whole, part) in enumerate(deletes)
    )
    data = file(DataFileContent.DATA, name, size, split_offsets=None if offsets is None else tuple(offsets))
    return FileScanTask(data, found, TRUE, 0, size, 1)


def test_splits_are_packed_into_the_same_groups() -> None:
    """Our ranges start at 0 where Java's start at the first split offset."""
    for question, expected in of("split"):
        splitting = Splitting(question["target"], question["cost"], question["lookback"])
        groups = combine(split_tasks([task(*f) for f in question["files"]], splitting), splitting)
        found = [[(t.file.file_path, t.start, t.start + t.length) for t in g.tasks] for g in groups]
        firsts = {name: offsets[0] for name, _, offsets, _ in question["files"] if offsets}
        theirs = [
            [(name, 0 if start == firsts.get(name) else start, start + length) for name, start, length in group]
            for group in expected
        ]
        assert found == theirs, question


def test_metrics_prune_as_java_does() -> None:
    """SP1, SP8, M5."""
    pruned = certain = 0
    for question, expected in of("metrics"):
        asked, schema = Asked.of(question), schema_of(parse(question["type"]))
        files, kind = question["files"], raw_type(asked.column_type)
        columns: dict[str, Any] = {"spec_id": pa.array([0] * len(files), pa.int32())}
        kinds = {"spec_id": "INTEGER"}
        for name in ("lower", "upper"):
            columns[f"{name}_1"] = typed(asked.column_type, [f[name].get("1") for f in files])
            kinds[f"{name}_1"] = str(kind)
        for name in ("values", "nulls", "nans"):
            columns[f"{name}_1"] = pa.array([f[name].get("1") for f in files], pa.int64())
            kinds[f"{name}_1"] = "BIGINT"
        plan = plan_predicate(asked.bound, {}, schema, kinds)
        half = len(plan.leaves)
        conditions = [plan.where, *plan.leaf_might, *plan.leaf_all]
        for file, row, ours, theirs in zip(files, asked.rows, answers(columns, conditions), expected, strict=True):
            left = residual(asked.bound, bits(ours[1 : 1 + half]), bits(ours[1 + half :]))
            check(asked, (question["expression"], file), row, (ours[0], left == TRUE), theirs)
            pruned += not ours[0]
            certain += left == TRUE
    assert pruned > 100 and certain > 30


def bits(flags: tuple[bool, ...]) -> int:
    return sum(1 << i for i, flag in enumerate(flags) if flag)


def check(asked: Asked, where: Any, row: list[Any], ours: tuple[bool, bool], theirs: list[Any]) -> None:
    """What we prune more, or promise more, must be true of the rows; what we do less has its reasons."""
    (might, surely), (java_might, java_surely) = ours, theirs[:2]
    if might and not java_might:
        # That a comparison is of no null is not projected by itself, and `IS NOT NULL` beside it is folded into it.
        assert asked.is_ordered_otherwise or set(row) == {None}, where
    if java_might and not might:
        assert not any(map(asked.holds, row)), where
    if surely and not java_surely:
        assert all(map(asked.holds, row)), where
    if java_surely and java_might and not surely:
        # A leaf that is true of nulls is two for us, and one of them alone is not true of all rows.
        assert asked.is_ordered_otherwise or None in row, where


def test_partitions_prune_as_java_does() -> None:
    """SP1, SP8, PT4, PT5: projections through every transform."""
    differing = total = 0
    for question, expected in of("partitions"):
        asked, spec = Asked.of({**question, "rows": [question["rows"]]}), spec_of(question)
        schema, field = schema_of(asked.column_type), spec.fields[0]
        inclusive, strict = project_inclusive(asked.bound, spec, schema), project_strict(asked.bound, spec, schema)
        partitions = [field.transform.apply(asked.column_type, v) for v in asked.rows[0]]
        for partition, (written,), theirs in zip(
            partitions, question["partitions"], expected["partitions"], strict=True
        ):
            assert single_value.from_json(field.result_type(schema), written) == partition
            same = [v for v, p in zip(asked.rows[0], partitions, strict=True) if repr(p) == repr(partition)]
            ours = tuple(evaluate(e, lambda _, p=partition: p) for e in (inclusive, strict))  # type: ignore[misc]
            where = (question["type"], question["transform"], question["expression"], partition)
            check(asked, where, same, (ours[0], ours[1]), theirs)
            differing += list(ours) != theirs[:2]
            total += 1
    assert differing < total / 8


def test_manifests_are_left_out_as_java_does() -> None:
    """SP1, L1."""
    differing = total = 0
    for question, expected in of("summaries"):
        asked, spec = Asked.of(question), spec_of(question)
        schema = schema_of(asked.column_type)
        result, summaries = spec.fields[0].result_type(schema), [m[0] for m in question["manifests"]]
        columns = {
            "pf0_contains_null": pa.array([s["null"] for s in summaries], pa.bool_()),
            "pf0_contains_nan": pa.array([s["nan"] for s in summaries], pa.bool_()),
            "pf0_no_bounds": pa.array([s["lower"] is None and s["upper"] is None for s in summaries], pa.bool_()),
            "pf0_lower": typed(result, [s["lower"] for s in summaries]),
            "pf0_upper": typed(result, [s["upper"] for s in summaries]),
        }
        condition = manifest_predicate(asked.bound, spec, schema)
        for summary, row, (ours,), theirs in zip(
            summaries, asked.rows, answers(columns, [condition]), expected, strict=True
        ):
            check(asked, (question["expression"], summary), row, (ours, False), [theirs, False])
            differing += ours is not theirs
            total += 1
    assert differing < total / 8


def test_filters_as_json_are_what_java_binds() -> None:
    """E4: read by Java with the schema, or without it as its clients' numbers are, and bound."""
    for question, expected in of("expression"):
        asked, schema = Asked.of(question), schema_of(parse(question["type"]))
        for written in (expected["json"], expected["bound"]):
            assert simplest(bind(from_json(written, schema), schema)) == simplest(asked.bound), question


def simplest(bound: Expression) -> Any:
    return json.dumps(to_json(bound), sort_keys=True)


@pytest.mark.parametrize(("kind", "factor"), [("timestamp_ns", 1000), ("timestamptz_ns", 1000), ("timestamp", 1)])
@pytest.mark.parametrize("op", COMPARISONS)
def test_a_whole_number_is_microseconds_for_every_timestamp(kind: str, factor: int, op: str) -> None:
    """E4: Java's literal for a column of nanoseconds is a long of microseconds until it is bound."""
    schema = schema_of(parse(kind))
    read = from_json({"type": op, "term": "c", "value": 1_704_067_200_000_001}, schema)
    nanoseconds = TypedValue(parse(kind), 1_704_067_200_000_001 * factor)
    text = single_value.to_json(parse(kind), nanoseconds.value)
    assert bind(read, schema) == bind(from_json({"type": op, "term": "c", "value": text}, schema), schema)


def test_single_values_and_their_transforms_are_javas() -> None:
    """M9, MD9, PT3 to PT5."""
    for question, expected in of("value"):
        column_type = parse(question["type"])
        value = single_value.from_json(column_type, question["json"])
        assert single_value.to_bytes(column_type, value).hex() == expected["bytes"], question
        read = single_value.from_json(column_type, expected["json"])
        # Java writes a float with as few digits as tell it from other floats.
        assert single_value.to_bytes(column_type, read).hex() == expected["bytes"], question
        named = [(t, parse_transform(t)) for t in question["transforms"]]
        assert {t for t, transform in named if transform.can_transform(column_type)} == set(expected["transforms"])
        for name, written in expected["transforms"].items():
            if name == "identity":
                continue
            transform = parse_transform(name)
            theirs = single_value.from_json(transform.result_type(column_type), written)
            assert transform.apply(column_type, value) == theirs, (question, name)


def test_bounds_are_cut_as_java_cuts_them() -> None:
    """M5: the upper one is the next value of the length, or none."""
    for question, (lower, upper) in of("truncate"):
        column_type, mode = parse(question["type"]), parse_mode(f"truncate({question['length']})", "test")
        value = single_value.from_json(column_type, question["json"])
        found = [single_value.to_json(column_type, f(value, mode)) for f in (truncated_lower, truncated_upper)]
        if isinstance(column_type, StringType):
            assert (upper is None) or value <= upper
        assert found == [lower, upper], question
