"""The cases of bench/spark.py, each run by one engine in a process of its own, which prints what it measured as JSON.

usage: python bench/spark_cases.py ENGINE CASE FOLDER [JAR]
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from many_files import DAYS, FIRST_DAY

ENGINES = ("icecore", "iceberg", "parquet")
CASES = ("many", "large", "append", "merge", "planning")
APPENDED_ROWS, MERGED_ROWS = 10_000_000, 100_000
AGGREGATE = ("count(*)", "sum(id)", "sum(price)", "max(name)", "min(day)")


def tree_cpu_s() -> float:
    """CPU seconds of this process and of all below it that live or were waited for."""
    ticks = os.sysconf("SC_CLK_TCK")
    of, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            of[int(entry.name)] = sum(int(f) for f in fields[11:15])
    total = 0
    for process in of:
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        total += of[process] if above == os.getpid() else 0
    return total / ticks


def timed(action: Callable[[], Any]) -> dict[str, Any]:
    cpu, wall = tree_cpu_s(), time.perf_counter()
    answer = action()
    return {"wall_s": time.perf_counter() - wall, "cpu_s": tree_cpu_s() - cpu, "answer": answer}


def first_and_warm(action: Callable[[], Any], repeat: int = 3) -> dict[str, Any]:
    """The first time, and the best of those after it."""
    first, *others = [timed(action) for _ in range(1 + repeat)]
    out: dict[str, Any] = {"first": first}
    if others:
        out["warm"] = {k: min(o[k] for o in others) for k in ("wall_s", "cpu_s")}
    out["answer"] = first.pop("answer")
    return out


def best(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The lesser times of two runs; a case that failed in one of them has failed."""
    if "failed" in a or "failed" in b:
        return a if "failed" in a else b
    out: dict[str, Any] = {}
    for name, of in a.items():
        out[name] = {k: {t: min(v[t], b[name][k][t]) for t in v} if isinstance(v, dict) else v for k, v in of.items()}
    return out


class Engine:
    """One way to read and write the tables of a folder with Spark."""

    def __init__(self, name: str, folder: Path, jar: str) -> None:
        self.name, self.folder = name, folder
        self.scale = float((folder / "scale").read_text())
        conf: dict[str, str] = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        if name == "iceberg":
            conf |= {
                "spark.jars": jar,
                "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
                "spark.sql.catalog.peer": "org.apache.iceberg.spark.SparkCatalog",
                "spark.sql.catalog.peer.type": "hadoop",
                "spark.sql.catalog.peer.warehouse": str(folder / "peer"),
            }
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        conf |= {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "8"}
        builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "6g")
        for key, value in conf.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.spark.range(1000).selectExpr("sum(id)").collect()
        if name != "iceberg":
            import icecore

            self.catalog = icecore.open(folder / "warehouse")

    def read(self, table: str, condition: str | None = None, *, branch: str | None = None) -> Any:
        """The rows as a DataFrame; icecore's scan takes the condition, other engines filter the DataFrame."""
        where = self.folder / "warehouse" / "ns" / table
        if self.name == "icecore":
            return self.catalog.load_table(f"ns.{table}").scan(condition, ref=branch).to_spark(self.spark)
        if self.name == "iceberg":
            newest = max((where / "metadata").glob("*.metadata.json"), key=lambda p: p.name)
            reader = self.spark.read.format("iceberg")
            reader = reader.option("branch", branch) if branch else reader
            frame = reader.load(str(newest))
        else:
            frame = self.spark.read.option("pathGlobFilter", "*.parquet").parquet(str(where / "data"))
        return frame.where(condition) if condition else frame

    def partitions(self, table: str, condition: str | None = None) -> int:
        """The number of tasks that would read the rows; for it Spark plans all, down to the files of each task."""
        return int(self.read(table, condition)._jdf.queryExecution().toRdd().getNumPartitions())


def aggregated(frame: Any) -> list[str]:
    return [str(v) if not isinstance(v, float) else f"{v:.3f}" for v in frame.selectExpr(*AGGREGATE).collect()[0]]


def many(engine: Engine) -> dict[str, Any]:
    """A table of many small files."""

    half = int(500_000 * engine.scale)
    chosen = f"id >= {half} AND id < {half + 151}"
    found = {"DataFrame and physical plan": first_and_warm(lambda: engine.partitions("many"))}
    if engine.name != "parquet":
        found["the same, with a mapping of names"] = first_and_warm(lambda: engine.partitions("many_mapped"))
    return found | {
        "aggregate of all": first_and_warm(lambda: aggregated(engine.read("many")), 1),
        "151 rows, said to the plan": first_and_warm(lambda: engine.read("many", chosen).count()),
        "151 rows, said in Spark": first_and_warm(lambda: engine.read("many").where(chosen).count()),
        "count": first_and_warm(lambda: engine.read("many").count(), 2),
    }


def large(engine: Engine) -> dict[str, Any]:
    """Aggregates of a few large files: without deleted rows, and with 2 % and 30 % of them deleted."""
    aggregated(engine.spark.range(1000).selectExpr("id", "id price", "id name", "id day"))
    out = {"no row deleted": first_and_warm(lambda: aggregated(engine.read("large")), 5)}
    if engine.name != "parquet":
        for percent in (2, 30):
            branch = f"without_{percent}"
            frame = lambda branch=branch: aggregated(engine.read("large", branch=branch))
            out[f"{percent} % of rows deleted"] = first_and_warm(frame, 5)
    return out


def append(engine: Engine) -> dict[str, Any]:
    """Rows written by partition of a day."""
    from pyspark.sql import functions as F

    count = int(APPENDED_ROWS * engine.scale)
    day = F.date_add(F.lit("2024-01-01").cast("date"), (F.col("id") % 30).cast("int"))
    rows = engine.spark.range(0, count, 1, 4).select(
        "id", day.alias("day"), (F.rand(7) * 100).cast("int").alias("r"), F.rand(8).alias("price"),
        F.concat(F.lit("name "), (F.rand(9) * 1000).cast("int")).alias("name"),
    )  # fmt: skip
    name = f"appended_{time.time_ns()}"

    if engine.name == "icecore":
        table = engine.catalog.create_table(f"ns.{name}", _schema(), partition_spec=["day"])
        return {"append": first_and_warm(lambda: table.append(rows), 3)}
    if engine.name == "iceberg":
        columns = "id bigint, day date, r int, price double, name string"
        engine.spark.sql(f"CREATE TABLE peer.ns.{name} ({columns}) USING iceberg PARTITIONED BY (day)")
        return {"append": first_and_warm(lambda: rows.writeTo(f"peer.ns.{name}").append(), 3)}
    where = str(engine.folder / name)
    write = lambda frame: frame.write.mode("append").partitionBy("day").parquet(where)
    return {
        "append": first_and_warm(lambda: write(rows), 3),
        "append, clustered": first_and_warm(lambda: write(rows.repartition("day")), 3),
    }


def merge(engine: Engine) -> dict[str, Any]:
    """One in a hundred rows of a table updated and a few inserted, by copy-on-write and merge-on-read."""
    if engine.name == "parquet":
        return {}
    from pyspark.sql import functions as F

    count = int(APPENDED_ROWS * engine.scale)
    changed = engine.spark.range(0, int(MERGED_ROWS * engine.scale)).select(
        (F.col("id") * 101).alias("id"), F.lit(2.0).alias("price")
    )
    out: dict[str, Any] = {}
    for mode in ("copy-on-write", "merge-on-read"):
        name = f"merged_{mode.replace('-', '_')}_{time.time_ns()}"
        out[mode] = first_and_warm(_merge(engine, name, mode, count, changed), 0)
    return out


def _merge(engine: Engine, name: str, mode: str, count: int, changed: Any) -> Callable[[], Any]:
    rows = engine.spark.range(0, count, 1, 8).selectExpr(
        "id", "date_add(DATE '2024-01-01', CAST(id % 30 AS INT)) day", "CAST(id % 100 AS INT) r", "id / 7.0D price",
        "concat('name ', id % 1000) name",
    )  # fmt: skip
    properties = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    if engine.name == "icecore":
        table = engine.catalog.create_table(f"ns.{name}", _schema(), format_version=3, properties=properties)
        table.append(rows)
        matched = {"price": "source.price"}
        new = {"id": "source.id", "price": "source.price"}
        return lambda: (
            table.spark.merge(changed, "target.id = source.id")
            .when_matched_update(matched)
            .when_not_matched_insert(new)
            .commit()
        )
    listed = ", ".join(f"'{k}' = '{v}'" for k, v in {**properties, "format-version": "3"}.items())
    columns = "id bigint, day date, r int, price double, name string"
    engine.spark.sql(f"CREATE TABLE peer.ns.{name} ({columns}) USING iceberg TBLPROPERTIES ({listed})")
    rows.writeTo(f"peer.ns.{name}").append()
    changed.createOrReplaceTempView("changed")
    sql = (
        f"MERGE INTO peer.ns.{name} t USING changed s ON t.id = s.id WHEN MATCHED THEN UPDATE SET price = s.price "
        "WHEN NOT MATCHED THEN INSERT (id, price) VALUES (s.id, s.price)"
    )
    return lambda: len(engine.spark.sql(sql).collect())


def planning(engine: Engine) -> dict[str, Any]:
    """A table of a million files that Spark's tasks plan without any knowledge from before."""
    if engine.name == "parquet":
        return {}
    one_day = f"day = DATE '{date(1970, 1, 1) + timedelta(FIRST_DAY + DAYS // 2)}'"
    if engine.name == "iceberg":
        return {
            "one day of a thousand": first_and_warm(lambda: engine.partitions("planned", one_day)),
            "all files": first_and_warm(lambda: engine.partitions("planned"), 1),
        }

    def scan(condition: str | None) -> Any:
        return engine.catalog.load_table("ns.planned").scan(condition)

    def files(condition: str | None) -> int:
        return int(scan(condition).planned_by(engine.spark).plan().to_arrow().num_rows)

    return {
        "one day of a thousand": first_and_warm(lambda: files(one_day)),
        "all files": first_and_warm(lambda: files(None), 1),
        "all files, left in Spark": first_and_warm(lambda: scan(None).plan_frame(engine.spark).count(), 1),
    }


def _schema() -> Any:
    from spark_tables import SCHEMA

    return SCHEMA


def main() -> None:
    name, case, folder, *jar = sys.argv[1:]
    engine = Engine(name, Path(folder), jar[0] if jar else "")
    cases = {"many": many, "large": large, "append": append, "merge": merge, "planning": planning}
    print(json.dumps(cases[case](engine), default=str))


if __name__ == "__main__":
    main()
