"""The rows of files that a commit removed, added, or changed the deletes of, read file by file.

Spec: Row-level Deletes (D2 to D5). The live rows before and after a commit tell what it changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from attrs import frozen

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.narrow import narrow
from icecore.engine.data.arrow.row_filter import filter_batches, filter_columns
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.formats.arrays import Longs
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.reserved import POS
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage

INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER = "INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER"


@frozen(eq=False)
class FileRows:
    """The live rows of a file, or only those at some positions."""

    task: FileScanTask
    positions: Longs | None = None

    @property
    def has_any(self) -> bool:
        """Whether there may be any rows."""
        return self.positions is None or len(self.positions) > 0

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch at `positions`, or all of them without; the batch must have `_pos` to find positions."""
        if self.positions is None:
            return batch
        return batch.filter(pa.array(np.isin(batch[POS.name].to_numpy(), self.positions)))


@frozen
class ChangedRowsReader:
    """The reader of a table's files under one schema. It can be pickled, so that Spark's tasks read with it."""

    schema: Schema
    specs: Mapping[int, PartitionSpec]
    storage: Storage
    name_mapping: NameMapping | None
    table_schemas: tuple[Schema, ...]

    def parted(self, old: FileScanTask, new: FileScanTask, deletes: DeleteCache) -> tuple[FileRows, FileRows]:
        """The rows of a file that are live only in `old`, and only in `new`: before and after its deletes changed."""
        places = Schema((POS,), self.schema.schema_id)
        before, after = (self.table(FileRows(t), places, deletes)[POS.name].to_numpy() for t in (old, new))
        return FileRows(old, np.setdiff1d(before, after)), FileRows(new, np.setdiff1d(after, before))

    def table(self, rows: FileRows, projection: Schema, deletes: DeleteCache) -> pa.Table:
        """The rows that the task's filter selects. Raises what `read_task` raises."""
        wanted = schema_to_arrow(projection, with_ids=False)
        return pa.Table.from_batches(list(self.batches(rows, projection, deletes)), wanted)

    def batches(self, rows: FileRows, projection: Schema, deletes: DeleteCache) -> Iterator[pa.RecordBatch]:
        """The rows of `table` as a stream. Rows at some positions only need the column `_pos` in `projection`."""
        task = rows.task
        batches = read_task(
            task,
            projection=filter_columns(task.residual, self.schema, projection),
            table_schema=self.schema,
            specs=self.specs,
            storage=self.storage,
            name_mapping=self.name_mapping,
            table_schemas=self.table_schemas,
            deletes=deletes,
        )
        wanted = schema_to_arrow(projection, with_ids=False)
        for batch in filter_batches(batches, task.residual, self.schema):
            yield narrow(rows.of(batch), wanted)
