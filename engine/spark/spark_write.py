"""The writer of data files in Spark tasks: the DataFrame is clustered by partition, each task writes with pyarrow.

Spark's own Parquet writer can't store the field ids of list elements, map keys and map values, nor uuid and fixed. Each
task returns one row for each file; files of tasks that failed or ran twice are in no row, so they are never committed.
"""

from __future__ import annotations

import contextlib
import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from icecore.engine import errors
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import IcecoreError
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.spark.distribution import distribute, is_shuffled
from icecore.engine.spark.pyspark_api import DataFrame
from icecore.engine.spark.spark_conform import column_name, conform_frame
from icecore.engine.spark.spark_times import times_from_longs
from icecore.engine.spark.task_frames import file_prefix_of_task, made_in_tasks
from icecore.engine.spark.worker.batch_size import (
    can_count,
    has_texts,
    in_counted_batches,
    interruptible,
    is_long_row,
    with_short_rows,
)
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortOrder
from icecore.engine.storage.file_io import Storage

_RESULT = "file binary"
_RESULT_ARROW = pa.schema([pa.field("file", pa.binary())])
# A Python error at the end of its trace, up to where Spark's own text goes on.
_RAISED = re.compile(
    r"^icecore\.engine\.errors\.(\w+): (.*?)\s*(?=\n\s*SQLSTATE:|\n\s+at |\n\n|\Z)", re.MULTILINE | re.DOTALL
)

_Task: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def write_frame_files(
    df: DataFrame,
    *,
    schema: Schema,
    spec: PartitionSpec,
    location: str | DataLocations,
    storage: Storage,
    properties: Mapping[str, str],
    file_prefix: str,
    sort_order: SortOrder | None = None,
) -> list[ContentFile]:
    """Writes the rows of a DataFrame as Parquet data files of a table and describes them, ready to be committed.

    The columns are made to fit the schema by name (see `conform_frame`), the rows are clustered by the spec and sorted
    (see `distribute`). Files are named as by `write_data_files`, with the prefix `<file_prefix>-<task>-<attempt>`;
    `file_prefix` must be new for each call. The DataFrame is computed once, or begun anew at a row of long texts (see
    `with_short_rows`).

    Raises ValidationError where data, spec, order or a property doesn't fit, StorageError where writing fails. What
    tasks wrote before an error stays behind as orphan files.
    """
    spec.check_known()
    spec.check(schema)
    if sort_order is not None:
        sort_order.check_known()
        sort_order.check(schema)
    schema_to_arrow(schema)
    frame = conform_frame(df, schema)
    arranged = partial(distribute, schema=schema, spec=spec, sort_order=sort_order, properties=properties)
    task = _task(schema, spec, location, storage, dict(properties), file_prefix, sort_order)
    # A long text fails the job, so it has to be found before any task writes.
    countable = can_count(frame) and (not has_texts(frame) or is_shuffled(frame, schema, spec, properties))
    with translated_spark_errors():
        rows = _answers(frame, arranged, task, countable=countable)
    return [pickle.loads(row.file) for row in rows]


def _answers(
    frame: DataFrame, arranged: Callable[[DataFrame], DataFrame], task: _Task, *, countable: bool
) -> list[Any]:
    """The rows that tasks return for the frame's rows, which come in counted batches where they are short."""
    if countable:
        try:
            counted = in_counted_batches(arranged(with_short_rows(frame)))
            with interruptible(frame.sparkSession):
                return list(made_in_tasks(counted, task, _RESULT).collect())
        except Exception as e:
            if not is_long_row(e):
                raise
    return list(made_in_tasks(arranged(frame), task, _RESULT).collect())


def _task(
    schema: Schema,
    spec: PartitionSpec,
    location: str | DataLocations,
    storage: Storage,
    properties: Mapping[str, str],
    file_prefix: str,
    sort_order: SortOrder | None,
) -> _Task:
    """The function that each Spark task runs; of the driver's objects only the arguments go with it."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = {column_name(f.field_id): f.name for f in schema.fields}
        files = write_data_files(
            (times_from_longs(b.rename_columns([names[n] for n in b.schema.names]), schema) for b in batches),
            schema=schema,
            spec=spec,
            location=location,
            storage=storage,
            properties=properties,
            file_prefix=file_prefix_of_task(file_prefix),
            sort_order=sort_order,
            presorted=True,
        )
        if files:
            yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(f) for f in files])], schema=_RESULT_ARROW)

    return write


@contextlib.contextmanager
def translated_spark_errors() -> Iterator[None]:
    """A context that raises the IcecoreError of a task, instead of Spark's exception with its trace."""
    try:
        yield
    except IcecoreError:
        raise
    except Exception as e:
        # The last error: those before it are its causes.
        found = list(_RAISED.finditer(str(e)))[-1:]
        kind = getattr(errors, found[0][1], None) if found else None
        if not (isinstance(kind, type) and issubclass(kind, IcecoreError)):
            raise
        raise kind(found[0][2]) from e
