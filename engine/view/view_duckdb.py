"""The execution of a view's SQL in DuckDB, over the tables and views that it names.

Each name is resolved as the view says, never as DuckDB would: what it means is read by icecore and registered as an
Arrow table. A query reaches nothing else, no files and no variables of the Python program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import duckdb
import pyarrow as pa
from attrs import define, field

from icecore.engine.common.identifiers import Identifier
from icecore.engine.data.arrow.arrow_schema import arrow_to_schema, schema_to_arrow
from icecore.engine.errors import ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.duckdb_instances import SharedInstance
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.view import DUCKDB
from icecore.engine.table.table import Table
from icecore.engine.view.view_names import Lookup, NameScope, TableSource, ViewSource, check_no_cycle, find_source
from icecore.engine.view.view_rows import conformed, plain
from icecore.engine.view.view_sql_tree import rewritten

_INSTANCE = SharedInstance(("arrow_as_is", "utc", "no_files", "no_python_names"))
# Views have no format version of their own; their schemas may hold every type there is.
_ALL_TYPES = 3


def all_rows(table: Table) -> pa.Table:
    """The rows of a table."""
    return table.scan().to_arrow()


def no_rows(table: Table) -> pa.Table:
    """An empty table with the table's columns: enough to learn the columns of a query."""
    return pa.Table.from_batches([], schema_to_arrow(table.schema(), with_ids=False))


@define
class DuckQueries:
    """The queries over one catalog. Each table or view is read once, however often it is named."""

    _lookup: Lookup
    _read: Callable[[Table], pa.Table] = all_rows
    _known: dict[Identifier, pa.Table] = field(factory=dict)

    def run(self, sql: str, scope: NameScope, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """The rows of one SELECT. Raises ValidationError where DuckDB can't run it, NoSuchTableError."""
        return self._run(sql, scope, (), parameters)[0]

    def view_rows(
        self, name: Identifier, schema: Schema, sql: str, scope: NameScope, path: tuple[Identifier, ...] = ()
    ) -> pa.Table:
        """The rows of a view, with the names and types of its schema; `path` holds the views that lead to it.

        Raises ValidationError where views form a cycle, or the query's columns don't fit the schema any more.
        """
        check_no_cycle(path, name)
        if name not in self._known:
            rows, has_star = self._run(sql, scope, (*path, name))
            self._known[name] = conformed(rows, schema, scope.owner, has_star)
        return self._known[name]

    def schema_of(self, name: Identifier, sql: str, scope: NameScope) -> Schema:
        """The schema of a query's result, for a view to be. Raises ValidationError."""
        rows, _ = self._run(sql, scope, (name,))
        try:
            return arrow_to_schema(rows.schema, format_version=_ALL_TYPES)
        except ValidationError as e:
            raise ValidationError(f"{scope.owner}: {e}; cast or rename it in the query, or give a schema") from e

    def _run(
        self,
        sql: str,
        scope: NameScope,
        path: tuple[Identifier, ...],
        parameters: Mapping[str, Any] | None = None,
    ) -> tuple[pa.Table, bool]:
        con = _INSTANCE.connect()
        try:
            found = rewritten(con, sql, scope.owner)
            for internal, parts in found.names.items():
                con.register(internal, self._source_rows(parts, scope, path))
            return plain(duck.arrow(con, found.text, parameters), scope.owner), found.has_star
        except duckdb.Error as e:
            raise ValidationError(f"{scope.owner}: its query can't be run: {e}") from e
        finally:
            con.close()

    def _source_rows(self, parts: Identifier, scope: NameScope, path: tuple[Identifier, ...]) -> pa.Table:
        match find_source(parts, scope, self._lookup):
            case TableSource(table):
                if table.name() not in self._known:
                    self._known[table.name()] = self._read(table)
                return self._known[table.name()]
            case ViewSource(view):
                return self.view_rows(view.name(), view.schema(), view.sql_for(DUCKDB).sql, view.scope(), path)
            case other:
                assert_never(other)


def derived_schema(lookup: Lookup, name: Identifier, sql: str, scope: NameScope) -> Schema:
    """The schema of a query's result, learnt without reading a row. Raises ValidationError, NoSuchTableError."""
    return DuckQueries(lookup, no_rows).schema_of(name, sql, scope)
