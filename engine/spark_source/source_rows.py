"""The rows of scan tasks, and of commits, as Spark takes them, read by the engine's reader in a Spark task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from attrs import frozen

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.narrow import narrow
from icecore.engine.data.arrow.row_filter import filter_batches, filter_columns
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.read.rows_of_commits import CommitFiles, CommitRows
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.spark.spark_types import schema_to_spark
from icecore.engine.spark.worker.archive_importers import forget_archives
from icecore.engine.spark_source.shown_arrow import shown_batch, spark_arrow_schema
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.storage.file_io import Storage


@frozen
class RowReader:
    """The part of a read that goes along with each Spark task, so it is small."""

    projection: Schema
    schema: Schema
    schemas: tuple[Schema, ...]
    specs: Mapping[int, PartitionSpec]
    name_mapping: NameMapping | None
    storage: Storage

    @classmethod
    def of(cls, projection: Schema, schema: Schema, metadata: TableMetadata, storage: Storage) -> RowReader:
        """The reader of a projection of a schema."""
        mapping = NAME_MAPPING.find(metadata.properties)
        return cls(projection, schema, metadata.schemas, dict(metadata.specs), mapping, storage)

    def batches(self, tasks: Sequence[FileScanTask]) -> Iterator[pa.RecordBatch]:
        """The rows of the tasks that are not deleted and that satisfy the residuals."""
        try:
            yield from self._batches(tasks)
        finally:
            forget_archives()

    def _batches(self, tasks: Sequence[FileScanTask]) -> Iterator[pa.RecordBatch]:
        wanted = schema_to_arrow(self.projection, with_ids=False)
        shown = spark_arrow_schema(schema_to_spark(self.projection))
        deletes = DeleteCache()
        for task in tasks:
            batches = read_task(
                task,
                projection=filter_columns(task.residual, self.schema, self.projection),
                table_schema=self.schema,
                specs=self.specs,
                storage=self.storage,
                name_mapping=self.name_mapping,
                table_schemas=self.schemas,
                deletes=deletes,
            )
            for batch in filter_batches(batches, task.residual, self.schema):
                yield shown_batch(narrow(batch, wanted), self.projection, shown)


@frozen
class ChangeReader:
    """The part of a changelog that goes along with each Spark task."""

    rows: CommitRows

    def batches(self, commits: Sequence[CommitFiles]) -> Iterator[pa.RecordBatch]:
        """The rows that the commits deleted and inserted, with the columns of a changelog."""
        projection = self.rows.projection
        shown = spark_arrow_schema(schema_to_spark(projection))
        try:
            for batch in self.rows.batches(commits):
                yield shown_batch(batch, projection, shown)
        finally:
            forget_archives()
