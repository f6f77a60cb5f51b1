"""Merge-on-read deletes: position delete files in v2, deletion vectors in v3. Spec: D1 to D3."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from icecore.engine.data.arrow.row_filter import filter_columns, keep_rows
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.deletion_vector_writer import DeletedRows, write_deletion_vectors
from icecore.engine.data.write.position_delete_writer import by_partition, write_position_deletes
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.properties.table_properties import DELETE_GRANULARITY, DELETE_MODE, NAME_MAPPING, KnownProperty
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import POS, with_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage

Positions = npt.NDArray[np.int64]


@frozen
class Selected:
    """The live rows of a file that a filter selects, and the number of its live rows."""

    positions: Positions
    live_rows: int


def merges_on_read(metadata: TableMetadata, *modes: KnownProperty[str]) -> bool:
    """Whether the table is to have deletes by position; v1 has no delete files (D1).

    The first of the properties that is set decides, `write.delete.mode` being the last. Raises ValidationError.
    """
    mode = next((m for m in modes if m.name in metadata.properties), DELETE_MODE)
    return mode.of(metadata.properties) == "merge-on-read" and metadata.format_version >= 2


def select_rows(task: FileScanTask, metadata: TableMetadata, storage: Storage, deletes: DeleteCache) -> Selected:
    """The rows of a file that the residual selects; only the columns that it needs are read."""
    schema = metadata.schema()
    needed = filter_columns(task.residual, schema, Schema((), schema.schema_id))
    batches = read_task(
        task,
        projection=with_columns(needed, POS),
        table_schema=schema,
        specs=metadata.specs,
        storage=storage,
        name_mapping=NAME_MAPPING.find(metadata.properties),
        table_schemas=metadata.schemas,
        deletes=deletes,
    )
    live, found = 0, []
    for batch in batches:
        live += batch.num_rows
        chosen = keep_rows(pa.Table.from_batches([batch]), task.residual, schema)
        found.append(chosen[POS.name].to_numpy())
    positions = np.concatenate(found).astype(np.int64) if found else np.zeros(0, np.int64)
    return Selected(positions, live)


def write_deletes(
    selected: Sequence[tuple[FileScanTask, Positions]],
    metadata: TableMetadata,
    storage: Storage,
    deletes: DeleteCache,
) -> list[ContentFile]:
    """Writes the delete files for newly deleted positions: deletion vectors from v3 on, before that position files.

    A vector takes in all positions that are deleted from its file already (D2).
    """
    locations = DataLocations.of(metadata.location, metadata.properties)
    if metadata.format_version >= 3:
        merged = {t.file.file_path: _merged(t, positions, storage, deletes) for t, positions in selected}
        return write_deletion_vectors(storage, locations.new(f"{uuid.uuid4()}-deletes.puffin"), merged)
    out: list[ContentFile] = []
    files = ((task.file, positions) for task, positions in selected)
    for spec, partition, group in by_partition(files, metadata.specs, metadata.all_fields):
        out += write_position_deletes(
            storage,
            locations,
            group,
            spec=spec,
            partition=partition,
            schema=metadata.all_fields,
            properties=metadata.properties,
            file_prefix=f"00000-0-{uuid.uuid4()}-deletes",
            format_version=metadata.format_version,
            granularity="partition" if DELETE_GRANULARITY.or_default(metadata.properties) == "partition" else "file",
        )
    return out


def _merged(task: FileScanTask, positions: Positions, storage: Storage, deletes: DeleteCache) -> DeletedRows:
    before = deletes.deleted_positions(storage, task.file.file_path, task.delete_files)
    return DeletedRows(np.union1d(before, positions), task.file.spec_id, task.file.partition)
