"""Data files that Spark's tasks write for a table, each told of in the task's commit message."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from attrs import frozen
from pyspark.sql.datasource import WriterCommitMessage

from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.metadata.write_audit_publish import staged_by_session
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.spark.name_rule import CASE_SENSITIVE, says_true
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_conform import check_conforms
from icecore.engine.spark.task_frames import file_prefix_of_task
from icecore.engine.spark.worker.archive_importers import forget_archives
from icecore.engine.spark_source.session_zone import ZONE
from icecore.engine.spark_source.store_assignment import assigned
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.storage.file_io import Storage

# Local properties of Spark's streams: the id stays the same for all runs from one checkpoint.
_QUERY = "sql.streaming.queryId"


class FilesMessage(WriterCommitMessage):
    """The files that one task wrote, and the id of the query where it is a task of a stream.

    `staged` are the snapshot properties with which the session's settings stage the commit.
    """

    def __init__(
        self, files: tuple[ContentFile, ...], query_id: str | None, staged: Mapping[str, str] | None = None
    ) -> None:
        self.files = files
        self.query_id = query_id
        self.staged = staged or {}


def files_of(messages: Iterable[WriterCommitMessage | None]) -> tuple[ContentFile, ...]:
    """The files of all tasks that told of some."""
    return tuple(f for m in messages if isinstance(m, FilesMessage) for f in m.files)


def staged_of(messages: Iterable[WriterCommitMessage | None]) -> Mapping[str, str]:
    """The snapshot properties that the tasks of one session told of."""
    return next((m.staged for m in messages if isinstance(m, FilesMessage)), {})


@frozen
class TaskFiles:
    """The writer of files in tasks; it goes along with each of them."""

    struct: T.StructType
    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    location: DataLocations
    properties: Mapping[str, str]
    storage: Storage
    table_uuid: str | None
    prefix: str

    @classmethod
    def of(cls, struct: T.StructType, metadata: TableMetadata, storage: Storage) -> TaskFiles:
        """The writer for rows of these columns. Raises ValidationError where they don't fit the table.

        Where case matters the tasks check the names, as only they are told of the session's settings.
        """
        check_conforms(struct, metadata.schema())
        return cls(
            struct,
            metadata.schema(),
            metadata.spec(),
            metadata.sort_order(),
            DataLocations.of(metadata.location, metadata.properties),
            dict(metadata.properties),
            storage,
            metadata.table_uuid,
            str(uuid.uuid4()),
        )

    def write(self, batches: Iterator[pa.RecordBatch]) -> FilesMessage:
        """Writes the rows of a task. A write that fails deletes its files. Raises ValidationError, StorageError."""
        from pyspark import TaskContext

        context = TaskContext.get()
        zone = context.getLocalProperty(ZONE)
        staged = staged_by_session(self.properties, context.getLocalProperty)
        if says_true(context.getLocalProperty(CASE_SENSITIVE)):
            check_conforms(self.struct, self.schema, case_sensitive=True)
        try:
            files = write_data_files(
                (assigned(b, self.schema, zone) for b in batches),
                schema=self.schema,
                spec=self.spec,
                location=self.location,
                storage=self.storage,
                properties=self.properties,
                file_prefix=file_prefix_of_task(self.prefix),
                sort_order=self.sort_order,
            )
        finally:
            forget_archives()
        return FilesMessage(tuple(files), context.getLocalProperty(_QUERY), staged)
