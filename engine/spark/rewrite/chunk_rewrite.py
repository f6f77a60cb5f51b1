"""Data files written again in Spark's tasks, each chunk of a group by one task: no row is shuffled."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
from attrs import frozen

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.group_rewrite import GroupRewrite
from icecore.engine.properties.table_properties import MIB
from icecore.engine.spark.progress import ProgressCallback, reporting
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_write import translated_spark_errors
from icecore.engine.spark.task_frames import Batches, chunk_count, file_prefix_of_task, mapped
from icecore.engine.spec.content_file import ContentFile

WrittenGroups: TypeAlias = list[tuple[int, tuple[ContentFile, ...]]]
"""New files, each tuple with the number of its group; a group may come several times."""
WRITTEN = T.StructType([T.StructField("written", T.BinaryType())])
_WRITTEN_ARROW = pa.schema([pa.field("written", pa.binary())])
_TASK_BYTES = 32 * MIB


@frozen
class RewriteChunk:
    """Files, or ranges of files, of a group, to be written as files of about `file_size` bytes at most."""

    group: int
    tasks: tuple[FileScanTask, ...]
    file_size: int

    @property
    def size(self) -> int:
        """The number of bytes to read."""
        return sum(t.length for t in self.tasks)


def write_chunks(
    session: SparkSession, rewrite: GroupRewrite, chunks: Sequence[RewriteChunk], on_progress: ProgressCallback | None
) -> WrittenGroups:
    """Writes the live rows of each chunk, sorted where the rewrite has an order, in one job.

    Raises ValidationError, MissingFileError, CorruptFileError, StorageError; what tasks wrote then stays behind.
    """
    if not chunks:
        return []
    prefix = str(uuid.uuid4())

    def write(items: list[RewriteChunk]) -> Batches:
        name = file_prefix_of_task(prefix)
        for number, chunk in enumerate(items):
            made = rewrite.write_again(chunk.tasks, size=chunk.file_size, prefix=f"{name}-{number}")
            yield written_batch(chunk.group, made)

    return collected(mapped(session, together(session, chunks), write, WRITTEN), rewrite, on_progress)


def together(session: SparkSession, chunks: Sequence[RewriteChunk]) -> list[Sequence[RewriteChunk]]:
    """The chunks in runs of one Spark task each: small ones together, as far as that leaves enough for all cores."""
    runs: list[Sequence[RewriteChunk]] = []
    each = min(_TASK_BYTES, sum(c.size for c in chunks) // chunk_count(session, len(chunks), per_chunk=1))
    run: list[RewriteChunk] = []
    size = 0
    for chunk in chunks:
        run.append(chunk)
        size += chunk.size
        if size >= each:
            runs.append(run)
            run, size = [], 0
    return [*runs, run] if run else runs


def collected(frame: DataFrame, rewrite: GroupRewrite, on_progress: ProgressCallback | None) -> WrittenGroups:
    """The answers of the tasks of a frame of WRITTEN."""
    doing = f"rewrite data files in {rewrite.locations.folder}"
    with translated_spark_errors(), reporting(frame.sparkSession, on_progress, doing):
        return [pickle.loads(row.written) for row in frame.collect()]


def written_batch(group: int, files: tuple[ContentFile, ...]) -> pa.RecordBatch:
    """The answer of a task."""
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps((group, files))])], schema=_WRITTEN_ARROW)
