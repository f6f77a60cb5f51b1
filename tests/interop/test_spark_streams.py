"""Streams from a table and into one: what is appended is read once, each micro-batch is committed once."""

from __future__ import annotations

import os
import shutil
import signal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from pyspark.errors import StreamingQueryException  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.spark_source.iceberg_source import IcecoreSource  # noqa: E402
from icecore.engine.spark_source.source_options import STREAM_WRITING  # noqa: E402
from icecore.engine.spark_source.stream.stream_writer import StreamTableWriter  # noqa: E402
from icecore.engine.spark_source.write_plan import PREFIX  # noqa: E402

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


@pytest.fixture
def source(catalog: icecore.Catalog) -> icecore.Table:
    made = catalog.create_table("ns.source", COLUMNS)
    for i in range(3):
        append(made, i)
    return made


@pytest.fixture
def sink(catalog: icecore.Catalog) -> icecore.Table:
    return catalog.create_table("ns.sink", COLUMNS)


def append(table: icecore.Table, i: int) -> None:
    table.append([{"id": 2 * i, "name": "even"}, {"id": 2 * i + 1, "name": "odd"}])


def reading(spark: Any, warehouse: Path, **options: Any) -> Any:
    given = {key.replace("_", "-"): str(value) for key, value in options.items()}
    return spark.readStream.format("icecore").option("warehouse", str(warehouse)).options(**given).load("ns.source")


def run(rows: Any, warehouse: Path, checkpoint: Path, mode: str = "append", **options: Any) -> Any:
    """Runs a stream into the sink over all that there is now."""
    writer = rows.writeStream.format("icecore").option("warehouse", str(warehouse)).outputMode(mode).options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start("ns.sink")
    assert query.awaitTermination(600)
    return query


def ids(table: icecore.Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def test_from_table_to_table(spark: Any, warehouse: Path, tmp_path: Path, source: Any, sink: icecore.Table) -> None:
    """In micro-batches of one file; a second run from the checkpoint goes on where the first one ended.

    A batch that comes again, as after a crash between the commit and Spark's note of it, is committed once: the note
    is gone, the files are written again.
    """
    rows = reading(spark, warehouse, max_files_per_micro_batch=1)
    query = run(rows.where("name = 'odd'"), warehouse, tmp_path / "c", message="odd ones")
    assert ids(sink) == [1, 3, 5]
    summaries = [s.summary or {} for s in sink.snapshots()]
    assert [s["spark.sql.streaming.epochId"] for s in summaries] == ["0", "1", "2"]
    assert {s["spark.sql.streaming.queryId"] for s in summaries} == {query.id}
    notes = list((tmp_path / "c" / "commits").glob("*2*"))
    assert notes
    for note in notes:
        note.unlink()
    append(source, 3)
    source.rewrite_data_files(options={"rewrite-all": "true"})
    run(rows.where("name = 'odd'"), warehouse, tmp_path / "c")
    assert ids(sink) == [1, 3, 5, 7]
    assert len(sink.snapshots()) == 4
    written = {str(p) for p in Path(sink.location().removeprefix("file://")).rglob("*.parquet")}
    assert written == {t.file.file_path.removeprefix("file://") for t in sink.scan().plan_files()}
    # With another checkpoint it is another query, which begins anew: with the files of the oldest snapshot.
    run(rows.where("name = 'odd'"), warehouse, tmp_path / "d")
    assert ids(sink) == [1, 1, 3, 3, 5, 5, 7, 7]


def put_back(older: Path, checkpoint: Path) -> None:
    shutil.rmtree(checkpoint)
    shutil.copytree(older, checkpoint)


def test_a_checkpoint_that_is_put_back_to_an_older_one(
    spark: Any, warehouse: Path, tmp_path: Path, source: Any, sink: icecore.Table
) -> None:
    """A batch of other rows under an old number is refused; one of the same rows is passed over, and none is lost."""
    rows, checkpoint, older = reading(spark, warehouse, max_files_per_micro_batch=1), tmp_path / "c", tmp_path / "older"
    run(rows, warehouse, checkpoint)
    shutil.copytree(checkpoint, older)
    for i in (3, 4):
        append(source, i)
    run(rows, warehouse, checkpoint)
    put_back(older, checkpoint)
    with pytest.raises(StreamingQueryException, match=r"batch 3 of the query .* was committed with 2 rows"):
        run(reading(spark, warehouse), warehouse, checkpoint)
    assert ids(sink) == list(range(10)) and len(sink.snapshots()) == 5
    put_back(older, checkpoint)
    append(source, 5)
    run(rows, warehouse, checkpoint)
    assert ids(sink) == list(range(12)) and len(sink.snapshots()) == 6


def test_complete_mode_replaces_all_rows(
    spark: Any, warehouse: Path, tmp_path: Path, source: Any, catalog: icecore.Catalog
) -> None:
    sink = catalog.create_table("ns.sink", pa.schema([("name", pa.string()), ("rows", pa.int64())]))
    for i in (3, 4):
        counts = reading(spark, warehouse).groupBy("name").count().withColumnRenamed("count", "rows")
        run(counts, warehouse, tmp_path / "c", mode="complete")
        assert sorted(map(tuple, (r.values() for r in sink.refresh().scan().to_arrow().to_pylist()))) == [
            ("even", i),
            ("odd", i),
        ]
        append(source, i)


def test_changes_that_are_no_appends_end_a_stream(
    spark: Any, warehouse: Path, tmp_path: Path, source: icecore.Table, sink: icecore.Table
) -> None:
    source.delete("id = 0")
    with pytest.raises(Exception, match="streaming-skip-overwrite-snapshots"):
        run(reading(spark, warehouse), warehouse, tmp_path / "c")
    skipping = {"streaming_skip_overwrite_snapshots": "true"}
    run(reading(spark, warehouse, **skipping), warehouse, tmp_path / "d")
    assert ids(sink) == list(range(6))


@pytest.mark.parametrize("options", [{}, {"changelog": "true"}])
def test_a_type_that_is_widened_ends_a_stream(
    warehouse: Path, catalog: icecore.Catalog, options: dict[str, str]
) -> None:
    """It would read a double as a float, 0.1 and 1e300 as other numbers. Started again it reads what is left."""
    columns = pa.schema([("id", pa.int64()), ("x", pa.float32()), ("s", pa.struct([("n", pa.int32())]))])
    table = catalog.create_table("ns.source", columns)

    def begun() -> Any:
        source = IcecoreSource({"warehouse": str(warehouse), "path": "ns.source", **options})
        return source.streamReader(source.schema())

    def read(stream: Any, start: Any, end: Any) -> list[Any]:
        batches = [b for part in stream.partitions(start, end) for b in stream.read(part)]
        return [(r["id"], r["x"], r["s"]["n"]) for b in batches for r in b.to_pylist()]

    first = begun()
    places, found = [first.initialOffset()], []
    for step in ("append", "rename", "x", "s.n"):
        if step == "rename":
            table.update_schema().rename_column("id", "number").commit()
            table.update_schema().rename_column("number", "id").add_column("y", "int").commit()
        elif step != "append":
            table.update_schema().update_column(step, {"x": "double", "s.n": "long"}[step]).commit()
        table.append([{"id": 1, "x": 0.5, "s": {"n": 2}}])
        places.append(first.latestOffset(places[-1], first.getDefaultReadLimit()))
        if step in ("append", "rename"):
            found += read(first, *places[-2:])
        else:
            with pytest.raises(ValidationError, match="'x', which is double by now: started again"):
                read(first, *places[-2:])
    assert found == read(begun(), places[2], places[4]) == [(1, 0.5, 2)] * 2
    first.stop()


def test_a_stream_of_changes_gives_the_rows_that_are_left(
    spark: Any, warehouse: Path, tmp_path: Path, source: icecore.Table, catalog: icecore.Catalog
) -> None:
    """A changelog as a stream, in two runs: whatever kinds of commits there are, in micro-batches of a file each."""
    kinds = [("_change_type", pa.string()), ("_change_ordinal", pa.int32()), ("_commit_snapshot_id", pa.int64())]
    sink = catalog.create_table("ns.sink", pa.schema([*COLUMNS, *kinds]))
    options = {"changelog": "true", "max_files_per_micro_batch": 1}
    source.delete("id = 0")
    run(reading(spark, warehouse, **options), warehouse, tmp_path / "c")
    append(source, 0)
    source.upsert([{"id": 3, "name": "three"}], ["id"])
    source.rewrite_data_files(options={"rewrite-all": "true"})
    source.delete("id > 4")
    run(reading(spark, warehouse, **options), warehouse, tmp_path / "c")
    left: list[tuple[Any, ...]] = []
    commits = sink.refresh().snapshots()
    for batch in commits:
        changes = sink.incremental_append_scan(
            from_snapshot_id_inclusive=batch.snapshot_id, to_snapshot_id_inclusive=batch.snapshot_id
        )
        for row in sorted(changes.to_arrow().to_pylist(), key=itemgetter("_change_type")):
            act = left.append if row["_change_type"] == "INSERT" else left.remove
            act((row["id"], row["name"]))
    assert sorted(left) == sorted(map(tuple, (r.values() for r in source.refresh().scan().to_arrow().to_pylist())))
    # Three appends, a delete, an append, an upsert and a delete: of the rewrite there is nothing to tell.
    assert len(commits) == 7


def test_a_commit_that_is_killed_once_it_is_made(
    spark: Any, warehouse: Path, tmp_path: Path, source: icecore.Table, sink: icecore.Table
) -> None:
    """By SIGKILL, of the process that made it: the next run commits the others, and that one not.

    A driver is nothing more to a batch: it runs the tasks, starts that process, and writes its note of the batch after.
    """

    class Mortal(StreamTableWriter):
        def commit(self, messages: Any, batchId: int) -> None:
            super().commit(messages, batchId)
            if batchId == 1:
                os.kill(os.getpid(), signal.SIGKILL)

    class MortalSource(IcecoreSource):
        @classmethod
        def name(cls) -> str:
            return "mortal"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return Mortal(self._options(STREAM_WRITING, PREFIX), schema, overwrite)

    spark.dataSource.register(MortalSource)
    checkpoint = tmp_path / "c"
    write = reading(spark, warehouse, max_files_per_micro_batch=1).writeStream.format("mortal")
    write = write.option("warehouse", str(warehouse)).option("checkpointLocation", str(checkpoint))
    with pytest.raises(StreamingQueryException):
        write.trigger(availableNow=True).start("ns.sink").awaitTermination(600)
    assert len(sink.refresh().snapshots()) == 2 and not (checkpoint / "commits" / "1").exists()
    run(reading(spark, warehouse, max_files_per_micro_batch=1), warehouse, checkpoint)
    assert ids(sink) == [0, 1, 2, 3, 4, 5]
    assert len(sink.snapshots()) == 3
