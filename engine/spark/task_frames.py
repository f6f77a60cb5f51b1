"""DataFrames whose rows Python makes in Spark's tasks."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias, TypeVar

import pyarrow as pa
from attrs import frozen

from icecore.engine.common.fork_safety import Lock
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.worker.archive_importers import forget_archives

Batches: TypeAlias = Iterator[pa.RecordBatch]
Item = TypeVar("Item")

_ROUNDS = 4
_CORES_IN_CONNECT = 8
_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_limiting = Lock()


def file_prefix_of_task(prefix: str) -> str:
    """The prefix for names of the files that the calling task writes.

    The attempt's id is unique in the application, so no retried or speculative task shares a name.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    return f"{prefix}-{context.partitionId():05d}-{context.taskAttemptId()}"


@frozen
class _Task:
    """A function of a task's batches, after which its worker is quick to begin the next task."""

    function: Callable[[Batches], Batches]

    def __call__(self, batches: Batches) -> Batches:
        try:
            yield from self.function(batches)
        finally:
            forget_archives()


def made_in_tasks(frame: DataFrame, task: Callable[[Batches], Batches], struct: T.StructType | str) -> DataFrame:
    """The batches that a function makes of the batches of each Spark task; `struct` is their type."""
    return frame.mapInArrow(_Task(task), struct)


def arrow_frame(session: SparkSession, rows: pa.Table, struct: T.StructType | str | None = None) -> DataFrame:
    """The rows of an Arrow table in the driver; `struct` is their type, where Arrow's alone does not tell it."""
    with _limited_batches(session):
        return session.createDataFrame(rows, struct)


@contextlib.contextmanager
def _limited_batches(session: SparkSession) -> Iterator[None]:
    """A context in which a session limits the records of a batch: PySpark takes no limit for batches of no records."""
    if not hasattr(session, "_jsparkSession") or int(session.conf.get(_RECORDS) or 0) > 0:
        yield
        return
    with _limiting:
        given = session.conf.get(_RECORDS)
        session.conf.set(_RECORDS, str(10_000))
        try:
            yield
        finally:
            session.conf.set(_RECORDS, given)


def mapped(
    session: SparkSession, chunks: Sequence[Sequence[Item]], read: Callable[[list[Item]], Batches], struct: T.StructType
) -> DataFrame:
    """The batches that `read` yields for each chunk of items, in a Spark task of its own; `struct` is their type."""

    def task(batches: Batches) -> Batches:
        for batch in batches:
            for payload in batch.column("payload").to_pylist():
                yield from read(pickle.loads(payload))

    payloads = pa.array([pickle.dumps(list(c)) for c in chunks], pa.binary())
    table = pa.table({"place": pa.array(range(len(chunks)), pa.int64()), "payload": payloads})
    # A range has exactly the partitions it is asked for, and a broadcast join keeps them.
    places = session.range(0, len(chunks), 1, len(chunks))
    frame = places.join(F.broadcast(arrow_frame(session, table)), F.col("id") == F.col("place"))
    return made_in_tasks(frame.select("payload"), task, struct)


def chunked(session: SparkSession, items: Sequence[Item], *, per_chunk: int) -> list[Sequence[Item]]:
    """The items in runs of about `per_chunk`, but no more runs than keep all cores busy for a few rounds.

    Each run becomes a task, which costs more to start than a small file takes to read.
    """
    count = chunk_count(session, len(items), per_chunk=per_chunk)
    bounds = [len(items) * i // count for i in range(count + 1)]
    return [items[a:b] for a, b in pairwise(bounds)]


def chunk_count(session: SparkSession, items: int, *, per_chunk: int) -> int:
    """The number of runs that `chunked` makes of so many items."""
    return max(1, min(_ROUNDS * _cores(session), -(-items // per_chunk)))


def _cores(session: SparkSession) -> int:
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Connect doesn't say, with an error class of its own
        return _CORES_IN_CONNECT
