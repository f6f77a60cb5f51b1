"""Short rows on their way to Spark's Python are counted; long ones, and those that are observed, come out the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from pyspark.sql import Observation  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from pyspark.sql import types as T  # noqa: E402
from pyspark.sql.functions import udtf  # noqa: E402
from spark_tables import schema_of, spec_of  # noqa: E402
from spark_written import LONG, STRING, read_back, spark_write  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.spark.worker import batch_size  # noqa: E402
from icecore.engine.spark.worker.batch_size import SHORT_TEXT_BYTES, can_count, in_counted_batches  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import NestedField, StructType  # noqa: E402

SCHEMA = schema_of((1, "id", LONG), (2, "p", LONG), (3, "text", STRING))
BY_P = spec_of((2, "identity", "p"))
MOST_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
MOST_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@contextmanager
def set_to(spark: Any, settings: dict[str, str]) -> Iterator[None]:
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)


def batch_rows(frame: Any) -> list[int]:
    def counts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for b in batches:
            yield pa.RecordBatch.from_pydict({"rows": [b.num_rows]})

    return [row.rows for row in frame.mapInArrow(counts, "rows bigint").collect()]


def rows_of(spark: Any, lengths: str, count: int = 200) -> Any:
    return spark.range(0, count, 1, 2).selectExpr("id", "id % 2 p", f"repeat('x', {lengths}) text")


@pytest.mark.parametrize(
    ("settings", "most"),
    [({MOST_BYTES: str(17 * 30)}, 30), ({MOST_ROWS: "20"}, 20), ({MOST_BYTES: str(17 * 30), MOST_ROWS: "20"}, 20),
     ({MOST_BYTES: str(17 * 30), MOST_ROWS: "-1"}, 30), ({MOST_BYTES: str(2**31 - 1), MOST_ROWS: "20"}, 20)],
)  # fmt: skip
def test_a_batch_has_as_many_rows_as_both_limits_of_the_session_allow(
    spark: Any, settings: dict[str, str], most: int
) -> None:
    with set_to(spark, settings):
        assert batch_rows(in_counted_batches(spark.range(0, 70, 1, 1))) == [most] * (70 // most) + [70 % most]
        assert spark.conf.get(MOST_BYTES, None) == settings.get(MOST_BYTES)


def test_a_limit_below_one_row_is_left_to_spark(spark: Any) -> None:
    with set_to(spark, {MOST_BYTES: "16"}):
        frame = spark.range(3)
        assert in_counted_batches(frame) is frame


@pytest.mark.parametrize("spec", [BY_P, spec_of()])
def test_long_texts_are_written_once_and_leave_no_other_files(spark: Any, tmp_path: Path, spec: Any) -> None:
    frame = rows_of(spark, f"CASE WHEN id = 190 THEN {SHORT_TEXT_BYTES + 1} ELSE id END")
    files = spark_write(frame, SCHEMA, tmp_path, spec)
    assert sorted(f.file_path for f in files) == sorted(str(p) for p in tmp_path.rglob("*.parquet"))
    read = read_back(files, SCHEMA, spec).to_pylist()
    assert {r["id"]: len(r["text"]) for r in read} == {i: SHORT_TEXT_BYTES + 1 if i == 190 else i for i in range(200)}
    assert len(read) == 200


def test_rows_that_are_short_are_counted(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []

    def noted(frame: Any) -> Any:
        counted.append(frame)
        return in_counted_batches(frame)

    monkeypatch.setattr("icecore.engine.spark.spark_write.in_counted_batches", noted)
    assert (
        sum(f.record_count for f in spark_write(rows_of(spark, str(SHORT_TEXT_BYTES)), SCHEMA, tmp_path, BY_P)) == 200
    )
    assert len(counted) == 1


def test_only_rows_of_types_whose_length_can_be_limited_are_counted(spark: Any) -> None:
    frame = spark.range(1)
    assert can_count(frame.selectExpr("id", "named_struct('a', named_struct('b', 'text', 'c', X'01')) s", "now() t"))
    assert not can_count(frame.selectExpr("array(id) l"))
    assert not can_count(frame.selectExpr("named_struct('m', map(id, 'x')) s"))
    assert not can_count(frame.selectExpr("parse_json('1') v"))


def test_texts_inside_of_structs_are_measured_with_the_others(spark: Any) -> None:
    half = SHORT_TEXT_BYTES // 2
    texts, binary = "x" * half, bytearray(half)
    frame = spark.createDataFrame(
        [(1, (texts, None), None), (2, (texts, binary), None), (3, ("ü" * (half // 2), bytearray(1)), texts)],
        "id bigint, s struct<`a.b`: string, c: binary>, t string",
    )
    short = batch_size.with_short_rows(frame)
    assert short.schema == frame.schema
    assert [r.id for r in short.where("id < 3").collect()] == [1, 2]
    with pytest.raises(Exception) as e:  # Spark's classes differ by the way the error takes
        short.collect()
    assert batch_size.is_long_row(e.value)


def test_an_observation_of_written_rows_is_told(spark: Any, tmp_path: Path) -> None:
    seen = Observation("seen")
    spark_write(rows_of(spark, "id").observe(seen, F.count(F.lit(1)).alias("n")), SCHEMA, tmp_path, BY_P)
    told: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: told.append(seen.get), daemon=True)
    asking.start()
    asking.join(60)
    assert told == [{"n": 200}]


def test_cached_rows_are_not_computed_anew(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(0, 200, 1, 2).select("id", (F.col("id") % 2).alias("p"), F.uuid().alias("text")).cache()
    known = {r.id: r.text for r in frame.collect()}
    files = spark_write(frame, SCHEMA, tmp_path, BY_P)
    frame.unpersist()
    assert {r["id"]: r["text"] for r in read_back(files, SCHEMA, BY_P).to_pylist()} == known


@pytest.mark.parametrize("mode", ["hash", "range"])
def test_without_adaptive_execution_long_texts_leave_no_other_files(spark: Any, tmp_path: Path, mode: str) -> None:
    """Spark moves no rows by a hint then: a task writes while another is not at its long text."""
    frame = rows_of(spark, f"CASE WHEN id = 190 THEN {SHORT_TEXT_BYTES + 1} ELSE id END")
    with set_to(spark, {"spark.sql.adaptive.enabled": "false"}):
        files = spark_write(frame, SCHEMA, tmp_path, BY_P, properties={"write.distribution-mode": mode})
    assert sorted(f.file_path for f in files) == sorted(str(p) for p in tmp_path.rglob("*.parquet"))
    assert sum(f.record_count for f in files) == 200


def test_long_rows_on_their_way_to_other_python_come_in_batches_as_set(spark: Any, tmp_path: Path) -> None:
    """However short they are after it."""

    def counts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for b in batches:
            yield pa.RecordBatch.from_pydict({"id": [b.num_rows]})

    schema = schema_of((1, "id", LONG))
    with set_to(spark, {MOST_BYTES: "16384"}):
        files = spark_write(rows_of(spark, "1000").mapInArrow(counts, "id bigint"), schema, tmp_path)
    rows = read_back(files, schema)["id"].to_pylist()
    assert sum(rows) == 200 and max(rows) < 20


@udtf(returnType="n bigint")
class Length:
    def eval(self, text: str) -> Iterator[tuple[int]]:
        yield (len(text),)


def test_rows_on_their_way_to_other_python_are_not_counted(spark: Any) -> None:
    frame = rows_of(spark, "1")
    spark.udtf.register("text_length", Length)
    frame.createOrReplaceTempView("texts")
    assert can_count(frame)
    assert not can_count(frame.select("id", F.udf(len, "bigint")("text").alias("n")))
    assert not can_count(spark.sql("SELECT id, n FROM texts, LATERAL text_length(text)"))


@pytest.mark.parametrize("names", [("p q",), ("a", "A")], ids=str)
@pytest.mark.parametrize("quoted", ["true", "false"])
def test_texts_are_written_whatever_fields_of_structs_are_called(
    spark: Any, tmp_path: Path, names: tuple[str, ...], quoted: str
) -> None:
    fields = tuple(NestedField(2 + i, n, STRING) for i, n in enumerate(names))
    schema = Schema((NestedField(1, "s", StructType(fields)),))
    kind = T.StructType([T.StructField("s", T.StructType([T.StructField(n, T.StringType()) for n in names]))])
    with set_to(spark, {"spark.sql.parser.quotedRegexColumnNames": quoted}):
        files = spark_write(spark.createDataFrame([(names,)], kind), schema, tmp_path)
        assert not can_count(spark.createDataFrame([(names,)], kind))
    assert read_back(files, schema).to_pylist() == [{"s": dict(zip(names, names, strict=True))}]


def test_a_struct_without_fields_is_written(spark: Any, tmp_path: Path) -> None:
    schema = Schema((NestedField(1, "s", StructType((NestedField(2, "a", STRING),))),))
    kind = T.StructType([T.StructField("s", T.StructType([]))])
    files = spark_write(spark.createDataFrame([((),)], kind), schema, tmp_path)
    assert read_back(files, schema).to_pylist() == [{"s": {"a": None}}]


def test_the_current_catalog_of_the_session_is_written(spark: Any, tmp_path: Path, named_lake: icecore.Catalog) -> None:
    assert named_lake is not None
    frame = spark.range(4).selectExpr("id", "id % 2 p", "current_catalog() || '.' || current_schema() text")
    spark.sql("USE lake.ns")
    try:
        files = spark_write(frame, SCHEMA, tmp_path, BY_P)
    finally:
        spark.sql("USE spark_catalog.default")
    assert set(read_back(files, SCHEMA, BY_P)["text"].to_pylist()) == {"lake.ns"}


def test_the_session_interrupts_a_write(spark: Any, tmp_path: Path) -> None:
    endless = spark.range(0, 10**12, 1, 2).groupBy((F.col("id") % 2).alias("p")).agg(F.max("id").alias("id"))
    assert can_count(endless)
    raised: list[Exception] = []

    def write() -> None:
        try:
            spark_write(endless, SCHEMA, tmp_path, BY_P)
        except Exception as e:
            raised.append(e)

    writing = threading.Thread(target=write, daemon=True)
    writing.start()
    end = time.monotonic() + 60
    while writing.is_alive() and time.monotonic() < end:
        spark.interruptAll()
        writing.join(0.1)
    ended = not writing.is_alive()
    spark.sparkContext.cancelAllJobs()
    writing.join(60)
    assert ended and "cancel" in str(raised[0]).lower()
