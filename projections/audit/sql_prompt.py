"""SQL over the log and the metadata of all tables, in one DuckDB prompt; `audit_tables` lists the tables.

Only the audit tables that a query names are made, and only of the tables that it can need: see `needed_tables`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from icecore.engine.errors import UnreadableTableWarning, ValidationError, name_text
from icecore.engine.queries import duck
from icecore.engine.queries.duckdb_instances import SQL_OF_USERS
from icecore.engine.queries.named_queries import query as named_query
from icecore.engine.queries.query_limits import (
    Deadline,
    limited_connection,
    parameters_by_name,
    timeout_seconds,
    within_limits,
)
from icecore.projections.audit.audit_statement import as_run, is_about_columns, parse_statement
from icecore.projections.audit.audit_tables import AUDIT_SCHEMAS as AUDIT_SCHEMAS
from icecore.projections.audit.audit_tables import AUDIT_TABLES, audit_table
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.audited_tables import AuditedCatalog, AuditedTable, AuditedTables
from icecore.projections.audit.needed_columns import names_any
from icecore.projections.audit.needed_tables import NeededTables, needed_tables
from icecore.projections.history.logged_tables import LoggedTables

TABLES_NAMED = 3


def run_sql(
    catalog: AuditedCatalog,
    listed: Callable[[], Sequence[AuditedTable]],
    log: LoggedTables,
    query: str,
    parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    timeout: float | None = None,
    memory_limit: str | None = None,
    most_rows: int | None = None,
) -> pa.Table:
    """The result of a query as Arrow, or its first rows, as DuckDB's memory does not count those of the result.

    `listed` gives the tables of the catalog, by name, `log` is its log.

    Warns with an UnreadableTableWarning where tables that the query needs can't be read, which it is answered without.
    Raises ValidationError with DuckDB's words where the query is wrong, and QueryLimitError.
    """
    values = parameters_by_name(parameters)
    deadline = Deadline(timeout_seconds(timeout))
    statement = parse_statement(query)
    query = as_run(statement, query)
    tables = AuditedTables(listed, deadline)
    con = SQL_OF_USERS.connect() if memory_limit is None else limited_connection(memory_limit)
    try:
        about = _register(con, statement, values, lambda n, asks: AuditedRows(catalog, tables, n, log, asks))
        duck.rows(con, named_query(duck.SETTINGS, "no_files"))
        with within_limits(con, deadline, memory_limit):
            result = duck.arrow(con, query, values, most_rows)
    except duckdb.Error as e:
        reason = _reason(con, query, values, e)
        raise ValidationError(f"the query can't be run: {reason}{_known(statement, reason)}") from e
    finally:
        con.close()
    if tables.problems and "problems" not in about:
        warnings.warn(_left_out(tables), UnreadableTableWarning, stacklevel=3)
    return result


def _register(
    con: duckdb.DuckDBPyConnection,
    statement: exp.Expression,
    values: Mapping[str, Any] | None,
    source: Callable[[NeededTables, Callable[[Collection[str]], bool]], AuditedRows],
) -> set[str]:
    """Registers the audit tables that a statement is about with DuckDB; returns their names.

    `problems` comes last: what others find is not looked for again.
    """
    if is_about_columns(statement):
        _register_empty(con)
        return set(AUDIT_TABLES)
    needed = needed_tables(statement, AUDIT_SCHEMAS, values)
    asks_for = partial(names_any, statement)
    for name in sorted(needed, key=lambda n: (n == "problems", n)):
        duck.register(con, name, audit_table(name, source(needed[name], asks_for)))
    return set(needed)


def _register_empty(con: duckdb.DuckDBPyConnection) -> None:
    for name, schema in AUDIT_SCHEMAS.items():
        duck.register(con, name, schema.empty_table())


def _reason(
    con: duckdb.DuckDBPyConnection, query: str, values: Mapping[str, Any] | None, error: duckdb.Error
) -> duckdb.Error:
    """DuckDB's error for a query where all audit tables are known, which suggests their names."""
    if isinstance(error, duckdb.CatalogException):
        try:
            _register_empty(con)
            con.sql(query, params=None if values is None else dict(values))
        except duckdb.Error as e:
            return e
    return error


def _known(statement: exp.Expression, reason: duckdb.Error) -> str:
    """The known names, for an error about an unknown one: columns of the tables that a statement names, or all tables.

    For the name of another table, the text first says that `query` reads rows of tables.
    """
    own = {e.alias.lower() for e in statement.find_all(exp.CTE)}
    named = {t.name.lower() for t in statement.find_all(exp.Table)} - own
    about = {n: schema for n, schema in AUDIT_SCHEMAS.items() if n in named}
    match reason:
        case duckdb.BinderException() if about:
            columns = (f";\nthe columns of {n} are: {', '.join(schema.names)}" for n, schema in about.items())
            return duck.as_text(str(reason)) + "".join(columns)
        case duckdb.BinderException() | duckdb.CatalogException():
            is_other = any(t.db for t in statement.find_all(exp.Table)) or named - AUDIT_SCHEMAS.keys() - {""}
            rows = "rows of a table are read by `query`; " if is_other else ""
            return f";\n{rows}the tables here are: {', '.join(AUDIT_TABLES)}"
        case _:
            return ""


def _left_out(tables: AuditedTables) -> str:
    """The warning that names the tables which an answer is without."""
    found = sorted(name_text(t.identifier) for t, _ in tables.problems.values())
    named = ", ".join(found[:TABLES_NAMED])
    rest = f" and {len(found) - TABLES_NAMED} more" if len(found) > TABLES_NAMED else ""
    count = "1 table can't be read and is" if len(found) == 1 else f"{len(found)} tables can't be read and are"
    return f"{count} left out of the answer: {named}{rest}; the table `problems` says why"
