"""Running a view's SQL in DuckDB over the tables and views that it names.

DuckDB parses the query itself; in its syntax tree every name of a table becomes the name of a registered Arrow table,
so that a name means what the view says it means, whatever DuckDB would make of it. Nothing outside can be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

import duckdb
import orjson
import pyarrow as pa
from attrs import define, field

from icecore.engine.data.arrow_schema import arrow_to_schema, schema_to_arrow
from icecore.engine.errors import ValidationError
from icecore.engine.identifiers import Identifier
from icecore.engine.spec.schema import Schema
from icecore.engine.sql_files import query as named_query
from icecore.engine.sql_files import quote
from icecore.engine.table import Table
from icecore.engine.view_names import Lookup, NameScope, TableSource, ViewSource, check_no_cycle, find_source
from icecore.projections import duck

VIEWS = "view/duckdb.sql"
# What Arrow has no number for is read as the widest decimal that Iceberg has, or as one that holds it all.
_AS_DECIMAL = {"HUGEINT": "DECIMAL(38, 0)", "UHUGEINT": "DECIMAL(38, 0)", "UBIGINT": "DECIMAL(20, 0)"}
_V3 = 3


def all_rows(table: Table) -> pa.Table:
    return table.scan().to_arrow()


def no_rows(table: Table) -> pa.Table:
    """An empty table of the table's schema: enough to learn what a query gives."""
    return schema_to_arrow(table.schema(), with_ids=False).empty_table()


@define
class DuckQueries:
    """Runs queries over a catalog; what one table or view gives is read once, however often it is named."""

    _lookup: Lookup
    _read: Callable[[Table], pa.Table] = all_rows
    _known: dict[Identifier, pa.Table] = field(factory=dict)

    def run(
        self, sql: str, scope: NameScope, path: tuple[Identifier, ...] = (), parameters: Mapping[str, Any] | None = None
    ) -> pa.Table:
        """The rows of one SELECT; `path` holds the views that lead to it.

        Raises ValidationError where DuckDB can't run it or views form a cycle, NoSuchTableError for an unknown name.
        """
        con = duckdb.connect(":memory:")
        try:
            for statement in ("arrow_as_is", "utc"):
                duck.rows(con, named_query(VIEWS, statement))
            text, names = rewritten(con, sql, scope.owner)
            for name, parts in names.items():
                con.register(name, self._rows(parts, scope, path))
            duck.rows(con, named_query(VIEWS, "no_files"))
            duck.rows(con, named_query(VIEWS, "no_python_names"))
            return _exported(con, text, parameters)
        except duckdb.Error as e:
            raise ValidationError(f"{scope.owner}: the query can't be run: {e}") from e
        finally:
            con.close()

    def _rows(self, parts: Identifier, scope: NameScope, path: tuple[Identifier, ...]) -> pa.Table:
        match find_source(parts, scope, self._lookup):
            case TableSource(table):
                if table.name() not in self._known:
                    self._known[table.name()] = self._read(table)
                return self._known[table.name()]
            case ViewSource(view):
                return self.view_rows(view.name(), view.schema(), view.duckdb_sql(), view.scope(), path)
            case other:
                assert_never(other)

    def view_rows(
        self, name: Identifier, schema: Schema, sql: str, scope: NameScope, path: tuple[Identifier, ...] = ()
    ) -> pa.Table:
        """The rows of a view, with the names and types of its schema."""
        check_no_cycle(path, name)
        if name not in self._known:
            found = self.run(sql, scope, (*path, name))
            self._known[name] = conformed(found, schema, scope.owner, has_star(sql, scope.owner))
        return self._known[name]


def derived_schema(lookup: Lookup, sql: str, scope: NameScope, name: Identifier) -> Schema:
    """The schema of what a query gives, learnt without reading a row. Raises ValidationError, NoSuchTableError."""
    found = DuckQueries(lookup, no_rows).run(sql, scope, (name,))
    try:
        return arrow_to_schema(found.schema, format_version=_V3)
    except ValidationError as e:
        raise ValidationError(f"{scope.owner}: {e}; cast or rename it in the query, or give a schema") from e


def conformed(rows: pa.Table, schema: Schema, owner: str, star: bool) -> pa.Table:
    """The rows with the columns of a view's schema: by position, as the spec's column aliases are.

    A query with a star gives whatever columns its tables have now, so there they are found by name. Raises
    ValidationError where they don't fit the schema any more.
    """
    wanted = schema_to_arrow(schema, with_ids=False)
    if star and all(rows.column_names.count(n) == 1 for n in wanted.names):
        rows = rows.select(wanted.names)
    if rows.num_columns != len(wanted):
        raise ValidationError(
            f"{owner}: its query gives the columns {rows.column_names}, its schema has {wanted.names}; replace the view"
        )
    try:
        return rows.rename_columns(wanted.names).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as e:
        raise ValidationError(f"{owner}: what its query gives doesn't fit its schema: {e}; replace the view") from e


def _exported(con: duckdb.DuckDBPyConnection, text: str, parameters: Mapping[str, Any] | None) -> pa.Table:
    relation = con.sql(text, params=dict(parameters)) if parameters else con.sql(text)
    if relation is None:
        raise ValidationError("the query gives no rows")
    types = [str(t) for t in relation.types]
    if not any(t in _AS_DECIMAL for t in types):
        table: pa.Table = relation.to_arrow_table()
        return table
    positions = (f"c{i}" for i in range(len(types)))
    casts = ", ".join(
        f"CAST({p} AS {_AS_DECIMAL[t]}) AS {p}" if t in _AS_DECIMAL else p
        for p, t in zip(positions, types, strict=True)
    )
    columns = ", ".join(f"c{i}" for i in range(len(types)))
    wrapped = f"SELECT {casts} FROM ({text}) AS q({columns})"
    return duck.arrow(con, wrapped, parameters).rename_columns(list(relation.columns))


# The syntax tree of a query, as DuckDB gives it.


def rewritten(con: duckdb.DuckDBPyConnection, sql: str, owner: str) -> tuple[str, dict[str, Identifier]]:
    """The query over internal names, and which name each of them stands for. Raises ValidationError."""
    tree = _parsed(con, sql, owner)
    names = _Names()
    names.visit(tree["statements"][0]["node"], frozenset())
    names.shorten_columns(tree)
    ((text,),) = duck.rows(con, named_query(VIEWS, "to_sql"), {"tree": orjson.dumps(tree).decode()})
    return text, {internal: parts for parts, internal in names.internal.items()}


def has_star(sql: str, owner: str) -> bool:
    """Whether the columns that a query gives follow from its tables."""
    con = duckdb.connect(":memory:")
    try:
        return any(n.get("type") == "STAR" for n in _selected(_parsed(con, sql, owner)["statements"][0]["node"]))
    finally:
        con.close()


def _selected(node: dict[str, Any]) -> list[dict[str, Any]]:
    if node.get("type") == "SET_OPERATION_NODE":
        return _selected((node.get("children") or [node["left"]])[0])
    selected: list[dict[str, Any]] = node.get("select_list", [])
    return selected


def _parsed(con: duckdb.DuckDBPyConnection, sql: str, owner: str) -> Any:
    ((text,),) = duck.rows(con, named_query(VIEWS, "to_tree"), {"query": sql})
    tree = orjson.loads(text)
    if tree["error"]:
        raise ValidationError(f"{owner}: the query can't be parsed: {tree['error_message']}")
    if len(tree["statements"]) != 1:
        raise ValidationError(f"{owner}: it must be one SELECT, found {len(tree['statements'])} statements")
    return tree


@define
class _Names:
    """Finds the tables that a tree names, and gives them internal names; names of CTEs are left alone."""

    internal: dict[Identifier, str] = field(factory=dict)

    def visit(self, node: Any, ctes: frozenset[str]) -> None:
        if isinstance(node, list):
            for item in node:
                self.visit(item, ctes)
        if not isinstance(node, dict):
            return
        if node.get("type") == "BASE_TABLE":
            self._replace(node, ctes)
        for key, value in node.items():
            if key == "cte_map":
                ctes = self._common_tables(value, ctes)
        for key, value in node.items():
            if key != "cte_map":
                self.visit(value, ctes)

    def _common_tables(self, cte_map: dict[str, Any], ctes: frozenset[str]) -> frozenset[str]:
        """Each sees those before it; a recursive one itself as well, any other means a real table by its own name."""
        for entry in cte_map["map"]:
            name, body = entry["key"].lower(), entry["value"]
            query_node = body.get("query_node") or {}
            recursive = query_node.get("type") == "RECURSIVE_CTE_NODE"
            self.visit(body, ctes | {name} if recursive else ctes)
            ctes = ctes | {name}
        return ctes

    def _replace(self, node: dict[str, Any], ctes: frozenset[str]) -> None:
        parts = tuple(node["qualified_name"]["path"])
        if len(parts) == 1 and parts[0].lower() in ctes:
            return
        internal = self.internal.setdefault(parts, f"__icecore_{len(self.internal)}")
        node["alias"] = node["alias"] or parts[-1]
        node["catalog_name"] = node["schema_name"] = ""
        node["table_name"] = internal
        node["qualified_name"] = {"path": [internal]}

    def shorten_columns(self, node: Any) -> None:
        """Makes `ns.events.id` `events.id`: the table is known by its last name alone now."""
        if isinstance(node, list):
            for item in node:
                self.shorten_columns(item)
        if not isinstance(node, dict):
            return
        if node.get("type") == "COLUMN_REF":
            node["column_names"] = _shortened(node["column_names"], self.internal)
        for value in node.values():
            self.shorten_columns(value)


def _shortened(column: list[str], tables: Mapping[Identifier, str]) -> list[str]:
    lower = tuple(p.lower() for p in column)
    for parts in tables:
        for start in range(len(parts) - 1):
            name = tuple(p.lower() for p in parts[start:])
            if lower[: len(name)] == name and len(column) > len(name):
                return column[len(name) - 1 :]
    return column


__all__ = ["DuckQueries", "all_rows", "conformed", "derived_schema", "has_star", "no_rows", "quote", "rewritten"]
