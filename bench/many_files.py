"""A table of very many files over a thousand days, with metrics of two columns; only its metadata is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tables import finish, write

from icecore.engine.formats.binary_columns import from_matrix, little_endian
from icecore.engine.formats.entry_arrow import BINARIES, COUNTS, ENTRY_SCHEMA
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.spec.metadata import TableMetadata

ROWS = 1_000
DAYS = 1_000
FIRST_DAY = 18_000
COLUMNS = (("id", "long"), ("day", "date"), ("amount", "double"), ("city", "string"))
CONSTANTS = {
    "status": 1,
    "snapshot_id": 1,
    "content": 0,
    "file_format": "PARQUET",
    "spec_id": 0,
    "record_count": ROWS,
    "file_size_in_bytes": 1 << 20,
    "sort_order_id": 0,
}


def many_files(out: Path, files: int, each: int = 10_000) -> Path:
    """Writes a table of `files` files, `each` of them in a manifest; returns the path of its metadata file.

    File i has the ids from i * 1000 to i * 1000 + 999, and one day.
    """
    (out / "metadata").mkdir(parents=True, exist_ok=True)
    raw = _metadata(out)
    metadata = TableMetadata.from_dict(raw)
    parts = [np.arange(start, min(start + each, files)) for start in range(0, files, each)]
    manifests = [
        write(out, f"{i:05d}", _entries(out, part, files), metadata.spec(), metadata, ManifestContent.DATA, 1)
        for i, part in enumerate(parts)
    ]
    return finish(out, raw, metadata, manifests)


def _metadata(out: Path) -> dict[str, Any]:
    fields = [{"id": i + 1, "name": name, "required": False, "type": kind} for i, (name, kind) in enumerate(COLUMNS)]
    snapshot = {"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "summary": {"operation": "append"}}
    by_day = {"source-id": 2, "field-id": 1000, "name": "day", "transform": "identity"}
    return {
        "format-version": 2,
        "table-uuid": "6f1dbd8a-7c5b-4c1c-9d4f-0b1c5f1f9a11",
        "location": str(out),
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": len(fields),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": [by_day]}],
        "default-spec-id": 0,
        "last-partition-id": 1000,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "current-snapshot-id": 1,
        "snapshots": [snapshot | {"manifest-list": "to be written", "schema-id": 0}],
    }


def _entries(out: Path, numbers: np.ndarray[Any, np.dtype[np.int64]], files: int) -> pa.Table:
    count = len(numbers)
    made = {name: pa.repeat(value, count) for name, value in CONSTANTS.items()}
    day = (numbers * DAYS // files).astype(np.int32) + FIRST_DAY
    folder = f"{out}/data/day="
    made["file_path"] = pa.array(
        [f"{folder}{d}/00000-{i}-5f0c8a0e-8b9d-4b61-a0a9-00001.parquet" for i, d in zip(numbers, day, strict=True)]
    )
    one = pa.array(np.arange(count + 1), pa.int32())
    made["partition"] = _map(BINARIES, one, [1000], from_matrix(little_endian(day)))
    made["split_offsets"] = pa.ListArray.from_arrays(one, pa.repeat(4, count).cast(pa.int64()))
    two = pa.array(np.arange(count + 1) * 2, pa.int32())
    for name, number in (("column_sizes", 4096), ("value_counts", ROWS), ("null_value_counts", 0)):
        made[name] = _map(COUNTS, two, [1, 2], pa.repeat(number, 2 * count).cast(pa.int64()))
    order = pa.array(np.arange(2 * count).reshape(2, count).T.ravel())
    for name, last in (("lower_bounds", 0), ("upper_bounds", ROWS - 1)):
        bounds = [from_matrix(little_endian(numbers * ROWS + last)), from_matrix(little_endian(day))]
        made[name] = _map(BINARIES, two, [1, 2], pa.concat_arrays(bounds).take(order))
    fields = [made[f.name].cast(f.type) if f.name in made else pa.nulls(count, f.type) for f in ENTRY_SCHEMA]
    return pa.Table.from_arrays(fields, schema=ENTRY_SCHEMA)


def _map(kind: pa.DataType, offsets: pa.Array, keys: list[int], values: pa.Array) -> pa.MapArray:
    repeated = pa.array(np.tile(keys, len(values) // len(keys)), pa.int32())
    return pa.MapArray.from_arrays(offsets, repeated, values, type=kind)
