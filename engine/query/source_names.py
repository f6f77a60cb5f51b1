"""The resolution of names in SQL; in a view's by `default-catalog` and `default-namespace` of the View spec (V1)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias

from attrs import define, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import ascii_lower
from icecore.engine.errors import NoSuchTableError, ValidationError, name_text
from icecore.engine.spec.schema import Schema
from icecore.engine.table.table import Table

ALIASES_VARIABLE = "ICECORE_CATALOG_ALIASES"
"""The environment variable with the names that clients of a server have for its catalog, with commas between."""


class SqlText(Protocol):
    """SQL in one dialect."""

    @property
    def sql(self) -> str: ...


class ViewQuery(Protocol):
    """The part of a view that running its query needs."""

    def name(self) -> Identifier: ...

    def schema(self) -> Schema: ...

    def scope(self) -> NameScope: ...

    def sql_for(self, dialect: str) -> SqlText: ...


class Lookup(Protocol):
    """The look-up of names: in the catalog as it is, or as it was."""

    @property
    def name(self) -> str: ...

    def table_exists(self, identifier: Identifier) -> bool: ...

    def view_exists(self, identifier: Identifier) -> bool: ...

    def load_table(self, identifier: Identifier) -> Table: ...

    def load_view(self, identifier: Identifier) -> ViewQuery: ...


@define
class LoadedOnce:
    """A look-up that loads each table and view once: all that a query says of one is of the same state."""

    _lookup: Lookup
    _tables: dict[Identifier, Table] = field(factory=dict)
    _views: dict[Identifier, ViewQuery] = field(factory=dict)

    @property
    def name(self) -> str:
        """The catalog's name."""
        return self._lookup.name

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a table."""
        return identifier in self._tables or self._lookup.table_exists(identifier)

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a view."""
        return identifier in self._views or self._lookup.view_exists(identifier)

    def load_table(self, identifier: Identifier) -> Table:
        """The table as it was found first. Raises NoSuchTableError."""
        if identifier not in self._tables:
            self._tables[identifier] = self._lookup.load_table(identifier)
        return self._tables[identifier]

    def load_view(self, identifier: Identifier) -> ViewQuery:
        """The view as it was found first. Raises NoSuchViewError."""
        if identifier not in self._views:
            self._views[identifier] = self._lookup.load_view(identifier)
        return self._views[identifier]


@frozen
class NameScope:
    """The namespace and catalog that complete short names in a query, which errors call `owner`."""

    default_namespace: Identifier
    default_catalog: str | None
    owner: str


@frozen
class TableSource:
    """A name that means a table."""

    table: Table


@frozen
class ViewSource:
    """A name that means a view."""

    view: ViewQuery


Source: TypeAlias = "TableSource | ViewSource"


def find_source(parts: Identifier, scope: NameScope, lookup: Lookup) -> Source:
    """The table or view that a name of one or more parts means. Raises NoSuchTableError naming all that were tried."""
    tried = list(dict.fromkeys(_candidates(parts, scope, catalog_names(lookup.name))))
    for identifier in tried:
        if any("." in level for level in identifier[:-1]):
            continue  # the name of a metadata table, after a table name that has a dot
        if lookup.table_exists(identifier):
            return TableSource(lookup.load_table(identifier))
        if lookup.view_exists(identifier):
            return ViewSource(lookup.load_view(identifier))
    name = name_text(parts)
    if tried:
        looked = " or ".join(repr(name_text(i)) for i in tried)
        raise NoSuchTableError(f"{scope.owner}: there is no table or view {name!r}; looked for {looked}")
    where = scope.default_catalog
    if where is None or where in catalog_names(lookup.name):
        raise NoSuchTableError(f"{scope.owner}: {name!r} needs its namespace before it, as in 'namespace.table'")
    raise NoSuchTableError(
        f"{scope.owner}: {name!r} is in the catalog {where!r}; this one is {lookup.name!r}. "
        f"Where a client calls it so, {ALIASES_VARIABLE}={where} says it"
    )


def catalog_names(name: str) -> frozenset[str]:
    """The names that mean a catalog: its own, and those that clients have for it, by the environment."""
    aliases = os.environ.get(ALIASES_VARIABLE, "").split(",")
    return frozenset({name, *filter(None, map(str.strip, aliases))})


def _candidates(parts: Identifier, scope: NameScope, names: frozenset[str]) -> Iterator[Identifier]:
    """The identifiers that a name may stand for, in the order in which they are tried."""
    if len(parts) > 2 and parts[0] in names:
        yield parts[1:]
    if scope.default_catalog is None or scope.default_catalog in names:
        if len(parts) > 1:
            yield parts
        elif scope.default_namespace:
            yield (*scope.default_namespace, *parts)


def check_no_cycle(path: tuple[Identifier, ...], identifier: Identifier) -> None:
    """Raises ValidationError where a view is met again on the way down its own query."""
    if identifier in path:
        way = " -> ".join(name_text(i) for i in (*path[path.index(identifier) :], identifier))
        raise ValidationError(f"the view {name_text(identifier)} reads itself: {way}")


def shortened(
    column: Identifier, tables: Iterable[Identifier], lower: Callable[[str], str] = ascii_lower
) -> Identifier:
    """A column's name where tables are known by the last part of theirs: `events.id` for `ns.events.id`.

    Other dots in it, those of struct fields, stay. Names are the same where `lower` makes them so.
    """
    wanted = tuple(map(lower, column))
    for parts in tables:
        for start in range(len(parts) - 1):
            name = tuple(map(lower, parts[start:]))
            if wanted[: len(name)] == name and len(column) > len(name):
                return column[len(name) - 1 :]
    return column
