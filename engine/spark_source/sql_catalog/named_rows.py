"""Tables, metadata tables and views as Spark's SQL catalog is told of them, each with what answers for its rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from attrs import frozen

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import number_in
from icecore.engine.errors import IcecoreError, ValidationError, name_text
from icecore.engine.scan import planned_by_spark
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.scan_to_spark import prepare_to_read
from icecore.engine.spark.read.write_defaults import with_write_defaults
from icecore.engine.spark.spark_sql_text import quote
from icecore.engine.spark.spark_types import schema_to_spark
from icecore.engine.spark_source.batch_reader import rows_and_schema
from icecore.engine.spark_source.metadata_rows_of_table import metadata_rows, metadata_table
from icecore.engine.spark_source.shown_arrow import shown_frame
from icecore.engine.spark_source.sql_catalog.named_scan import AsOf, NamedScans, check_no_options
from icecore.engine.spark_source.sql_catalog.table_changes import change_table, exact_filter, filter_within
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import METADATA_COLUMNS, PARTITION
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import BucketTransform, TruncateTransform, VoidTransform
from icecore.engine.table.table import Table

_log = logging.getLogger(__name__)
_SIZE = "total-files-size"
_NO_COLUMNS = T.StructType([])


@frozen
class NamedRows:
    """The meaning of a name: `facts`, of which Java makes a table, and the answers for its rows and changes."""

    facts: str
    answers: Answers


class Answers:
    """The answers to Java's questions; errors go back as text, not as a trace of Python."""

    def answer(self, question: Sequence[Any]) -> Any:
        """The answer to a question, the first part of which says what is asked for."""
        raise NotImplementedError  # each kind of answers its own

    def apply(self, place: Any) -> None:
        """Puts the answer in the place of Java's question: a Java object, or JSON. See `LakeCalls.java`."""
        question = place.get()
        place.set(self._answered(json.loads(question) if isinstance(question, str) else question))

    def _answered(self, question: Sequence[Any]) -> Any:
        try:
            found = self.answer(question)
            return found._jdf if isinstance(found, DataFrame) else found
        except IcecoreError as e:
            return json.dumps({"error": f"{type(e).__name__}: {e}"})
        except Exception as e:  # of Spark too, whose trace would be Java's
            _log.debug("a question of Spark could not be answered", exc_info=True)
            return json.dumps({"error": f"{type(e).__name__}: {str(e).split(chr(10) + chr(9) + 'at ')[0]}"})


@frozen(eq=False)
class TableAnswers(Answers):
    """A table at one of its snapshots. `find` gives the current table for a change; without it nothing is changed."""

    session: SparkSession
    table: Table
    scans: NamedScans
    find: Callable[[], Table] | None

    def answer(self, question: Sequence[Any]) -> Any:
        """The rows or aggregates of them, or an empty list after a change."""
        if question[0] == "rows":
            return self._rows(*question[1:])
        if question[0] == "aggregates":
            return json.dumps(self._aggregates(*question[1:]))
        if self.find is None:
            raise ValidationError("a catalog of the past can't be changed")
        now = self.find()
        if _shape(now) != _shape(self.table):
            raise ValidationError(
                f"{name_text(now.name())}: its columns changed since the statement was analysed: run it again"
            )
        change_table(self.session, now, list(question))
        return json.dumps([])

    def _rows(self, names: Sequence[str], filter_text: str | None, given: Mapping[str, str]) -> DataFrame:
        # A dot in a name would mean a field of a struct.
        if any("." in f.name for f in self.scans.scan(("*",), given, self.session).schema.fields):
            names = ("*", *(n for n in names if n in _metadata_names(self.table)))
        scan = self.scans.scan(names, given, self.session)
        return scan.to_spark_filtered_there(self.session, filter_within(filter_text, scan.schema))

    def _aggregates(
        self, filter_text: str, asked: Sequence[tuple[str, str | None]], given: Mapping[str, str]
    ) -> Sequence[str | None] | None:
        scan = self.scans.scan(("*",), given, self.session)
        condition, known = exact_filter(filter_text, scan.schema), planned_by_spark.replanned(scan)
        if condition is None or known is None:
            return None
        columns = {f.name: f for f in scan.schema.fields}
        return known.known(condition, [(function, None if n is None else columns[n]) for function, n in asked])


@frozen(eq=False)
class GivenRows(Answers):
    """A view or metadata table, whose rows are those of the moment when it was named."""

    session: SparkSession
    rows: DataFrame
    name: str

    def answer(self, question: Sequence[Any]) -> Any:
        """The rows; they can't be changed."""
        if question[0] not in ("rows", "aggregates"):
            raise ValidationError(f"{self.name} is no table: its rows can't be changed")
        check_no_options(question[-1], self.name, self.session)
        return self.rows if question[0] == "rows" else json.dumps(None)


def table_rows(
    session: SparkSession, catalog: Catalog | CatalogAt, name: str, identifier: Identifier, chosen: AsOf
) -> NamedRows:
    """A table, as of now, of a version or of a time. Raises NoSuchTableError, NoSuchSnapshotError."""
    prepare_to_read(session)
    table = catalog.load_table(identifier)
    options = chosen.options(table)
    scan = table.scan(**options)
    snapshot_id = None if scan.snapshot is None else scan.snapshot.snapshot_id
    hidden = table.scan(selected_fields=_metadata_names(table), **options).projection
    size = None if scan.snapshot is None else (scan.snapshot.summary or {}).get(_SIZE)
    facts = {
        "name": name,
        "state": f"{table.metadata.table_uuid} {table._state.stream_version} {snapshot_id} {scan.schema.schema_id}",
        "schema": with_write_defaults(scan.schema).json(),
        "metadata": schema_to_spark(hidden).json(),
        "partitioning": list(_partitioning(table.metadata, scan.schema)),
        "properties": {**table.properties, "format-version": str(table.metadata.format_version)},
        "size": None if size is None else number_in(size),
        "streamed": _streamed(catalog, identifier) if isinstance(catalog, Catalog) and chosen == AsOf() else None,
    }
    find = (lambda: catalog.load_table(identifier)) if isinstance(catalog, Catalog) else None

    def table_at(position: int) -> Table:
        if not isinstance(catalog, Catalog):
            raise ValidationError(f"a catalog of the past is at position {catalog.position}, there is no other")
        return catalog.at(position).load_table(identifier)

    return NamedRows(json.dumps(facts), TableAnswers(session, table, NamedScans(table, options, table_at), find))


def other_rows(
    session: SparkSession, catalog: Catalog | CatalogAt, name: str, identifier: Identifier
) -> NamedRows | None:
    """A metadata table or a view of a catalog; None where there is none of that name.

    Raises ValidationError where a view can't be read.
    """
    position = catalog.position
    found = metadata_table(catalog, identifier)
    if found is not None:
        rows, schema = rows_and_schema(metadata_rows(catalog, *found))
        frame = shown_frame(session, rows, schema)
    elif catalog.view_exists(identifier):
        view = catalog.load_view(identifier)
        schema, frame = view.schema(), view.to_spark(session)
    else:
        return None
    # Commits that came meanwhile may be in the rows or not, so no other rows are known to be equal to them.
    state = str(position) if catalog.position == position else str(uuid4())
    facts = {
        "name": name,
        "state": f"{name_text(identifier)} {state}",
        "schema": schema_to_spark(schema).json(),
        "metadata": _NO_COLUMNS.json(),
        "partitioning": [],
        "properties": {},
        "size": None,
        "streamed": None,
    }
    return NamedRows(json.dumps(facts), GivenRows(session, frame, name))


def _streamed(catalog: Catalog, identifier: Identifier) -> dict[str, str]:
    """The options by which `format("icecore")` finds a table."""
    return {"warehouse": str(catalog.path.absolute()), "table": quote(*identifier)}


def _shape(table: Table) -> tuple[str | None, int]:
    return table.metadata.table_uuid, table.metadata.current_schema_id


def _metadata_names(table: Table) -> tuple[str, ...]:
    """The metadata columns whose names no column of the table has, ignoring case."""
    taken = {f.name.lower() for s in table.metadata.schemas for f in s.fields}
    return tuple(n for n in (*METADATA_COLUMNS, PARTITION) if n not in taken)


def _partitioning(metadata: TableMetadata, schema: Schema) -> Iterator[list[Any]]:
    """The partition fields in Spark's words: a transform's name and its arguments, columns as text."""
    for f in metadata.spec().fields:
        if schema.get_field(f.source_id) is None or isinstance(f.transform, VoidTransform):
            continue
        column = quote(*(schema.find_field(i).name for i in schema.id_path(f.source_id)))
        match f.transform:
            case BucketTransform(num_buckets=n):
                yield ["bucket", n, column]
            case TruncateTransform(width=n):
                yield ["truncate", n, column]
            case transform:
                plural = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
                yield [plural.get(str(transform), str(transform)), column]
