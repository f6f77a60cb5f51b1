"""Streams into a table, for `writeStream.format("icecore")`: each micro-batch is one commit, made once.

A batch that Spark runs again, since it did not learn that it was committed, has the same query and number, and so the
same idempotency key. Spark's id of the query is that of its checkpoint: a query that starts over with a new checkpoint,
whose batches count from zero, is another one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from icecore.engine.errors import ValidationError
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark_source.batch_writer import task_files
from icecore.engine.spark_source.source_options import SourceOptions
from icecore.engine.spark_source.task_files import FilesMessage, files_of, staged_of
from icecore.engine.spark_source.write_plan import WritePlan

Messages = list[WriterCommitMessage | None]


class StreamTableWriter(DataSourceStreamArrowWriter):
    """A stream into a table; in complete mode each batch replaces all rows."""

    def __init__(self, options: SourceOptions, schema: T.StructType, overwrite: bool) -> None:
        self._plan = WritePlan.of(options, overwrite=overwrite, idempotency_key="")
        self._files = task_files(self._plan, schema)
        self._query_id = options.text("query-id")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task."""
        return self._files.write(iterator)

    def commit(self, messages: Messages, batchId: int) -> None:
        """Commits the files of a batch, unless that was done before; a batch without rows makes no commit.

        Raises CommitConflictError where the table that the batch was begun for was dropped and another has its name,
        and what else `WritePlan.commit` raises.
        """
        files = files_of(messages)
        if files or self._plan.overwrite_mode is not None:
            self._batch(messages, batchId).staged_by(staged_of(messages)).commit(files, self._files)

    def abort(self, messages: Messages, batchId: int) -> None:
        """Deletes the files of the tasks that succeeded, unless they are committed."""
        if files_of(messages):
            self._batch(messages, batchId).abort(files_of(messages), self._files.storage)

    def _batch(self, messages: Messages, batch_id: int) -> WritePlan:
        told = (m.query_id for m in messages if isinstance(m, FilesMessage) and m.query_id)
        query_id = self._query_id or next(told, None)
        if query_id is None:
            raise ValidationError("Spark does not tell which query this is: name it by the option 'query-id'")
        return self._plan.of_batch(query_id, batch_id, self._files.table_uuid)
