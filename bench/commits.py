"""How many one-file appends a second, as the history grows: icecore in both modes, and PyIceberg on SQLite.

usage: python bench/commits.py [COMMITS]      (300 unless given; each appends one row in a Parquet file of its own)
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from measure import save

import icecore

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROW = pa.table({"id": [1], "name": ["x"]}, schema=SCHEMA)
MARKS = (10, 100, 300, 1_000, 3_000, 10_000)


def of_icecore(folder: str, properties: dict[str, str]) -> Callable[[], None]:
    catalog = icecore.open(folder)
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", SCHEMA, properties=properties)
    return lambda: table.append(ROW)


def of_pyiceberg(folder: str) -> Callable[[], None]:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", SCHEMA)
    return lambda: table.append(ROW)


def measure(append: Callable[[], None], commits: int) -> list[dict[str, float]]:
    """Commits and CPU of each stretch of the history, up to each mark."""
    out, done = [], 0
    for mark in (m for m in MARKS if m <= commits):
        started, cpu = time.perf_counter(), time.process_time()
        for _ in range(mark - done):
            append()
        wall, spent = time.perf_counter() - started, time.process_time() - cpu
        count = mark - done
        out.append({"history": mark, "commits_per_s": count / wall, "cpu_ms_per_commit": 1000 * spent / count})
        done = mark
    return out


def main() -> None:
    commits = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    subjects: dict[str, Callable[[str], Callable[[], None]]] = {
        "icecore": lambda folder: of_icecore(folder, {}),
        "icecore, materialized by hand": lambda folder: of_icecore(folder, {"icecore.materialize": "manual"}),
        "pyiceberg": of_pyiceberg,
    }
    results: dict[str, Any] = {}
    for name, make in subjects.items():
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            results[name] = measure(make(folder), commits)
        for row in results[name]:
            print(f"{name:32} {row['history']:6} {row['commits_per_s']:8.1f}/s {row['cpu_ms_per_commit']:8.1f} ms CPU")
    save("commits", results)


if __name__ == "__main__":
    main()
