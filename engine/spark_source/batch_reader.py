"""Reads of a table or a metadata table by Spark's tasks, planned in one process and read in others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import evolve, frozen
from pyspark.sql.datasource import DataSourceReader, InputPartition

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.data.arrow.arrow_schema import arrow_to_schema, schema_to_arrow
from icecore.engine.data.read.rows_of_commits import CommitFiles
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.conform import conform
from icecore.engine.errors import ValidationError
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_types import schema_to_spark
from icecore.engine.spark_source.shown_arrow import shown_batch, spark_arrow_schema
from icecore.engine.spark_source.source_options import SourceOptions
from icecore.engine.spark_source.source_rows import ChangeReader, RowReader
from icecore.engine.spec.schema import Schema
from icecore.projections.plan.splits import CombinedTask, Splitting, combine, split_tasks, splitting_of, weight

_ROWS_PER_BATCH = 10_000


Part: TypeAlias = tuple[FileScanTask, ...] | tuple[CommitFiles, ...]
"""The files, or commits with their files, that one Spark task reads, without the metrics of files."""


@frozen
class _Plan:
    """The part of a read that only the planning process has; the catalog is closed when the parts are planned."""

    catalog: Catalog
    parts: Callable[[], Sequence[Part]]


def splitting_for(properties: Mapping[str, str], options: SourceOptions) -> Splitting:
    """The table's `read.split.*`, with the size in bytes of the option `split-size` where it is given."""
    splitting, size = splitting_of(properties), options.whole_number("split-size", least=1)
    return splitting if size is None else evolve(splitting, target_size=size)


def combined(tasks: Sequence[FileScanTask], splitting: Splitting) -> list[CombinedTask]:
    """The tasks split and combined, one combined task for each Spark task."""
    return combine(split_tasks(tasks, splitting), splitting)


def parts_of_rows(tasks: Sequence[FileScanTask], splitting: Splitting) -> list[Part]:
    """The parts of a scan."""
    return [tuple(t.slim() for t in part.tasks) for part in combined(tasks, splitting)]


def parts_of_changes(commits: Iterable[CommitFiles], splitting: Splitting) -> list[Part]:
    """The parts of a changelog: a commit whose rows must be compared is a part by itself, others share parts."""
    alone: list[Part] = []
    bins: list[tuple[int, list[CommitFiles]]] = []
    for commit in commits:
        if commit.must_be_compared:
            alone.append((commit.slim(),))
            continue
        for part in combined(commit.tasks, splitting):
            tasks = tuple(t.slim() for t in part.tasks)
            files = evolve(commit, gone=tasks) if commit.gone else evolve(commit, come=tasks)
            size = sum(weight(t, splitting) for t in tasks)
            if not bins or bins[-1][0] + size > splitting.target_size:
                bins.append((0, []))
            bins[-1] = (bins[-1][0] + size, [*bins[-1][1], files])
    return [*alone, *(tuple(files) for _, files in bins)]


class TableReader(DataSourceReader):
    """The read of a scan or a changelog. The plan is made here; only what a task needs goes to it.

    It takes no filters from Spark (`pushFilters`): Spark keeps the parts that were planned for one query of a DataFrame
    for all its other queries, which would miss rows.
    """

    def __init__(
        self, catalog: Catalog, parts: Callable[[], Sequence[Part]], row_reader: RowReader | ChangeReader
    ) -> None:
        self._plan: _Plan | None = _Plan(catalog, parts)
        self._row_reader: Any = row_reader

    def partitions(self) -> Sequence[InputPartition]:
        """The parts of the plan; empty where no row can match. It closes the catalog, so it plans once."""
        if self._plan is None:
            return []
        with self._plan.catalog:
            return [InputPartition(part) for part in self._plan.parts()]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        return iter(self._row_reader.batches(_value(partition) or ()))

    def __getstate__(self) -> dict[str, Any]:
        return {"_plan": None, "_row_reader": self._row_reader}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class RowsReader(DataSourceReader):
    """The read of rows that are there already: those of a metadata table."""

    def __init__(self, rows: pa.Table, schema: Schema) -> None:
        self._rows: pa.Table | None = rows
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The rows, in batches."""
        if self._rows is None:
            return []
        return [InputPartition(b) for b in self._rows.to_batches(max_chunksize=_ROWS_PER_BATCH)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """The rows of a batch."""
        if (batch := _value(partition)) is not None:
            yield shown_batch(batch, self._schema, spark_arrow_schema(schema_to_spark(self._schema)))

    def __getstate__(self) -> dict[str, Any]:
        return {"_rows": None, "_schema": self._schema}


def _value(partition: InputPartition | None) -> Any:
    """The part that a task is to read; None where there is none: PySpark 4.1 then gives no partition either."""
    return None if partition is None else partition.value


def rows_and_schema(rows: pa.Table) -> tuple[pa.Table, Schema]:
    """Rows in the Arrow types of a schema that Spark can show."""
    schema = arrow_to_schema(rows.schema)
    return pa.table(conform(rows, schema).columns, schema=schema_to_arrow(schema, with_ids=False)), schema


def check_shown(found: Schema, wanted: T.StructType) -> None:
    """Raises ValidationError where a DataFrame's schema is not that of the rows it is to have."""
    shown = schema_to_spark(found)
    if [(f.name, f.dataType) for f in shown] != [(f.name, f.dataType) for f in wanted]:
        raise ValidationError(
            f"the schema of the read is {wanted.simpleString()}, the table has {shown.simpleString()}"
        )
