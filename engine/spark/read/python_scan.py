"""Files that Spark can't read, or not rightly, read by the engine's reader in Spark's tasks."""

from __future__ import annotations

from collections.abc import Sequence

from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.frame_columns import (
    EMPTY_STRUCT,
    ReadColumn,
    aliased_columns,
    missing_stored_sql,
    shown_sql,
)
from icecore.engine.spark.read.scan_context import Branch, ScanContext
from icecore.engine.spark.read.stored_arrow import stored_batch
from icecore.engine.spark.spark_sql_text import quote
from icecore.engine.spark.task_frames import Batches, chunked, mapped
from icecore.engine.spec.reserved import POS
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import StructType

_FILES_PER_TASK = 1


def python_branch(context: ScanContext, tasks: Sequence[FileScanTask], columns: tuple[ReadColumn, ...]) -> Branch:
    """The rows of the tasks that are not deleted. Any format, any byte range, any name."""
    reserved = aliased_columns(f for f in context.reserved if f.field_type != StructType(()))
    # A batch without columns would lose its rows.
    read = tuple(c for c in (*columns, *reserved) if c.is_read) or aliased_columns((POS,))
    projection = Schema(tuple(c.field for c in read), context.schema.schema_id)
    identification, specs, storage = context.identification, context.metadata.specs, context.storage
    struct = T.StructType([c.spark_field(with_ids=False) for c in read])

    def rows(chunk: list[FileScanTask]) -> Batches:
        cache = DeleteCache()
        for task in chunk:
            for batch in read_task(
                task,
                projection=projection,
                table_schema=identification.table_schema,
                specs=specs,
                storage=storage,
                name_mapping=identification.name_mapping,
                table_schemas=identification.table_schemas,
                deletes=cache,
            ):
                yield stored_batch(batch, read)

    chunks = chunked(context.session, [t.slim() for t in tasks], per_chunk=_FILES_PER_TASK)
    frame = mapped(context.session, chunks, rows, struct)
    sql = {
        c.field.field_id: quote(c.name or "") if c.is_read else missing_stored_sql(c.field)
        for c in (*columns, *reserved)
    }
    for f in context.reserved:
        if isinstance(f.field_type, StructType):
            made = next((c for c in reserved if c.field.field_id == f.field_id), None)
            sql[f.field_id] = EMPTY_STRUCT if made is None else shown_sql(made, sql[f.field_id], f)
    return Branch(frame, {c.field.field_id: c for c in columns}, sql)
