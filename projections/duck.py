"""Running a statement in DuckDB to its end: a result that is left half-read blocks its connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import duckdb
import pyarrow as pa
from attrs import field, frozen


@frozen
class Statement:
    """A statement that was run, with the values that were bound."""

    sql: str
    parameters: Mapping[str, Any] = field(factory=dict)


_recorded: ContextVar[list[Statement] | None] = ContextVar("recorded", default=None)


@contextmanager
def recording() -> Iterator[list[Statement]]:
    """The statements that this thread runs inside of the block, in order."""
    found: list[Statement] = []
    token = _recorded.set(found)
    try:
        yield found
    finally:
        _recorded.reset(token)


def _record(sql: str, parameters: Mapping[str, Any] | None) -> None:
    found = _recorded.get()
    if found is not None:
        found.append(Statement(sql, dict(parameters or {})))


def arrow(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
    """The rows of a query; none, without columns, of a statement that gives no rows."""
    _record(sql, parameters)
    relation = connection.sql(sql, params=dict(parameters)) if parameters else connection.sql(sql)
    table: pa.Table = pa.table({}) if relation is None else relation.to_arrow_table()
    return table


def rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    """The rows of a query as tuples."""
    _record(sql, parameters)
    result = connection.execute(sql, dict(parameters)) if parameters else connection.execute(sql)
    return result.fetchall()
