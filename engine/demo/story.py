"""The demo in eight steps: open, create, load, evolve, plan, read, audit, look back. Each can be read alone."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define

import icecore
from icecore.engine.common.location import local_path
from icecore.engine.demo import flights as data
from icecore.engine.demo.tools import headline, print_commit, progress_bar, short, spark_session
from icecore.engine.display.output import print_arrow, print_rows, print_text, waiting
from icecore.engine.display.plan_text import plan_steps
from icecore.engine.errors import IcecoreError, ValidationError
from icecore.engine.properties.table_properties import TARGET_FILE_SIZE
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.spec.types import DoubleType
from icecore.engine.table.table import Table

FLIGHTS = "demo.flights"
FILTER = "dest = 'SFO' AND dep_delay > 120"
LAST_QUARTER = "time_hour >= '2013-10-01T00:00:00+00:00'"
QUERIES = "demo/flights.sql"


@define
class Demo:
    """The state that the steps hand on: the warehouse, the CSV, and a Spark session where there is Spark."""

    catalog: icecore.Catalog
    csv: Path
    spark: Any = None

    @property
    def flights(self) -> Table:
        """The table of flights."""
        return self.catalog.load_table(FLIGHTS)

    def quarter(self, number: int) -> Any:
        """The flights of a quarter, 0 to 3: a Spark DataFrame, or Arrow."""
        start, end = data.QUARTERS[number : number + 2]
        if self.spark is None:
            return data.read_with_arrow(self.csv, start, end)
        return data.read_with_spark(self.spark, self.csv, start, end)

    def count(self, scan: DataScan) -> int:
        """The number of rows of a scan, counted by Spark where there is Spark."""
        return scan.count() if self.spark is None else int(scan.to_spark(self.spark).count())


def tell(folder: Path, *, with_spark: bool = True, rows: int | None = None) -> None:
    """Runs the demo in a new or empty folder. `rows` takes a sample of the flights.

    Raises ValidationError where the folder holds something, MissingDependencyError where the data isn't installed.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValidationError(f"the demo wants a new or empty folder, and {folder} holds something")
    started = time.perf_counter()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        csv = data.unpack_flights(scratch, rows)
        demo = Demo(stack.enter_context(open_warehouse(folder)), csv)
        create_tables(demo)
        if with_spark:
            demo.spark = stack.enter_context(spark_session())
        load(demo)
        evolve(demo)
        scan = plan(demo)
        read(demo, scan)
        audit(demo)
        rebuild(demo)
        look_back(demo, folder)
    headline(f"Done in {time.perf_counter() - started:.0f} s. Try next:")
    print_text("\n".join(f"    {command}" for command in next_commands(folder)))


# 1


def open_warehouse(folder: Path) -> icecore.Catalog:
    """The first step: a new warehouse in a folder."""
    headline("1. Open a warehouse folder: an event log in SQLite, nothing to start")
    catalog = icecore.open(folder, actor="demo")
    print_text(f"icecore.open({str(folder)!r})")
    return catalog


# 2


def create_tables(demo: Demo) -> None:
    """The second step: the flights' table, and four small ones with their rows."""
    headline("2. Create demo.flights and four small tables")
    demo.catalog.create_namespace("demo", message="a place for the demo")
    demo.catalog.create_table(
        FLIGHTS,
        data.FLIGHTS,
        partition_spec=["month(time_hour)", "bucket(8, tailnum)"],
        sort_order=["dest", "dep_delay"],
        # Small files, so that a year of flights is enough of them to be worth planning.
        properties={TARGET_FILE_SIZE.name: str(16 * 1024)},
        author="ann",
        message="all flights from New York",
    )
    print_text(f"{FLIGHTS}: partitioned by month(time_hour), bucket(8, tailnum); sorted by dest, dep_delay")
    for name in data.SMALL_TABLES:
        rows = data.small_table(name)
        table = demo.catalog.create_table(f"demo.{name}", rows.schema, author="ann")
        table.append(rows, author="ann", message=f"{name} as published")
        print_text(f"demo.{name}: {rows.num_rows:,} rows")


# 3


def load(demo: Demo) -> None:
    """The third step: the flights, in one commit a quarter."""
    headline(f"3. Load the flights with {'PySpark' if demo.spark else 'Arrow'}, one commit a quarter")
    flights = demo.flights
    with progress_bar(demo.spark, "loading", 4) as advance:
        for number in range(4):
            with advance(f"quarter {number + 1}"):
                flights.append(demo.quarter(number), author="loader", message=f"flights of 2013, quarter {number + 1}")
            print_commit(flights)


# 4


def evolve(demo: Demo) -> None:
    """The fourth step: a new column, another name, another partitioning, a commit and a tag."""
    headline("4. Evolve it: a column more, a better name, another partitioning; then commit again, and tag the year")
    flights = demo.flights
    with flights.transaction(author="ann", message="speed, and files by destination from now on") as change:
        with change.update_schema() as schema:
            schema.add_column("mph", DoubleType(), "ground speed")
            schema.rename_column("flight", "flight_number")
        with change.update_spec() as spec:
            spec.remove_field("tailnum_bucket_8")
            spec.add_field("dest")
    print_text("one event: add mph, rename flight to flight_number, drop bucket(8, tailnum), partition by dest")
    with progress_bar(demo.spark, "rewriting", 1) as advance, advance("quarter 4"):
        rows = with_speed(demo, flights.scan(LAST_QUARTER))
        flights.overwrite(rows, LAST_QUARTER, author="bob", message="speed worked out for the last quarter")
    print_commit(flights)
    snapshot = flights.current_snapshot()
    assert snapshot is not None, "four quarters were appended"
    flights.manage_snapshots(author="ann", message="the year is closed").create_tag(
        snapshot.snapshot_id, "year-2013"
    ).commit()
    print_text(f"tag year-2013 -> snapshot {snapshot.snapshot_id}")


def with_speed(demo: Demo, scan: DataScan) -> Any:
    """The rows of a scan with `mph` worked out from distance and time in the air."""
    if demo.spark is not None:
        from pyspark.sql import functions as F

        return scan.to_spark(demo.spark).withColumn("mph", F.col("distance") / F.col("air_time") * 60)
    rows = scan.to_arrow()
    hours = pc.divide(rows["air_time"].cast(pa.float64()), 60.0)
    return rows.set_column(rows.column_names.index("mph"), "mph", pc.divide(rows["distance"], hours))


# 5


def plan(demo: Demo) -> DataScan:
    """The fifth step: a plan, with the number of files that each step left out."""
    headline(f"5. Plan {FILTER} in DuckDB SQL")
    flights = demo.flights
    first = flights.scan(FILTER).plan().counts
    scan = flights.scan(FILTER)
    counts = scan.plan().counts
    print_rows(("", "files"), plan_steps(counts))
    print_text(
        f"\n{counts.files_planned} of {counts.files_total} files, with {counts.records_planned:,} of "
        f"{counts.records_total:,} rows, planned in {counts.seconds * 1000:.1f} ms\n"
        f"(the first time, when the manifests had to be read: {first.seconds * 1000:.0f} ms)"
    )
    return scan


# 6


def read(demo: Demo, scan: DataScan) -> None:
    """The sixth step: the planned rows, counted and checked.

    Raises IcecoreError where the raw CSV has another count.
    """
    reader = "Spark" if demo.spark else "Arrow"
    headline(f"6. Hand the plan to {reader}, count, and check against the raw CSV")
    count = demo.count(scan)
    with duckdb.connect(":memory:") as connection:
        [(expected,)] = duck.rows(connection, query(QUERIES, "count_in_csv"), {"path": str(demo.csv)})
    print_rows(("asked", "flights"), [(f"{reader}, the planned files", count), ("DuckDB, the whole CSV", expected)])
    if count != expected:
        raise IcecoreError(f"the plan gives {count} flights, the CSV {expected}")


# 7


def audit(demo: Demo) -> None:
    """The seventh step: the log, an SQL query, a verification. Raises IcecoreError where that finds a fault."""
    headline("7. The log: who, when, what, why")
    print_arrow(demo.catalog.sql(query(QUERIES, "log")))
    headline("   In SQL: which commit wrote the files that are live now")
    print_arrow(demo.catalog.sql(query(QUERIES, "who_wrote_what_is_live")))
    headline("   Verified against the log: every event, read model and file")
    with waiting("reading every file"):
        result = demo.catalog.verify()
    print_text(str(result))
    if not result.ok:
        raise IcecoreError("verify found problems")


def rebuild(demo: Demo) -> None:
    """The encore: all metadata deleted and rebuilt. Raises IcecoreError where a file differs."""
    headline("   Deleted and rebuilt from the log: the metadata folders")
    folders = [Path(local_path(t.location()) or "") / "metadata" for t in demo.catalog.tables()]
    before = digests(folders)
    size = sum(path.stat().st_size for path in before)
    for folder in folders:
        shutil.rmtree(folder)
    started = time.perf_counter()
    with waiting("writing every file again"):
        demo.catalog.rebuild()
    seconds = time.perf_counter() - started
    after = digests(folders)
    same = sum(after.get(path) == digest for path, digest in before.items())
    print_text(
        f"{len(before)} files ({size / 1024:,.0f} KiB) deleted, {len(after)} written again in {seconds:.1f} s, "
        f"{same} have the same bytes"
    )
    if before != after:
        raise IcecoreError("the rebuilt metadata differs from what was deleted")


# 8


def look_back(demo: Demo, folder: Path) -> None:
    """The last step: which commits brought some rows, what the rules of audits find, and a report of it all."""
    headline(f"8. Look back: which commits brought the flights of {FILTER}")
    with waiting("asking each snapshot"):
        rows = demo.flights.blame(FILTER, selected_fields=("dest",))
    brought = rows.group_by(["_position", "_actor", "_message"]).aggregate([([], "count_all")]).sort_by("_position")
    print_rows(("position", "who", "why", "flights"), [tuple(row.values()) for row in brought.to_pylist()])
    headline("   Audited by rules")
    with waiting("applying the rules"):
        print_text(str(demo.catalog.audit()))
    print_text(f"\nAll of it as a page: {short(demo.catalog.report(folder / 'report.html'))}")


def digests(folders: list[Path]) -> dict[Path, str]:
    """SHA-256 of every file in the folders."""
    files = (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def next_commands(folder: Path) -> list[str]:
    """Commands to type next."""
    program = Path(sys.argv[0]) if Path(sys.argv[0]).name == "icecore" else Path(sys.executable).with_name("icecore")
    shown = "icecore" if shutil.which("icecore") == str(program) else short(program)
    start = f"{shown} --warehouse {short(folder)}"
    return [
        f"{start} plan {FLIGHTS} --where \"dest = 'LAX' AND mph > 550\"",
        f"{start} log {FLIGHTS} --full --limit 1",
        f'{start} sql "SELECT actor, count(*) AS events FROM log GROUP BY ALL"',
    ]
