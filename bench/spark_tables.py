"""The tables that Spark is measured over: many small files, a few large ones with deletes, and rows to write."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from many_files import many_files

import icecore

MANY_FILES, ROWS_OF_A_SMALL_FILE = 10_000, 100
LARGE_FILES, LARGE_ROWS = 8, 20_000_000
PLANNED_FILES = 1_000_000
SCHEMA = pa.schema(
    [("id", pa.int64()), ("day", pa.date32()), ("r", pa.int32()), ("price", pa.float64()), ("name", pa.string())]
)
WITH_IDS = pa.schema([f.with_metadata({b"PARQUET:field_id": str(n + 1)}) for n, f in enumerate(SCHEMA)])


def rows(start: int, count: int, seed: int) -> pa.Table:
    """Rows with ascending ids; `r` is evenly spread over 0 to 99, so that `r < n` selects n % of any stretch."""
    dice = np.random.default_rng(seed)
    ids = np.arange(start, start + count)
    names = pa.array([f"name {i}" for i in range(1000)])
    columns = [
        pa.array(ids),
        pa.array((19_000 + ids % 30).astype(np.int32), pa.int32()).cast(pa.date32()),
        pa.array(dice.integers(0, 100, count).astype(np.int32)),
        pa.array(dice.random(count)),
        names.take(pa.array(dice.integers(0, 1000, count))),
    ]
    return pa.Table.from_arrays(columns, schema=WITH_IDS)


def make_tables(folder: Path, scale: float, cases: Iterable[str]) -> None:
    """Makes the warehouse of a run, with the tables that its cases read, in sizes multiplied by the scale."""
    with icecore.open(folder / "warehouse") as catalog:
        catalog.create_namespace("ns")
        if "many" in cases:
            _many(catalog, folder, max(10, int(MANY_FILES * scale)))
        if "large" in cases:
            _large(catalog, max(8_000, int(LARGE_ROWS * scale)))
        if "planning" in cases:
            made = many_files(folder / "warehouse" / "ns" / "planned", max(1_000, int(PLANNED_FILES * scale)))
            catalog.register_table("ns.planned", str(made))
    (folder / "scale").write_text(str(scale))


_WRITE = "3f0e7a52-9d41-4c8b-8a06-5b1f2c7d9e10"
"""The id of a write, as Iceberg's writers have it in file names: files named so are taken to have field ids."""


def _many(catalog: icecore.Catalog, folder: Path, files: int) -> None:
    table = catalog.create_table("ns.many", SCHEMA)
    there = folder / "warehouse" / "ns" / "many" / "data"
    there.mkdir(parents=True, exist_ok=True)
    paths = []
    for i in range(files):
        path = there / f"00000-{i}-{_WRITE}-00001.parquet"
        pq.write_table(rows(i * ROWS_OF_A_SMALL_FILE, ROWS_OF_A_SMALL_FILE, i), path)
        paths.append(path.as_uri())
    table.add_files(paths)
    # A name mapping is for files without field ids, which engines don't write.
    table.remove_properties("schema.name-mapping.default")
    catalog.create_table("ns.many_mapped", SCHEMA).add_files(paths)


def _large(catalog: icecore.Catalog, count: int) -> None:
    properties = {"write.delete.mode": "merge-on-read", "write.target-file-size-bytes": str(1 << 30)}
    table = catalog.create_table("ns.large", SCHEMA, format_version=3, properties=properties)
    each = count // LARGE_FILES
    for i in range(LARGE_FILES):
        table.append(rows(i * each, each, i))
    for percent in (2, 30):
        table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, f"without_{percent}").commit()
        table.delete(f"r < {percent}", branch=f"without_{percent}")
