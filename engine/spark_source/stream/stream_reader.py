"""Streams of the rows that are appended to a table, or of its changes, for `spark.readStream.format("icecore")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import define
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from icecore.engine.catalog.catalog import Catalog, open_catalog
from icecore.engine.common.optional_packages import needs
from icecore.engine.data.read.rows_of_commits import CommitFiles
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError, name_text
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark_source.batch_reader import check_shown, parts_of_changes, parts_of_rows, splitting_for
from icecore.engine.spark_source.source_options import SourceOptions
from icecore.engine.spark_source.source_rows import ChangeReader, RowReader
from icecore.engine.spark_source.source_scan import table_of, with_columns_of
from icecore.engine.spark_source.stream.stream_files import Limits, Offset, StreamFiles, numbered
from icecore.engine.spec.reserved import select
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import walk
from icecore.engine.table.table import Table

# PySpark 4.1 does not tell a source where its stream goes on.
with needs("PySpark 4.2 or later", "'pyspark>=4.2'"):
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )


@define
class _Opened:
    catalog: Catalog
    table: Table
    files: StreamFiles


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream over a table's appends, with the columns and the schema that it began with."""

    def __init__(self, options: SourceOptions, struct: T.StructType, schema_id: int | None) -> None:
        self._options = options
        self._struct = struct
        self._schema_id = schema_id
        self._limits = Limits(
            options.whole_number("max-files-per-micro-batch", least=1),
            options.whole_number("max-rows-per-micro-batch", least=1),
        )
        self._opened: _Opened | None = None

    def initialOffset(self) -> dict[str, Any]:
        """The offset that a new query begins at."""
        return self._files().first_offset().to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit of the options; where there are two, `latestOffset` keeps the other as well."""
        if self._limits.files is not None:
            return ReadMaxFiles(self._limits.files)
        return ReadAllAvailable() if self._limits.rows is None else ReadMaxRows(self._limits.rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The offset of the next micro-batch's end; `start` where nothing was committed since."""
        limits = Limits() if isinstance(limit, ReadAllAvailable) else self._limits
        return self._files().next_offset(Offset.of(start), limits).to_dict()

    def prepareForTriggerAvailableNow(self) -> None:
        """Keeps the stream to the snapshots that are there now."""
        self._files().end_here()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The files of a micro-batch, in parts for Spark's tasks.

        Raises ValidationError where a column has another type by now, and what `StreamFiles.between` raises.
        """
        files = self._files()
        last = Offset.of(end)
        pieces = files.between(Offset.of(start), last)
        if not pieces or last.snapshot_id is None:
            return []
        table = files.table
        schema = table.schema() if self._schema_id is None else table.metadata.schema_by_id(self._schema_id)
        chosen = self._options.columns if self._options.text("columns") else tuple(self._struct.names)
        splitting = splitting_for(table.properties, self._options)
        reader: RowReader | ChangeReader
        if self._options.is_changelog:
            commits = numbered(p for p in pieces if isinstance(p, CommitFiles))
            reader = ChangeReader(with_columns_of(files.changes_of(last.snapshot_id), schema, chosen).rows)
            projection, parts = reader.rows.projection, parts_of_changes(commits, splitting)
        else:
            reader = RowReader.of(select(schema, chosen), schema, table.metadata, table.scan().storage)
            projection = reader.projection
            parts = parts_of_rows([p for p in pieces if isinstance(p, FileScanTask)], splitting)
        check_shown(projection, self._struct)
        _check_types(projection, table)
        return [InputPartition((reader, part)) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        reader, tasks = partition.value
        yield from reader.batches(tasks)

    def stop(self) -> None:
        """Closes the warehouse."""
        if self._opened is not None:
            self._opened.catalog.close()
            self._opened = None

    def _files(self) -> StreamFiles:
        """The files of the table as it is now; the warehouse stays open from one micro-batch to the next."""
        if self._opened is None:
            catalog = open_catalog(self._options.warehouse, create=False)
            table = table_of(catalog, self._options)
            self._opened = _Opened(catalog, table, StreamFiles(table, self._options))
        else:
            self._opened.table.refresh()
        return self._opened.files

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}


def _check_types(projection: Schema, table: Table) -> None:
    """Raises ValidationError where the table gave a column another type: new files may have values that don't fit."""
    now = table.schema()
    for f in walk(projection.fields):
        found = now.get_field(f.field_id)
        if found is not None and f.field_type.is_primitive and found.field_type != f.field_type:
            raise ValidationError(
                f"{name_text(table.name())}: the stream began with {f.field_type} as the type of {f.name!r}, which is "
                f"{found.field_type} by now: started again, it goes on with that"
            )
