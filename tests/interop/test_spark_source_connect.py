"""`format("icecore")`, its streams and names in SQL over Spark Connect: the same as in classic mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import sys

import pyarrow as pa
from pyspark.sql import SparkSession

import icecore

spark = SparkSession.builder.getOrCreate()
assert "connect" in type(spark).__module__
catalog = icecore.open("lake")
catalog.create_namespace("ns")
columns = pa.schema([("id", pa.int64()), ("u", pa.uuid()), ("at", pa.timestamp("us", "UTC"))])
table = catalog.create_table("ns.t", columns, partition_spec=["bucket(2, id)"])
copy = catalog.create_table("ns.copy", columns)
# Relative to this process, not to the server's.
icecore.spark.register(spark, warehouse="lake")

rows = spark.sql("SELECT id, uuid() AS u, timestamp_seconds(id) AS at FROM range(100)")
rows.write.format("icecore").mode("append").option("message", "load").save("ns.t")
assert table.refresh().scan().count() == 100 and len(table.snapshots()) == 1
frame = spark.read.format("icecore").load("ns.t")
assert frame.where("id IN (3, 5) AND at > TIMESTAMP '1970-01-01 00:00:04Z'").select("id").collect()[0].id == 5
assert spark.read.format("icecore").load("ns.t.snapshots").collect()[0].operation == "append"
# Columns of metadata, plans that were exported, and what changed.
planned = {t.file.file_path: t.file.partition for t in table.scan("id IN (3, 5)").plan_files()}
by_scan = table.scan("id IN (3, 5)", selected_fields=["id", "_file", "_partition"]).to_spark(spark).collect()
by_name = spark.read.format("icecore").option("columns", "id, _file, _partition").load("ns.t").where("id IN (3, 5)")
for found in (by_scan, by_name.collect()):
    assert {r._file: tuple(r._partition) for r in found} == planned, (found, planned)
table.scan("id IN (3, 5)").export("plan")
assert sorted(r.id for r in icecore.spark.load_plan(spark, "plan").collect()) == [3, 5]
# The server's zone, which is UTC, is one that no setting names.
local = spark.sql("SELECT id, uuid() AS u, TIMESTAMP_NTZ '2024-01-05 10:30:00' AS at FROM range(1)")
local.write.format("icecore").mode("overwrite").option("overwrite-filter", "id >= 10").save("ns.t")
assert str(max(table.refresh().scan().to_arrow()["at"].to_pylist())) == "2024-01-05 10:30:00+00:00"
assert frame.count() == 100 and table.refresh().scan().count() == 11
log = spark.read.format("icecore").option("changelog", "true").load("ns.t").groupBy("_change_type").count().collect()
assert dict(map(tuple, log)) == {"INSERT": 101, "DELETE": 90}, log
query = "SELECT count(*) FROM lake.ns.t VERSION AS OF {} AS a LEFT ANTI JOIN lake.ns.t b ON a.id = b.id"
found = icecore.spark.sql(spark, catalog, query.format(table.snapshots()[0].snapshot_id)).collect()
assert found[0][0] == 90, found
stream = spark.readStream.format("icecore").load("ns.t").writeStream.format("icecore")
stream = stream.option("checkpointLocation", sys.argv[1]).trigger(availableNow=True)
try:
    stream.start("ns.copy").awaitTermination()
except Exception as e:
    assert "streaming-skip-overwrite-snapshots" in str(e), e
table.maintenance.expire_snapshots().by_ids([table.snapshots()[0].snapshot_id]).commit()
stream = spark.readStream.format("icecore").load("ns.t").writeStream.format("icecore")
stream.option("checkpointLocation", sys.argv[1] + "2").trigger(availableNow=True).start("ns.copy").awaitTermination()
assert copy.refresh().scan().count() == 11
print("done")
"""


def test_read_write_and_stream_over_connect(over_connect: Callable[..., None], tmp_path: Path) -> None:
    over_connect(SCRIPT, tmp_path / "checkpoint")
