"""The tables that a log knows, dropped ones too, for one query: their names of all times, and their events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa
from attrs import define, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import name_text
from icecore.engine.events.event import CATALOG_STREAM, Event, uuid_of_stream
from icecore.engine.events.name_events import Dropped, read_name_event
from icecore.engine.log.store import EventStore
from icecore.engine.repository.repository import Repository
from icecore.projections.inspect.entry_batches import TableEntries

NAMED = (
    pa.field("namespace", pa.string()),
    pa.field("name", pa.string()),
    pa.field("table_uuid", pa.string()),
    pa.field("name_now", pa.string()),
)
"""The columns that tell the table of a row: its name then, its UUID, and its whole name now, null if it was dropped."""
WHEN = (
    pa.field("position", pa.int64()),
    pa.field("recorded_at", pa.timestamp("ms", "UTC")),
    pa.field("actor", pa.string()),
    pa.field("engine", pa.string()),
    pa.field("message", pa.string()),
)
"""The columns that tell the event of a row."""
OF_EVENT = (*NAMED, *WHEN)


def names_of(identifier: Identifier, table_uuid: str, identifier_now: Identifier | None) -> dict[str, str | None]:
    """The values of NAMED."""
    now = None if identifier_now is None else name_text(identifier_now)
    return {"namespace": ".".join(identifier[:-1]), "name": identifier[-1], "table_uuid": table_uuid, "name_now": now}


@frozen
class LoggedTable:
    """A table by its stream: the names it got, by position, None where it was dropped, and the one it has now."""

    stream: str
    names: tuple[tuple[int, Identifier | None], ...]
    identifier_now: Identifier | None

    @property
    def table_uuid(self) -> str:
        """The table's UUID."""
        return uuid_of_stream(self.stream)

    def identifier_at(self, position: int) -> Identifier:
        """The name at a position; the one that it lost last, where it had none."""
        known = [(p, n) for p, n in self.names if n is not None]
        before = [n for p, n in known if p <= position]
        return before[-1] if before else known[0][1]

    @property
    def is_dropped(self) -> bool:
        """Whether it had no name at the end."""
        return self.names[-1][1] is None

    def named(self, position: int) -> dict[str, str | None]:
        """The values of NAMED at a position."""
        return names_of(self.identifier_at(position), self.table_uuid, self.identifier_now)


Histories: TypeAlias = dict[Callable[..., Any], list[dict[str, Any]]]


@define(eq=False)
class LoggedTables:
    """The tables of a log up to a position, None for all of it. `load` gives the entries of a stream's table there.

    `adopt` takes in other engines' commits; it is called before all names of the log are read.
    """

    store: EventStore
    repository: Repository
    load: Callable[[str], TableEntries]
    adopt: Callable[[], object] = field(default=lambda: None)
    up_to: int | None = None
    histories: dict[str, Histories] = field(factory=dict, init=False)
    """The rows of each history of a stream that was asked for, by the function that tells them."""
    _tables: dict[str, LoggedTable] | None = field(default=None, init=False)

    @property
    def position(self) -> int:
        """The last position."""
        return self.store.head()[0] if self.up_to is None else self.up_to

    @property
    def named(self) -> dict[str, LoggedTable]:
        """All tables and views that ever had a name, by stream, in the order in which they got it."""
        if self._tables is None:
            self.adopt()
            names: dict[str, list[tuple[int, Identifier | None]]] = {}
            for event in self.store.naming_events(self.up_to):
                change = read_name_event(event.kind, event.payload)
                if change is not None and event.stream != CATALOG_STREAM:
                    name = None if isinstance(change, Dropped) else change.identifier
                    names.setdefault(event.stream, []).append((event.position, name))
            now = self.repository.models.identifier_of
            self._tables = {s: LoggedTable(s, tuple(found), now(s)) for s, found in names.items()}
        return self._tables

    def events(self, table: LoggedTable) -> Iterator[Event]:
        """The events of a table. Raises MissingArchiveError, CorruptLogError."""
        return self.store.stream_events(table.stream, 0, self.up_to)


def of_event(table: LoggedTable, event: Event) -> dict[str, Any]:
    """The values of OF_EVENT."""
    who = event.provenance
    return {
        **table.named(event.position),
        "position": event.position,
        "recorded_at": event.recorded_at_ms,
        "actor": who.actor,
        "engine": who.engine,
        "message": who.message,
    }
