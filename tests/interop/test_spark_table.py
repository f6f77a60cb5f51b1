"""Whole tables: Spark writes and reads through the catalog what the engine and PyIceberg write and read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.data.spark_schema import spark_to_schema  # noqa: E402

QUERY = """
SELECT id, concat('name ', id % 7) AS name, id * 1.5D AS x,
       timestamp_micros(id * 86400000000 * 10) AS at,
       named_struct('a', id, 'b', array(id, NULL)) AS st
FROM range({start}, {end})
"""


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def same_in_spark(spark: Any, table: icecore.Table, row_filter: str | None = None, **scan: Any) -> int:
    """Compares a scan by Spark with the engine's own, and gives the number of rows."""
    mine = table.scan(row_filter, **scan).to_arrow()
    theirs = table.scan(row_filter, **scan).to_spark(spark).toArrow()
    assert sorted_rows(theirs.cast(mine.schema)) == sorted_rows(mine)
    return int(mine.num_rows)


# Other versions are those of the histories in tests/contract.
def test_a_table_through_its_life(spark: Any, catalog: icecore.Catalog, warehouse: Path) -> None:
    """Appends from Spark, evolution, deletes and overwrites, each seen by Spark as by the engine and by PyIceberg."""
    from core_tables import pyiceberg_catalog

    df = spark.sql(QUERY.format(start=0, end=200))
    table = catalog.create_table(
        "ns.t",
        spark_to_schema(df.schema),
        partition_spec=["year(at)", "bucket(2, name)"],
        sort_order=["id DESC"],
        format_version=2,
    )
    table.append(df)
    assert same_in_spark(spark, table) == 200
    assert same_in_spark(spark, table, "id < 50 AND at >= TIMESTAMPTZ '1970-06-01 00:00:00+00:00'") == 34
    with table.update_schema() as update:
        update.rename_column("name", "old_name")
    with table.update_schema() as update:
        update.rename_column("x", "name")
    with table.update_schema() as update:
        update.add_column("x", "string")
    assert same_in_spark(spark, table, "name > 290") == 6
    assert same_in_spark(spark, table, "x IS NULL", selected_fields=["id"]) == 200
    keys = table.scan("id IN (1, 2, 3)", selected_fields=["id", "old_name", "at"]).to_arrow()
    table.delete_keys(keys, ["id"])
    assert same_in_spark(spark, table) == 197
    table.delete("st.a BETWEEN 100 AND 120")
    more = df.selectExpr("id + 1000 AS id", "'new' AS old_name", "'text' AS x", "x AS name", "at", "st").limit(5)
    table.append(more)
    assert same_in_spark(spark, table) == 176 + 5
    assert same_in_spark(spark, table, "x = 'text'", selected_fields=["x", "id"]) == 5
    first = table.snapshots()[0].snapshot_id
    assert same_in_spark(spark, table, snapshot_id=first) == 200
    assert table.scan(limit=3).to_spark(spark).count() == 3
    table.overwrite(spark.sql(QUERY.format(start=0, end=3)).withColumnRenamed("name", "old_name").drop("x"))
    assert same_in_spark(spark, table) == 3
    peer = pyiceberg_catalog(warehouse).load_table("ns.t").scan().to_arrow()
    assert sorted(peer["id"].to_pylist()) == [0, 1, 2]


def test_added_files_without_ids(spark: Any, catalog: icecore.Catalog, tmp_path: Path) -> None:
    """P2: files that something else wrote are read by the names of their columns."""
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("name", pa.string()), ("x", pa.float64())]))
    path = tmp_path / "added.parquet"
    pq.write_table(pa.table({"name": ["a", "b"], "id": [1, 2], "x": [1.0, float("nan")]}), path)
    table.add_files([str(path)])
    table.append(pa.table({"id": [3], "name": ["c"], "x": [9.0]}))
    with table.update_schema() as update:
        update.rename_column("name", "label")
    assert same_in_spark(spark, table) == 3
    assert same_in_spark(spark, table, "x > 5", selected_fields=["label"]) == 2
    assert table.scan().to_spark(spark).where("x > 5 AND label IS NOT NULL").count() == 2


def test_a_join_of_two_scans(spark: Any, catalog: icecore.Catalog) -> None:
    """DataFrames of tables are like any others: views, joins with themselves, aggregates."""
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("v", pa.string())]), format_version=2)
    table.append(pa.table({"id": list(range(10)), "v": [f"v{i % 3}" for i in range(10)]}))
    table.delete_keys(pa.table({"id": [4, 5]}), ["id"])
    frame = table.scan().to_spark(spark)
    frame.createOrReplaceTempView("t")
    assert spark.sql("SELECT count(*) FROM t a JOIN t b USING (id)").collect()[0][0] == 8
    assert frame.join(frame, "v").count() == sum(n * n for n in (4, 2, 2))
    assert frame.groupBy("v").count().orderBy("v").collect()[0][1] == 4


def test_named_plans_and_incremental_scans_are_read_by_spark(spark: Any, catalog: icecore.Catalog) -> None:
    """With deletes that came after the plan was made; Spark gives the rows that the engine gives."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    table = catalog.create_table("ns.kept", schema, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    table.append(pa.table({"id": range(10), "name": [f"n{i}" for i in range(10)]}, schema=schema))
    first = table.snapshots()[0].snapshot_id
    table.prefetch("id > 2", name="kept")
    table.delete("id = 5")
    table.append(pa.table({"id": [20, 1], "name": ["new", None]}, schema=schema))
    plan = table.named_plan("kept")
    assert sorted(r.id for r in plan.to_spark(spark).collect()) == [3, 4, 6, 7, 8, 9, 20]
    appended = table.incremental_append_scan(from_snapshot_id_exclusive=first)
    assert sorted((r.id, r.name) for r in appended.to_spark(spark).collect()) == [(1, None), (20, "new")]


def test_object_storage_and_the_least_values(spark: Any, catalog: icecore.Catalog) -> None:
    """Spark's tasks name files by hash bits too, and truncate the least int as everybody else (PT5)."""
    df = spark.createDataFrame([(1, 5), (2, -(2**31))], "id bigint, k int")
    table = catalog.create_table(
        "ns.t",
        spark_to_schema(df.schema),
        partition_spec=["truncate(10, k)"],
        properties={"write.object-storage.enabled": "true"},
    )
    table.append(df)
    files = {task.file.partition: task.file.file_path for task in table.scan().plan_files()}
    assert sorted(files) == [(0,), (2**31 - 2,)]
    for path in files.values():
        assert re.search(r"/data/[01]{4}/[01]{4}/[01]{4}/[01]{8}/k_trunc_10=\d+/[^/]+$", path)
    assert same_in_spark(spark, table) == 2
    assert same_in_spark(spark, table, "k < 0") == 1
