"""A full audit of warehouses of many tables, in CPU time: no peer has one, so it is compared with itself.

usage: python bench/audit.py [TABLES ...]

Each table has five commits, of which one deletes rows. The time for each table must not grow with their number, and the
audit of a single named table must cost the same in a warehouse of any size. Results go to results/audit.json.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any

import pyarrow as pa
from measure import cpu_seconds, peak_memory_mb, save

import icecore

SIZES = (125, 250, 500, 1000)
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.float64())])


def fill(catalog: icecore.Catalog, tables: int) -> None:
    """Makes tables of five commits each."""
    catalog.create_namespace("ns")
    for number in range(tables):
        table = catalog.create_table(f"ns.t{number}", SCHEMA, partition_spec=["city"])
        for commit in range(4):
            rows = [{"id": commit * 10 + i, "city": f"c{i % 2}", "amount": i / 2} for i in range(10)]
            table.append(rows, message="rows")
        table.delete("id = 3", message="not ours")


def measured(tables: int) -> dict[str, Any]:
    """The CPU time of a full audit of a warehouse of `tables` tables, and of an audit of one of them."""
    with tempfile.TemporaryDirectory() as folder:
        with icecore.open(folder) as catalog:
            fill(catalog, tables)
        with icecore.open(folder, read_only=True) as catalog:
            started = time.process_time()
            findings = len(catalog.audit().findings)
            all_cpu_s = time.process_time() - started
            rules = [r.id for r in catalog.audit_rules() if r.scope == "table"]
            one_cpu_s = cpu_seconds(lambda: catalog.audit(tables=["ns.t0"], rules=rules), 3)
    return {"findings": findings, "all_cpu_s": all_cpu_s, "one_table_cpu_s": one_cpu_s}


def main() -> None:
    results = {}
    for tables in map(int, sys.argv[1:] or SIZES):
        found = results[str(tables)] = measured(tables)
        each = found["all_cpu_s"] / tables * 1000
        one = found["one_table_cpu_s"] * 1000
        print(f"{tables} tables: {found['all_cpu_s']:.1f} s, {each:.1f} ms a table; one of them alone {one:.0f} ms")
    save("audit", {"warehouses": results, "peak_memory_mb": peak_memory_mb()})


if __name__ == "__main__":
    main()
