"""Writes of sessions with `spark.wap.id`: staged where the table's `write.wap.enabled` says so, as by Iceberg."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.int32())])
ON = {"write.wap.enabled": "true"}
SOURCE = "(SELECT 1L AS id, 7 AS p UNION ALL SELECT 9L, 0)"

Write = Callable[[Any, icecore.Table], object]


def by_format(spark: Any, table: icecore.Table, **options: str) -> None:
    rows = spark.sql("SELECT 9L AS id, 0 AS p").write.format("icecore").mode("append").options(**options)
    rows.option("warehouse", str(Path(table._repository.store.path).parent.absolute())).save("ns.t")


def by_foreach_batch(spark: Any, table: icecore.Table) -> None:
    icecore.spark.foreach_batch(table, query="q")(spark.sql(f"SELECT * FROM {SOURCE}"), 0)


def merge(spark: Any, table: icecore.Table) -> None:
    table.spark.merge(spark.sql(f"SELECT * FROM {SOURCE}"), "id").when_not_matched_insert_all().commit()


WRITES: dict[str, Write] = {
    "INSERT": lambda spark, _: spark.sql("INSERT INTO lake.ns.t VALUES (9, 0)"),
    "INSERT OVERWRITE": lambda spark, _: spark.sql("INSERT OVERWRITE lake.ns.t VALUES (9, 0)"),
    "writeTo": lambda spark, _: spark.sql(f"SELECT * FROM {SOURCE}").writeTo("lake.ns.t").append(),
    "overwritePartitions": lambda spark, _: (
        spark.sql(f"SELECT * FROM {SOURCE}").writeTo("lake.ns.t").overwritePartitions()
    ),
    "DELETE": lambda spark, _: spark.sql("DELETE FROM lake.ns.t WHERE id = 1"),
    "TRUNCATE": lambda spark, _: spark.sql("TRUNCATE TABLE lake.ns.t"),
    "UPDATE": lambda spark, _: spark.sql("UPDATE lake.ns.t SET p = 5 WHERE id = 1"),
    "MERGE": lambda spark, _: spark.sql(
        f"MERGE INTO lake.ns.t t USING {SOURCE} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = s.p"
    ),
    "format": by_format,
    "foreachBatch": by_foreach_batch,
    "append": lambda spark, table: table.append(spark.sql(f"SELECT * FROM {SOURCE}")),
    "overwrite": lambda spark, table: table.overwrite(spark.sql(f"SELECT * FROM {SOURCE}"), "id = 1"),
    "spark.delete": lambda _, table: table.spark.delete("id = 1"),
    "spark.merge": merge,
    "spark.upsert": lambda spark, table: table.spark.upsert(spark.sql(f"SELECT * FROM {SOURCE}"), ["id"]),
}


@pytest.fixture
def table(spark: Any, catalog: icecore.Catalog) -> Iterator[icecore.Table]:
    made = catalog.create_table("ns.t", SCHEMA, properties=ON)
    made.append([{"id": 1, "p": 1}, {"id": 2, "p": 2}])
    icecore.spark.catalog(spark, catalog)
    yield made
    for name in ("spark.wap.id", "spark.wap.branch"):
        spark.conf.unset(name)


def rows(table: icecore.Table) -> list[tuple[int, int]]:
    return sorted((r["id"], r["p"]) for r in table.refresh().scan().to_arrow().to_pylist())


@pytest.mark.parametrize("how", WRITES)
def test_a_write_is_staged(spark: Any, table: icecore.Table, how: str) -> None:
    """Nobody reads it until it is published; a branch set for the session is refused, as nobody would read that."""
    before = rows(table)
    spark.conf.set("spark.wap.branch", "audit")
    with pytest.raises(Exception, match="which reads would not follow"):
        WRITES[how](spark, table)
    spark.conf.unset("spark.wap.branch")
    assert len(table.refresh().snapshots()) == 1
    spark.conf.set("spark.wap.id", "load-7")
    WRITES[how](spark, table)
    assert rows(table) == before
    assert [(s.summary or {}).get("wap.id") for s in table.snapshots()] == [None, "load-7"]
    table.manage_snapshots().publish("load-7").commit()
    assert rows(table) != before


def test_what_is_not_to_be_staged(spark: Any, table: icecore.Table) -> None:
    """Rows of no session, tables without the property, and a `wap.id` of the call's own; branches are an error."""
    spark.conf.set("spark.wap.id", "load-7")
    table.append([{"id": 3, "p": 3}])
    assert len(rows(table)) == 3
    table.append(spark.sql(f"SELECT * FROM {SOURCE}"), snapshot_properties={"wap.id": "mine"})
    by_format(spark, table, **{"snapshot-properties": '{"wap.id": "its"}'})
    assert [(s.summary or {}).get("wap.id") for s in table.refresh().snapshots()] == [None, None, "mine", "its"]
    with pytest.raises(ValidationError, match=r"a commit with wap\.id is staged, so it can't go to a branch"):
        table.append(spark.sql(f"SELECT * FROM {SOURCE}"), branch="audit")
    table.remove_properties("write.wap.enabled")
    spark.conf.set("spark.wap.branch", "audit")
    by_format(spark, table)
    spark.sql("INSERT INTO lake.ns.t VALUES (9, 0)")
    assert len(rows(table)) == 5
    assert all("wap.id" not in (s.summary or {}) for s in table.snapshots()[-2:])
