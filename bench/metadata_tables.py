"""Metadata tables of a table with many files, PyIceberg's `inspect` beside ours, in CPU time of the whole process.

usage: python bench/metadata_tables.py TABLE_FOLDER ...

A folder is a table with metadata only. `cold` is the first call in a process whose warehouse has read nothing of the
table before: the earliest calls load modules, expand and decode for all later ones. `first` is the first call in
another process, `again` the best of three calls after it, for which small results are kept. Results go to
results/metadata_tables.json.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
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
"""All metadata tables that PyIceberg has; first come those that have few rows however many files there are."""
AGAIN = 3


def cold(folder: str, metadata: str) -> dict[str, Any]:
    """The very first calls of icecore, in a new warehouse."""
    import icecore

    with icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        inspect = catalog.register_table("ns.t", metadata).inspect
        return measured(inspect, "cold")


def warm(folder: str, metadata: str) -> dict[str, Any]:
    """The calls of icecore in a process that has opened the table of an existing warehouse."""
    import icecore

    with icecore.open(folder) as catalog:
        inspect = catalog.load_table("ns.t").inspect
        found = measured(inspect, "first")
        for name in TABLES:
            found[name]["again_cpu_s"] = cpu_seconds(getattr(inspect, name), AGAIN)
        return {**found, "peak_memory_mb": peak_memory_mb()}


def pyiceberg(folder: str, metadata: str) -> dict[str, Any]:
    from pyiceberg.table import StaticTable

    return measured(StaticTable.from_metadata(metadata).inspect, "first")


def measured(inspect: Any, call: str) -> dict[str, Any]:
    """The rows and CPU time of each metadata table, and the memory that all of them took."""
    found: dict[str, Any] = {}
    for name in TABLES:
        rows: list[int] = []
        seconds = cpu_seconds(lambda name=name, rows=rows: rows.append(getattr(inspect, name)().num_rows))
        found[name] = {"rows": rows[0], f"{call}_cpu_s": seconds}
    return {**found, "peak_memory_mb": peak_memory_mb()}


RUNS = {run.__name__: run for run in (cold, warm, pyiceberg)}


def both(metadata: str) -> dict[str, Any]:
    """The results of both engines, every run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        of = {
            name: json.loads(
                subprocess.run(
                    [sys.executable, __file__, "--one", name, folder, metadata], check=True, capture_output=True
                ).stdout
            )
            for name in RUNS
        }
    ours = {name: {**of["cold"][name], **of["warm"][name]} for name in TABLES}
    peak = max(of[run]["peak_memory_mb"] for run in ("cold", "warm"))
    return {"icecore": {**ours, "peak_memory_mb": peak}, "pyiceberg": of["pyiceberg"]}


def main() -> None:
    results: dict[str, Any] = {}
    for folder in map(Path, sys.argv[1:]):
        of = both(str(folder.absolute() / "metadata" / "v1.metadata.json"))
        results[folder.name] = of
        for name in TABLES:
            ours, theirs = of["icecore"][name], of["pyiceberg"][name]
            assert ours["rows"] == theirs["rows"], name
            peer = theirs["first_cpu_s"]
            told = ", ".join(f"{call} {peer / ours[f'{call}_cpu_s']:.0f}" for call in ("cold", "first", "again"))
            print(f"{folder.name} {name}: PyIceberg {peer:.2f} s, times as much: {told}", flush=True)
    save("metadata_tables", results)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        print(json.dumps(RUNS[sys.argv[2]](*sys.argv[3:])))
    else:
        main()
