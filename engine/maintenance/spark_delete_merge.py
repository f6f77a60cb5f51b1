"""Merges of position delete files by Spark: its tasks read the deleted positions of data files, and write them anew."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Sequence

import pyarrow as pa
from attrs import frozen

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.maintenance.rewrite_delete_files import sharing_deletes
from icecore.engine.spark.change.file_rewrite import FileRewrite
from icecore.engine.spark.progress import ProgressCallback, reporting
from icecore.engine.spark.pyspark_api import SparkSession
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_write import translated_spark_errors
from icecore.engine.spark.task_frames import Batches, chunked, file_prefix_of_task, mapped
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage

_MERGED = T.StructType([T.StructField("merged", T.BinaryType())])
_MERGED_ARROW = pa.schema([pa.field("merged", pa.binary())])


@frozen
class SparkDeletesWriter:
    """The writer of merged deletes by Spark's tasks; `on_progress` is called as `reporting` says."""

    session: SparkSession
    on_progress: ProgressCallback | None = None

    def __call__(
        self, tasks: Sequence[FileScanTask], metadata: TableMetadata, storage: Storage, /
    ) -> list[ContentFile]:
        """The delete files. Data files that share deletes go to one task, so that these are read once.

        Raises ValidationError, MissingFileError, CorruptFileError, StorageError.
        """
        groups = [[t.slim() for t in group] for group in sharing_deletes(tasks, metadata)]
        rewrite = FileRewrite.of(metadata, storage, str(uuid.uuid4()), by_position=True)

        def merge(items: list[list[FileScanTask]]) -> Batches:
            name = file_prefix_of_task("merged")
            made = pickle.dumps(rewrite.merge_deletes((t for group in items for t in group), name))
            yield pa.RecordBatch.from_arrays([pa.array([made])], schema=_MERGED_ARROW)

        frame = mapped(self.session, chunked(self.session, groups, per_chunk=1), merge, _MERGED)
        doing = f"merge delete files in {rewrite.locations.folder}"
        with translated_spark_errors(), reporting(self.session, self.on_progress, doing):
            return [file for row in frame.collect() for file in pickle.loads(row.merged)]
