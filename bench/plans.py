"""CPU of a plan: icecore, PyIceberg, and a bare DuckDB filter over the same rows as the limit.

usage: python bench/plans.py TABLE_FOLDER...

A folder is a table with metadata only, and `truth.parquet`, one row for each live file with typed bounds. The filter
`all` is none, `partition` one day, `bounds` a range of a column that is no partition source, `point` one id.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
from measure import cpu_seconds, peak_memory_mb, save

import icecore

REPEAT = 15
FILTERS = {
    "all": None,
    "partition": "ts >= TIMESTAMP '2023-01-10 00:00:00' AND ts < TIMESTAMP '2023-01-11 00:00:00'",
    "bounds": "seqno >= 1000000000 AND seqno < 1001000000",
    "point": "id = 1234567",
}
THEIRS = {
    "all": "true",
    "partition": "ts >= '2023-01-10T00:00:00' and ts < '2023-01-11T00:00:00'",
    "bounds": "seqno >= 1000000000 and seqno < 1001000000",
    "point": "id = 1234567",
}
BARE = {
    "all": "TRUE",
    "partition": "part_day = DATE '2023-01-10'",
    "bounds": "lower_9 < 1001000000 AND upper_9 >= 1000000000",
    "point": "lower_1 <= 1234567 AND upper_1 >= 1234567",
}


def of_icecore(metadata: Path) -> dict[str, Any]:
    """Warm plans to Arrow through the public API, the first plan, and one from segments in a fresh catalog."""
    out: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        with icecore.open(folder) as catalog:
            catalog.create_namespace("ns")
            table = catalog.register_table("ns.t", str(metadata))
            started, cpu = time.perf_counter(), time.process_time()
            files = table.scan().plan().counts.files_planned
            out["expand"] = {
                "wall_s": time.perf_counter() - started,
                "cpu_s": time.process_time() - cpu,
                "files": files,
            }
            for name, condition in FILTERS.items():

                def plan(condition: str | None = condition) -> int:
                    return int(table.scan(condition).plan().to_arrow().num_rows)

                out[name] = {"files": plan(), "cpu_ms": 1000 * cpu_seconds(plan, REPEAT)}
        with icecore.open(folder) as catalog:
            table = catalog.load_table("ns.t")
            out["from segments"] = {"cpu_s": cpu_seconds(lambda: table.scan(FILTERS["point"]).plan().to_arrow())}
    out["peak_memory_mb"] = peak_memory_mb()
    return out


def of_duckdb(truth: Path) -> dict[str, Any]:
    """The same answers from a table that is loaded already, with nothing around the query."""
    con = duckdb.connect(":memory:")
    con.execute(f"CREATE TABLE truth AS SELECT * FROM read_parquet('{truth}')").fetchall()
    out = {}
    for name, condition in BARE.items():
        sql = f"SELECT path, size, record_count FROM truth WHERE {condition}"

        def run(sql: str = sql) -> int:
            return int(con.sql(sql).to_arrow_table().num_rows)

        out[name] = {"files": run(), "cpu_ms": 1000 * cpu_seconds(run, REPEAT)}
    return out


def of_pyiceberg(metadata: Path) -> dict[str, Any]:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(str(metadata))
    out = {}
    for name, condition in THEIRS.items():
        files: list[int] = []

        def run(condition: str = condition, files: list[int] = files) -> None:
            files.append(sum(1 for _ in table.scan(row_filter=condition).plan_files()))

        cpu = cpu_seconds(run)
        out[name] = {"files": files[0], "cpu_ms": 1000 * cpu}
    return out


def main() -> None:
    results = {}
    for folder in map(Path, sys.argv[1:]):
        metadata = folder.absolute() / "metadata" / "v1.metadata.json"
        ours, bare = of_icecore(metadata), of_duckdb(folder / "truth.parquet")
        theirs = of_pyiceberg(metadata)
        results[folder.name] = {"icecore": ours, "duckdb": bare, "pyiceberg": theirs}
        print(f"{folder.name}: first plan {ours['expand']['cpu_s']:.2f} s CPU, peak {ours['peak_memory_mb']:.0f} MB")
        for name in FILTERS:
            a, b, c = ours[name], bare[name], theirs[name]
            print(
                f"  {name:10} icecore {a['cpu_ms']:9.1f} ms ({a['files']} files)   bare filter {b['cpu_ms']:7.1f} ms"
                f" ({b['files']})   pyiceberg {c['cpu_ms']:10.1f} ms ({c['files']})   {c['cpu_ms'] / a['cpu_ms']:7.0f}x"
            )
    save("plans", results)


if __name__ == "__main__":
    main()
