"""Tables changed by their names in plain `spark.sql`, and by DataFrameWriterV2."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_lake import COLUMNS, rows  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.repository.repository import Repository  # noqa: E402
from icecore.engine.spark_source.sql_catalog.named_rows import TableAnswers  # noqa: E402
from icecore.engine.spark_source.sql_catalog.named_scan import NamedScans  # noqa: E402


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    with icecore.open(tmp_path_factory.mktemp("catalog") / "lake", actor="test") as catalog:
        catalog.create_namespace("ns")
        icecore.spark.catalog(spark, catalog)
        yield catalog


@pytest.fixture
def table(lake: icecore.Catalog, request: pytest.FixtureRequest) -> icecore.Table:
    """A table of the test's own, in three commits: ids 1 to 3."""
    made = lake.create_table(("ns", request.node.name), COLUMNS, format_version=3)
    for i in (1, 2, 3):
        made.append([{"id": i}])
    return made


def test_each_use_sees_the_present(spark: Any, lake: icecore.Catalog, table: icecore.Table) -> None:
    """Another catalog commits: what was analysed before keeps its snapshot, also what Spark has cached of it."""
    name = ".".join(["lake", *table.name()])
    before, cached = spark.table(name), spark.table(name).cache()
    assert cached.count() == 3
    assert spark.catalog.isCached(name)
    with icecore.open(lake.path, actor="other") as other:
        other.load_table(table.name()).append([{"id": 4}])
    assert [f.count() for f in (spark.table(name), before, before.where("id > 0"), cached)] == [4, 3, 3, 3]
    assert not spark.catalog.isCached(name)
    spark.sql(f"INSERT INTO {name} (id) VALUES (5)")
    assert [f.count() for f in (spark.table(name), before.union(spark.table(name)), cached)] == [5, 8, 3]
    spark.catalog.clearCache()


def test_what_spark_has_cached_is_not_what_is_changed(spark: Any, table: icecore.Table) -> None:
    """The rows of the table change, those that were cached of it don't; they may choose which ones change."""
    name = ".".join(["lake", *table.name()])
    changes = (
        f"UPDATE {name} SET city = 'x' WHERE id IN (SELECT id FROM cached WHERE id > 1)",
        f"MERGE INTO {name} t USING cached s ON t.id = s.id WHEN MATCHED AND s.city = 'x' AND s.id = 3 THEN DELETE",
        f"DELETE FROM {name} WHERE city = 'x'",
        f"DELETE FROM {name}",
    )
    for change, before, after in zip(changes, (3, 3, 2, 1), (3, 2, 1, 0), strict=True):
        cached = spark.table(name).cache()
        cached.createOrReplaceTempView("cached")
        assert cached.count() == before
        spark.sql(change)
        assert [f.count() for f in (spark.table(name), cached)] == [after, before]
        spark.catalog.clearCache()
    spark.catalog.dropTempView("cached")


def test_functions_of_python_in_changes(spark: Any, table: icecore.Table) -> None:
    """Spark has them computed below a command, which needs the table itself there."""
    name = ".".join(["lake", *table.name()])
    spark.udf.register("is_odd", lambda n: n % 2 == 1, "boolean")
    spark.udf.register("plus_ten", lambda n: n + 10, "bigint")
    spark.sql(f"DELETE FROM {name} WHERE is_odd(id) AND id > 2")
    spark.sql(f"UPDATE {name} SET id = plus_ten(plus_ten(id)), city = 'c' || plus_ten(id) WHERE is_odd(plus_ten(id))")
    spark.sql(
        f"""MERGE INTO {name} t USING (SELECT plus_ten(id) AS id FROM range(20)) s ON t.id = s.id
        WHEN MATCHED AND is_odd(t.id) THEN UPDATE SET id = plus_ten(t.id) + plus_ten(s.id)"""
    )
    found = table.refresh().scan(selected_fields=("id", "city")).to_arrow().to_pylist()
    assert sorted((r["id"], r["city"]) for r in found) == [(2, None), (62, "c11")]


@pytest.mark.parametrize("is_late", [False, True], ids=["while it runs", "once it is committed"])
def test_an_interrupt_ends_a_change_or_is_too_late(
    spark: Any, lake: icecore.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """What the thread is told is what happened; an interrupt leaves none that still commits behind its back."""
    table, mark = lake.create_table(f"ns.late_{is_late}", COLUMNS), tmp_path / "begun"
    said: list[Any] = []
    threads: list[Any] = []
    name, commit, java = ".".join(["lake", *table.name()]), Repository.commit, spark._jvm.java.lang.Thread

    def stalling(n: int) -> int:
        mark.touch()
        time.sleep(0 if is_late else 60)
        return n

    def interrupted(self: Repository, *args: Any, **options: Any) -> Any:
        made = commit(self, *args, **options)
        threads[0].interrupt()
        time.sleep(1.5)
        return made

    def change() -> None:
        threads.append(java.currentThread())
        try:
            spark.sql(f"INSERT INTO {name} (id) SELECT stalling(id) FROM range(2)")
            said.append("made")
        except Exception as e:
            said.append(str(e))
        said.append(java.interrupted())

    spark.udf.register("stalling", stalling, "bigint")
    if is_late:
        monkeypatch.setattr(Repository, "commit", interrupted)
    changing = Thread(target=change)
    changing.start()
    deadline = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    if not is_late:
        threads[0].interrupt()
    changing.join()
    assert ("made" if is_late else "SPARK_JOB_CANCELLED") in said[0]
    assert said[1], "the thread still knows that it is interrupted"
    assert table.refresh().scan().count() == (2 if is_late else 0)


def test_changes_by_sql(spark: Any, table: icecore.Table) -> None:
    name = ".".join(["lake", *table.name()])
    spark.sql(f"INSERT INTO {name} SELECT id + 10, 'Oslo', NULL, 0.5D FROM range(2)")
    spark.sql(f"DELETE FROM {name} WHERE id % 2 = 0 AND city <=> 'Oslo'")
    table.refresh()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 11]
    spark.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name} WHERE id < 3")
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 2]
    spark.sql(f"DELETE FROM {name}")
    assert table.refresh().scan().count() == 0
    operations = [(s.summary or {})["operation"] for s in table.snapshots()[3:]]
    assert operations == ["append", "delete", "overwrite", "delete"]


def test_partitions_are_replaced(spark: Any, lake: icecore.Catalog) -> None:
    """Those that the rows have, by either word of Spark; what a query reads of the table itself is as it was."""
    table = lake.create_table("ns.parted", COLUMNS, partition_spec=["city"])
    table.append(rows(0))
    again = spark.sql("SELECT id + 100 AS id, city, st, score FROM lake.ns.parted WHERE city = 'c1' AND id > 3")
    again.writeTo("lake.ns.parted").option("snapshot-properties", '{"k": "v"}').overwritePartitions()
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [0, 2, 4, 6, 105, 107]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql("INSERT OVERWRITE lake.ns.parted (id, city) VALUES (1, 'c0'), (2, 'new')")
        lone = lake.create_table("ns.unpartitioned", COLUMNS)
        lone.append(rows(0))
        spark.table("lake.ns.parted").limit(1).writeTo("lake.ns.unpartitioned").overwritePartitions()
        assert lone.refresh().scan().count() == 1
        spark.sql("INSERT OVERWRITE lake.ns.unpartitioned SELECT * FROM lake.ns.parted")
        assert lone.refresh().scan().count() == 4
        spark.sql("INSERT OVERWRITE lake.ns.unpartitioned SELECT * FROM lake.ns.parted WHERE id < 0")
        spark.table("lake.ns.parted").where("id < 0").writeTo("lake.ns.unpartitioned").overwritePartitions()
        assert lone.refresh().scan().count() == 4, "no rows have no partition"
        assert [s.operation for s in lone.snapshots()][:3] == ["append", "overwrite", "overwrite"]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 2, 105, 107]
    assert [s.operation for s in table.snapshots()] == ["append", "overwrite", "overwrite"]
    assert (table.snapshots()[1].summary or {})["k"] == "v"


def test_changed_rows_by_sql(spark: Any, table: icecore.Table) -> None:
    """UPDATE and MERGE, by whatever names, with clauses of every kind."""
    name = ".".join(["lake", *table.name()])

    def values(*columns: str) -> list[tuple[Any, ...]]:
        found = table.refresh().scan(selected_fields=columns).to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in found)

    spark.sql(f"UPDATE {name} AS t SET score = t.id / 2, city = upper('a') || id WHERE t.id % 2 = 1")
    assert values("id", "city", "score") == [(1, "A1", 0.5), (2, None, None), (3, "A3", 1.5)]
    source = "SELECT * FROM VALUES (1L, 'one', 5D), (2L, 'two', 0D), (9L, 'nine', 1D) AS s(id, town, score)"
    spark.sql(
        f"""MERGE INTO {name} a USING ({source}) b ON b.id = a.id
        WHEN MATCHED AND b.score = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET a.city = b.town, score = a.score + b.score
        WHEN NOT MATCHED THEN INSERT (city, id) VALUES (b.town, b.id * 10)
        WHEN NOT MATCHED BY SOURCE AND a.id > 2 THEN UPDATE SET city = 'old'"""
    )
    assert values("id", "city", "score") == [(1, "one", 5.5), (3, "old", 1.5), (90, "nine", None)]
    spark.sql(
        f"""MERGE INTO {name} a USING (SELECT * FROM {name} WHERE id = 1) b
        ON a.id = b.id + 2 AND a.city <> b.city
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert values("id", "city") == [(1, "one"), (1, "one"), (90, "nine")]


def test_subqueries_of_changes_are_known_before_them(spark: Any, table: icecore.Table) -> None:
    """Those that depend on no row, nulls among their rows and no row at all; what they find chooses files as well."""
    name = ".".join(["lake", *table.name()])
    spark.sql(f"DELETE FROM {name} WHERE id NOT IN (SELECT id FROM {name} UNION ALL SELECT NULL)")
    spark.sql(f"DELETE FROM {name} WHERE EXISTS (SELECT 1 FROM {name} WHERE id > 99)")
    spark.sql(f"EXPLAIN DELETE FROM {name} WHERE id IN (SELECT raise_error('it ran') FROM {name})").collect()
    assert table.refresh().scan().count() == 3
    spark.sql(f"UPDATE {name} SET score = (SELECT count(*) FROM {name}), city = (SELECT city FROM {name} WHERE id = 0)")
    spark.sql(f"UPDATE {name} SET city = 'last' WHERE id = (SELECT max(id) FROM {name})")
    table.refresh().append([{"id": 10}])
    Path(table.scan("id = 10").plan_files()[0].file.file_path.removeprefix("file://")).unlink()
    spark.sql(f"DELETE FROM {name} WHERE id IN (SELECT 2 WHERE 1 < (SELECT count(*) FROM {name}.snapshots))")
    rows = table.refresh().scan("id < 10", selected_fields=("id", "city", "score")).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "city": None, "score": 3.0}, {"id": 3, "city": "last", "score": 3.0}]


def test_metadata_columns_are_those_of_a_source(spark: Any, table: icecore.Table) -> None:
    name = ".".join(["lake", *table.name()])
    file = table.scan("id = 2").plan_files()[0].file.file_path
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT id, _file, _pos FROM {name}) s ON t.id = s.id "
        f"WHEN MATCHED AND s._file = '{file}' THEN UPDATE SET city = s._file WHEN MATCHED AND s._pos = 0 THEN DELETE"
    )
    assert table.refresh().scan(selected_fields=("id", "city")).to_arrow().to_pylist() == [{"id": 2, "city": file}]


def test_conditions_of_changes_choose_files(spark: Any, table: icecore.Table) -> None:
    """A file that can have no such row is not looked for."""
    name = ".".join(["lake", *table.name()])
    Path(table.scan("id = 1").plan_files()[0].file.file_path.removeprefix("file://")).unlink()
    spark.sql(f"UPDATE {name} SET city = 'x' WHERE id % 2 = 0 AND id > 1")
    spark.sql(f"DELETE FROM {name} WHERE id % 2 = 1 AND id > 1")
    assert table.refresh().scan("id > 1", selected_fields=("id", "city")).to_arrow().to_pylist() == [
        {"id": 2, "city": "x"}
    ]


def test_a_change_is_of_the_columns_that_were_analysed(lake: icecore.Catalog, table: icecore.Table) -> None:
    """Names are looked up again when it is made: they must not mean other columns by then."""
    analysed = lake.load_table(table.name())
    scans = NamedScans(analysed, {}, lambda position: analysed)
    rows = TableAnswers(None, analysed, scans, lambda: lake.load_table(table.name()))
    table.append([{"id": 4}])
    rows.answer(["delete-all", "{}"])
    table.refresh().update_schema().rename_column("city", "id2").rename_column("id", "city").commit()
    with pytest.raises(ValidationError, match="its columns changed since the statement was analysed"):
        rows.answer(["delete-all", "{}"])


def test_writes_take_options(spark: Any, lake: icecore.Catalog, table: icecore.Table) -> None:
    lake.create_table("ns.source", COLUMNS).append(rows(0))
    write = spark.table("lake.ns.source").where("id < 2")
    write = write.writeTo(".".join(["lake", *table.name()])).option("message", "by Spark").option("author", "ann")
    write.option("snapshot-properties", '{"k": "v"}').append()
    assert (table.refresh().current_snapshot().summary or {})["k"] == "v"  # type: ignore[union-attr]
    found = lake.sql("SELECT message, actor FROM log WHERE message IS NOT NULL").to_pylist()
    assert found == [{"message": "by Spark", "actor": "ann"}]
    with pytest.raises(Exception, match="there is no option 'mesage' here"):
        write.option("mesage", "x").append()
