"""Planning in hard cases: a process that has just started, many deletes, manifests and columns, one more commit.

usage: python bench/planning.py TABLE_FOLDER [LARGE_TABLE_FOLDER]

The first table (about 100,000 files) is the base of the cases with deletes and with many manifests. The large one, by
default the same, serves for the first expansion, for memory, and for processes that start from segments. Results go to
results/planning.json. Every case runs in a process of its own; times are CPU of the whole process where it says so.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measure import as_installed, cpu_seconds, peak_memory_mb, save

PARTITION = "ts >= TIMESTAMP '2023-01-10 00:00:00' AND ts < TIMESTAMP '2023-01-11 00:00:00'"
POINT = "id = 1234567"
WIDE_VALUE = 1_234_567
REPEAT = 15


@contextmanager
def registered(metadata: str, warehouse: str) -> Iterator[Any]:
    """The table of a metadata file in a new warehouse. Cases import icecore themselves, as one times the import."""
    import icecore

    with icecore.open(warehouse) as catalog:
        catalog.create_namespace("ns")
        yield catalog.register_table("ns.t", metadata)


def expand(metadata: str, warehouse: str) -> dict[str, Any]:
    """The first plan of all files, from manifests to Arrow, then warm plans of all files and of a point."""
    with registered(metadata, warehouse) as table:
        files = 0

        def plan() -> None:
            nonlocal files
            files = table.scan().plan().to_arrow().num_rows

        started, cpu = time.perf_counter(), time.process_time()
        plan()
        first = {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}
        warm = 1000 * cpu_seconds(plan, REPEAT)
        point = 1000 * cpu_seconds(lambda: table.scan(POINT).plan().to_arrow(), REPEAT)
        rate = files / first["cpu_s"]
        return {**first, "files": files, "files_per_cpu_s": rate, "warm_all_cpu_ms": warm, "warm_point_cpu_ms": point}


def start(_: str, warehouse: str) -> dict[str, Any]:
    """The time from the import of icecore to the first plan, over segments that are there."""
    begun, cpu = time.perf_counter(), time.process_time()
    import icecore

    with icecore.open(warehouse) as catalog:
        files = catalog.load_table("ns.t").scan(POINT).plan().to_arrow().num_rows
        return {"wall_s": time.perf_counter() - begun, "cpu_s": time.process_time() - cpu, "files": files}


def one_more(_: str, warehouse: str) -> dict[str, Any]:
    """A plan after one more commit, which added one manifest."""
    import pyarrow as pa

    import icecore

    with icecore.open(warehouse) as catalog:
        table = catalog.load_table("ns.t")
        table.set_properties({"commit.manifest-merge.enabled": "false"})
        plan = lambda: table.scan(POINT).plan().to_arrow().num_rows
        plan()
        schema = table.scan(limit=0).to_arrow().schema
        row = {f.name: [None if f.nullable else 1] for f in schema}
        table.append(pa.table({n: pa.array(v, schema.field(n).type) for n, v in row.items()}, schema=schema))
        return {"cpu_ms": 1000 * cpu_seconds(plan)}


def deletes(metadata: str, warehouse: str) -> dict[str, Any]:
    """Warm plans with ten thousand position and a hundred equality delete files."""
    with registered(metadata, warehouse) as table:
        out: dict[str, Any] = {}
        for name, condition in (("all", None), ("partition", PARTITION), ("point", POINT)):
            plan = lambda condition=condition: table.scan(condition).plan().to_arrow()
            found = plan()
            pairs = sum(len(x) for x in found["delete_files"].to_pylist())
            out[name] = {"files": found.num_rows, "pairs": pairs, "cpu_ms": 1000 * cpu_seconds(plan, REPEAT)}
        return out


def wide(metadata: str, warehouse: str) -> dict[str, Any]:
    """A table of a thousand columns: the first plan of all files, then warm plans, each by another column."""
    with registered(metadata, warehouse) as table:
        everything: list[int] = []
        first = cpu_seconds(lambda: everything.append(table.scan().plan().to_arrow().num_rows))
        columns = iter(range(1000))
        other = lambda: table.scan(f"c{next(columns)} = {WIDE_VALUE}").plan().to_arrow()
        planned = other().num_rows
        warm = 1000 * cpu_seconds(other, REPEAT)
        return {"files": everything[0], "cpu_s": first, "planned": planned, "warm_point_cpu_ms": warm}


def wide_peer(metadata: str, _: str) -> dict[str, Any]:
    """PyIceberg's plan of the same table by one column."""
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(metadata)
    found: list[int] = []
    seconds = cpu_seconds(lambda: found.append(len(list(table.scan(f"c1 = {WIDE_VALUE}").plan_files()))))
    return {"planned": found[0], "cpu_s": seconds}


CASES: dict[str, Callable[[str, str], dict[str, Any]]] = {
    f.__name__: f for f in (expand, start, one_more, deletes, wide, wide_peer)
}


def run(case: str, metadata: Path | str, warehouse: Path) -> Any:
    command = [sys.executable, __file__, "--case", case, str(metadata), str(warehouse)]
    env = as_installed(str(warehouse.with_name("bytecode")))
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env).stdout)
    print(f"{case:10} {found}")
    return found


def main() -> None:
    if sys.argv[1] == "--case":
        found = CASES[sys.argv[2]](sys.argv[3], sys.argv[4])
        print(json.dumps({**found, "peak_memory_mb": peak_memory_mb()}))
        return
    from tables import many_manifests, with_deletes
    from wide_table import wide_table

    source = Path(sys.argv[1]).absolute()
    large = Path(sys.argv[2]).absolute() if len(sys.argv) > 2 else source
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        work = Path(folder)
        warehouse = work / "large"
        results["large"] = {
            "expand": run("expand", large / "metadata" / "v1.metadata.json", warehouse),
            "start": run("start", "", warehouse),
        }
        results["deletes"] = run("deletes", with_deletes(source, work / "deletes"), work / "w2")
        warehouse = work / "w3"
        metadata = many_manifests(source, work / "many")
        results["many manifests"] = {
            "expand": run("expand", metadata, warehouse),
            "start": run("start", "", warehouse),
            "one more commit": run("one_more", "", warehouse),
        }
        shutil.rmtree(work / "many")
        metadata = wide_table(work / "wide")
        results["a thousand columns"] = {
            "icecore": run("wide", metadata, work / "w4"),
            "pyiceberg": run("wide_peer", metadata, work / "none"),
        }
    save("planning", results)


if __name__ == "__main__":
    main()
