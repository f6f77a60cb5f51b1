"""Copy-on-write deletes: files written again without the deleted rows. Spec: Row Lineage (RL6)."""

from __future__ import annotations

import uuid

import pyarrow as pa

from icecore.engine.data.arrow.row_filter import keep_rows
from icecore.engine.data.read.read_tasks import DeleteCache, read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.metadata.name_mapping_changes import table_name_mapping
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import LINEAGE, with_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage


def survivors(task: FileScanTask, metadata: TableMetadata, storage: Storage, deletes: DeleteCache) -> pa.Table | None:
    """The live rows of a file that the residual does not select; None where it selects none.

    In a v3 table the rows bring their row ids and sequence numbers along, as far as the file has any.
    """
    schema = lineage_schema(metadata.schema(), metadata, task)
    batches = read_task(
        task,
        projection=schema,
        table_schema=metadata.schema(),
        specs=metadata.specs,
        storage=storage,
        name_mapping=table_name_mapping(metadata),
        table_schemas=metadata.schemas,
        deletes=deletes,
    )
    total, kept = 0, []
    for batch in batches:
        total += batch.num_rows
        kept.append(keep_rows(pa.Table.from_batches([batch]), task.residual, metadata.schema(), selected=False))
    rows = pa.concat_tables(kept) if kept else None
    return None if rows is None or rows.num_rows == total else rows


def lineage_schema(schema: Schema, metadata: TableMetadata, task: FileScanTask) -> Schema:
    """The schema with the lineage columns where a row of the file has any (RL5)."""
    has_lineage = metadata.format_version >= 3 and task.file.first_row_id is not None
    return with_columns(schema, *LINEAGE) if has_lineage else schema


def write_again(rows: pa.Table, metadata: TableMetadata, storage: Storage) -> list[ContentFile]:
    """Writes surviving rows into new files, with the lineage columns that they have."""
    lineage = [c for c in LINEAGE if c.name in rows.column_names]
    return write_data_files(
        rows,
        schema=with_columns(metadata.schema(), *lineage),
        spec=metadata.spec(),
        location=DataLocations.of(metadata.location, metadata.properties),
        storage=storage,
        properties=metadata.properties,
        file_prefix=f"00000-0-{uuid.uuid4()}",
        sort_order=metadata.sort_order(),
    )
