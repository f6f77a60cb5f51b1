"""One-file appends a second as the history grows; then a replay of that history, and a reopening.

usage: python bench/commits.py [COMMITS [PEER_COMMITS]]

10,000 and 1,000 unless given: PyIceberg takes longer with each commit. Each commit appends one row in a Parquet file of
its own. icecore runs in both modes, PyIceberg on its `sql` catalog in SQLite, on the same disk. An append to another
table comes first, as the first of a process loads modules.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from measure import as_installed, cpu_seconds, save

import icecore
from icecore.engine.log.store import EventStore
from icecore.engine.metadata.fold import fold

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROW = pa.table({"id": [1], "name": ["x"]}, schema=SCHEMA)
MARKS = (10, 100, 300, 1_000, 3_000, 10_000)
REOPEN = """
import sys, time
import icecore
started = time.perf_counter()
table = icecore.open(sys.argv[1]).load_table("ns.t")
assert len(table.snapshots()) == int(sys.argv[2])
print(time.perf_counter() - started)
"""
REOPEN_PEER = """
import sys, time
from pyiceberg.catalog.sql import SqlCatalog
started = time.perf_counter()
table = SqlCatalog("bench", uri=f"sqlite:///{sys.argv[1]}/catalog.db", warehouse=f"file://{sys.argv[1]}").load_table("ns.t")
assert len(table.metadata.snapshots) == int(sys.argv[2])
print(time.perf_counter() - started)
"""


def of_icecore(folder: str, properties: dict[str, str]) -> Callable[[], None]:
    catalog = icecore.open(folder)
    catalog.create_namespace("ns")
    catalog.create_table("ns.first", SCHEMA, properties=properties).append(ROW)
    table = catalog.create_table("ns.t", SCHEMA, properties=properties)
    return lambda: table.append(ROW)


def of_pyiceberg(folder: str) -> Callable[[], None]:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("ns")
    catalog.create_table("ns.first", SCHEMA).append(ROW)
    table = catalog.create_table("ns.t", SCHEMA)
    return lambda: table.append(ROW)


def measure(append: Callable[[], None], commits: int) -> list[dict[str, float]]:
    """The rate of commits and the CPU time of each, for every stretch of the history up to a mark."""
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


def replay(folder: str) -> dict[str, float]:
    """A fold of all events of the table from the first on, no checkpoint used."""
    store = EventStore(Path(folder) / "icecore.db", create=False, read_only=True)
    stream = [e.stream for e in store.events() if e.stream.startswith("table")][-1]
    events = sum(1 for _ in store.stream_events(stream))
    seconds = cpu_seconds(lambda: fold(None, store.stream_events(stream)))
    return {"events": events, "cpu_s": seconds, "events_per_s": events / seconds}


def reopen(script: str, folder: str, commits: int) -> float:
    """The milliseconds that a fresh process takes from its import to the loaded table: the best of three.

    Modules that load when they are needed count, which most of icecore's do; the import that comes first does not.
    """
    command = [sys.executable, "-c", script, folder, str(commits)]
    with tempfile.TemporaryDirectory() as cache:
        return min(1000 * float(subprocess.check_output(command, env=as_installed(cache))) for _ in range(3))


def main() -> None:
    commits = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    peer_commits = int(sys.argv[2]) if len(sys.argv) > 2 else min(commits, 1_000)
    subjects: dict[str, tuple[Callable[[str], Callable[[], None]], int, str]] = {
        "icecore": (lambda folder: of_icecore(folder, {}), commits, REOPEN),
        "icecore, materialized by hand": (
            lambda folder: of_icecore(folder, {"icecore.materialize": "manual"}),
            commits,
            REOPEN,
        ),
        "pyiceberg": (of_pyiceberg, peer_commits, REOPEN_PEER),
    }
    results: dict[str, Any] = {"appends": {}, "reopen_ms": {}}
    for name, (make, count, script) in subjects.items():
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            rows = results["appends"][name] = measure(make(folder), count)
            done = int(rows[-1]["history"])
            results["reopen_ms"][name] = {"history": done, "ms": reopen(script, folder, done)}
            if name == "icecore":
                results["replay"] = replay(folder)
        for row in rows:
            print(f"{name:32} {row['history']:6} {row['commits_per_s']:8.1f}/s {row['cpu_ms_per_commit']:8.1f} ms CPU")
        print(f"{name:32} reopened in {results['reopen_ms'][name]['ms']:.0f} ms")
    print(f"replay of {results['replay']['events']} events: {results['replay']['cpu_s']:.2f} s CPU")
    save("commits", results)


if __name__ == "__main__":
    main()
