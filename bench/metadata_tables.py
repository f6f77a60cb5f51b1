"""Metadata tables of a table with many files, PyIceberg's `inspect` beside ours, in CPU time of the whole process.

usage: python bench/metadata_tables.py TABLE_FOLDER ...

A folder is a table with metadata only. `first` is the first call of a process that has opened the table (that of the
first table loads modules too), `again` the best of three after it, of what is kept where it is small. Each engine and
table is a process of its own. Results go to results/metadata_tables.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import cpu_seconds, peak_memory_mb, save

TABLES = (
    "refs",
    "snapshots",
    "history",
    "metadata_log_entries",
    "manifests",
    "all_manifests",
    "partitions",
    "delete_files",
    "all_delete_files",
    "files",
    "data_files",
    "entries",
    "all_files",
    "all_data_files",
)
"""All that PyIceberg has, those that have few rows however many files there are first."""
AGAIN = 3


def of_icecore(metadata: str) -> dict[str, Any]:
    import icecore

    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        return measured(catalog.register_table("ns.t", metadata).inspect, AGAIN)


def of_pyiceberg(metadata: str) -> dict[str, Any]:
    from pyiceberg.table import StaticTable

    return measured(StaticTable.from_metadata(metadata).inspect, 0)


def measured(inspect: Any, again: int) -> dict[str, Any]:
    """The CPU time of each metadata table; without `again` the first call stands for all."""
    found: dict[str, Any] = {}
    for name in TABLES:
        started = time.process_time()
        rows = getattr(inspect, name)().num_rows
        first = time.process_time() - started
        best = cpu_seconds(getattr(inspect, name), again) if again else first
        found[name] = {"rows": rows, "first_cpu_s": first, "again_cpu_s": best}
    return {**found, "peak_memory_mb": peak_memory_mb()}


ENGINES = {"icecore": of_icecore, "pyiceberg": of_pyiceberg}


def main() -> None:
    results: dict[str, Any] = {}
    for folder in map(Path, sys.argv[1:]):
        metadata = str(folder.absolute() / "metadata" / "v1.metadata.json")
        run = [sys.executable, __file__, "--one"]
        of = {
            engine: json.loads(subprocess.run([*run, engine, metadata], check=True, capture_output=True).stdout)
            for engine in ENGINES
        }
        results[folder.name] = of
        for name in TABLES:
            ours, theirs = (of[engine][name] for engine in ENGINES)
            assert ours["rows"] == theirs["rows"], name
            told = ", ".join(
                f"{when} {theirs['first_cpu_s'] / ours[f'{when}_cpu_s']:.0f}" for when in ("first", "again")
            )
            print(f"{folder.name} {name}: PyIceberg {theirs['first_cpu_s']:.2f} s, times as much: {told}")
    save("metadata_tables", results)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        print(json.dumps(ENGINES[sys.argv[2]](sys.argv[3])))
    else:
        main()
