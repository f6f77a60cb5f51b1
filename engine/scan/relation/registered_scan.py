"""Scans as views of a DuckDB connection."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import duckdb
import pyarrow as pa

from icecore.engine.common.text import ascii_lower
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.errors import ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.scan.relation.file_footers import SQL
from icecore.engine.scan.relation.row_stream import RowStream
from icecore.engine.scan.relation.scan_relation import Scanned, ScanRelation, scan_relation

_NUMBERS = count()


def register_scan(connection: duckdb.DuckDBPyConnection, name: str, scan: Scanned) -> None:
    """Makes the rows of a scan a view of that name, in place of one that there is.

    Raises what planning raises, and ValidationError for what DuckDB can't have: no columns, and fields that differ in
    case alone.
    """
    if not scan.projection.fields:
        raise ValidationError("DuckDB has no views without columns: select one at least")
    for f in schema_to_arrow(scan.projection, with_ids=False):
        for alike in alike_fields(f.type):
            names = ", ".join(alike)
            raise ValidationError(
                f"fields in the column {f.name} differ in case alone, DuckDB can't have them: {names}"
            )
    prefix = f"__icecore_scan_{next(_NUMBERS)}"
    ((may_read_files,),) = duck.rows(connection, query(duck.SETTINGS, "reads_files"))
    relation = scan_relation(scan, scan.plan_files(), prefix, may_read_files=may_read_files)
    register_relation(connection, name, relation)


def alike_fields(t: pa.DataType) -> Iterator[list[str]]:
    """The names of the fields of structs, at any depth, that are one name to DuckDB, as they differ in case alone."""
    fields = [t.field(i) for i in range(t.num_fields)]
    if pa.types.is_struct(t):
        alike: dict[str, list[str]] = {}
        for name in t.names:
            alike.setdefault(ascii_lower(name), []).append(name)
        yield from (names for names in alike.values() if len(names) > 1)
    for f in fields:
        yield from alike_fields(f.type)


def register_relation(connection: duckdb.DuckDBPyConnection, name: str, relation: ScanRelation) -> list[RowStream]:
    """Makes a relation a view of that name, with all its parts registered; returns its streams.

    The streams are the connection's own: each connection has its streams of the relation, with their own errors.
    """
    streams = []
    for part, rows in relation.relations.items():
        own = rows
        if isinstance(rows, RowStream):
            own = RowStream(rows.schema, rows.read)
            streams.append(own)
        duck.register(connection, part, own)
    make_view(connection, name, relation.sql)
    return streams


def make_view(connection: duckdb.DuckDBPyConnection, name: str, sql: str) -> None:
    """Makes the rows of a query a view of that name. Raises duckdb.Error where it can't be planned."""
    duck.rows(connection, query(SQL, "view", name=quote(name), rows=sql))


def drop_view(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Drops a view, if there is one of that name."""
    duck.rows(connection, query(SQL, "no_view", name=quote(name)))
