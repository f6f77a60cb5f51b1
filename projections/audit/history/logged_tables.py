"""The tables that a log knows, dropped ones too, for one query: their names of all times, and their events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from attrs import define, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import IcecoreError
from icecore.engine.events.event import CATALOG_STREAM, Event, is_view_stream
from icecore.engine.events.name_events import Dropped, read_name_event
from icecore.engine.log.store import EventStore
from icecore.engine.repository.repository import Repository
from icecore.engine.table.table import Table
from icecore.projections.audit.audited_tables import NAMED, AuditedTable, AuditedTables
from icecore.projections.audit.needed_tables import NeededTables

WHEN = (
    pa.field("position", pa.int64()),
    pa.field("recorded_at", pa.timestamp("ms", "UTC")),
    pa.field("actor", pa.string()),
    pa.field("engine", pa.string()),
    pa.field("message", pa.string()),
)
"""The columns that tell the event of a row."""
OF_EVENT = (*NAMED, *WHEN)


@frozen
class LoggedTable:
    """A table by its stream: the names it got, by position, None where it was dropped, and the one it has now."""

    stream: str
    names: tuple[tuple[int, Identifier | None], ...]
    identifier_now: Identifier | None

    @property
    def table_uuid(self) -> str:
        """The table's UUID."""
        return self.stream.partition(":")[2].partition("#")[0]

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
        return self.audited(position).named

    def audited(self, position: int) -> AuditedTable:
        """The table as the SQL prompt tells of it."""

        def load() -> Table:
            raise NotImplementedError("what is told of a log is read from its events")

        return AuditedTable(self.identifier_at(position), self.stream, load, self.identifier_now)


@define(eq=False)
class AuditedLog:
    """The log up to a position, None for all of it. `load` gives the table of a stream as it was there.

    `adopt` takes in what other engines committed, before anything is told of all of the log.
    """

    store: EventStore
    repository: Repository
    load: Callable[[str], Table]
    adopt: Callable[[], object] = field(default=lambda: None)
    up_to: int | None = None
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

    def needed(self, needed: NeededTables) -> list[LoggedTable]:
        """The tables that a query can need by a name that they ever had."""
        return [t for s, t in self.named.items() if not is_view_stream(s) and _has(needed, t)]

    def streams(self, needed: NeededTables) -> list[str]:
        """The tables and views that a query can need by a name that they ever had."""
        return [s for s, t in self.named.items() if _has(needed, t)]

    def events(self, table: LoggedTable) -> Iterator[Event]:
        """The events of a table. Raises MissingArchiveError, CorruptLogError."""
        return self.store.stream_events(table.stream, 0, self.up_to)


def rows_of_log(
    log: AuditedLog,
    tables: AuditedTables,
    needed: NeededTables,
    schema: pa.Schema,
    rows: Callable[[LoggedTable], Sequence[pa.Table]],
) -> pa.Table:
    """The rows of each needed table; one whose events can't be read is a problem, and left out.

    Raises QueryLimitError.
    """
    found = [schema.empty_table()]
    for table in log.needed(needed):
        tables.deadline.check()
        if table.stream in tables.passed_over:
            continue
        try:
            found += rows(table)
        except IcecoreError as e:
            tables.problems.setdefault(table.stream, (table.audited(log.position), e))
    return pa.concat_tables(found)


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


def _has(needed: NeededTables, table: LoggedTable) -> bool:
    names = (n for _, n in table.names if n is not None)
    uuid = table.table_uuid.lower()
    return any(needed.has({"namespace": ".".join(n[:-1]), "name": n[-1], "table_uuid": uuid}) for n in names)
