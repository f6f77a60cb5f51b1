"""Rows do not depend on what a session's settings are, or become after a DataFrame was made."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_tables import (  # noqa: E402
    STORAGE,
    deletion_vector,
    equality_deletes,
    metadata_of,
    position_deletes,
    schema_of,
    spec_of,
    tasks_of,
    write,
)

from icecore.engine.data.read.column_resolution import FILE_ID, POS_ID  # noqa: E402
from icecore.engine.data.read.read_tasks import read_task  # noqa: E402
from icecore.engine.data.scan_task import FileScanTask  # noqa: E402
from icecore.engine.spark.read import delete_frames  # noqa: E402
from icecore.engine.spark.read.scan_to_spark import read_tasks  # noqa: E402
from icecore.engine.spark.relation import java_classes  # noqa: E402
from icecore.engine.spec.metadata import TableMetadata  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import ListType, LongType, NestedField, StringType, UUIDType  # noqa: E402

LONG, STRING = LongType(), StringType()
# Two by which files may go to another reader are alone; the others of a group act at places of their own.
SETTINGS = [
    {"spark.sql.sources.useV1SourceList": ""},
    {"spark.sql.parquet.enableVectorizedReader": "false"},
    {
        "spark.sql.parquet.fieldId.read.enabled": "false",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Kathmandu",
        "spark.sql.files.maxPartitionBytes": "200",
    },
    {
        "spark.sql.parquet.fieldId.read.ignoreMissing": "true",
        "spark.sql.parquet.enableNestedColumnVectorizedReader": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "0",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.files.ignoredPathSegmentRegex": ".",
    },
]


@contextmanager
def setting(spark: Any, key: str, value: str) -> Iterator[None]:
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


@pytest.fixture
def case(tmp_path: Path) -> tuple[list[FileScanTask], Schema, TableMetadata, list[tuple[Any, ...]]]:
    """A renamed column, a default, a partition's value, deletes of both kinds, a hidden name; and the rows."""
    old = schema_of((1, "id", LONG), (2, "name", STRING))
    added = (NestedField(3, "part", LONG), NestedField(4, "added", LONG, initial_default=42))
    new = Schema((added[1], NestedField(1, "key", LONG), NestedField(2, "name", STRING), added[0]), 1)
    files = []
    for n in range(4):
        made = write(tmp_path, old, {"id": list(range(n * 10, n * 10 + 10)), "name": [f"n{n}"] * 10})[0]
        path = Path(made.file_path)
        path = path.rename(path.with_name("_" + path.name)) if n == 3 else path
        files.append(evolve(made, file_path=str(path), partition=(n,), file_size_in_bytes=7 if n == 2 else 10**6))
    tasks = [
        *tasks_of(files[:1], [deletion_vector(tmp_path / "d", files[0].file_path, [0, 9])]),
        *tasks_of(files[1:2], [equality_deletes(tmp_path / "e", schema_of((1, "id", LONG)), {"id": [11]})]),
        *tasks_of(files[2:]),
    ]
    reserved = (NestedField(FILE_ID, "_file", STRING), NestedField(POS_ID, "_pos", LONG))
    projection = Schema((*new.fields, *reserved), 1)
    metadata = metadata_of(old, new, spec=spec_of((3, "identity", "part")))
    rows = [
        tuple(r.values())
        for t in tasks
        for b in read_task(
            evolve(t, length=2**62), projection=projection, table_schema=new, specs=metadata.specs, storage=STORAGE
        )
        for r in b.to_pylist()
    ]
    assert len(rows) == 37
    return tasks, projection, metadata, sorted(rows)


def test_settings_change_no_row(either_way: Any, case: Any) -> None:
    """Set before the DataFrame is made; in a relation of planned files also after that."""
    spark, (tasks, projection, metadata, rows) = either_way, case
    is_planned = spark.conf.get(java_classes.ENABLED) == "true"

    def made() -> Any:
        return read_tasks(spark, tasks, projection=projection, metadata=metadata, storage=STORAGE)

    def found(frame: Any) -> list[tuple[Any, ...]]:
        return sorted(tuple(r) for r in frame.collect())

    early = made()
    for group in SETTINGS:
        with ExitStack() as stack:
            for key, value in group.items():
                stack.enter_context(setting(spark, key, value))
            assert found(made()) == rows, group
            if is_planned:
                assert found(early) == rows, group
                assert early.where("part = 3 AND key > 35").count() == 4


def test_what_spark_reads_by_is_shown_and_logged(
    spark: Any, case: Any, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    tasks, projection, metadata, _ = case
    with caplog.at_level(logging.DEBUG, "icecore"):
        read_tasks(spark, tasks, projection=projection, metadata=metadata, storage=STORAGE).explain()
    assert "PlannedFiles" in capsys.readouterr().out
    assert "2 planned files are read by an index of their own" in caplog.text


def test_a_spark_with_other_internals_is_read_by_public_api(
    spark: Any, case: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tasks, projection, metadata, rows = case
    monkeypatch.setattr(java_classes, "_compiled", {})
    monkeypatch.setattr(java_classes, "_source", lambda name: "public class Other extends NoClassOfSpark {}")
    with caplog.at_level(logging.INFO, "icecore"):
        frame = read_tasks(spark, tasks, projection=projection, metadata=metadata, storage=STORAGE)
    assert "by public API alone" in caplog.text
    assert sorted(tuple(r) for r in frame.collect()) == rows


def test_filters_on_constants_choose_files(spark: Any, case: Any) -> None:
    """Spark drops such filters once the index has applied them; files that they leave out are never looked for."""
    tasks, projection, metadata, rows = case
    frame = read_tasks(spark, tasks, projection=projection, metadata=metadata, storage=STORAGE)
    first = tasks[1].file.file_path
    other = tasks[3].file.file_path
    Path(tasks[0].file.file_path).unlink()
    for condition, wanted in (
        (f"_file = '{first}'", {first}),
        (f"_file IN ('{first}', '{other}', 'x')", {first, other}),
        (
            f"_file > '{first}' AND NOT _file LIKE '%_f%'",
            {f for f in {r[4] for r in rows} if f > first and "_f" not in f},
        ),
        ("_file IS NULL", set()),
    ):
        kept = frame.where(condition)
        assert sorted(tuple(r) for r in kept.collect()) == [r for r in rows if r[4] in wanted], condition
    with pytest.raises(Exception, match=Path(tasks[0].file.file_path).name):
        frame.count()


@pytest.mark.parametrize("limit", ["none", "MAX_DELETES_IN_DRIVER", "MAX_BYTES_IN_DRIVER"])
def test_few_deletes_are_bits_and_many_are_joined(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Positions at the ends of bytes and far ones, files that share delete files, a vector that says nothing."""
    schema = schema_of((1, "id", LONG))
    n = 70_000
    files = [write(tmp_path, schema, {"id": list(range(k * n, k * n + n))})[0] for k in range(4)]
    gone = [[0, 7, 8, 63, 64, 65_535, 65_536, n - 1], [5], list(range(0, n, 3)), []]
    shared = position_deletes(tmp_path / "d", [(files[k].file_path, p) for k in (0, 1) for p in gone[k]])
    vectors = [deletion_vector(tmp_path / "d", files[k].file_path, gone[k]) for k in (2, 3)]
    tasks = [*tasks_of(files[:2], [shared]), *tasks_of(files[2:3], vectors[:1]), *tasks_of(files[3:], vectors[1:])]
    if limit != "none":
        monkeypatch.setattr(delete_frames, limit, 1)
    frame = read_tasks(spark, tasks, projection=schema, metadata=metadata_of(schema), storage=STORAGE)
    is_joined = "LeftAnti" in frame._jdf.queryExecution().executedPlan().toString()
    assert is_joined == (limit != "none")
    wanted = {k * n + p for k in range(4) for p in range(n)} - {k * n + p for k in range(4) for p in gone[k]}
    for where in ("TRUE", "id % 5 < 3", f"id > {n}") if limit == "none" else ("id % 5 < 3",):
        found = sorted(frame.where(where).toArrow()["id"].to_pylist())
        assert found == sorted(i for i in wanted if where == "TRUE" or (i % 5 < 3 if "%" in where else i > n))
    with setting(spark, "spark.sql.codegen.wholeStage", "false"):
        assert frame.count() == len(wanted)


@pytest.mark.parametrize("reader", ["enableVectorizedReader", "enableNestedColumnVectorizedReader"])
def test_rows_beside_a_nested_column_are_right_by_either_reader(either_way: Any, tmp_path: Path, reader: str) -> None:
    """Spark's row by row reader, which a setting for nested columns alone chooses too, has no defaults in front."""
    spark = either_way
    uuids = ListType(12, UUIDType(), True)
    old = schema_of((1, "id", LONG), (2, "ids", uuids))
    new = Schema((NestedField(3, "added", LONG, initial_default=42), *old.fields), 1)
    [file] = write(tmp_path, old, {"id": [1], "ids": [[UUID(int=7).bytes]]})
    for projection, wanted in ((new, (42, 1, [str(UUID(int=7))])), (old, (1, [str(UUID(int=7))]))):
        with setting(spark, f"spark.sql.parquet.{reader}", "false"):
            frame = read_tasks(
                spark, tasks_of([file]), projection=projection, metadata=metadata_of(old, new), storage=STORAGE
            )
            assert [tuple(r) for r in frame.collect()] == [wanted]
