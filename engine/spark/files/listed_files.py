"""Files of folders, listed in Spark's tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import pyarrow as pa
from attrs import frozen

from icecore.engine.spark.progress import ProgressCallback, reporting
from icecore.engine.spark.pyspark_api import SparkSession
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_write import translated_spark_errors
from icecore.engine.spark.task_frames import Batches, chunk_count, chunked, mapped
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import FoundFile, list_level, list_resolved

_MANY = 1 << 20
_LISTED = T.StructType([T.StructField("listed", T.BinaryType())])
_LISTED_ARROW = pa.schema([pa.field("listed", pa.binary())])


@frozen
class SparkLister:
    """The lister of folders by Spark's tasks; `on_progress` is called as `reporting` says."""

    session: SparkSession
    on_progress: ProgressCallback | None = None

    def __call__(self, storage: Storage, folders: Sequence[str], skipped: Callable[[str], bool], /) -> list[FoundFile]:
        """The files in the folders and those below them; the driver lists levels until all cores have enough to do.

        Raises StorageError.
        """
        found: list[FoundFile] = []
        due = [storage.resolve(f) for f in folders]
        while due and len(due) < chunk_count(self.session, _MANY, per_chunk=1):
            levels = [list_level(storage, f, skipped) for f in due]
            due = [f for below, _ in levels for f in below]
            found += [f for _, files in levels for f in files]
        return [*found, *self._listed(storage, due, skipped)] if due else found

    def _listed(self, storage: Storage, folders: list[str], skipped: Callable[[str], bool]) -> list[FoundFile]:
        def listed(some: list[str]) -> Batches:
            for folder in some:
                files = pickle.dumps(list(list_resolved(storage, folder, skipped)))
                yield pa.RecordBatch.from_arrays([pa.array([files])], schema=_LISTED_ARROW)

        frame = mapped(self.session, chunked(self.session, folders, per_chunk=1), listed, _LISTED)
        with translated_spark_errors(), reporting(self.session, self.on_progress, "list the folders of a table"):
            return [file for row in frame.collect() for file in pickle.loads(row.listed)]
