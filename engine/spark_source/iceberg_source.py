"""`format("icecore")`: tables of a warehouse as a Python data source of Spark.

Each call of Spark comes in a process of its own, which opens the warehouse for that call.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa

from icecore.engine.catalog.catalog import Catalog, open_catalog
from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.common.optional_packages import needs
from icecore.engine.errors import name_text
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_types import schema_to_spark
from icecore.engine.spark_source.batch_reader import (
    RowsReader,
    TableReader,
    check_shown,
    parts_of_changes,
    parts_of_rows,
    rows_and_schema,
    splitting_for,
)
from icecore.engine.spark_source.batch_writer import TableWriter
from icecore.engine.spark_source.metadata_rows_of_table import metadata_rows, metadata_table
from icecore.engine.spark_source.source_options import (
    METADATA,
    READING,
    STREAM_WRITING,
    STREAMING,
    WRITING,
    SourceOptions,
)
from icecore.engine.spark_source.source_rows import ChangeReader, RowReader
from icecore.engine.spark_source.source_scan import (
    Pin,
    catalog_of,
    changelog_of,
    scan_of,
    shown_columns,
    shown_scan,
    table_of,
)
from icecore.engine.spark_source.write_plan import PREFIX
from icecore.engine.spec.schema import Schema

with needs("PySpark", "'icecore[spark]'"):
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )

FORMAT = "icecore"


class IcecoreSource(DataSource):
    """The tables of a warehouse. A DataFrame stays on the snapshot and the schema that it was made of.

    In Spark Connect the server makes it again, maybe of a newer snapshot.
    """

    default_warehouse: ClassVar[str | None] = None
    folder: ClassVar[str] = ""
    _pin: Pin | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def _options(self, known: frozenset[str], *prefixes: str) -> SourceOptions:
        given: dict[str, Any] = dict(self.options)
        if self.default_warehouse is not None:
            given.setdefault("warehouse", self.default_warehouse)
        return SourceOptions.of(given, known, prefixes=prefixes, folder=self.folder)

    def schema(self) -> T.StructType:
        """The columns of the table, or those of them that are asked for."""
        # Spark does not say here whether it is to be a stream.
        options = self._options(READING | STREAMING)
        with open_catalog(options.warehouse, create=False) as catalog:
            past = catalog_of(catalog, options)
            metadata = _metadata(past, options)
            if metadata is not None:
                return schema_to_spark(metadata[1])
            scan = shown_scan(table_of(past, options), options)
            self._pin = Pin.of(scan)
            return schema_to_spark(shown_columns(scan, options))

    def reader(self, schema: T.StructType) -> DataSourceReader:
        """The read of the columns of `schema`."""
        options = self._options(READING)
        catalog = open_catalog(options.warehouse, create=False)
        try:
            return self._reader(catalog, options, schema)
        except BaseException:
            catalog.close()
            raise

    def _reader(self, catalog: Catalog, options: SourceOptions, schema: T.StructType) -> DataSourceReader:
        past = catalog_of(catalog, options)
        metadata = _metadata(past, options)
        if metadata is not None:
            rows, of_rows = metadata
            catalog.close()
            check_shown(of_rows, schema)
            return RowsReader(rows, of_rows)
        table = table_of(past, options)
        selected = options.columns if options.text("columns") else tuple(schema.names)
        splitting = splitting_for(table.properties, options)
        if options.is_changelog:
            changes = changelog_of(table, options, selected, self._pin)
            check_shown(changes.projection, schema)
            return TableReader(
                catalog, lambda: parts_of_changes(changes.commits(), splitting), ChangeReader(changes.rows)
            )
        scan = scan_of(table, options, selected, self._pin)
        check_shown(scan.projection, schema)
        row_reader = RowReader.of(scan.projection, scan.schema, table.metadata, scan.storage)
        return TableReader(catalog, lambda: parts_of_rows(scan.plan_files(), splitting), row_reader)

    def writer(self, schema: T.StructType, overwrite: bool) -> DataSourceWriter:
        """The write of rows with the columns of `schema`."""
        return TableWriter(self._options(WRITING, PREFIX), schema, overwrite)

    def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:
        """The stream of rows that are appended, with the columns of `schema`."""
        from icecore.engine.spark_source.stream.stream_reader import StreamReader

        pin = self._pin
        return StreamReader(self._options(STREAMING), schema, None if pin is None else pin.schema_id)

    def streamWriter(self, schema: T.StructType, overwrite: bool) -> DataSourceStreamWriter:
        """The stream into the table, of rows with the columns of `schema`."""
        from icecore.engine.spark_source.stream.stream_writer import StreamTableWriter

        return StreamTableWriter(self._options(STREAM_WRITING, PREFIX), schema, overwrite)


def _metadata(catalog: Catalog | CatalogAt, options: SourceOptions) -> tuple[pa.Table, Schema] | None:
    """The rows of a metadata table, and their schema; None where the options name none. Raises ValidationError."""
    found = metadata_table(catalog, options.identifier)
    if found is None:
        return None
    options.check_only(METADATA, f"the metadata table {name_text(options.identifier)}")
    return rows_and_schema(metadata_rows(catalog, *found))
