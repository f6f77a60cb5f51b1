"""The positions of changed rows, brought together by data file, and the files that tasks write for them.

No position goes through the driver: each task gets the positions in some files, and answers with descriptions of the
files that it wrote.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import define, field

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.spark.change.file_rewrite import FileRewrite, TouchedFile
from icecore.engine.spark.change.target_rows import NUMBER, POSITION, TargetRows
from icecore.engine.spark.change.written_rows import WrittenRows
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.spark_write import translated_spark_errors
from icecore.engine.spark.task_frames import arrow_frame, chunk_count, made_in_tasks

IS_UPDATE = "__icecore_is_update"
"""The column that says whether another row takes the place of a deleted one."""
_TASK = "__icecore_task"
_FILES_OF_TASK, _BYTES_OF_TASK = 16, 8 * 2**20
_RESULT = "written binary"
_RESULT_ARROW = pa.schema([pa.field("written", pa.binary())])


def write_positions(
    positions: DataFrame,
    target: TargetRows,
    rewrite: FileRewrite,
    *,
    touched: Sequence[int] | None = None,
    may_repeat: bool = False,
) -> WrittenRows:
    """Deletes rows by their places: columns NUMBER, POSITION and IS_UPDATE, once for each row unless `may_repeat`.

    `touched` are the numbers of the files that have such rows, if they are known. Raises ValidationError where a row
    comes twice, StorageError; files that tasks wrote before an error stay behind.
    """
    numbers = range(len(target.tasks)) if touched is None else sorted(touched)
    if not numbers:
        return WrittenRows()
    touched_tasks = [target.tasks[n] for n in numbers]
    tasks = _task_count(target.session, touched_tasks, rewrite)
    # A row with the file's task, sorted before the positions in the file by its own position of -1.
    files = pa.table(
        {
            NUMBER: pa.array(numbers, pa.int32()),
            POSITION: pa.array([-1] * len(numbers), pa.int64()),
            IS_UPDATE: pa.array([False] * len(numbers)),
            _TASK: pa.array([pickle.dumps(t.slim()) for t in touched_tasks], pa.binary()),
        }
    )
    found = positions.select(NUMBER, POSITION, IS_UPDATE, F.lit(None).cast("binary").alias(_TASK))
    first, span = numbers[0], numbers[-1] - numbers[0] + 1
    chunk = F.expr(f"CAST(CAST({NUMBER} - {first} AS BIGINT) * {tasks} DIV {span} AS INT)")
    frame = found.union(arrow_frame(target.session, files)).repartitionById(tasks, chunk)
    frame = frame.sortWithinPartitions(NUMBER, POSITION)
    with translated_spark_errors():
        answers = made_in_tasks(frame, _task(rewrite, may_repeat), _RESULT).collect()
    out = WrittenRows()
    for answer in answers:
        out += pickle.loads(answer.written)
    return out


def _task_count(session: SparkSession, files: Sequence[FileScanTask], rewrite: FileRewrite) -> int:
    """The number of tasks, each with enough to do: starting one costs more than reading or writing a small file."""
    size = sum(t.file.file_size_in_bytes for t in files)
    enough = _FILES_OF_TASK if rewrite.by_position else max(1, len(files) * _BYTES_OF_TASK // max(1, size))
    return chunk_count(session, len(files), per_chunk=enough)


def _task(rewrite: FileRewrite, may_repeat: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that each Spark task runs."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        name = f"{context.partitionId():05d}-{context.taskAttemptId()}"
        written = rewrite.write(_touched(batches, may_repeat), name)
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(written)])], schema=_RESULT_ARROW)

    return write


def _touched(batches: Iterable[pa.RecordBatch], may_repeat: bool) -> Iterator[TouchedFile]:
    """The files that have positions, one after another."""
    current: _Group | None = None
    for batch in batches:
        positions = batch.column(POSITION).to_numpy(zero_copy_only=False)
        updates = batch.column(IS_UPDATE).to_numpy(zero_copy_only=False)
        heads = np.flatnonzero(positions < 0)
        if current is not None:
            end = int(heads[0]) if len(heads) else len(positions)
            current.add(positions[:end], updates[:end])
        for head, end in pairwise([*heads.tolist(), len(positions)]):
            if current is not None and current.parts:
                yield current.file(may_repeat)
            current = _Group(pickle.loads(batch.column(_TASK)[head].as_py()))
            current.add(positions[head + 1 : end], updates[head + 1 : end])
    if current is not None and current.parts:
        yield current.file(may_repeat)


@define
class _Group:
    """The positions of one file so far."""

    task: FileScanTask
    parts: list[npt.NDArray[np.int64]] = field(factory=list)
    updates: int = 0

    def add(self, positions: npt.NDArray[np.int64], updates: npt.NDArray[np.bool_]) -> None:
        if len(positions):
            self.parts.append(positions.astype(np.int64, copy=True))
            self.updates += int(updates.sum())

    def file(self, may_repeat: bool) -> TouchedFile:
        positions = np.concatenate(self.parts)
        again = np.flatnonzero(np.diff(positions) == 0)
        if len(again) and not may_repeat:
            raise ValidationError(
                f"more than one row of the source changes one row of the table: row {int(positions[again[0]])} of "
                f"{self.task.file.file_path}"
            )
        return TouchedFile(self.task, np.unique(positions) if len(again) else positions, self.updates)
