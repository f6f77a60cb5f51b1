"""SQL over rows by `catalog.query`, beside DuckDB's own read_parquet on the same list of files, in CPU time.

usage: python bench/query.py [ROWS]

A table of 40 files, whole, and with a fiftieth of its rows deleted by deletion vectors. There `read_parquet` gives the
deleted rows too; `deletes joined` is read_parquet with an anti join by the deleted positions, which are in a table by
then. `query` goes from a text that was asked before to rows, `new text` from a new one, with another number where the
query has one, and `nothing kept` from a new one after all kept queries were dropped; `again` fetches the rows of an
answer once more. Results go to results/query.json.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from measure import cpu_seconds, peak_memory_mb, save

import icecore

FILES, ROWS, DELETED = 40, 2_000_000, 50
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.float64()), ("city", pa.string()), ("y", pa.int64())])
QUERIES = {
    "grouped": "SELECT city, sum(x), count(*) FROM {rows} GROUP BY city",
    "all columns": "SELECT sum(id), sum(x), max(city), sum(y) FROM {rows}",
    "a filter on rows": "SELECT count(*) FROM {rows} WHERE city = 'c7' AND y > 500 + {number}",
    "a count": "SELECT count(*) FROM {rows}",
    "a selective filter": "SELECT count(*), sum(x) FROM {rows} WHERE id BETWEEN 1000 + {number} AND 1100 + {number}",
}

WITHOUT_DELETED = (
    "(SELECT r.* FROM read_parquet({files}) AS r "
    "ANTI JOIN deleted AS d ON d.file = r.file_index AND d.pos = r.file_row_number)"
)


def fill(catalog: icecore.Catalog, rows: int) -> None:
    """Makes the two tables."""
    catalog.create_namespace("ns")
    properties = {"write.delete.mode": "merge-on-read"}
    each, dice = rows // FILES, np.random.default_rng(1)
    for name in ("whole", "deleted"):
        table = catalog.create_table(f"ns.{name}", SCHEMA, properties=properties, format_version=3)
        for start in range(0, each * FILES, each):
            ids = np.arange(start, start + each)
            cities = pa.array([f"c{i % 50}" for i in range(each)])
            table.append(pa.table([ids, dice.random(each), cities, dice.integers(0, 1000, each)], schema=SCHEMA))
    catalog.load_table("ns.deleted").delete(f"y < {1000 // DELETED}")


def measured(catalog: icecore.Catalog, name: str, query: str) -> dict[str, float]:
    """Milliseconds of CPU of each kind of call."""
    text = query.format(rows=f"ns.{name}", number=0)
    files = [t.file.file_path.removeprefix("file://") for t in catalog.load_table(f"ns.{name}").scan().plan_files()]
    con, bare = duckdb.connect(), query.format(rows=f"read_parquet({files})", number=0)
    answer, numbers = catalog.query(text), itertools.count(1)

    def new_text() -> str:
        number = next(numbers)
        return f"{query.format(rows=f'ns.{name}', number=number)} /* {number} */"

    def nothing_kept() -> None:
        catalog._kept_queries.clear()
        catalog.query(new_text()).fetchall()

    calls = {
        "read_parquet": lambda: con.sql(bare).fetchall(),
        "query": lambda: catalog.query(text).fetchall(),
        "new text": lambda: catalog.query(new_text()).fetchall(),
        "nothing kept": nothing_kept,
        "again": answer.fetchall,
    }
    if deleted := deleted_positions(catalog.load_table(f"ns.{name}"), files):
        con.register("deleted", deleted)
        joined = query.format(rows=WITHOUT_DELETED.format(files=files), number=0)
        assert _rounded(con.sql(joined)) == _rounded(answer), joined
        calls["deletes joined"] = lambda: con.sql(joined).fetchall()
    return {what: 1000 * cpu_seconds(call, 5) for what, call in calls.items()}


def deleted_positions(table: icecore.Table, files: list[str]) -> pa.Table | None:
    """The deleted rows, as places in the list of files and positions in the file; None where there are none."""
    found = table.inspect.position_deletes()
    paths = pc.replace_substring_regex(found["file_path"], "^file://", "")
    places = pc.index_in(paths, pa.array(files)).cast(pa.uint64())
    return pa.table({"file": places, "pos": found["pos"]}) if len(places) else None


def _rounded(rows: Any) -> list[tuple[Any, ...]]:
    """Rows in order, their sums of floats to six places: threads add in another order each time."""
    return sorted(tuple(round(v, 6) if isinstance(v, float) else v for v in row) for row in rows.fetchall())


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        with icecore.open(folder) as catalog:
            fill(catalog, rows)
        with icecore.open(folder, read_only=True) as catalog:
            before = peak_memory_mb()
            for name in ("whole", "deleted"):
                for what, query in QUERIES.items():
                    found = results[f"{name}: {what}"] = measured(catalog, name, query)
                    print(f"{name}: {what}: " + ", ".join(f"{k} {v:.1f} ms" for k, v in found.items()))
    save("query", {"rows": rows, "queries": results, "peak_memory_mb": [before, peak_memory_mb()]})


if __name__ == "__main__":
    main()
