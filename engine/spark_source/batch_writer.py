"""Writes of a DataFrame to a table: files by Spark's tasks, one commit at the end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from icecore.engine.operations.replace_partitions import check_partitioned
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark_source.source_options import SourceOptions
from icecore.engine.spark_source.task_files import FilesMessage, TaskFiles, files_of, staged_of
from icecore.engine.spark_source.write_plan import DYNAMIC, WritePlan
from icecore.engine.table.merged_schema import take_in


class TableWriter(DataSourceArrowWriter):
    """A write to a table; it goes to the tasks, and to the process that commits."""

    def __init__(self, options: SourceOptions, schema: T.StructType, overwrite: bool) -> None:
        key = options.text("idempotency-key")
        self._plan = WritePlan.of(options, overwrite=overwrite, idempotency_key=key or f"spark-write/{uuid.uuid4()}")
        self._files = task_files(self._plan, schema)
        self._is_done = key is not None and self._plan.is_done()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of a task, or nothing where a commit with the key was made before."""
        return FilesMessage((), None) if self._is_done else self._files.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the files of all tasks. Raises what `WritePlan.commit` raises."""
        self._plan.staged_by(staged_of(messages)).commit(files_of(messages), self._files)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes the files of the tasks that succeeded, unless they are committed."""
        self._plan.abort(files_of(messages), self._files.storage)


def task_files(plan: WritePlan, schema: T.StructType) -> TaskFiles:
    """The writer of the tasks' files. Raises ValidationError where the rows or the plan don't fit the table."""
    with plan.opened() as catalog:
        table = catalog.load_table(plan.identifier)
        metadata = table.metadata
        if plan.merges_schema:
            # The metadata as the commit will make it, unless others change it first.
            to_be = table.transaction()
            take_in(to_be, schema, case_sensitive=False)
            metadata = to_be.metadata
        if plan.overwrite_mode == DYNAMIC:
            check_partitioned(metadata)
        return TaskFiles.of(schema, metadata, table.scan().storage)
