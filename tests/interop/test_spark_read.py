"""Spark reads exactly the rows of a plan: from files of any name, size and format, whole or in ranges."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from attrs import evolve

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_reading import LONG, STRING, TWO, rows, spark  # noqa: E402
from spark_tables import (  # noqa: E402
    STORAGE,
    deletion_vector,
    equality_deletes,
    hidden_copy,
    metadata_of,
    position_deletes,
    schema_of,
    tasks_of,
    write,
)

from icecore.engine.data.read.column_resolution import FILE_ID, POS_ID  # noqa: E402
from icecore.engine.data.read.read_tasks import read_task  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.expression.bind import bind  # noqa: E402
from icecore.engine.expression.sql.parse import parse_filter  # noqa: E402
from icecore.engine.spark.read.scan_to_spark import read_tasks  # noqa: E402
from icecore.engine.spec.content_file import FileFormat  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import NestedField  # noqa: E402

__all__ = ["spark"]


def test_only_counting_needs_no_column(spark: Any, tmp_path: Path) -> None:
    file = write(tmp_path, TWO, {"id": [1, 2, 3], "name": ["a", "b", "c"]})[0]
    for f in (file, hidden_copy(file)):
        frame = read_tasks(
            spark,
            tasks_of([f]),
            projection=Schema(()),
            metadata=metadata_of(TWO),
            storage=STORAGE,
            filter=bind(parse_filter("id > 1"), TWO),
        )
        assert frame.count() == 2


def test_trap_3_a_wrong_size_in_the_manifest_costs_no_row(spark: Any, tmp_path: Path) -> None:
    file = write(tmp_path, TWO, {"id": list(range(50)), "name": ["x"] * 50})[0]
    small, large = (evolve(f, file_size_in_bytes=n) for f, n in ((file, 5), (hidden_copy(file), 10**9)))
    assert len(rows(spark, tasks_of([small]), TWO)) == 50
    assert len(rows(spark, tasks_of([large]), TWO)) == 50


NAMES = [
    "plain",
    "a b",
    "100%",
    "%20",
    "%2F",
    "ü",
    "a=1",
    "x+y",
    "[a]{b}*?",
    "q\"'`",
    "#",
    "back\\slash",
    "a:b",
    "é\u00a0",
]


def test_any_file_name(spark: Any, tmp_path: Path) -> None:
    """Each file is read once and has its own deletes and its own `_file`, whatever its name is."""
    schema = Schema((*TWO.fields, NestedField(FILE_ID, "_file", STRING), NestedField(POS_ID, "_pos", LONG)))
    tasks = []
    for n, name in enumerate([*NAMES, "_hidden", ".hidden"]):
        made = write(tmp_path / "made", TWO, {"id": [n, n, n], "name": [name] * 3})[0]
        (tmp_path / name).mkdir()
        path = shutil.move(made.file_path, tmp_path / name / f"{name}.parquet")
        file = evolve(made, file_path=f"file://{path}" if n % 2 else str(path))
        delete = (
            deletion_vector(tmp_path / "d", file.file_path, [1])
            if n % 3
            else position_deletes(tmp_path / "d", [(file.file_path, 1)])
        )
        tasks += tasks_of([file], [delete])
    found = rows(spark, tasks, schema, metadata=metadata_of(TWO))
    wanted = [
        (n, t.file.file_path.rsplit("/", 1)[1].removesuffix(".parquet"), t.file.file_path, p)
        for n, t in enumerate(tasks)
        for p in (0, 2)
    ]
    assert found == sorted(wanted, key=repr)


def test_ranges_of_a_file_are_put_together(spark: Any, tmp_path: Path) -> None:
    """Splits that cover a file are read as one; a part alone gives the rows of its row groups alone."""
    n = 400
    file = write(
        tmp_path,
        TWO,
        {"id": list(range(n)), "name": ["x" * 50] * n},
        properties={"write.parquet.row-group-limit": "100", "write.parquet.row-group-size-bytes": "6000"},
    )[0]
    groups = pq.ParquetFile(file.file_path).metadata.num_row_groups
    assert groups > 2 and file.split_offsets is not None
    cut = file.split_offsets[1]
    whole = tasks_of([file])[0]
    first, second = evolve(whole, length=cut), evolve(whole, start=cut, length=file.file_size_in_bytes - cut)
    assert [r[0] for r in rows(spark, [first, second], TWO)] == [r[0] for r in rows(spark, [whole], TWO)]
    part = rows(spark, [first], TWO)
    assert len(part) == pq.ParquetFile(file.file_path).metadata.row_group(0).num_rows
    with pytest.raises(ValidationError, match="planned twice"):
        rows(spark, [whole, second], TWO)
    with pytest.raises(ValidationError, match="planned twice"):
        rows(spark, [whole, evolve(whole, file=evolve(file, file_path=f"file://{file.file_path}"))], TWO)


def test_avro_files_through_python(spark: Any, tmp_path: Path) -> None:
    import fastavro

    path = tmp_path / "data.avro"
    fields = [
        {"name": "id", "type": ["null", "long"], "field-id": 1},
        {"name": "other", "type": ["null", "string"], "field-id": 2},
    ]
    with path.open("wb") as f:
        fastavro.writer(f, {"type": "record", "name": "r", "fields": fields}, [{"id": 1, "other": "a"}, {"id": 2}])
    parquet = write(tmp_path, TWO, {"id": [3], "name": ["c"]})[0]
    avro = evolve(parquet, file_path=str(path), file_format=FileFormat.AVRO, file_size_in_bytes=path.stat().st_size)
    tasks = tasks_of([avro], [deletion_vector(tmp_path, str(path), [1])]) + tasks_of([parquet])
    assert rows(spark, tasks, TWO) == [(1, "a"), (3, "c")]


def test_spark_and_python_agree_on_a_mixed_plan(spark: Any, tmp_path: Path) -> None:
    """One scan over native, deleted, hidden and renamed files gives what the engine's own reader gives."""
    old, new = TWO, schema_of((1, "key", LONG), (2, "name", STRING), schema_id=1)
    tasks = []
    for n in range(6):
        file = write(tmp_path, old, {"id": list(range(n * 10, n * 10 + 10)), "name": [f"n{n}"] * 10})[0]
        deletes = [deletion_vector(tmp_path, file.file_path, [n])] if n % 2 else []
        if n in (3, 4):
            deletes.append(equality_deletes(tmp_path / "e", schema_of((1, "id", LONG)), {"id": [n * 10 + 9]}))
        hide = n == 5
        tasks += tasks_of([hidden_copy(file)] if hide else [file], [] if hide else deletes)
    metadata = metadata_of(old, new)
    expected = [
        tuple(r.values())
        for t in tasks
        for b in read_task(t, projection=new, table_schema=new, specs=metadata.specs, storage=STORAGE)
        for r in b.to_pylist()
    ]
    assert rows(spark, tasks, new, metadata=metadata) == sorted(expected, key=repr)
    assert len(expected) == 60 - 2 - 2
