"""A table whose files have metrics of very many columns; only its metadata is written."""

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

ROWS = 1000
SNAPSHOT_ID = 1


def wide_table(out: Path, columns: int = 1000, files: int = 2000, each: int = 100) -> Path:
    """Writes a table of `files` files with `columns` long columns `c0`, `c1` ...; returns its metadata file's path.

    File i has the values from i * 1000 to i * 1000 + 999 in every column, and all metrics of each.
    """
    (out / "metadata").mkdir(parents=True, exist_ok=True)
    raw = _metadata(out, columns)
    metadata = TableMetadata.from_dict(raw)
    manifests = [
        write(
            out,
            f"{start:06d}",
            _entries(out, np.arange(start, min(start + each, files)), columns),
            metadata.spec(),
            metadata,
            ManifestContent.DATA,
            1,
        )
        for start in range(0, files, each)
    ]
    return finish(out, raw, metadata, manifests)


def _metadata(out: Path, columns: int) -> dict[str, Any]:
    fields = [{"id": i + 1, "name": f"c{i}", "required": False, "type": "long"} for i in range(columns)]
    snapshot = {"snapshot-id": SNAPSHOT_ID, "sequence-number": 1, "timestamp-ms": 1, "summary": {"operation": "append"}}
    return {
        "format-version": 2,
        "table-uuid": "6f1dbd8a-7c5b-4c1c-9d4f-0b1c5f1f9a10",
        "location": str(out),
        "last-sequence-number": 1,
        "last-updated-ms": 1,
        "last-column-id": columns,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "current-snapshot-id": SNAPSHOT_ID,
        "snapshots": [snapshot | {"manifest-list": "to be written", "schema-id": 0}],
    }


def _entries(out: Path, numbers: np.ndarray[Any, np.dtype[np.int64]], columns: int) -> pa.Table:
    count = len(numbers)
    constants = {
        "status": 1,
        "snapshot_id": SNAPSHOT_ID,
        "content": 0,
        "file_format": "PARQUET",
        "spec_id": 0,
        "record_count": ROWS,
        "file_size_in_bytes": 1 << 20,
        "sort_order_id": 0,
    }
    made = {name: pa.repeat(value, count).cast(ENTRY_SCHEMA.field(name).type) for name, value in constants.items()}
    made["file_path"] = pa.array([f"{out}/data/{i:06d}.parquet" for i in numbers.tolist()])
    made["partition"] = pa.array([[]] * count, BINARIES)
    offsets = pa.array(np.arange(count + 1) * columns, pa.int32())
    keys = pa.array(np.tile(np.arange(1, columns + 1), count), pa.int32())
    for name, number in (("column_sizes", 4096), ("value_counts", ROWS), ("null_value_counts", 0)):
        made[name] = pa.MapArray.from_arrays(offsets, keys, pa.repeat(number, len(keys)).cast(pa.int64()), type=COUNTS)
    for name, last in (("lower_bounds", 0), ("upper_bounds", ROWS - 1)):
        bounds = from_matrix(little_endian(np.repeat(numbers * ROWS + last, columns)))
        made[name] = pa.MapArray.from_arrays(offsets, keys, bounds, type=BINARIES)
    fields = [made[f.name] if f.name in made else pa.nulls(count, f.type) for f in ENTRY_SCHEMA]
    return pa.Table.from_arrays(fields, schema=ENTRY_SCHEMA)
