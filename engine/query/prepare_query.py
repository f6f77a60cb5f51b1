"""A query made ready: parsed, its names looked up, its columns known, and how much of each table it needs.

Nothing of a table's rows is read by that, nor any file planned.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import duckdb

from icecore.engine.common import fork_safety
from icecore.engine.common.identifiers import Identifier
from icecore.engine.data.arrow.nested import no_rows
from icecore.engine.errors import ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.queries.query_limits import limited_connection, parameters_by_name, timeout_seconds
from icecore.engine.query.named_tables import named_tables
from icecore.engine.query.needed_rows import PLANS, needed_rows, stand_in
from icecore.engine.query.query_answer import OWNER, PreparedQuery, QueryAnswer, reason
from icecore.engine.query.query_sources import QueryCatalog, RowsOf, TableRows, rows_of
from icecore.engine.query.told_time import tell_time, told_time
from icecore.engine.view.view_duckdb import DuckQueries
from icecore.engine.view.view_names import NameScope
from icecore.engine.view.view_rows import plain

_local = threading.local()


def prepare_query(
    catalog: QueryCatalog,
    sql: str,
    parameters: Mapping[str, Any] | Sequence[Any] | None,
    namespace: Identifier,
    timeout: float | None,
    memory_limit: str | None,
) -> QueryAnswer:
    """The answer of one SELECT: see `catalog_query.query`."""
    values = parameters_by_name(parameters)
    seconds = timeout_seconds(timeout)
    if memory_limit is not None:
        limited_connection(memory_limit).close()
    con = _planning_connection()
    now = told_time(sql)
    with ExitStack() as stand_ins, _duckdb_refusals():
        tell_time(con, now)
        named = named_tables(con, sql, OWNER, values)
        views = DuckQueries(catalog)
        scope = NameScope(namespace, None, OWNER)
        rows = {internal: rows_of(m, scope, catalog, views) for internal, m in named.mentions.items()}
        tables = {n: r for n, r in rows.items() if isinstance(r, TableRows)}
        columns = {n: r.columns for n, r in rows.items()}
        named.check_cases(columns, tables)
        metadata = named.metadata_columns(columns, tables)
        rows |= {n: tables[n].with_metadata(names) for n, names in metadata.items()}
        for internal, found in rows.items():
            stand_ins.enter_context(_stand_for(con, internal, found))
        text = named.sql(con, metadata)
        left = named.parameters(text, values)
        needed = needed_rows(con, text, {n: r.scan.schema for n, r in tables.items()}, left)
        relation = con.sql(text, params=dict(left) if left else None)
        schema = plain(relation.limit(0).to_arrow_table(), OWNER).schema
    return QueryAnswer(schema, PreparedQuery(text, left, rows, needed, seconds, memory_limit, now))


@contextmanager
def _duckdb_refusals() -> Iterator[None]:
    """A context in which DuckDB's errors become those of a wrong query."""
    try:
        yield
    except duckdb.Error as e:
        raise ValidationError(f"{OWNER} can't be run: {reason(e)}") from e


def _stand_for(con: duckdb.DuckDBPyConnection, name: str, rows: RowsOf) -> AbstractContextManager[None]:
    """A context with a table without rows that has a name of the query."""
    if isinstance(rows, TableRows):
        return stand_in(con, name, rows.scan.projection)
    return duck.registered(con, name, no_rows(rows.schema))


def _planning_connection() -> duckdb.DuckDBPyConnection:
    """This thread's DuckDB that plans queries and runs none; a forked process has one of its own."""
    found: duckdb.DuckDBPyConnection | None = getattr(_local, "connection", None)
    if found is None or _local.pid != os.getpid():
        fork_safety.abandon(found)
        found, _local.pid = limited_connection(None), os.getpid()
        for setting in ("arrow_as_is", "no_python_names", "no_files"):
            duck.rows(found, query(duck.SETTINGS, setting))
        for setting in ("all_conditions", "no_more_settings"):
            duck.rows(found, query(PLANS, setting))
        _local.connection = found
    return found
