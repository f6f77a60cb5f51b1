"""Execution of statements in DuckDB, to their end: a result that is left half-read blocks its connection."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import reduce
from typing import Any

import duckdb
import pyarrow as pa
from attrs import field, frozen

from icecore.engine.queries.named_queries import query

SETTINGS = "settings/duckdb.sql"


@frozen
class Statement:
    """A statement that was run, with its bound values."""

    sql: str
    parameters: Mapping[str, Any] = field(factory=dict)


_PARAMETER = re.compile(r"\$(\w+)")
_NO_COLUMN = re.compile(r'Referenced column "(.*?)" not found')
_INTERRUPTED = re.compile(r"^(?:.* failed: )?KeyboardInterrupt:?\s*$", re.MULTILINE)
"""The words in DuckDB's error where what it called in Python was interrupted."""
_recorded: ContextVar[list[Statement] | None] = ContextVar("recorded", default=None)


@contextmanager
def recording() -> Iterator[list[Statement]]:
    """A context that collects the statements that this thread runs, in order."""
    found: list[Statement] = []
    token = _recorded.set(found)
    try:
        yield found
    finally:
        _recorded.reset(token)


@contextmanager
def one_thread(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """A context in which DuckDB works in this thread alone: many small inserts cost a sixth less."""
    rows(connection, query(SETTINGS, "one_thread"))
    try:
        yield
    finally:
        rows(connection, query(SETTINGS, "all_threads"))


def as_text(said: str) -> str:
    """The words after an error of DuckDB on an unknown column, which was perhaps a text in double quotes."""
    found = _NO_COLUMN.search(said)
    return "" if found is None else "; as a text it is '" + found[1].replace("'", "''") + "'"


@contextmanager
def ctrl_c() -> Iterator[None]:
    """A context in which Ctrl-C is a KeyboardInterrupt while DuckDB works, or Python for it, as anywhere else."""
    try:
        yield
    except (RuntimeError, duckdb.Error) as e:
        if str(e) == "Query interrupted" or _INTERRUPTED.search(str(e)):
            raise KeyboardInterrupt from e
        raise


def _record(sql: str, parameters: Mapping[str, Any] | None) -> None:
    found = _recorded.get()
    if found is not None:
        found.append(Statement(sql, dict(parameters or {})))


def arrow(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Mapping[str, Any] | None = None,
    most_rows: int | None = None,
) -> pa.Table:
    """The rows of a query, or its first rows; an empty table without columns for a statement that gives no rows."""
    _record(sql, parameters)
    with ctrl_c():
        relation = connection.sql(sql, params=dict(parameters)) if parameters else connection.sql(sql)
        if relation is not None and most_rows is not None:
            relation = relation.limit(most_rows)
        table: pa.Table = pa.table({}) if relation is None else relation.to_arrow_table()
    return table


def batches(
    connection: duckdb.DuckDBPyConnection, sql: str, most_rows: int, parameters: Mapping[str, Any] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a query while it runs, in batches of at most so many; the connection must serve this alone."""
    relation = connection.sql(sql, params=dict(parameters)) if parameters else connection.sql(sql)
    reader = relation.to_arrow_reader(most_rows)
    while (batch := _next(reader)) is not None:
        yield batch


_STREAMED = {
    "INTERRUPT Error": duckdb.InterruptException,
    "Out of Memory Error": duckdb.OutOfMemoryException,
    "IO Error": duckdb.IOException,
}


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    """The next batch. Raises DuckDB's errors, of which Arrow tells only the words once the first rows are there."""
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
    except OSError as e:
        said = str(e)
        raise next((kind for words, kind in _STREAMED.items() if said.startswith(words)), duckdb.Error)(said) from e


def union_all(queries: Iterable[str]) -> str:
    """A query for the rows of all of these queries, of which there must be at least one."""
    return reduce(lambda first, second: query("plan/relations.sql", "union_all", first=first, second=second), queries)


def used(sql: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that occur in a statement: DuckDB refuses others."""
    names = set(_PARAMETER.findall(sql))
    return {k: v for k, v in parameters.items() if k in names}


def rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any] | None = None
) -> list[tuple[Any, ...]]:
    """The rows of a query as tuples."""
    _record(sql, parameters)
    with ctrl_c():
        result = connection.execute(sql, dict(parameters)) if parameters else connection.execute(sql)
        return result.fetchall()


def literal(text: str) -> str:
    """A string in SQL, for statements that take no parameters."""
    return "'" + text.replace("'", "''") + "'"


def register(connection: duckdb.DuckDBPyConnection, name: str, table: object) -> None:
    """Gives an Arrow table, or a stream of one, a name in DuckDB."""
    with ctrl_c():
        connection.register(name, table)


@contextmanager
def registered(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> Iterator[None]:
    """A context in which an Arrow table has a name in DuckDB."""
    register(connection, name, table)
    try:
        yield
    finally:
        with ctrl_c():
            connection.unregister(name)
