"""Content files as another writer would make them: deletes by position, and data files rewritten."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import icecore
from icecore.engine.data.arrow.row_filter import keep_rows
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import Expression
from icecore.engine.operations.copy_on_write import lineage_schema, write_again
from icecore.engine.operations.merge_on_read import select_rows, write_deletes
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.reserved import LINEAGE
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage


def storage_of(table: icecore.Table) -> Storage:
    return table._repository.storage_of(table.state)


def position_deletes(table: icecore.Table, row_filter: str) -> list[ContentFile]:
    """Delete files for the rows that the table's version has and the filter selects, written and not committed."""
    storage, deletes = storage_of(table), DeleteCache()
    selected = []
    for task in table.scan(row_filter).plan_files():
        found = select_rows(task, table.metadata, storage, deletes).positions
        if len(found):
            selected.append((task, found))
    return write_deletes(selected, table.metadata, storage, deletes) if selected else []


def vector(table: icecore.Table, task: FileScanTask, *positions: int) -> ContentFile:
    """A deletion vector of just these positions, whatever was deleted before."""
    from icecore.engine.data.write.deletion_vector_writer import DeletedRows, write_deletion_vectors

    rows = DeletedRows(np.array(positions, dtype=np.int64), task.file.spec_id, task.file.partition)
    location = f"{table.location()}/data/{uuid.uuid4()}.puffin"
    [written] = write_deletion_vectors(storage_of(table), location, {task.file.file_path: rows})
    return written


def live_rows(table: icecore.Table, task: FileScanTask) -> pa.Table | None:
    """The live rows of a file, with the lineage that they have."""
    schema = lineage_schema(table.schema(), table.metadata, task)
    batches = list(
        read_task(
            task,
            projection=schema,
            table_schema=table.schema(),
            specs=table.metadata.specs,
            storage=storage_of(table),
            name_mapping=NAME_MAPPING.find(table.metadata.properties),
        )
    )
    return pa.Table.from_batches(batches) if batches else None


def without(rows: pa.Table, row_filter: Expression, schema: Schema) -> pa.Table:
    """The rows that a bound filter does not select."""
    places = pa.array(range(rows.num_rows))
    selected = keep_rows(rows.append_column("\x00place", places), row_filter, schema)["\x00place"]
    return rows.filter(pc.invert(pc.is_in(places, selected)))


def rewritten(
    table: icecore.Table, row_filter: str, *, keep: bool = True
) -> tuple[list[ContentFile], list[ContentFile]]:
    """The files that may have rows of the filter, and new ones with all of their rows, or with the others only."""
    gone, rows = [], []
    for task in table.scan(row_filter).plan_files():
        gone.append(task.file)
        found = live_rows(table, task)
        if found is not None:
            rows.append(found if keep else without(found, task.residual, table.schema()))
    whole = pa.concat_tables(rows, promote_options="default") if rows else None
    if whole is None or not whole.num_rows:
        return gone, []
    if len({c.name for c in LINEAGE} & set(whole.column_names)) == 1:
        raise AssertionError("both lineage columns or none")
    return gone, write_again(whole, table.metadata, storage_of(table))
