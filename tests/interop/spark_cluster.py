"""What a driver does with a cluster of Spark's own: two executors, each on a host of its own by the name of it.

Run as `python spark_cluster.py WAREHOUSE CHECKPOINT`, it says `done NAME` after each part, and is killed in the last.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import spark_jvm
from core_tables import age, local

import icecore
from icecore.engine.spark.java import find_java_home
from icecore.engine.spark.worker import worker_daemon
from icecore.engine.spark_source.iceberg_source import IcecoreSource
from icecore.engine.spark_source.source_options import STREAM_WRITING
from icecore.engine.spark_source.stream.stream_writer import StreamTableWriter
from icecore.engine.spark_source.write_plan import PREFIX

COLUMNS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("v", pa.int32())])
COUNTS = pa.schema([("city", pa.string()), ("rows", pa.int64())])
NAMES = ("changes", "a retried task", "a speculative task")


def cluster_session() -> Any:
    """A session over a master and two workers in its own JVM: Spark starts no second attempt on a host that has one."""
    from pyspark import SparkConf, SparkContext

    os.environ["JAVA_HOME"] = str(find_java_home())
    SparkContext._ensure_initialized(conf=SparkConf().set("spark.driver.memory", "1g"))
    jvm = SparkContext._jvm
    deploy, none = jvm.org.apache.spark.deploy, jvm.scala.Option.empty()
    conf = jvm.org.apache.spark.SparkConf(True).set("spark.master.rest.enabled", "false")
    for process in ("master", "worker"):
        conf.set(f"spark.{process}.ui.port", "0")
    address = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1().address()
    masters = SparkContext._gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = f"spark://127.0.0.1:{address.port()}"
    for number in (2, 3):
        place = (f"127.0.0.{number}", 0, 0, 1, 900, masters, str(Path.cwd() / "work"), jvm.scala.Some(number))
        deploy.worker.Worker.startRpcEnvAndEndpoint(*place, conf, none)
    settings = {
        "spark.executor.memory": "900m",
        "spark.executor.extraJavaOptions": os.environ["SPARK_SUBMIT_OPTS"],
        "spark.python.daemon.module": worker_daemon.NAME,
        "spark.sql.shuffle.partitions": "2",
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "1s",
    }
    return icecore.spark.session("cluster", master=masters[0], memory="1g", **settings)


def changes(spark: Any, catalog: icecore.Catalog) -> None:
    """Reads, and changes of all kinds: tasks get plans, deletes and storage, and give descriptions of files."""
    modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "merge")}
    table = catalog.create_table("ns.t", COLUMNS, format_version=3, partition_spec=["city"], properties=modes)
    table.append([{"id": i, "city": "ab"[i % 2], "v": i} for i in range(100)])
    table.spark.delete("id IN (3, 4)")
    rows = table.scan("id < 10", selected_fields=["id", "_pos", "_file"]).to_spark(spark).collect()
    assert sorted(r.id for r in rows) == [i for i in range(10) if i not in (3, 4)]
    assert len({r._file for r in rows}) == 2
    table.append(spark.sql("SELECT id + 1000 AS id, 'c' AS city, 1 AS v FROM range(0, 20, 1, 2)"))
    source = spark.sql("SELECT * FROM VALUES (5L, 'b', -1), (300L, 'b', 9) AS s(id, city, v)")
    merge = table.spark.merge(source, "id").when_matched_update_all().when_not_matched_insert_all()
    result = merge.when_not_matched_by_source_delete("target.id >= 1010").commit()
    assert (result.rows_updated, result.rows_deleted, result.rows_inserted) == (1, 10, 1), result
    folder = str(catalog.path)
    z = spark.sql("SELECT 9999L AS id, 'z' AS city, 1 AS v")
    z.write.format("icecore").mode("append").option("warehouse", folder).save("ns.t")
    wanted = sorted([*(i for i in range(100) if i not in (3, 4)), 300, *range(1000, 1010), 9999])
    frame = spark.read.format("icecore").option("warehouse", folder).load("ns.t")
    assert sorted(r.id for r in frame.collect()) == wanted
    log = table.refresh().incremental_changelog_scan().to_spark(spark).groupBy("_change_type").count().collect()
    assert dict(map(tuple, log)) == {"INSERT": 100 + 20 + 2 + 1, "DELETE": 2 + 1 + 10}, log
    compacted = table.spark.rewrite_data_files(options={"rewrite-all": "true"})
    assert compacted.added_data_files == 4, compacted
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == wanted


def retried(spark: Any, catalog: icecore.Catalog) -> None:
    """The first attempt of one task dies once it has given all of its rows."""
    table = attempted(catalog, "ns.retried")

    def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from in_pieces(batches)
        if (TaskContext.get().partitionId(), TaskContext.get().attemptNumber()) == (0, 0):
            raise KeyError("the first attempt dies")

    frame = numbers(spark, dying)
    table.append(frame)
    there_once(table, 1)
    frame.write.format("icecore").mode("append").option("warehouse", str(catalog.path)).save("ns.retried")
    there_once(table, 2)


def speculative(spark: Any, catalog: icecore.Catalog) -> None:
    """The first attempt of one task is slow once it has written files: Spark makes a second one, and kills it."""
    table, slow = attempted(catalog, "ns.speculative"), Path.cwd() / "slow"

    def stalling(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from in_pieces(batches)
        attempt = TaskContext.get()
        if attempt.partitionId() == 0 and attempt.attemptNumber() == 0:
            slow.write_text(str(os.getpid()))
            time.sleep(300)
        elif attempt.partitionId() == 0:
            while not slow.exists():
                time.sleep(0.01)
            slow.with_name("second").touch()

    table.append(numbers(spark, stalling))
    assert slow.exists() and slow.with_name("second").exists()
    there_once(table, 1)
    deadline = time.monotonic() + 60
    while Path(f"/proc/{slow.read_text()}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    there_once(table, 1)


def attempted(catalog: icecore.Catalog, name: str) -> icecore.Table:
    """A table whose files are written before the tasks end, with no shuffle before them."""
    properties = {"write.distribution-mode": "none", "write.target-file-size-bytes": "1000"}
    return catalog.create_table(name, COLUMNS, properties=properties)


def numbers(spark: Any, attempt: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> Any:
    rows = spark.sql("SELECT id, 'x' AS city, 1 AS v FROM range(0, 1000, 1, 2)")
    return rows.mapInArrow(attempt, "id BIGINT, city STRING, v INT")


def in_pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from (batch.slice(start, 100) for start in range(0, batch.num_rows, 100))


def there_once(table: icecore.Table, times: int) -> None:
    """Each row is there as often as it was written, by as many commits; what no plan has, the orphan search finds."""
    found = table.refresh().scan().to_arrow()["id"].to_pylist()
    assert sorted(found) == sorted(list(range(1000)) * times)
    assert len(table.snapshots()) == times
    planned = {local(t.file.file_path) for t in table.scan().plan_files()}
    lost = set((local(table.location()) / "data").rglob("*.parquet")) - planned
    for file in lost:
        age(file)
    orphans = table.maintenance.remove_orphan_files(dry_run=True).orphan_file_locations
    assert {local(f) for f in orphans} == lost


def killed(spark: Any, catalog: icecore.Catalog, checkpoint: Path) -> None:
    """Driver, JVM and executors at once, when the second batch of a stream in complete mode is committed."""
    source, group = catalog.create_table("ns.source", COLUMNS), os.getpgid(0)
    catalog.create_table("ns.counts", COUNTS)
    for i in range(3):
        source.append([{"id": i, "city": "ab"[i % 2], "v": i}])

    class Mortal(StreamTableWriter):
        def commit(self, messages: Any, batchId: int) -> None:
            super().commit(messages, batchId)
            if batchId == 1:
                os.killpg(group, signal.SIGKILL)

    class MortalSource(IcecoreSource):
        @classmethod
        def name(cls) -> str:
            return "mortal"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return Mortal(self._options(STREAM_WRITING, PREFIX), schema, overwrite)

    spark.dataSource.register(MortalSource)
    write = counting(spark, catalog.path).writeStream.format("mortal").outputMode("complete")
    write = write.option("warehouse", str(catalog.path)).option("checkpointLocation", str(checkpoint))
    write.trigger(availableNow=True).start("ns.counts").awaitTermination()


def counting(spark: Any, warehouse: Path) -> Any:
    """The rows of each city, as a stream of a file a batch."""
    read = spark.readStream.format("icecore").option("warehouse", str(warehouse))
    read = read.option("max-files-per-micro-batch", "1").load("ns.source")
    return read.groupBy("city").count().withColumnRenamed("count", "rows")


if __name__ == "__main__":
    spark_jvm.set_options()
    spark_jvm.load_before()
    session = cluster_session()
    with icecore.open(sys.argv[1], actor="tester") as opened:
        opened.create_namespace("ns")
        for name, part in zip(NAMES, (changes, retried, speculative), strict=True):
            begun = time.monotonic()
            part(session, opened)
            print("done", name, round(time.monotonic() - begun, 1), flush=True)
        killed(session, opened, Path(sys.argv[2]))
