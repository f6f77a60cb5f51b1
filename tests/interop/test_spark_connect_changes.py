"""Changes over Spark Connect that no history of tests/contract has, and maintenance: they use public API alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
assert "connect" in type(spark).__module__
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/.."]

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.maintenance import spark_compaction
from spark_change_tables import SCHEMA, make, row, rows_of

catalog = icecore.open(sys.argv[2])
catalog.create_namespace("ns")
table, model = make(catalog, 3, "merge-on-read"), {i: row(i) for i in range(30)}
table.spark.delete(F.col("id") % 10 == 3)
source = spark.sql("SELECT * FROM VALUES (4L, 'd'), (5L, 'u'), (70L, 'u') AS s(id, name)")
# Of no file and of no row at all.
new = catalog.create_table("ns.new", SCHEMA)
new.spark.update({"x": "x + 1"})
assert icecore.spark.sql(spark, catalog, "SELECT * FROM lake.ns.new.snapshots").count() == 0
assert new.spark.upsert(source, ["id"]).rows_inserted == 3
model = {i: r for i, r in model.items() if i % 10 != 3}
try:
    table.spark.merge(source.union(source), "id").when_matched_update_all().commit()
except ValidationError as e:
    assert "more than one row of the source" in str(e), e
else:
    raise SystemExit("two rows of the source changed one row")
sizes = {"rewrite-all": "true", "target-file-size-bytes": 1500, "max-file-size-bytes": 9000, "min-file-size-bytes": 1}
for sorted_bytes in (spark_compaction.SORTED_BYTES, 1000):
    spark_compaction.SORTED_BYTES = sorted_bytes
    table.spark.rewrite_data_files(strategy="zorder", sort_order=["x"], options=sizes)
    assert rows_of(table) == model, rows_of(table)

# Files that are there are described, deletes merged, folders listed; and columns come with the data.
import os

import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(sys.argv[2] + "-files")
folder.mkdir()
for i in (80, 81):
    pq.write_table(pa.Table.from_pylist([row(i)], SCHEMA), folder / f"{i}.parquet")
table.spark.add_files([str(folder / f"{i}.parquet") for i in (80, 81)])
model |= {i: row(i) for i in (80, 81)}
assert rows_of(table) == model, rows_of(table)
table.append(spark.sql("SELECT 90L AS id, 'new' AS note"), merge_schema=True)
assert rows_of(table)[90]["note"] == "new" and rows_of(table)[80] == {**row(80), "note": None}
stray = Path(table.location().removeprefix("file://")) / "data" / "stray.parquet"
stray.write_bytes(b"PAR1")
os.utime(stray, (1, 1))
found = table.spark.remove_orphan_files().orphan_file_locations
assert [Path(f).name for f in found] == [stray.name] and not stray.exists(), found
merged = make(catalog, 2, "merge-on-read", "ns.merged")
for i in (1, 2):
    merged.delete(f"id IN ({i}, {i + 10}, {i + 20})")
result = merged.spark.rewrite_position_delete_files()
assert result.added_delete_files and max(len(t.delete_files) for t in merged.scan().plan_files()) == 1, result
assert set(rows_of(merged)) == {i for i in range(30) if i % 10 not in (1, 2)}
print("done")
"""


def test_rows_are_changed_over_connect(over_connect: Callable[..., None], tmp_path: Path) -> None:
    over_connect(SCRIPT, Path(__file__).parent, tmp_path / "warehouse")
