"""The syntax tree of a view's SQL, from DuckDB's own parser: the tables that it names, and the query over others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import orjson
from attrs import define, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.view.view_names import shortened

VIEWS = "view/duckdb.sql"


@frozen
class RewrittenSql:
    """A query in which each name of a table became an internal one; `names` says what those stand for.

    `has_star` is true where the columns that it gives follow from those of its tables.
    """

    text: str
    names: Mapping[str, Identifier]
    has_star: bool


def rewritten(con: duckdb.DuckDBPyConnection, sql: str, owner: str) -> RewrittenSql:
    """One SELECT over internal names. Raises ValidationError, calling the query `owner`, where it is none."""
    tree = parsed(con, sql, owner)
    node = tree["statements"][0]["node"]
    star = any(column.get("type") == "STAR" for column in _selected(node))
    names = TableNames(owner)
    text = names.replaced_in(con, tree)
    return RewrittenSql(text, {internal: parts for parts, internal in names.internal.items()}, star)


def parsed(con: duckdb.DuckDBPyConnection, sql: str, owner: str) -> dict[str, Any]:
    """The syntax tree of one SELECT. Raises ValidationError, calling the query `owner`, where it is none."""
    ((text,),) = duck.rows(con, query(VIEWS, "to_tree"), {"query": sql})
    tree: dict[str, Any] = orjson.loads(text)
    if tree["error"] and tree["error_message"].startswith("Only SELECT"):
        raise ValidationError(f"{owner} must be one SELECT: SQL changes nothing here")
    if tree["error"]:
        raise ValidationError(f"{owner}: its query can't be parsed: {tree['error_message']}")
    if len(tree["statements"]) != 1:
        raise ValidationError(f"{owner}: its query must be one SELECT, found {len(tree['statements'])} statements")
    return tree


def _selected(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The columns of a SELECT, of the first one where several are put together."""
    while node.get("type") == "SET_OPERATION_NODE":
        node = node["children"][0] if node.get("children") else node["left"]
    selected: list[dict[str, Any]] = node.get("select_list", [])
    return selected


def sql_of(con: duckdb.DuckDBPyConnection, tree: dict[str, Any]) -> str:
    """The SQL of a tree."""
    ((text,),) = duck.rows(con, query(VIEWS, "to_sql"), {"tree": orjson.dumps(tree).decode()})
    return str(text)


@define
class TableNames:
    """The internal names of the tables in a tree; names of common table expressions are left alone."""

    owner: str
    internal: dict[Identifier, str] = field(factory=dict)

    def replaced_in(self, con: duckdb.DuckDBPyConnection, tree: dict[str, Any]) -> str:
        """The SQL of a tree of one SELECT, over internal names."""
        node = tree["statements"][0]["node"]
        self.visit(node, frozenset())
        self.shorten_columns(node)
        return sql_of(con, tree)

    def internal_name(self, parts: Identifier, at_clause: dict[str, Any] | None) -> str:
        """The internal name of a table that is named, once more maybe. Raises ValidationError for one with AT."""
        if at_clause is not None:
            raise ValidationError(f"{self.owner}: AT is not supported in a view's query, found at {'.'.join(parts)}")
        return self.internal.setdefault(parts, f"__icecore_{len(self.internal)}")

    def visit(self, node: Any, ctes: frozenset[str]) -> None:
        """Replaces the names below a node where these `ctes` can be seen."""
        if isinstance(node, list):
            for item in node:
                self.visit(item, ctes)
        if not isinstance(node, dict):
            return
        if node.get("type") == "BASE_TABLE":
            self._replace(node, ctes)
        if "cte_map" in node:
            ctes = self._common_tables(node["cte_map"], ctes)
        for key, value in node.items():
            if key != "cte_map":
                self.visit(value, ctes)

    def _common_tables(self, cte_map: dict[str, Any], ctes: frozenset[str]) -> frozenset[str]:
        """The common table expressions that can be seen: each sees those before it, a recursive one also itself."""
        for entry in cte_map["map"]:
            name, body = entry["key"].lower(), entry["value"]
            recursive = (body.get("query_node") or {}).get("type") == "RECURSIVE_CTE_NODE"
            self.visit(body, ctes | {name} if recursive else ctes)
            ctes = ctes | {name}
        return ctes

    def _replace(self, node: dict[str, Any], ctes: frozenset[str]) -> None:
        parts = tuple(node["qualified_name"]["path"])
        if len(parts) == 1 and parts[0].lower() in ctes:
            return
        internal = self.internal_name(parts, node.get("at_clause"))
        node["at_clause"] = None
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
            node["column_names"] = list(shortened(tuple(node["column_names"]), self.internal))
        for value in node.values():
            self.shorten_columns(value)
