"""The syntax tree of a query, from DuckDB's own parser: the tables that it names, and the query over others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb
from attrs import define, field

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import ascii_lower
from icecore.engine.errors import ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.query.source_names import shortened

TREES = "query/tree.sql"

_PIVOTS = re.compile(r"\bPIVOT(_WIDER)?\b", re.IGNORECASE)
_EXPLAINS = re.compile(r"\s*EXPLAIN\b", re.IGNORECASE)


def parsed(con: duckdb.DuckDBPyConnection, sql: str, owner: str) -> dict[str, Any]:
    """The syntax tree of one SELECT. Raises ValidationError, calling the query `owner`, where it is none."""
    if "\0" in sql:
        # DuckDB's tree ends a text there.
        raise ValidationError(f"{owner} must not hold a NUL: give such a value as a parameter, or by chr(0)")
    ((text,),) = duck.rows(con, query(TREES, "to_tree"), {"query": sql})
    # Not by orjson, whose errors for what is too deep are of all kinds.
    tree: dict[str, Any] = json.loads(text)
    if tree["error"] and tree["error_message"].startswith("Only SELECT"):
        if _PIVOTS.search(sql):
            raise ValidationError(f"{owner}: PIVOT needs the values that become columns: ON city IN ('Oslo', 'Rome')")
        why = "`icecore plan` tells which files a scan reads" if _EXPLAINS.match(sql) else "SQL changes nothing here"
        raise ValidationError(f"{owner} must be one SELECT: {why}")
    if tree["error"]:
        raise ValidationError(f"{owner} can't be parsed: {tree['error_message']}")
    if len(tree["statements"]) != 1:
        raise ValidationError(f"{owner} must be one SELECT, found {len(tree['statements'])} statements")
    return tree


def has_star(tree: dict[str, Any]) -> bool:
    """Whether a SELECT, of a set operation its first, has a star, so that its columns follow from its tables."""
    node = tree["statements"][0]["node"]
    while node.get("type") == "SET_OPERATION_NODE":
        node = node["children"][0] if node.get("children") else node["left"]
    return any(column.get("type") == "STAR" for column in node.get("select_list", []))


def sql_of(con: duckdb.DuckDBPyConnection, tree: dict[str, Any]) -> str:
    """The SQL of a tree."""
    ((text,),) = duck.rows(con, query(TREES, "to_sql"), {"tree": json.dumps(tree, ensure_ascii=False)})
    return str(text)


@define(eq=False)
class FromTable:
    """A table that FROM names, and the name that its columns are known by: its own or an alias."""

    parts: Identifier
    internal: str
    alias: str
    is_renamed: bool


@define(eq=False)
class FromScope:
    """The tables that one FROM names itself, and the stars that stand for all columns of it."""

    tables: list[FromTable] = field(factory=list)
    stars: list[dict[str, Any]] = field(factory=list)


Scopes = tuple[FromScope, ...]
"""The scopes in which a name is looked up, the innermost first."""


@define
class TableNames:
    """An internal name for each mention of a table in a tree; names of common table expressions are left alone.

    `mentions` has the tables' own names with what came after AT. `numbers` makes internal names that do not occur in
    `text`, the query in lower case. Errors call the query `owner`.
    """

    owner: str
    text: str
    numbers: Iterator[int]
    mentions: dict[str, tuple[Identifier, dict[str, Any] | None]] = field(factory=dict)
    scopes: list[FromScope] = field(factory=list)
    _replaced: set[int] = field(factory=set)

    def replace_in(self, tree: dict[str, Any]) -> None:
        """Replaces the names of tables in a tree of one SELECT. Raises ValidationError as `visit` does."""
        self.visit(tree["statements"][0]["node"], frozenset(), ())

    def column(self, names: Identifier, scopes: Scopes) -> Identifier:
        """The name of a column, `events.id` for `ns.events.id`: its table is known by its alias alone now."""
        for table in (t for scope in scopes for t in scope.tables if not t.is_renamed):
            kept = shortened(names, [table.parts])
            if len(kept) < len(names):
                return (table.alias, *kept[1:])
        return names

    def visit(self, node: Any, ctes: frozenset[str], scopes: Scopes) -> None:
        """Replaces the names below a node where these `ctes` can be seen.

        Raises ValidationError for SHOW, which would tell of a connection, and for AT after one of the `ctes`.
        """
        if isinstance(node, list):
            for item in node:
                self.visit(item, ctes, scopes)
        if not isinstance(node, dict):
            return
        if "cte_map" in node:
            ctes = self._common_tables(node["cte_map"], ctes, scopes)
        kind = node.get("type")
        # In a value, as that of a sample, `type` is a type of data.
        if isinstance(kind, str) and kind in _FROM and id(node) not in self._replaced:
            scopes = (self._scope(node.get(_FROM[kind], node), ctes), *scopes)
        if kind == "COLUMN_REF":
            node["column_names"] = list(self.column(tuple(node["column_names"]), scopes))
        elif kind == "STAR" and scopes:
            scopes[0].stars.append(node)
        elif kind == "SHOW_REF" and node["query"] is None:
            raise ValidationError(
                f"{self.owner}: `icecore ls` tells what there is; DESCRIBE, with its name, the columns of a table"
            )
        for key, value in node.items():
            # A star in ORDER BY stands for what is selected, not for the tables' columns.
            own = (FromScope(scopes[0].tables), *scopes[1:]) if key == "modifiers" and scopes else scopes
            if key != "cte_map":
                self.visit(value, ctes, own)

    def _common_tables(self, cte_map: dict[str, Any], ctes: frozenset[str], scopes: Scopes) -> frozenset[str]:
        """The common table expressions that can be seen: each sees those before it, a recursive one also itself."""
        for entry in cte_map["map"]:
            name, body = ascii_lower(entry["key"]), entry["value"]
            recursive = (body.get("query_node") or {}).get("type") == "RECURSIVE_CTE_NODE"
            self.visit(body, ctes | {name} if recursive else ctes, scopes)
            ctes = ctes | {name}
        return ctes

    def _scope(self, source: Any, ctes: frozenset[str]) -> FromScope:
        """The tables of a FROM, replaced; those of the same name without an alias are known by all parts of theirs."""
        scope = FromScope()
        self.scopes.append(scope)
        named = [(n, tuple(n["qualified_name"]["path"])) for n in _base_tables(source)]
        known = [ascii_lower(n["alias"] or parts[-1]) for n, parts in named]
        for node, parts in named:
            self._replaced.add(id(node))
            if len(parts) == 1 and ascii_lower(parts[0]) in ctes:
                if node.get("at_clause"):
                    raise ValidationError(f"{self.owner}: AT is for tables, and {parts[0]!r} is a query of its WITH")
                continue
            is_renamed, is_only = bool(node["alias"]), known.count(ascii_lower(parts[-1])) == 1
            alias = node["alias"] or (parts[-1] if is_only else ".".join(parts))
            internal = next(name for n in self.numbers if (name := f"__icecore_{n}") not in self.text)
            self.mentions[internal] = (parts, node.get("at_clause"))
            node["at_clause"] = None
            node["alias"] = alias
            node["catalog_name"] = node["schema_name"] = ""
            node["table_name"] = internal
            node["qualified_name"] = {"path": [internal]}
            scope.tables.append(FromTable(parts, internal, alias, is_renamed))
        return scope


# The nodes with a scope of their own, and the key under which its tables stand.
_FROM = {"SELECT_NODE": "from_table", "PIVOT": "source", "BASE_TABLE": ""}


def _base_tables(node: Any) -> Iterator[dict[str, Any]]:
    """The tables that are named right in a FROM."""
    match node:
        case {"type": "BASE_TABLE"}:
            yield node
        case {"type": "JOIN", "left": left, "right": right}:
            yield from _base_tables(left)
            yield from _base_tables(right)
