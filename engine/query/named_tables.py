"""The names of tables in a query, one for each place where one stands, with what its AT says."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from attrs import define, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import ascii_lower
from icecore.engine.errors import ValidationError
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.query.sql_tree import TREES, FromTable, Scopes, TableNames, has_star, parsed, sql_of
from icecore.engine.scan.relation.registered_scan import alike_fields
from icecore.engine.spec.reserved import METADATA_COLUMNS, PARTITION

_METADATA = {*METADATA_COLUMNS, PARTITION}
_EXTRACTS = ("STRUCT_EXTRACT", "ARRAY_EXTRACT", "struct_extract", "array_extract")


@frozen
class Mention:
    """A table's name where it stands in a query.

    `unit` is VERSION or TIMESTAMP if AT comes after the name, and `value` is the value there.
    """

    parts: Identifier
    unit: str | None = None
    value: Any = None


@frozen
class NamedTables:
    """A query with internal names in place of its tables' names, and the mentions that stood there.

    `has_star` is true where the columns of its answer follow from those of its tables.
    """

    mentions: Mapping[str, Mention]
    has_star: bool
    _tree: dict[str, Any] = field(repr=False)
    _names: _EachName = field(repr=False)
    _at_values: Sequence[str] = field(repr=False)

    @property
    def computes_at(self) -> bool:
        """Whether some AT has more than a value or a parameter: a function may give another value each time."""
        return any("(" in sql for sql in self._at_values)

    def metadata_columns(self, columns: Mapping[str, Collection[str]], tables: Collection[str]) -> dict[str, list[str]]:
        """The metadata columns that the query asks of `tables`, by internal names; none that a table has as its own.

        `columns` has the columns of all its tables. Raises ValidationError where a name could be of several tables.
        """
        found: dict[str, list[str]] = {}
        for name, of in self._names.asked.items():
            for among in of:
                if any(name in map(ascii_lower, columns[t.internal]) for t in among):
                    continue
                can = [t for t in among if t.internal in tables]
                if len(can) > 1:
                    which = " or ".join(f"{t.alias}.{name}" for t in can)
                    raise ValidationError(f"the query: {name} could be of several tables: write {which}")
                for t in can:
                    found.setdefault(t.internal, []).append(name)
        return {internal: sorted(set(names)) for internal, names in found.items()}

    def check_cases(self, columns: Mapping[str, Collection[str]]) -> None:
        """Raises ValidationError where a name could be of several of these columns, which differ in case alone.

        To DuckDB such names are the same, and mean the first of these columns; its exact name is allowed. A name that
        the query itself gives to something is passed over.
        """
        declared = set(_declared(self._tree))
        for name, scopes in self._names.written:
            if ascii_lower(name) in declared:
                continue
            found = ([(t, _alike(name, columns[t.internal])) for t in among] for among in scopes)
            nearest = next((scope for scope in found if any(alike for _, alike in scope)), [])
            for table, alike in nearest:
                if len(alike) > 1 and name != alike[0]:
                    raise ValidationError(
                        f"{self._names.owner}: columns of {table.alias} {_told(alike)}, and `*` gives the others with "
                        "a number"
                    )

    def check_fields(self, schemas: Collection[pa.Schema]) -> None:
        """Raises ValidationError where a field that is taken out of a struct differs from another in case alone.

        To DuckDB such names are the same, and mean the first of these fields; its exact name is allowed.
        """
        alike = [(f.name, names) for schema in schemas for f in schema for names in alike_fields(f.type)]
        if not alike:
            return
        known = {ascii_lower(t.alias) for scope in self._names.scopes for t in scope.tables}
        taken, opened = set(_taken_out(self._tree, known)), set(map(ascii_lower, _opened(self._tree)))
        for column, names in alike:
            named = {n for n in taken if n != names[0] and ascii_lower(n) == ascii_lower(names[0])}
            if named or ascii_lower(column) in opened:
                raise ValidationError(f"{self._names.owner}: fields in the column {column} {_told(names)}")

    def sql(self, con: duckdb.DuckDBPyConnection, metadata: Mapping[str, Sequence[str]]) -> str:
        """The text of the query, with these metadata columns, by internal names of tables, left out of its stars."""
        for scope in self._names.scopes:
            for table, star in itertools.product(scope.tables, scope.stars):
                if ascii_lower(star["relation_name"]) in ("", ascii_lower(table.alias)):
                    hidden = [{"table": table.alias, "column": name} for name in metadata.get(table.internal, ())]
                    star["qualified_exclude_list"] = [*star.get("qualified_exclude_list", ()), *hidden]
        return sql_of(con, self._tree)

    def parameters(self, sql: str, given: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """The parameters that the text still has, of those that were given."""
        left = dict(given or {})
        for value in self._at_values:
            left = {k: v for k, v in left.items() if k not in duck.used(value, left)} | duck.used(sql, left)
        return left if given else None


def named_tables(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    owner: str,
    parameters: Mapping[str, Any] | None,
    numbers: Iterator[int],
) -> NamedTables:
    """The tables that one SELECT names. Raises ValidationError, calling the query `owner`, where it is none.

    A column with a query in it keeps the name that DuckDB gives it: its text, with the tables' own names.
    """
    tree = parsed(con, sql, owner)
    star = has_star(tree)
    _name_columns(con, owner, tree)
    names = _EachName(owner, sql.lower(), numbers)
    names.replace_in(tree)
    mentions, values = {}, []
    for internal, (parts, at_clause) in names.mentions.items():
        mentions[internal] = Mention(parts)
        if at_clause is not None:
            value = _value_sql(con, owner, at_clause["expr"])
            mentions[internal] = _at(con, parts, str(at_clause["unit"]).upper(), value, parameters or {})
            values.append(value)
    return NamedTables(mentions, star, tree, names, values)


@define
class _EachName(TableNames):
    """The names of tables, and for each name of a column the tables that it could be of.

    `asked` has the metadata columns, `written` all names as they are written, with the tables of each FROM around them.
    """

    asked: dict[str, list[list[FromTable]]] = field(factory=dict)
    written: list[tuple[str, list[list[FromTable]]]] = field(factory=list)

    def column(self, names: Identifier, scopes: Scopes) -> Identifier:
        names = super().column(names, scopes)
        first, second = map(ascii_lower, (*names[:2], "")[:2])
        of = next(([t] for scope in scopes for t in scope.tables if ascii_lower(t.alias) == first), None)
        self.written.append((names[0], [scope.tables for scope in scopes]))
        if of is not None and len(names) > 1:
            self.written.append((names[1], [of]))
        if of is not None and second in _METADATA:
            self.asked.setdefault(second, []).append(of)
        elif first in _METADATA:
            self.asked.setdefault(first, []).append(next((s.tables for s in scopes if s.tables), []))
        return names


def _declared(node: Any) -> Iterator[str]:
    """The names, in lower case, that a tree gives to tables, columns and parameters of lambdas."""
    if isinstance(node, list):
        for item in node:
            yield from _declared(item)
    elif isinstance(node, dict):
        is_lambda = node.get("class") == "LAMBDA"
        given = [node.get("alias"), *(node.get("column_name_alias") or ())]
        given += (node.get("lhs") or {}).get("column_names", ()) if is_lambda else ()
        yield from (ascii_lower(name) for name in given if name)
        yield from _declared(list(node.values()))


def _alike(name: str, columns: Collection[str]) -> list[str]:
    """The columns whose names are this one to DuckDB."""
    return [c for c in columns if ascii_lower(c) == ascii_lower(name)]


def _told(alike: Sequence[str]) -> str:
    return f"differ in case alone, which SQL does not tell apart: {', '.join(alike)}; {alike[0]!r} is the first of them"


def _taken_out(node: Any, tables: Collection[str]) -> Iterator[str]:
    """The names of fields that a tree may take out of structs; `tables` are names before those of columns."""
    if isinstance(node, list):
        for item in node:
            yield from _taken_out(item, tables)
    elif isinstance(node, dict):
        names = node.get("column_names") or [""]
        yield from names[2 if ascii_lower(names[0]) in tables else 1 :]
        if node.get("type") in _EXTRACTS or node.get("function_name") in _EXTRACTS:
            arguments = node.get("children") or [a["expression"] for a in node["arguments"]]
            yield from (a["literal"]["text"] for a in arguments if a.get("literal", {}).get("kind") == "STRING")
        yield from _taken_out(list(node.values()), tables)


def _opened(node: Any, within: bool = False) -> Iterator[str]:
    """The names of columns that may be taken apart into all their fields."""
    if isinstance(node, list):
        for item in node:
            yield from _opened(item, within)
    elif isinstance(node, dict):
        within = within or node.get("function_name") in ("unnest", "unlist")
        yield from (node.get("column_names") or ()) if within else ()
        yield node.get("relation_name") or ""
        yield from _opened(list(node.values()), within)


def _name_columns(con: duckdb.DuckDBPyConnection, owner: str, node: Any) -> None:
    """Gives columns that have a query in them their texts as aliases, except those with a star."""
    if isinstance(node, list):
        for item in node:
            _name_columns(con, owner, item)
    elif isinstance(node, dict):
        for column in node.get("select_list") or ():
            found = set(_classes(column))
            if not column["alias"] and "SUBQUERY" in found and "STAR" not in found:
                column["alias"] = _value_sql(con, owner, column).removeprefix("SELECT ")
        _name_columns(con, owner, list(node.values()))


def _classes(node: Any) -> Iterator[str]:
    """The classes of an expression and of those in it, but not within a query."""
    if isinstance(node, list):
        for item in node:
            yield from _classes(item)
    elif isinstance(node, dict):
        yield node.get("class", "")
        yield from _classes([value for key, value in node.items() if key != "subquery"])


def _value_sql(con: duckdb.DuckDBPyConnection, owner: str, expression: dict[str, Any]) -> str:
    """A query for the value of an expression."""
    tree = parsed(con, query(TREES, "one_value"), owner)
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
