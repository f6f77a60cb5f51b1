"""Scans as views of a DuckDB connection."""

from __future__ import annotations

import itertools

import duckdb

from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.scan.relation.file_footers import SQL
from icecore.engine.scan.relation.row_stream import RowStream
from icecore.engine.scan.relation.scan_relation import Scanned, ScanRelation, scan_relation

_NUMBERS = itertools.count()


def register_scan(connection: duckdb.DuckDBPyConnection, name: str, scan: Scanned) -> None:
    """Makes the rows of a scan a view of that name, in place of one that there is. Raises what planning raises."""
    prefix = f"__icecore_scan_{next(_NUMBERS)}"
    ((may_read_files,),) = duck.rows(connection, query(duck.SETTINGS, "reads_files"))
    relation = scan_relation(scan, scan.plan_files(), prefix, may_read_files=may_read_files)
    register_relation(connection, name, relation)


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
        connection.register(part, own)
    make_view(connection, name, relation.sql)
    return streams


def make_view(connection: duckdb.DuckDBPyConnection, name: str, sql: str) -> None:
    """Makes the rows of a query a view of that name. Raises duckdb.Error where it can't be planned."""
    duck.rows(connection, query(SQL, "view", name=quote(name), rows=sql))


def drop_view(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """Drops a view, if there is one of that name."""
    duck.rows(connection, query(SQL, "no_view", name=quote(name)))
