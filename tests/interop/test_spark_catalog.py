"""A catalog as one of Spark's own: its tables by their names in plain `spark.sql`."""

from __future__ import annotations

import datetime as dt
import gc
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_lake import COLUMNS, rows  # noqa: E402
from spark_tables import plain_values  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.spark.relation import java_classes  # noqa: E402

ODD = ("ns", "a `b`.c \U0001f600")
MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """Tables of each format version with deletes and changed columns, a table of odd names, a view."""
    with icecore.open(tmp_path_factory.mktemp("catalog") / "lake", actor="test") as catalog:
        catalog.create_namespace("ns")
        for version in (1, 2, 3):
            name = f"ns.v{version}"
            made = catalog.create_table(
                name, COLUMNS, format_version=version, partition_spec=["city"], properties=MERGE_ON_READ
            )
            for k in range(3):
                made.append(rows(k))
            made.delete("id IN (11, 22)")
            made.update_schema().rename_column("city", "town").add_column("more", "int").commit()
            made.append([{"id": 100, "town": None, "more": 7}])
        odd = pa.schema(
            [("a.b", pa.int64()), ("ti`ck", pa.string()), ("\U0001f600", pa.int32()), ("_file", pa.int32())]
        )
        catalog.create_table(ODD, odd).append(pa.table([[1, 2], ["x", None], [3, 4], [8, 9]], schema=odd))
        catalog.create_view("ns.view", "SELECT id, town FROM ns.v3 WHERE id > 20")
        elements = pa.list_(pa.field("element", pa.int64(), nullable=False))
        required = pa.schema([pa.field("x", pa.int64(), nullable=False), ("l", elements), ("id", pa.int64())])
        view = "SELECT nullif(id, 100), [nullif(id, 100)], id FROM ns.v3 WHERE id > 26"
        catalog.create_view("ns.nulls", view, schema=required)
        lone = pa.schema([("id", pa.int64()), ("town", pa.string()), *list(COLUMNS)[2:], ("more", pa.int32())])
        catalog.create_table("ns.lone", lone)
        lost = catalog.create_table("ns.lost", COLUMNS)
        catalog.create_view("ns.orphan", "SELECT id FROM ns.lost")
        catalog.drop_table(lost.name())
        icecore.spark.catalog(spark, catalog)
        yield catalog


def found(spark: Any, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in spark.sql(query).collect())


@pytest.mark.parametrize("name", ["v1", "v2", "v3", ODD[1]])
def test_rows_are_those_of_a_scan(spark: Any, lake: icecore.Catalog, name: str) -> None:
    table = lake.load_table(("ns", name))
    frame = spark.table(f"lake.ns.`{name.replace('`', '``')}`")
    expected = table.scan().to_arrow().to_pylist()
    assert sorted(map(repr, (plain_values(r.asDict(True)) for r in frame.collect()))) == sorted(map(repr, expected))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT count(*) FROM lake.ns.v3", [(23,)]),
        ("SELECT id, st.x FROM lake.ns.v3 WHERE st.x > 6", [(7, 7), (17, 7), (27, 7)]),
        ("SELECT a.id, b.town FROM lake.ns.v3 a JOIN lake.ns.v3 b ON a.id = b.id + 10 WHERE a.id < 13",
         [(10, "c0"), (12, "c0")]),
        ("WITH t AS (SELECT id FROM lake.ns.v2 WHERE id < 2) SELECT a.id FROM t a JOIN t b ON a.id = b.id",
         [(0,), (1,)]),
        ("SELECT id FROM lake.ns.v1 WHERE id IN (SELECT id FROM lake.ns.v2) AND id > (SELECT avg(id) FROM lake.ns.v3)",
         [(20,), (21,), (23,), (24,), (25,), (26,), (27,), (100,)]),
        ("SELECT id, (SELECT max(id) FROM lake.ns.v3 b WHERE b.town = a.town) FROM lake.ns.v3 a WHERE id < 2",
         [(0, 26), (1, 27)]),
        ("SELECT id FROM lake.ns.view EXCEPT SELECT id FROM lake.ns.v3 WHERE id < 100", [(100,)]),
        ("SELECT x, l[0], id FROM lake.ns.nulls WHERE x IS NULL AND l[0] IS NULL", [(None, None, 100)]),
        ("SELECT count(x), count(*) FROM lake.ns.nulls WHERE x IS NOT NULL", [(1, 1)]),
        ("SELECT _pos, _spec_id, _partition.city, _row_id, id FROM lake.ns.v3 WHERE id = 21", [(0, 0, "c1", 20, 21)]),
        ("SELECT count(*), count_if(_deleted), count(DISTINCT _file) FROM lake.ns.v3", [(25, 2, 7)]),
        ("SELECT `a.b`, `ti``ck`, _file, _pos FROM lake.ns.`a ``b``.c \U0001f600` WHERE `a.b` = 2", [(2, None, 9, 1)]),
        ("SELECT count(*) FROM lake.ns.v3.snapshots", [(5,)]),
        ("SELECT sum(record_count) FROM lake.ns.v1.partitions WHERE partition.city = 'c1'", [(11,)]),
        ("SELECT id FROM lake.ns.v3 WHERE false", []),
        ("SELECT max(n) FROM (SELECT count(*) OVER (ORDER BY id) AS n FROM lake.ns.v3)", [(23,)]),
        ("SHOW NAMESPACES IN lake", [("ns",)]),
        ("SHOW TABLES IN lake", []),
    ],
)  # fmt: skip
def test_names_in_queries(spark: Any, lake: icecore.Catalog, query: str, expected: list[tuple[Any, ...]]) -> None:
    assert found(spark, query) == expected


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_count_where_no_column_is_asked_for(spark: Any, lake: icecore.Catalog, file_format: str) -> None:
    """By whichever reader: files of names that Spark can't open are read by Python."""
    name = f"ns.counted_{file_format}"
    properties = {**MERGE_ON_READ, "write.format.default": file_format, "write.data.path": "a:b"}
    table = lake.create_table(name, COLUMNS, properties=properties)
    table.append(rows(0))
    for deleted in (0, 1):
        for query in ("SELECT count(*) FROM lake.{}", "SELECT sum(n) FROM (SELECT 1 AS n FROM lake.{})"):
            assert found(spark, query.format(name)) == [(8 - deleted,)]
        table.delete_keys([{"id": 3}], ["id"])


def test_times_of_metadata_tables_are_the_same_by_any_name(spark: Any, lake: icecore.Catalog) -> None:
    """They have no zone, and the session's, which is not UTC here, moves none of them."""
    expected = lake.load_table("ns.v2").inspect.snapshots()["committed_at"].to_pylist()
    query = "SELECT committed_at FROM lake.ns.v2.snapshots ORDER BY ALL"
    read = spark.read.format("icecore").option("warehouse", str(lake.path)).load("ns.v2.snapshots")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        for frame in (
            spark.sql(query),
            icecore.spark.sql(spark, lake, query),
            read.select("committed_at").orderBy("committed_at"),
        ):
            assert frame.dtypes == [("committed_at", "timestamp_ntz")]
            assert [r.committed_at for r in frame.collect()] == expected
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_spark_lists_and_describes(spark: Any, lake: icecore.Catalog) -> None:
    listed = [r.tableName for r in spark.sql("SHOW TABLES IN lake.ns").collect()]
    assert {"v1", "v2", "v3", "view", ODD[1]} <= set(listed)
    told = {r.col_name: r.data_type for r in spark.sql("DESCRIBE TABLE lake.ns.v2").collect()}
    assert told["town"] == "string"
    assert told["st"] == "struct<x:bigint,y:string>"
    assert "# Partition Information" in told
    assert not spark.catalog.tableExists("lake.ns.none")


def test_as_of(spark: Any, lake: icecore.Catalog) -> None:
    table = lake.load_table("ns.v2")
    first, second = table.snapshots()[:2]
    with table.manage_snapshots() as refs:
        refs.create_tag(second.snapshot_id, "two")
    at = dt.datetime.fromtimestamp(first.timestamp_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    for moment, count in (
        (f"VERSION AS OF {first.snapshot_id}", 8),
        ("VERSION AS OF 'two'", 16),
        ("VERSION AS OF 'main'", 23),
        (f"TIMESTAMP AS OF '{at}'", 8),
    ):
        assert spark.sql(f"SELECT * FROM lake.ns.v2 {moment}").count() == count, moment
    query = "SELECT id, city FROM lake.ns.v2 VERSION AS OF 'two' b LEFT ANTI JOIN lake.ns.v2 a ON a.id = b.id"
    assert found(spark, query) == [(11, "c1")]


@pytest.mark.parametrize(
    ("condition", "files"), [("id BETWEEN 12 AND 21", 4), ("town = 'c1' AND id > 7", 2), ("score > 3 AND id < 9", 1)]
)
def test_filters_choose_files(spark: Any, lake: icecore.Catalog, condition: str, files: int) -> None:
    """Those that a scan with the filter plans, whatever table of the query it is said of."""
    scan = lake.load_table("ns.v3").scan(condition)
    planned = {t.file.file_path for t in scan.plan_files()}
    frame = spark.sql(f"SELECT id FROM lake.ns.v3 WHERE {condition}")
    assert set(frame.inputFiles()) == planned
    assert len(planned) == files
    assert frame.count() == scan.count()


def test_filters_that_spark_infers_choose_files_too(spark: Any, lake: icecore.Catalog) -> None:
    frame = spark.sql("SELECT * FROM lake.ns.v1 a JOIN lake.ns.v2 b ON a.id = b.id WHERE a.id BETWEEN 12 AND 21")
    of_each = [len(lake.load_table(name).scan("id BETWEEN 12 AND 21").plan_files()) for name in ("ns.v1", "ns.v2")]
    assert len(frame.inputFiles()) == sum(of_each) < 14


def test_only_the_columns_of_a_query_are_read(spark: Any, lake: icecore.Catalog) -> None:
    frame = spark.sql("SELECT st.x FROM lake.ns.v1 WHERE id > 5")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<id:bigint,st:struct<x:bigint>>" in plan, plan


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT * FROM lake.ns.none", "lake`.`ns`.`none` cannot be found"),
        ("SELECT * FROM lake.none.v1", "cannot be found"),
        ("SELECT * FROM lake.ns.none.files", "NoSuchTableError"),
        ("SELECT * FROM lake.ns.orphan", "lost"),
        ("SHOW TABLES IN lake.none", "none` cannot be found"),
        ("SELECT * FROM lake.ns.v1 VERSION AS OF 12", "NoSuchSnapshotError: there is no snapshot 12"),
        ("SELECT * FROM lake.ns.view VERSION AS OF 1", "AS OF is of tables, found at ns.view"),
        ("INSERT INTO lake.ns.view VALUES (1, 'a')", "lake.ns.view is no table"),
        (
            "DELETE FROM lake.ns.v1 a WHERE EXISTS (SELECT 1 FROM lake.ns.v2 b WHERE b.id = a.id)",
            "columns outside of it",
        ),
        ("DELETE FROM lake.ns.v1 WHERE (id, town) IN (SELECT id, town FROM lake.ns.v2)", "IN of several columns"),
        ("DELETE FROM lake.ns.v1 WHERE id IN (SELECT id FROM range(10001))", "more than 10000 rows"),
        ("UPDATE lake.ns.v1 SET id = 1 WHERE id = (SELECT id FROM lake.ns.v1)", "more than 1 row"),
        ("DELETE FROM lake.ns.v3 WHERE id > 1 AND _pos = 0", "_pos is a metadata column, which a change can't name"),
        ("UPDATE lake.ns.v3 SET town = _file WHERE id = 1", "_file is a metadata column"),
        (
            "MERGE INTO lake.ns.v3 t USING lake.ns.v1 s ON t.id = s.id WHEN MATCHED AND t._spec_id = 0 THEN DELETE",
            "_spec_id is a metadata column",
        ),
        (
            "INSERT OVERWRITE lake.ns.v1 PARTITION (town = 'a') SELECT 1, NULL, 1, 1",
            "does not support overwrite by filter",
        ),
        ("UPDATE lake.ns.v1.files SET record_count = 1", "is no table"),
        ("CREATE TABLE lake.ns.new (id INT)", "catalog.create_table"),
        ("CREATE TABLE lake.ns.new AS SELECT 1 AS id", "catalog.create_table"),
        ("CREATE TABLE lake.ns.new LIKE lake.ns.v1", "catalog.create_table(name, table.schema()"),
        ("REPLACE TABLE lake.ns.v1 (id INT)", "catalog.replace_table"),
        ("REPLACE TABLE lake.ns.v1 AS SELECT 1 AS id", "catalog.replace_table"),
        ("CREATE OR REPLACE TABLE lake.ns.v1 AS SELECT 1 AS id", "catalog.create_or_replace_table"),
        ("DROP TABLE lake.ns.v1", "catalog.drop_table"),
        ("DROP TABLE lake.ns.v1 PURGE", "catalog.purge_table"),
        ("ALTER TABLE lake.ns.v1 ADD COLUMN z INT", "table.update_schema"),
        ("ALTER TABLE lake.ns.v1 SET TBLPROPERTIES ('a' = 'b')", "table.set_properties"),
        ("ALTER TABLE lake.ns.v1 UNSET TBLPROPERTIES ('a')", "table.remove_properties"),
        ("CALL lake.system.rewrite_data_files('ns.v1')", "CALL is not done by SQL here, a call of table.spark"),
        ("SELECT * FROM lake.ns.v1.branch_b", "lake.ns.v1 VERSION AS OF 'b', and written as lake.ns.v1 WITH"),
        ("INSERT INTO lake.ns.v1.branch_b SELECT * FROM lake.ns.v1", "lake.ns.v1 WITH ('branch' = 'b')"),
        ("SELECT * FROM lake.ns.v1.tag_a_b", "a tag is read as lake.ns.v1 VERSION AS OF 'a_b'"),
        ("SELECT * FROM lake.ns.v1.branch_", "cannot be found"),
        ("SHOW VIEWS IN lake.ns", "does not support views"),
        ("CREATE VIEW lake.ns.new AS SELECT 1 AS id", "does not support views"),
        ("SHOW PARTITIONS lake.ns.v1", "does not support partition management"),
        ("ALTER TABLE lake.ns.v1 CREATE BRANCH b", "PARSE_SYNTAX_ERROR"),
        ("SELECT lake.system.bucket(16, id) FROM lake.ns.v1", "does not support functions"),
    ],
)
def test_mistakes_are_named(spark: Any, lake: icecore.Catalog, query: str, text: str) -> None:
    with pytest.raises(Exception, match=re.escape(text)):
        spark.sql(query).collect()


def test_streams_by_name(spark: Any, lake: icecore.Catalog, tmp_path: Path) -> None:
    """Of all columns, with the options of the format; each micro-batch is one commit, or replaces all rows."""
    source = lake.create_table(("ns", "a stream.s`"), pa.schema([("id", pa.int64()), ("k", pa.string())]))
    sink = lake.create_table("ns.sink", source.schema())
    counts = lake.create_table("ns.counts", pa.schema([("k", pa.string()), ("count", pa.int64())]))

    def run(rows: Any, name: str, mode: str = "append") -> None:
        writer = rows.writeStream.outputMode(mode).option("message", name).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / name)).toTable(f"lake.ns.{name}")
        assert query.awaitTermination(600)

    for k in range(2):
        source.append([{"id": 2 * k, "k": "a"}, {"id": 2 * k + 1, "k": "b"}])
        read = spark.readStream.option("max-files-per-micro-batch", 1).table("lake.ns.`a stream.s```")
        run(read.where("id <> 1"), "sink")
        run(read.groupBy("k").count(), "counts", "complete")
        assert sorted(sink.refresh().scan().to_arrow()["id"].to_pylist()) == [0, 2, 3][: 1 + 2 * k]
        assert counts.refresh().scan("k = 'a'").to_arrow()["count"].to_pylist() == [k + 1]
    assert [(s.summary or {})["spark.sql.streaming.epochId"] for s in sink.snapshots()] == ["0", "1"]
    with pytest.raises(Exception, match="has no metadata columns"):
        read.select("id", "_file").writeStream.format("noop").trigger(availableNow=True).start().awaitTermination(600)
    with pytest.raises(Exception, match="there is no option 'maxfiles'"):
        spark.readStream.option("maxFiles", 1).table("lake.ns.sink").writeStream.format(
            "noop"
        ).start().awaitTermination()
    with pytest.raises(Exception, match="does not support either micro-batch or continuous scan"):
        spark.readStream.table("lake.ns.v1.files").writeStream.format("noop").start()


def test_threads_may_ask_at_once(spark: Any, lake: icecore.Catalog) -> None:
    counts: list[int] = []

    def ask() -> None:
        counts.append(spark.sql("SELECT id FROM lake.ns.v3 JOIN lake.ns.v2 USING (id)").count())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert counts == [23] * 4


def test_what_python_answers_is_there_when_java_takes_it(
    spark: Any, lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine may collect Python's garbage, of which Java lets go at once, before Java reads the answer."""
    from py4j.clientserver import ClientServerConnection, JavaClient

    call, let_go = ClientServerConnection._call_proxy, JavaClient.garbage_collect_object

    def called(self: Any, *args: Any) -> Any:
        answer = call(self, *args)
        gc.collect()
        return answer

    monkeypatch.setattr(ClientServerConnection, "_call_proxy", called)
    monkeypatch.setattr(
        JavaClient, "garbage_collect_object", lambda self, target, enqueue=True: let_go(self, target, False)
    )
    assert found(spark, "SELECT id FROM lake.ns.v1 WHERE id = 100") == [(100,)]
    assert found(spark, "SELECT count(*) FROM lake.ns.v1.snapshots") == [(5,)]


def test_a_session_has_catalogs_of_its_own(spark: Any, lake: icecore.Catalog) -> None:
    """Also one of the past; another session knows none of them until it is told."""
    other = spark.newSession()
    with pytest.raises(Exception, match="lake"):
        other.sql("SELECT * FROM lake.ns.v1")
    icecore.spark.catalog(other, lake.at(4), name="past")
    assert [r.tableName for r in other.sql("SHOW TABLES IN past.ns").collect()] == ["v1"]
    assert other.sql("SELECT * FROM past.ns.v1").count() == 16
    with pytest.raises(Exception, match="of the past can't be changed"):
        other.sql("DELETE FROM past.ns.v1")
    for name in ("", "a.b", "spark_catalog"):
        with pytest.raises(ValidationError, match="can't be called"):
            icecore.spark.catalog(other, lake, name=name)
    other.conf.set("spark.sql.catalog.taken", "org.example.Other")
    with pytest.raises(ValidationError, match="another catalog of that name"):
        icecore.spark.catalog(other, lake, name="taken")


READERS = ("enableVectorizedReader", "enableNestedColumnVectorizedReader")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("planned", ["true", "false"])
def test_the_first_query_of_a_session_reads_by_field_id(
    spark: Any, lake: icecore.Catalog, planned: str, reader: str
) -> None:
    """Rows are planned while a query runs, whose tasks know the settings of its beginning."""
    other = spark.newSession()
    icecore.spark.catalog(other, lake)
    other.conf.set("spark.icecore.plannedFiles.enabled", planned)
    other.conf.set(f"spark.sql.parquet.{reader}", "false")
    for adaptive in ("true", "false"):
        other.conf.set("spark.sql.adaptive.enabled", adaptive)
        other.conf.set("spark.sql.parquet.fieldId.read.enabled", "false")
        read = other.table("lake.ns.v3").where("id < 100").collect()
        expected = lake.load_table("ns.v3").scan("id < 100").to_arrow().to_pylist()
        assert sorted(r["id"] for r in read) == sorted(r["id"] for r in expected)
        assert {r["id"]: r["town"] for r in read} == {r["id"]: r["town"] for r in expected}


def test_a_session_that_takes_no_classes_is_told_what_does(
    spark: Any, lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_classes, "_compiled", {})
    monkeypatch.setattr(java_classes, "_source", lambda path: "public class Other extends NoClassOfSpark {}")
    for session in (spark, object()):
        with pytest.raises(ValidationError, match=r"icecore.spark.sql\(spark, catalog, query\)"):
            icecore.spark.catalog(session, lake)
