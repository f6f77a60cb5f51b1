"""The new rows of a change, written as data files. Spec: Row Lineage (RL6)."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

from attrs import define, evolve

from icecore.engine.errors import IcecoreError
from icecore.engine.properties.data_locations import DataLocations
from icecore.engine.properties.table_properties import DISTRIBUTION_MODE
from icecore.engine.spark.change.target_rows import KEPT_ROW_ID
from icecore.engine.spark.change.written_rows import WrittenRows
from icecore.engine.spark.pyspark_api import DataFrame
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_conform import column_name, conform_frame
from icecore.engine.spark.spark_write import translated_spark_errors, write_frame_files
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import ROW_ID, with_columns
from icecore.engine.storage.file_io import Storage

_UNORDERED = ("variant", "geometry", "geography")


def conformed(frames: Sequence[DataFrame], metadata: TableMetadata) -> DataFrame:
    """The rows of all frames as the table takes them. Raises ValidationError where columns don't fit.

    A column KEPT_ROW_ID, of the ids that rows keep, becomes `_row_id`.
    """
    schema = with_columns(metadata.schema(), evolve(ROW_ID, name=KEPT_ROW_ID))
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), [conform_frame(f, schema) for f in frames])
    names = {column_name(f.field_id): f.name for f in (*metadata.schema().fields, ROW_ID)}
    return rows.toDF(*(names[c] for c in rows.columns))


def write_rows(rows: DataFrame, metadata: TableMetadata, storage: Storage) -> WrittenRows:
    """Writes conformed rows as data files. Raises ValidationError, StorageError."""
    # Before v3 a column of that name is the table's own.
    keeps_ids = metadata.format_version >= 3 and ROW_ID.name in rows.columns
    if not metadata.spec().fields and DISTRIBUTION_MODE.of(metadata.properties) != "none":
        # The rows lie scattered over as many partitions of Spark as those that were searched.
        rows = rows.hint("rebalance")
    files = write_frame_files(
        rows,
        schema=with_columns(metadata.schema(), ROW_ID) if keeps_ids else metadata.schema(),
        spec=metadata.spec(),
        sort_order=metadata.sort_order(),
        location=DataLocations.of(metadata.location, metadata.properties),
        properties=metadata.properties,
        file_prefix=str(uuid.uuid4()),
        storage=storage,
    )
    return WrittenRows(added=tuple(files), rows_inserted=sum(f.record_count for f in files))


@contextlib.contextmanager
def computed_once(frame: DataFrame) -> Iterator[DataFrame]:
    """The rows as they are now, kept by Spark's executors in the context, so that all jobs see the same ones."""
    with translated_spark_errors():
        kept = frame.localCheckpoint(eager=True)
    try:
        yield kept
    finally:
        # Connect frees the rows with the last reference to them; one that an error holds makes Python hang at its end.
        plan: Any = getattr(kept, "_plan", None)
        if getattr(plan, "_relation_id", None) is not None and hasattr(plan, "__del__"):
            plan.__del__()
            plan._relation_id = None


def is_ordered(t: T.DataType) -> bool:
    """Whether Spark can order values of a type: those with maps, variants or shapes in them have no order."""
    match t:
        case T.StructType():
            return all(is_ordered(f.dataType) for f in t.fields)
        case T.ArrayType():
            return is_ordered(t.elementType)
    return isinstance(t, T.AtomicType) and t.typeName() not in _UNORDERED


def with_row_numbers(frame: DataFrame, column: str) -> DataFrame:
    """Rows that have an order, with a number each, which stays if Spark runs a task twice on rows in another order."""
    ordered = frame.select("*", F.struct("*").alias(column)).sortWithinPartitions(column)
    return ordered.withColumn(column, F.monotonically_increasing_id())


@define
class Written:
    """All that jobs wrote so far."""

    rows: WrittenRows = WrittenRows()

    def add(self, more: WrittenRows) -> None:
        """Notes what one more job wrote."""
        self.rows += more


@contextlib.contextmanager
def discarding_on_error(storage: Storage) -> Iterator[Written]:
    """A context in which an error deletes the files of the jobs that were done, as nothing is committed then."""
    written = Written()
    try:
        yield written
    except BaseException:
        for file in written.rows.added:
            with contextlib.suppress(IcecoreError):
                storage.delete(file.file_path)
        raise
