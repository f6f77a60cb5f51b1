"""The rows of `position_deletes`: each deleted position of each live position delete file and deletion vector.

Columns as Iceberg Java's, but for `row`: the deleted row's values, which writers leave out and v3 dropped (D2, D3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from icecore.engine.data.read.apply_deletes import DeleteCache, position_delete_rows
from icecore.engine.formats.entry_arrow import row_to_file
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage
from icecore.projections.inspect.file_rows_of_entries import EntryColumns

_NEEDED = (
    "content",
    "file_path",
    "file_format",
    "spec_id",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)


def position_deletes_schema(columns: EntryColumns) -> pa.Schema:
    """The columns of `position_deletes`."""
    return pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False),
            pa.field("pos", pa.int64(), nullable=False),
            columns.partition_field,
            pa.field("spec_id", pa.int32(), nullable=False),
            pa.field("delete_file_path", pa.string(), nullable=False),
            ("content_offset", pa.int64()),
            ("content_size_in_bytes", pa.int64()),
        ]
    )


def position_deletes(
    columns: EntryColumns, batches: Iterator[pa.Table], metadata: TableMetadata, storage: Storage
) -> pa.Table:
    """The rows for the live entries of position deletes. Raises MissingFileError, CorruptFileError."""
    schema = position_deletes_schema(columns)
    found = [pa.Table.from_batches([], schema)]
    for entries in batches:
        files = entries.select(_NEEDED)
        partition, read = columns.partitions(files), DeleteCache()
        for place, row in enumerate(files.to_pylist()):
            file = row_to_file(row, metadata.specs[row["spec_id"]], metadata.all_fields)
            paths, positions = _deleted(storage, read, file)
            same = pa.array(np.full(len(positions), place, np.int64))
            rest = [files[n].combine_chunks().take(same) for n in schema.names if n in _NEEDED[3:4] + _NEEDED[-2:]]
            spec_id, offset, size = rest
            path = pa.repeat(pa.scalar(file.file_path), len(positions))
            found.append(pa.table([paths, positions, partition.take(same), spec_id, path, offset, size], schema=schema))
    return pa.concat_tables(found)


def _deleted(storage: Storage, read: DeleteCache, file: ContentFile) -> tuple[pa.Array, pa.Array]:
    """The paths and positions that a file deletes."""
    if file.is_deletion_vector:
        data_file = file.referenced_data_file or ""
        positions = pa.array(read.deleted_positions(storage, data_file, [file]), pa.int64())
        return pa.repeat(pa.scalar(data_file, pa.string()), len(positions)), positions
    parts: Sequence[tuple[pa.Array, pa.Array]] = list(position_delete_rows(storage, file))
    paths = pa.concat_arrays([pa.array([], pa.string()), *(p.cast(pa.string()) for p, _ in parts)])
    return paths, pa.concat_arrays([pa.array([], pa.int64()), *(p.cast(pa.int64()) for _, p in parts)])
