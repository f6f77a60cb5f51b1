"""Files that the other side of a join chooses in Spark: fewer where they have none of its rows, and the same rows."""

from __future__ import annotations

import datetime as dt
import tempfile
import time
import uuid
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from budgets import examples
from evolving_tables import Evolving, steps
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.spark.relation import java_classes  # noqa: E402
from icecore.engine.spark.relation.file_pruning import FilePruning  # noqa: E402

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.date32()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("city", pa.string()),
        ("st", pa.struct([("a", pa.int64())])),
    ]
)
DAYS = 8
ADAPTIVE = "spark.sql.adaptive.enabled"
PRUNING = "spark.sql.optimizer.dynamicPartitionPruning.enabled"
REUSE = "spark.sql.exchange.reuse"
BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
ADAPTIVE_BROADCAST = "spark.sql.adaptive.autoBroadcastJoinThreshold"


def row(i: int) -> dict[str, Any]:
    k = i // 10
    day = dt.date(2024, 1, 1) + dt.timedelta(k)
    return {"id": i, "day": day, "n": k, "x": float(k), "city": f"c{i}", "st": {"a": k}}


@pytest.fixture(scope="module")
def lake(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """Tables of a file a day and one of null days; the same with deletes; and by buckets. The days of a few names."""
    with icecore.open(tmp_path_factory.mktemp("joins") / "lake", actor="test") as catalog:
        catalog.create_namespace("ns")
        icecore.spark.catalog(spark, catalog, name="joined")
        properties = {"write.delete.mode": "merge-on-read"}
        for name, spec, version in (
            ("days", "day", 2),
            ("v2", "day", 2),
            ("v3", "day", 3),
            ("ids", "bucket(8, id)", 2),
        ):
            table = catalog.create_table(
                f"ns.{name}", SCHEMA, partition_spec=[spec], format_version=version, properties=properties
            )
            table.append([row(i) for i in range(10 * DAYS)])
            if name != "ids":
                table.append([{"id": 1000}])
            if name in ("v2", "v3"):
                table.delete("id IN (20, 31, 45)")
        catalog.load_table("ns.v2").delete_keys([{"id": 46, "day": row(46)["day"]}], ["id", "day"])
        names = catalog.create_table("ns.names", pa.schema([*SCHEMA, ("name", pa.string())]))
        names.append([{**row(10 * k), "name": f"n{k}"} for k in range(DAYS)] + [{"name": "null"}])
        for name in ("days", "v2", "v3", "ids", "names"):
            catalog.load_table(f"ns.{name}").scan().to_spark(spark).createOrReplaceTempView(f"joined_{name}")
        await_rules(spark)
        yield catalog


def await_rules(spark: Any) -> None:
    """Waits until a driver's first DataFrame has the rules compiled that its later ones go by."""
    ends = time.monotonic() + 60
    while len(java_classes._rules.get(spark._sc._gateway, ())) < len(java_classes._RULES) and time.monotonic() < ends:
        time.sleep(0.01)
    java_classes.keep_rules(spark, java_classes.planned_relations(spark))


def files_read(query: Any) -> int:
    """How many files the scans of a query that ran have read, but those of the table of names."""

    def read(plan: Any) -> int:
        name = plan.getClass().getSimpleName()
        if name == "AdaptiveSparkPlanExec":
            return read(plan.executedPlan())
        if name.endswith("QueryStageExec"):
            return read(plan.plan())
        if name == "FileSourceScanExec":
            files = plan.metrics().get("numFiles").get().value()
            return 0 if "name:string" in plan.requiredSchema().catalogString() else int(files)
        return sum(read(plan.children().apply(i)) for i in range(plan.children().length()))

    return read(query._jdf.queryExecution().executedPlan())


def asked(spark: Any, query: str, source: str) -> tuple[int, int]:
    """How many rows a query has, and how many files it reads for them."""
    frame = spark.sql(query.replace("@", source))
    return len(frame.collect()), files_read(frame)


JOIN = "SELECT /*+ BROADCAST(d) */ t.id FROM {} t JOIN @names d ON {} WHERE d.name IN ('n3', 'n4', 'null')"
# With how many rows each has, and how many files it reads.
CHOSEN = [
    (JOIN.format("@days", "t.day = d.day"), 20, 2),
    (JOIN.format("@v2", "t.day = d.day"), 17, 2),
    (JOIN.format("@v3", "t.day = d.day"), 18, 2),
    (JOIN.format("@ids", "t.id = d.id"), 2, 1),
    (JOIN.format("@days", "t.id = d.id"), 2, 2),
    (JOIN.format("@days", "t.n = d.n AND t.day = d.day"), 20, 2),
    (JOIN.format("@days", "t.n = d.id DIV 10"), 20, 2),
    (JOIN.format("@days", "t.st.a = d.st.a"), 20, 2),
    (JOIN.format("(SELECT day, max(id) AS id FROM @days GROUP BY day)", "t.day = d.day"), 2, 2),
    (JOIN.format("(TABLE @days UNION ALL TABLE @v3)", "t.day = d.day"), 38, 4),
    ("SELECT id FROM @days WHERE day IN (SELECT day FROM @names WHERE name = 'n3')", 10, 1),
    ("SELECT id FROM @days WHERE day IN (SELECT day FROM @names WHERE name = 'none')", 0, 0),
    ("SELECT (SELECT max(id) FROM @days WHERE day IN (SELECT day FROM @names WHERE name = 'n3')) AS m", 1, 0),
]
# All files are read, but that of null days where Spark asks for others.
ALL = [
    (JOIN.format("@days", "t.day <=> d.day"), 21, DAYS + 1),
    (JOIN.format("@days", "t.x = d.x"), 20, DAYS),
    (JOIN.format("@days", "t.day < d.day"), 70, DAYS),
    (JOIN.format("@days", "t.day = d.day OR t.n = d.n"), 20, DAYS + 1),
    (JOIN.format("(SELECT day, id FROM @days ORDER BY id LIMIT 50)", "t.day = d.day"), 20, DAYS + 1),
    (JOIN.format("@days", "t.day = d.day").replace("BROADCAST", "MERGE"), 20, DAYS),
    ("SELECT t.id FROM @days t LEFT JOIN (SELECT * FROM @names WHERE name = 'n3') d ON t.day = d.day", 81, DAYS + 1),
    ("SELECT id FROM @days WHERE day NOT IN (SELECT day FROM @names WHERE name = 'n3')", 70, DAYS + 1),
]


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(
    ("source", "queries"), [("joined.ns.", CHOSEN + ALL), ("joined_", CHOSEN[:6])], ids=["by name", "frames"]
)
def test_a_join_reads_the_files_that_may_have_its_rows(
    spark: Any, source: str, queries: list[tuple[str, int, int]]
) -> None:
    """By any partition and any bounds, as a filter on the very values does."""
    found = {query: asked(spark, query, source) for query, *_ in queries}
    assert found == {query: tuple(wanted) for query, *wanted in queries}


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(("key", "files"), [(ADAPTIVE, 2), (PRUNING, DAYS), (REUSE, DAYS)])
def test_it_does_so_as_the_session_says(spark: Any, key: str, files: int) -> None:
    """Without adaptive plans too; but not where Spark is to prune by no join, or to reuse nothing."""
    spark.conf.set(key, "false")
    try:
        assert asked(spark, CHOSEN[0][0], "joined.ns.") == (20, files)
    finally:
        spark.conf.unset(key)


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize(
    ("conf", "begun", "ended", "files"),
    [
        ({BROADCAST: "-1", ADAPTIVE_BROADCAST: "1m"}, "SortMergeJoin", "BroadcastHashJoin", {DAYS}),
        ({BROADCAST: "1m", ADAPTIVE_BROADCAST: "-1"}, "BroadcastHashJoin", "SortMergeJoin", {2, DAYS}),
    ],
    ids=["to a broadcast", "from a broadcast"],
)
def test_a_join_that_spark_plans_anew_as_it_runs_has_its_rows(
    spark: Any, conf: dict[str, str], begun: str, ended: str, files: set[int]
) -> None:
    """It was of another kind when files could be chosen, or is no longer of the kind that they were chosen for."""
    few = "SELECT day, max(n) AS n FROM joined.ns.names WHERE name IN ('n3', 'n4', 'null') GROUP BY day"
    last = "SELECT day, max(id) AS id FROM joined.ns.days GROUP BY day"
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        query = spark.sql(f"SELECT t.id FROM ({last}) t LEFT SEMI JOIN ({few}) d ON t.day = d.day")
        planned = query._jdf.queryExecution().executedPlan()
        assert begun in planned.toString() and ended not in planned.toString()
        assert sorted(r.id for r in query.collect()) == [39, 49]
        final = planned.executedPlan().toString()
        assert ended in final and begun not in final
        assert files_read(query) in files
    finally:
        for key in conf:
            spark.conf.unset(key)


def test_uuids_choose_no_file(spark: Any, lake: icecore.Catalog) -> None:
    """To Spark they are texts, of which those that spell the same uuid otherwise are others."""
    from pyspark.sql import functions as F

    keys = [uuid.UUID(int=(k << 120) + 255) for k in range(3)]
    table = lake.create_table("ns.uuids", pa.schema([("k", pa.uuid()), ("id", pa.int64())]), partition_spec=["k"])
    table.append([{"k": key, "id": i} for i, key in enumerate(keys)])
    texts = [str(keys[1]), str(keys[2]).upper(), keys[0].hex, "none"]
    wanted = spark.sql(f"SELECT * FROM VALUES {', '.join(map(repr, texts))} AS v(k)")
    query = table.scan().to_spark(spark).join(F.broadcast(wanted), "k")
    assert [r.id for r in query.collect()] == [1]
    assert files_read(query) == len(keys)


@examples(1)
@given(data=st.data())
def test_a_join_has_the_rows_of_all_files(spark: Any, data: st.DataObject) -> None:
    """After any deletes and evolution of schemas and specs, by any columns, with nulls among them."""
    from pyspark.sql import functions as F

    with tempfile.TemporaryDirectory() as folder:
        evolving = Evolving.create(Path(folder), data.draw(st.sampled_from([2, 3]), label="version"), data)
        evolving.apply(("append", [0, 1, 2, 3, 4]))
        for step in data.draw(steps(deletes=True, keys=True), label="steps"):
            evolving.apply(step)
        frame = evolving.table.scan().to_spark(spark)
        await_rules(spark)
        rows = frame.localCheckpoint()
        names = [f.name for f in frame.schema if f.dataType.typeName() != "struct"] + ["st.a", "st.s"]
        ids = data.draw(st.lists(st.integers(0, evolving.rows), min_size=1, max_size=2), label="ids")
        chosen = data.draw(st.lists(st.sampled_from(names), min_size=6, max_size=6, unique=True), label="columns")

        def joined(of: Any) -> list[tuple[str, int]]:
            parts = []
            for name in chosen:
                wanted = rows.where(F.col("id").isin(ids)).select(F.col(name).alias("wanted"))
                found = of.join(F.broadcast(wanted), F.col(name) == F.col("wanted"), "left_semi")
                parts.append(found.select(F.lit(name), "id"))
            return sorted(tuple(r) for r in reduce(lambda a, b: a.union(b), parts).collect())

        spark.conf.set(ADAPTIVE, data.draw(st.sampled_from(["true", "false"]), label="adaptive"))
        try:
            assert joined(frame) == joined(rows)
        finally:
            spark.conf.unset(ADAPTIVE)


def test_a_table_is_joined_with_parts_of_itself(spark: Any, lake: icecore.Catalog) -> None:
    """Scans of one table with other files are other scans, though all else of them is equal."""
    query = """
        SELECT a.id, b.id, c.id FROM @days a
        JOIN (SELECT t.* FROM @days t JOIN @names d ON t.day = d.day WHERE d.name = 'n1') b ON a.n = b.n + 1
        JOIN (SELECT t.* FROM @days t JOIN @names d ON t.day = d.day WHERE d.name = 'n2') c ON a.n = c.n
        WHERE a.id % 5 = 0 AND b.id % 5 = 0 AND c.id % 5 = 0"""
    for source in ("joined_", "joined.ns."):
        rows, files = asked(spark, query, source)
        # Of 2024-01-03 two rows, and two of the day before for each.
        assert rows == 8 and files < 3 * (DAYS + 1)


def test_of_many_values_the_least_and_the_greatest_choose(spark: Any, lake: icecore.Catalog) -> None:
    from pyspark.sql import functions as F

    frame = lake.load_table("ns.days").scan().to_spark(spark)
    many = spark.range(-30_000, 30).toDF("id").where("id % 2 = 0")
    query = frame.join(F.broadcast(many), "id").select("id")
    assert sorted(r.id for r in query.collect()) == list(range(0, 30, 2))
    assert files_read(query) == 3


def test_whole_numbers_too_long_for_the_column_are_none_of_it(spark: Any, lake: icecore.Catalog) -> None:
    from pyspark.sql import functions as F

    frame = lake.load_table("ns.days").scan().to_spark(spark)
    for more, count in (([2**32 + 5, 4], 1), ([2**32 + 5], 0)):
        long = spark.createDataFrame([(n,) for n in more], "n long")
        query = frame.join(F.broadcast(long), "n").select("id")
        assert sorted(r.id for r in query.collect()) == [i for i in range(40, 50) if 4 in more]
        assert files_read(query) == count


def test_without_an_answer_a_join_reads_all_files(
    spark: Any, lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whether Python fails, says what makes no sense, or the catalog is closed meanwhile, even as it is asked."""
    from pyspark.sql import functions as F

    def fail(self: Any, text: str) -> str:
        raise RuntimeError("no answer")

    days = spark.createDataFrame([(row(35)["day"],)], "day date")
    for apply in (fail, lambda self, text: "0"):
        with monkeypatch.context() as m:
            m.setattr(FilePruning, "apply", apply)
            frame = lake.load_table("ns.days").scan().to_spark(spark)
            query = frame.join(F.broadcast(days), "day").select("id")
            assert sorted(r.id for r in query.collect()) == list(range(30, 40))
            assert files_read(query) == DAYS + 1
    with icecore.open(tmp_path / "lake", actor="test") as catalog:
        catalog.create_namespace("ns")
        other = catalog.create_table("ns.t", SCHEMA, partition_spec=["day"])
        other.append([row(35), row(45)])
        frame = other.scan().to_spark(spark)
        answered = FilePruning.apply

        def close(self: FilePruning, text: str) -> str:
            catalog.close()
            return answered(self, text)

        monkeypatch.setattr(FilePruning, "apply", close)
        asking = other.scan().to_spark(spark).join(F.broadcast(days), "day")
        assert [r.id for r in asking.collect()] == [35]
        assert files_read(asking) == 2
    assert [r.id for r in frame.join(F.broadcast(days), "day").collect()] == [35]
