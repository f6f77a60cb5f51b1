"""The names of tables in a query, each of them as often as it stands there, with the time that it is asked as of."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import duckdb
from attrs import define, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.view.view_sql_tree import VIEWS, TableNames, parsed, sql_of


@frozen
class Mention:
    """A table's name where it stands in a query.

    `unit` is VERSION or TIMESTAMP where AT comes after it, and `value` what that is.
    """

    parts: Identifier
    unit: str | None = None
    value: Any = None


@frozen
class NamedTables:
    """A query over internal names, what stood there before, and the parameters that it still has."""

    sql: str
    mentions: Mapping[str, Mention]
    parameters: Mapping[str, Any] | None


def named_tables(
    con: duckdb.DuckDBPyConnection, sql: str, owner: str, parameters: Mapping[str, Any] | None
) -> NamedTables:
    """The tables that one SELECT names. Raises ValidationError, calling the query `owner`, where it is none."""
    tree = parsed(con, sql, owner)
    names = _EachName(owner)
    value_tree = parsed(con, query(VIEWS, "one_value"), owner)
    text = names.replaced_in(con, tree)
    mentions, left = {}, dict(parameters or {})
    for internal, (parts, at_clause) in names.mentions.items():
        mentions[internal] = Mention(parts)
        if at_clause is not None:
            value = _value_sql(con, value_tree, at_clause["expr"])
            mentions[internal] = _at(con, parts, str(at_clause["unit"]).upper(), value, parameters or {})
            left = {k: v for k, v in left.items() if k not in duck.used(value, left)} | duck.used(text, left)
    return NamedTables(text, mentions, left if parameters else None)


@define
class _EachName(TableNames):
    """An internal name for each mention."""

    mentions: dict[str, tuple[Identifier, dict[str, Any] | None]] = field(factory=dict)

    def internal_name(self, parts: Identifier, at_clause: dict[str, Any] | None) -> str:
        internal = f"__icecore_{len(self.mentions)}"
        self.mentions[internal] = (parts, at_clause)
        self.internal[parts] = internal
        return internal


def _value_sql(con: duckdb.DuckDBPyConnection, value_tree: dict[str, Any], expression: dict[str, Any]) -> str:
    """A query for the value of an expression."""
    tree = copy.deepcopy(value_tree)
    tree["statements"][0]["node"]["select_list"] = [expression]
    return sql_of(con, tree)


def _at(
    con: duckdb.DuckDBPyConnection, parts: Identifier, unit: str, sql: str, parameters: Mapping[str, Any]
) -> Mention:
    """The mention with the value of what stands after AT. Raises ValidationError where it can't be computed."""
    try:
        ((value,),) = duck.rows(con, sql, duck.used(sql, parameters))
    except duckdb.Error as e:
        raise ValidationError(f"the query: what stands after AT of {'.'.join(parts)} can't be computed: {e}") from e
    return Mention(parts, unit, value)
