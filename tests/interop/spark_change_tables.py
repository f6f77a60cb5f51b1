"""Tables for changes by Spark: three files in two partitions, with the rows that they hold as plain dicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import icecore

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("name", pa.string()), ("x", pa.float64())])
KINDS = [(2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read")]
LINEAGE = ("_row_id", "_last_updated_sequence_number")

Row = dict[str, Any]


def row(i: int, k: int | None = None) -> Row:
    return {"id": i, "k": i % 3 if k is None else k, "name": f"n{i}" if i % 4 else None, "x": i * 0.5}


def make(
    catalog: icecore.Catalog, version: int = 2, mode: str = "copy-on-write", name: str = "ns.t", **more: Any
) -> icecore.Table:
    """A table of thirty rows in three appends, each with rows of k = 0, 1 and 2, partitioned by a bucket of it."""
    modes = {f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")}
    properties = {**modes, **more.pop("properties", {})}
    more = {"partition_spec": ["bucket(2, k)"], **more}
    table: icecore.Table = catalog.create_table(name, SCHEMA, format_version=version, properties=properties, **more)
    for start in (0, 10, 20):
        table.append([row(i) for i in range(start, start + 10)])
    return table


def rows_of(table: icecore.Table, **scan: Any) -> dict[int, Row]:
    """The rows by id, each of which is there once."""
    found = table.scan(**scan).to_arrow().to_pylist()
    assert len({r["id"] for r in found}) == len(found)
    return {r["id"]: r for r in found}


def files_of(table: icecore.Table) -> int:
    """The number of files in the table's data folder, live or not."""
    folder = Path(table.location().removeprefix("file://")) / "data"
    return sum(p.is_file() for p in folder.rglob("*"))


def lineage_of(table: icecore.Table) -> dict[int, tuple[Any, ...]]:
    """Row id and sequence number of each row, by id."""
    found = table.scan(selected_fields=["id", *LINEAGE]).to_arrow().to_pylist()
    return {r["id"]: tuple(r[n] for n in LINEAGE) for r in found}
