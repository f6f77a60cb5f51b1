"""Counts, minima and maxima in Spark that metadata tells: the same answers as by reading, without a row read."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from budgets import examples
from evolving_tables import Evolving, steps
from expression_cases import filter_texts
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("d", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("ts", pa.timestamp("us")),
        ("st", pa.struct([("a", pa.int64())])),
        ("none", pa.int64()),
    ]
)


def row(i: int) -> dict[str, Any]:
    day = dt.date(2024, 1, 1) + dt.timedelta(i)
    at = dt.datetime(2024, 1, 1, 23, 30, tzinfo=dt.UTC) + dt.timedelta(hours=i)
    return {
        "id": i,
        "city": "abc"[i // 10 % 3] if i < 30 else None,
        "n": i if i % 4 else None,
        "x": float("nan") if i == 7 else -0.0 if i == 0 else float(i),
        "d": Decimal(i) / 4 - 5,
        "day": day,
        "at": at,
        "ts": at.replace(tzinfo=None),
        "st": {"a": i} if i % 3 else None,
    }


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A table of a file for each city, the same with deletes, an empty one; and plain views of their rows."""
    with icecore.open(tmp_path_factory.mktemp("aggregates") / "lake", actor="test") as catalog:
        catalog.create_namespace("ns")
        properties = {"write.delete.mode": "merge-on-read"}
        for name, version in (("whole", 2), ("v2", 2), ("v3", 3), ("empty", 2)):
            table = catalog.create_table(
                f"ns.{name}", SCHEMA, partition_spec=["city"], format_version=version, properties=properties
            )
            if name != "empty":
                for start in (0, 10, 20, 30):
                    table.append([row(i) for i in range(start, start + 10)])
            if name in ("v2", "v3"):
                table.delete("id IN (0, 9, 15)")
        catalog.load_table("ns.v2").delete_keys([{"id": 29, "city": "c"}], ["id", "city"])
        icecore.spark.catalog(spark, catalog, name="known")
        for name in ("whole", "v2", "v3", "empty"):
            rows = catalog.load_table(f"ns.{name}").scan().to_spark(spark)
            rows.createOrReplaceTempView(f"frame_{name}")
            rows.localCheckpoint().createOrReplaceTempView(f"plain_{name}")
        yield catalog


TOLD = [
    "SELECT count(*) FROM {}",
    "SELECT count(*), count(id), count(n), count(none), count(1), max(none) FROM {}",
    "SELECT min(id), max(id), min(n), max(n), min(d), max(d) FROM {}",
    "SELECT min(day), max(day), min(at), max(at), min(ts), max(ts), min(city), max(city) FROM {}",
    "SELECT max(ID) - min(id) + count(*) AS spread, CAST(max(d) AS INT) AS d FROM {}",
    "SELECT count(*), max(id) FROM {} WHERE city = 'b'",
    "SELECT count(n), max(d) FROM {} WHERE city IS NULL",
    "SELECT count(*), min(id) FROM {} WHERE NOT city = 'b'",
    "SELECT count(*) FROM {} WHERE city IN ('a', 'c') AND id BETWEEN -5 AND 9",
    "SELECT count(*) FROM {} WHERE id > 9 AND n IS NOT NULL AND city = 'z'",
    "SELECT count(*) FROM {} WHERE day >= DATE '2024-01-11'",
    "SELECT count(*) FROM {} WHERE at < TIMESTAMP '2024-01-02 09:30:00Z'",
    "SELECT count(*) FROM (SELECT id, city FROM {} WHERE city = 'a') WHERE id >= 0",
    "SELECT a.m, (SELECT count(*) FROM {} WHERE city = 'c') FROM (SELECT max(id) AS m FROM {}) a",
]
READ = [
    "SELECT count(*) FROM {} WHERE id > 3",
    "SELECT count(*) FROM {} WHERE NOT n = 1",
    "SELECT count(*) FROM {} WHERE id % 2 = 0",
    "SELECT count(*) FROM {} WHERE city = 'a' AND id % 2 = 0",
    "SELECT count(*) FROM {} WHERE NOT (city <=> 'a')",
    "SELECT count(*) FROM {} WHERE x > 1",
    "SELECT count(*) FROM {} WHERE x >= -1 AND city = 'b'",
    "SELECT min(x), max(x) FROM {}",
    "SELECT min(st.a), count(st.a), count(st) FROM {}",
    "SELECT count(DISTINCT city), sum(id) FROM {}",
    "SELECT count(*) FILTER (WHERE id > 3), max(id) FROM {}",
    "SELECT max(id + 1) FROM {}",
    "SELECT count(n, id) FROM {}",
    "SELECT city, count(*) FROM {} GROUP BY city",
    "SELECT count(*) FROM (SELECT * FROM {} LIMIT 3)",
    "SELECT max(id), rand(1) >= 0 FROM {} HAVING count(*) > 100",
]


def compared(spark: Any, query: str, name: str, source: str = "known.ns.") -> bool:
    """Compares a query with that of the plain rows; gives whether no file was read for it."""
    told = spark.sql(query.replace("{}", f"{source}{name}"))
    plain = spark.sql(query.replace("{}", f"plain_{name}"))
    assert [f.dataType for f in told.schema] == [f.dataType for f in plain.schema], query
    assert sorted(map(repr, told.collect())) == sorted(map(repr, plain.collect())), query
    return is_told(told)


def is_told(query: Any) -> bool:
    """Whether neither files, nor rows that are kept of them, are in the plan of a query."""
    plan = query._jdf.queryExecution().optimizedPlan().toString()
    return not any(word in plan for word in ("Scan", "Relation [", "InMemoryRelation")) and not query.inputFiles()


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("source", ["known.ns.", "frame_"])
def test_what_metadata_tells_is_not_read(spark: Any, source: str) -> None:
    for query in TOLD:
        assert compared(spark, query, "whole", source), query


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("source", ["known.ns.", "frame_"])
def test_what_it_does_not_tell_is_read(spark: Any, source: str) -> None:
    """Parts of files, floats, fields of structs, groups, and whatever else."""
    told = [query for query in READ if compared(spark, query, "whole", source)]
    assert not set(told) & set(READ[:8])


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("name", ["v2", "v3", "empty"])
def test_deleted_rows_count_for_nothing(spark: Any, name: str) -> None:
    told = [compared(spark, query, name) for query in TOLD[:6]]
    assert all(told) if name == "empty" else not any(told[:5])
    # Files without deletes are told of still.
    assert compared(spark, TOLD[6], name)
    told = [compared(spark, query, name, "frame_") for query in TOLD[:7]]
    assert all(told) if name == "empty" else not any(told)


def test_a_frame_counts_its_own_rows_without_a_job(spark: Any, lake: icecore.Catalog) -> None:
    """Where metadata tells them; a cache that is to be filled takes a job, as do frames that are made of it."""
    jobs = spark.sparkContext.statusTracker()

    def counted(name: str, count: Any) -> tuple[int, bool]:
        spark.sparkContext.setJobGroup(name, name)
        return count(), bool(jobs.getJobIdsForGroup(name))

    def frame(name: str, *filters: str) -> Any:
        return lake.load_table(f"ns.{name}").scan(*filters).to_spark(spark)

    try:
        assert counted("whole", frame("whole").count) == (40, False)
        assert counted("part", frame("whole", "city = 'b'").count) == (10, False)
        assert counted("residual", frame("whole", "id > 3").count) == (36, True)
        assert counted("deletes", frame("v3").count) == (37, True)
        assert counted("made", frame("whole").where("id % 2 = 0").count) == (20, True)
        assert counted("cached", frame("whole").select("id").cache().count) == (40, True)
        cached = frame("whole", "city = 'c'").cache()
        assert counted("filled", cached.count) == (10, True)
        cached.unpersist()
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
            spark.sparkContext.setLocalProperty(name, None)


@pytest.mark.parametrize("version", [2, 3])
@examples(1)
@given(data=st.data())
def test_of_a_frame_metadata_tells_what_its_rows_are(spark: Any, version: int, data: st.DataObject) -> None:
    """After any deletes and evolution; with a filter of the scan or one in Spark, for any column, of any snapshot."""
    from pyspark.sql import functions as F

    with tempfile.TemporaryDirectory() as folder:
        evolving = Evolving.create(Path(folder), version, data)
        evolving.apply(("append", [0, 1, 2, 3, 4]))
        deletes = data.draw(st.booleans(), label="deletes")
        for step in data.draw(steps(deletes=deletes, keys=deletes), label="steps"):
            evolving.apply(step)
        table = evolving.table
        snapshot = data.draw(st.sampled_from([s.snapshot_id for s in table.snapshots()]), label="snapshot")
        text = data.draw(filter_texts(evolving.columns()), label="filter")
        scans = [table.scan(), table.scan(snapshot_id=snapshot)]
        scans += [table.scan(text)] if evolving.select(text) is not None else []
        for scan in scans:
            frame = scan.to_spark(spark)
            rows = frame.localCheckpoint()
            names = [f.name for f in frame.schema if f.dataType.typeName() != "struct"]
            name = data.draw(st.sampled_from(names), label="column")
            value = next((r[0] for r in rows.select(name).take(5) if r[0] is not None), None)
            conditions = [F.lit(True), F.col(name).isNull() if value is None else F.col(name) <= value]
            asked = [F.count(F.lit(1)), F.count(name), F.min(name), F.max(name), F.max("id"), F.min("d")]
            for condition in conditions:
                found, wanted = frame.where(condition), rows.where(condition).agg(*asked).first()
                each = [(i, found.agg(a)) for i, a in enumerate(asked)]
                told = {i: repr(q.first()[0]) for i, q in each if is_told(q)}
                assert told == {i: repr(wanted[i]) for i in told}


def test_rows_that_are_not_those_of_a_plan_are_read(spark: Any, lake: icecore.Catalog, tmp_path: Path) -> None:
    """With a limit, beside others, where two relations read a plan, from a cache, and of a catalog that was closed."""
    from pyspark.sql import functions as F

    whole = (F.count(F.lit(1)), F.max("id"))
    table = lake.create_table("ns.parts", SCHEMA, partition_spec=["city"])
    table.append([row(i) for i in range(10, 20)])
    frame = table.scan().to_spark(spark)
    assert is_told(frame.agg(*whole))
    assert is_told(frame.selectExpr("city AS id", "id AS city").where("id = 'b'").agg(F.max("city")))
    assert not is_told(frame.selectExpr("nullif(id, 19) AS id").agg(*whole))
    assert not is_told(frame.selectExpr("id", "upper(city) AS city").where("city = 'b'").agg(*whole))
    for rows in (table.scan(limit=3).to_spark(spark), frame.limit(3)):
        assert not is_told(rows.agg(*whole))
        assert rows.agg(*whole).first()[0] == 3
    assert not is_told(frame.union(frame).agg(*whole))
    assert frame.union(frame).agg(*whole).first() == (20, 19)
    # A file of another writer that lacks the column of its partition.
    other = tmp_path / "city=b" / "other.parquet"
    other.parent.mkdir()
    pq.write_table(pa.table({"id": [100]}), other)
    table.add_files([str(other)])
    both = table.scan().to_spark(spark).agg(*whole)
    assert not is_told(both)
    assert both.first() == (11, 100)
    frame.cache()
    assert not is_told(frame.agg(*whole))
    frame.unpersist()
    with icecore.open(tmp_path / "closed") as catalog:
        catalog.create_namespace("ns")
        closed = catalog.create_table("ns.t", SCHEMA)
        closed.append([row(1)])
        frame = closed.scan().to_spark(spark)
    assert not is_told(frame.agg(*whole))
    assert frame.agg(*whole).first() == (1, 1)


def test_columns_that_are_computed_of_others_twice_take_no_longer(spark: Any, lake: icecore.Catalog) -> None:
    """Written out they would double at each step: 2 to the power of 26 columns, of rows of any kind."""
    from pyspark.sql import functions as F

    frame = lake.load_table("ns.whole").scan().to_spark(spark)
    for rows in (frame.select("id"), spark.table("known.ns.whole").select("id"), spark.range(40)):
        for _ in range(26):
            rows = rows.select((F.col("id") + F.col("id")).alias("id"))
        assert rows.agg(F.max("id")).first()[0] == 39 << 26


def test_with_deleted_rows_all_count(spark: Any, lake: icecore.Catalog) -> None:
    deleted = "SELECT count(*), count(_deleted), max(id) FROM known.ns.v3"
    assert [tuple(r) for r in spark.sql(deleted).collect()] == [(40, 40, 39)]
    assert spark.sql("SELECT count(_pos), min(id) FROM known.ns.whole").first() == (40, 0)
    frame = lake.load_table("ns.v3").scan(selected_fields=("id", "_deleted")).to_spark(spark)
    assert frame.selectExpr("count(*)", "count(_deleted)", "max(id)").first() == (40, 40, 39)


def test_the_snapshot_is_that_of_the_analysis(spark: Any, lake: icecore.Catalog) -> None:
    table = lake.create_table("ns.later", SCHEMA)
    table.append([row(1)])
    first = table.current_snapshot()
    assert first is not None
    before = spark.sql("SELECT count(*) FROM known.ns.later")
    table.append([row(2)])
    assert before.first()[0] == 1
    assert spark.table("known.ns.later").count() == 2
    assert spark.sql(f"SELECT max(id) FROM known.ns.later VERSION AS OF {first.snapshot_id}").first()[0] == 1
    Path(table.scan("id = 1").plan_files()[0].file.file_path.removeprefix("file://")).unlink()
    assert spark.sql("SELECT count(*), max(id) FROM known.ns.later").first() == (2, 2)
