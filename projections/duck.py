"""Running a statement in DuckDB to its end: a result that is left half-read blocks its connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa


def arrow(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
    """The rows of a query; none, without columns, of a statement that gives no rows."""
    relation = connection.sql(sql, params=dict(parameters)) if parameters else connection.sql(sql)
    table: pa.Table = pa.table({}) if relation is None else relation.to_arrow_table()
    return table


def rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    """The rows of a query as tuples."""
    result = connection.execute(sql, dict(parameters)) if parameters else connection.execute(sql)
    return result.fetchall()


def literal(text: str) -> str:
    """A string in SQL, for statements that take no parameters."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def registered(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> Iterator[None]:
    """An Arrow table under a name, inside of the block."""
    connection.register(name, table)
    try:
        yield
    finally:
        connection.unregister(name)
