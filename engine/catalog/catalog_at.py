"""The catalog as of a position of the log: for reading, with dropped and renamed tables and views as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from icecore.engine.catalog.warehouse import Warehouse
from icecore.engine.common.identifiers import Identifier, IdentifierLike, identifier_tuple, namespace_tuple
from icecore.engine.common.text import names_like
from icecore.engine.errors import NoSuchNamespaceError, NoSuchTableError, NoSuchViewError, name_text
from icecore.engine.events import event as ev
from icecore.engine.log.names_at import CatalogNames
from icecore.engine.table.table import Table
from icecore.engine.view.view import View

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.query.query_answer import QueryAnswer


class CatalogAt:
    """The catalog as of a position. Tables and views loaded from it are as they were then, and can be read."""

    # Queries are not kept: each loads its tables anew.
    _kept_queries = None

    def __init__(self, warehouse: Warehouse, position: int) -> None:
        self.position = position
        self._warehouse = warehouse
        names = CatalogNames.at(warehouse.store, position)
        self._namespaces, self._streams = names.namespaces, names.streams

    def __repr__(self) -> str:
        return f"CatalogAt({str(self._warehouse.path)!r}, {self.position})"

    @property
    def name(self) -> str:
        """The catalog's name in `iceberg_tables`."""
        return self._warehouse.models.catalog_name

    def list_namespaces(self) -> list[Identifier]:
        """The namespaces there were."""
        return sorted(self._namespaces)

    def load_namespace_properties(self, namespace: IdentifierLike) -> dict[str, str]:
        """The properties of a namespace as they were. Raises NoSuchNamespaceError."""
        levels = namespace_tuple(namespace)
        if levels not in self._namespaces:
            if any(n[: len(levels)] == levels for n in self._namespaces):
                return {}
            text = f"Namespace does not exist: {name_text(levels)}"
            raise NoSuchNamespaceError(text, self._when, told_of=((),), like=names_like(levels, self._namespaces))
        return dict(self._namespaces[levels])

    def list_tables(self, namespace: IdentifierLike | None = None) -> list[Identifier]:
        """The tables of one namespace, or all."""
        return self._names(namespace, views=False)

    def list_views(self, namespace: IdentifierLike | None = None) -> list[Identifier]:
        """The views of one namespace, or all."""
        return self._names(namespace, views=True)

    def _names(self, namespace: IdentifierLike | None, *, views: bool) -> list[Identifier]:
        levels = None if namespace is None else namespace_tuple(namespace)
        names = (name for name, stream in self._streams.items() if ev.is_view_stream(stream) == views)
        return sorted(name for name in names if levels in (None, name[:-1]))

    def all_namespaces(self) -> list[Identifier]:
        """All namespaces there were, at any depth."""
        return self.list_namespaces()

    def views(self) -> Iterator[View]:
        """All views there were, by name, over tables and views as they were."""
        return map(self.load_view, self.list_views())

    def log(self, identifier: IdentifierLike | None = None) -> pa.Table:
        """The events up to the position, of a table of then or all, oldest first: see `Catalog.log`.

        Raises NoSuchTableError.
        """
        from icecore.projections.inspect.log_table import log_table

        store = self._warehouse.store
        stream = None if identifier is None else self.load_table(identifier).state.stream
        return log_table(store, store.filtered_events(stream=stream, up_to=self.position))

    def sql(
        self,
        query: str,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        timeout: float | None = None,
        memory_limit: str | None = None,
    ) -> pa.Table:
        """The rows of DuckDB SQL over the log and the metadata of all tables as they were: see `Catalog.sql`.

        Raises ValidationError, QueryLimitError.
        """
        from icecore.projections.audit.audited_tables import AuditedTable
        from icecore.projections.audit.file_rows import entries_of
        from icecore.projections.audit.sql_prompt import run_sql
        from icecore.projections.history.logged_tables import LoggedTables

        def listed() -> list[AuditedTable]:
            now = self._warehouse.models.identifier_of
            streams = {name: self._streams[name] for name in self.list_tables()}
            return [AuditedTable(n, s, partial(self.load_table, n), now(s)) for n, s in streams.items()]

        warehouse = self._warehouse
        tables = LoggedTables(
            warehouse.store, warehouse.repository, lambda s: entries_of(self.table_of(s)), up_to=self.position
        )
        return run_sql(self, listed, tables, query, parameters, timeout=timeout, memory_limit=memory_limit)

    def query(
        self,
        sql: str,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        namespace: IdentifierLike | None = None,
        timeout: float | None = None,
        memory_limit: str | None = None,
    ) -> QueryAnswer:
        """The answer of one SELECT over the rows that there were: see `Catalog.query`.

        Raises ValidationError, NoSuchTableError, NoSuchSnapshotError.
        """
        from icecore.engine.query import catalog_query

        try:
            return catalog_query.query(
                self, sql, parameters, namespace=namespace, timeout=timeout, memory_limit=memory_limit
            )
        except NoSuchTableError as e:
            raise NoSuchTableError(e.plain, f"; asked{self._when}", told_of=((),), like=e.like) from e

    def table_exists(self, identifier: IdentifierLike) -> bool:
        """Whether there was a table of that name."""
        return self._stream(identifier, view=False) is not None

    def view_exists(self, identifier: IdentifierLike) -> bool:
        """Whether there was a view of that name."""
        return self._stream(identifier, view=True) is not None

    def _stream(self, identifier: IdentifierLike, *, view: bool) -> str | None:
        stream = self._streams.get(identifier_tuple(identifier))
        return stream if stream is not None and ev.is_view_stream(stream) == view else None

    @property
    def _when(self) -> str:
        """The part of an error for callers who may read the whole catalog: it tells how long the log is at least."""
        return f" at position {self.position}"

    def _like(self, name: Identifier) -> tuple[Identifier, ...]:
        return names_like(name, self._streams)

    def load_view(self, identifier: IdentifierLike) -> View:
        """The view as it was, over tables and views as they were. Raises NoSuchViewError."""
        name = identifier_tuple(identifier)
        stream = self._stream(name, view=True)
        state = None if stream is None else self._warehouse.views.state_at(stream, self.position)
        if state is None:
            text = f"View does not exist: {name_text(name)}"
            raise NoSuchViewError(text, self._when, told_of=((),), like=self._like(name))
        return View(self._warehouse.views, self, state, None)

    def load_table(self, identifier: IdentifierLike) -> Table:
        """The table as it was. Raises NoSuchTableError."""
        name = identifier_tuple(identifier)
        stream = self._stream(name, view=False)
        if stream is None:
            text = f"Table does not exist: {name_text(name)}"
            raise NoSuchTableError(text, self._when, told_of=((),), like=self._like(name))
        return self.table_of(stream)

    def table_of(self, stream: str) -> Table:
        """The table of a stream as it was, one without a name too. Raises NoSuchTableError."""
        state = self._warehouse.repository.state_at(stream, self.position)
        if state is None:
            raise NoSuchTableError(f"Table does not exist: {stream} at position {self.position}")
        return Table(self._warehouse.repository, self._warehouse.planning, state, None)
