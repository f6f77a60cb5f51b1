"""Names as a catalog's transaction would leave them."""

from __future__ import annotations

import contextlib
from typing import Protocol

from attrs import define, field

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import NoSuchTableError, NoSuchViewError, NotFoundError, name_text
from icecore.engine.events.event import is_view_stream
from icecore.engine.table.table import Table
from icecore.engine.view.view import View


class NameLookup(Protocol):
    """The part of a catalog that its transactions need: the look-up of names, and locations for new tables."""

    actor: str | None

    @property
    def name(self) -> str: ...

    def load_table(self, identifier: Identifier) -> Table: ...

    def load_view(self, identifier: Identifier) -> View: ...

    def new_location(self, identifier: Identifier, table_uuid: str, location: str | None) -> str: ...


@define
class PendingNames:
    """The names that a transaction gave or took away so far. Whether it may is checked at commit."""

    catalog: NameLookup
    # None for a name that is taken away.
    _streams: dict[Identifier, str | None] = field(factory=dict)

    def table_stream(self, name: Identifier) -> str:
        """The stream of the table of that name. Raises NoSuchTableError."""
        if name not in self._streams:
            return self.catalog.load_table(name).state.stream
        stream = self._streams[name]
        if stream is None or is_view_stream(stream):
            raise NoSuchTableError(f"Table does not exist: {name_text(name)} after what this transaction does before")
        return stream

    def view_stream(self, name: Identifier) -> str:
        """The stream of the view of that name; a view that this transaction creates has no state yet, and is not found.

        Raises NoSuchViewError.
        """
        if name not in self._streams:
            return self.catalog.load_view(name).state.stream
        stream = self._streams[name]
        if stream is None or not is_view_stream(stream):
            raise NoSuchViewError(f"View does not exist: {name_text(name)} after what this transaction does before")
        return stream

    def give(self, name: Identifier, stream: str) -> None:
        """Gives a new table a name."""
        self._streams[name] = stream

    def move(self, old: Identifier, new: Identifier, *, is_view: bool) -> None:
        """Renames a table or view, if there is one of the old name."""
        with contextlib.suppress(NotFoundError):
            self._streams[new] = self.view_stream(old) if is_view else self.table_stream(old)
            self._streams[old] = None

    def take(self, name: Identifier) -> None:
        """Takes a name away from its table or view."""
        self._streams[name] = None

    def forget(self) -> None:
        """Forgets all: names mean again what they mean in the catalog."""
        self._streams.clear()
