"""The reader of events and the content files beside them, in the log or in its archives.

The log is read first, then the archives for what it lacks: another process may archive meanwhile, and in the other
order an event could be missed in both.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson
from attrs import evolve

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import CorruptLogError, ValidationError
from icecore.engine.events.event import (
    CATALOG_STREAM,
    GENESIS_HASH,
    TABLE_CREATED,
    TABLE_DROPPED,
    TABLE_UNDROPPED,
    VIEW_CREATED,
    VIEW_DROPPED,
    VIEW_UNDROPPED,
    Event,
)
from icecore.engine.events.relocation import NO_RELOCATIONS, Relocations
from icecore.engine.log.archives import Archives
from icecore.engine.log.sqlite_file import SqliteFile

if TYPE_CHECKING:
    import pyarrow as pa

EVENTS = "log/events.sql"
LAST_POSITION = 2**62
Head = tuple[int, str, int]
"""Position, hash and time (ms) of the last event of a log."""
# Kinds that give names or take them, which stay in the log when it is archived.
NAMING = frozenset({TABLE_CREATED, TABLE_DROPPED, TABLE_UNDROPPED, VIEW_CREATED, VIEW_DROPPED, VIEW_UNDROPPED})


class EventReader(SqliteFile):
    """The reading side of a log."""

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool, read_only: bool, lock_timeout_s: float, durable: bool
    ) -> None:
        super().__init__(path, create=create, read_only=read_only, lock_timeout_s=lock_timeout_s, durable=durable)
        self.archives = Archives(self)

    @property
    def relocations(self) -> Relocations:
        """The relocations that events from former folders of the warehouse are read with."""
        return NO_RELOCATIONS

    def _event(self, row: sqlite3.Row) -> Event:
        event = Event.from_row(row)
        since = self.relocations.since(event.position)
        return evolve(event, relocations=since) if since else event

    def head(self) -> Head:
        """Position, hash and time (ms) of the last event; (0, zeros, 0) of an empty log."""
        found = self.row(EVENTS, "head")
        return (0, GENESIS_HASH, 0) if found is None else (found["position"], found["hash"], found["recorded_at_ms"])

    def events(self, after: int = 0, up_to: int | None = None) -> Iterator[Event]:
        """The events after one position up to another, in order. Raises MissingArchiveError."""
        limit = LAST_POSITION if up_to is None else up_to
        yield from map(self._event, self._iterate("all", after=after, up_to=limit))

    def last_version(self, stream: str) -> int:
        """The version of a stream's last event that is not archived; 0 where there is none."""
        found = self.row(EVENTS, "stream_version", stream=stream)
        return 0 if found is None else int(found["stream_version"])

    def stream_events(self, stream: str, after_version: int = 0, up_to: int | None = None) -> Iterator[Event]:
        """The events of one stream after a stream version, up to a position. Raises MissingArchiveError."""
        limit = LAST_POSITION if up_to is None else up_to
        yield from map(self._event, self._stream_rows(stream, after_version, limit))

    def _stream_rows(self, stream: str, after: int, up_to: int) -> Iterator[sqlite3.Row]:
        """The rows of a stream, the log's first: those that it lacks are in archives by then, whatever happens."""
        rows = self._read("of_stream", stream=stream, after=after, up_to=up_to)
        first = next(rows, None)
        if first is None or first["stream_version"] > after + 1:
            before = LAST_POSITION if first is None else first["stream_version"]
            if stream == CATALOG_STREAM:
                kept = self.archives.kept("kept_of_stream", stream=stream, after=after, up_to=up_to)
                yield from (row for row in kept if row["stream_version"] < before)
            else:
                yield from self.archives.stream_events(stream, after, before, up_to)
        if first is not None:
            yield first
            yield from rows

    def naming_events(self, up_to: int | None = None) -> Iterator[Event]:
        """The events that give names, take them and shape namespaces, unlike commits to a table or view."""
        limit = LAST_POSITION if up_to is None else up_to
        own = [self._event(row) for row in self._read("naming", up_to=limit)]
        first = own[0].position if own else LAST_POSITION
        kept = map(self._event, self.archives.kept("kept_naming", up_to=limit))
        yield from (event for event in kept if event.position < first)
        yield from own

    def naming_events_of(self, stream: str) -> Iterator[Event]:
        """The events of a table or view that give it a name or take it, and maybe others of it."""
        own = [self._event(row) for row in self._read("naming_of_stream", stream=stream)]
        first = own[0].position if own else LAST_POSITION
        rows = self.archives.kept("kept_of_stream", stream=stream, after=0, up_to=LAST_POSITION)
        kept = map(self._event, rows)
        yield from (event for event in kept if event.position < first)
        yield from own

    def filtered_events(self, **conditions: Any) -> Iterator[Event]:
        """Events by any of: after, up_to (positions), stream, actor, kind, since_ms, until_ms.

        Raises ValidationError for an actor or a kind that is no text: SQLite's error would tell of a damaged log.
        """
        defaults = {"after": 0, "up_to": LAST_POSITION}
        names = ("stream", "actor", "kind", "since_ms", "until_ms")
        parameters: dict[str, Any] = (
            defaults | dict.fromkeys(names) | {k: v for k, v in conditions.items() if v is not None}
        )
        for name in ("actor", "kind"):
            if not isinstance(parameters[name], str | None):
                raise ValidationError(f"{name} must be text, found {type(parameters[name]).__name__}")
        if parameters["kind"] in NAMING:
            yield from (e for e in self.naming_events(parameters["up_to"]) if _fits(e, parameters))
            return
        archived = self.archives.all()
        since = parameters["since_ms"]
        if archived and since is not None and since > archived[-1].last_recorded_at_ms:
            parameters["after"] = max(parameters["after"], archived[-1].last_position)
        which = "filtered" if parameters["stream"] is None else "filtered_of_stream"
        yield from map(self._event, self._iterate(which, **parameters))

    def _iterate(self, query_name: str, /, **parameters: Any) -> Iterator[sqlite3.Row]:
        """The rows of a query by position, the log's first, since another process may archive meanwhile."""
        after, up_to = parameters["after"], parameters["up_to"]
        rows = self._read(query_name, **parameters)
        first = next(rows, None)
        if first is None or first["position"] > after + 1:
            others = {k: v for k, v in parameters.items() if k not in ("after", "up_to")}
            before = up_to if first is None else min(up_to, first["position"] - 1)
            yield from self.archives.events(query_name, after, before, **others)
        if first is not None:
            yield first
            yield from rows

    def _read(self, query_name: str, /, **parameters: Any) -> Iterator[sqlite3.Row]:
        with self._translated("read"):
            if not self.has_locks:
                # Without locks others may write meanwhile, which is known only once all rows are fetched.
                yield from self.rows(EVENTS, query_name, **parameters)
                return
            cursor = self.execute(EVENTS, query_name, **parameters)
            while batch := cursor.fetchmany(500):
                yield from batch

    def event_by_id(self, event_id: str) -> Event | None:
        """The event of that id; None where there is none."""
        found = self.row(EVENTS, "by_id", event_id=event_id) or self.archives.find("by_id", event_id=event_id)
        return None if found is None else self._event(found)

    def event_at(self, position: int) -> Event:
        """The event of a position. Raises CorruptLogError where there is none, MissingArchiveError."""
        found = (
            self.row(EVENTS, "by_position", position=position)
            or self.archives.kept_row("kept_at", position=position)
            or self.archives.at("by_position", position)
        )
        if found is None:
            raise CorruptLogError(f"there is no event at position {position}")
        return self._event(found)

    def event_that_took(self, kind: str, identifier: Identifier) -> Event | None:
        """The event that took a name away last, of a `table`, a `view` or a `namespace`; None where it is archived."""
        name = orjson.dumps(list(identifier)).decode()
        found = self.row(EVENTS, "that_took", name=name, kinds=f"{kind}.*")
        return None if found is None else self._event(found)

    def event_that_gave(self, what: str) -> Event | None:
        """The event that gave a name last, to a stream or, as JSON, to a namespace; None where it is archived."""
        found = self.row(EVENTS, "that_gave", what=what)
        return None if found is None else self._event(found)

    def event_by_idempotency_key(self, key: str) -> Event | None:
        """The event of the first call with that idempotency key; None where there was none."""
        found = self.row(EVENTS, "by_idempotency_key", idempotency_key=key)
        found = found or self.archives.kept_row("kept_by_key", idempotency_key=key)
        return None if found is None else self._event(found)

    def transaction_events(self, transaction_id: str) -> list[Event]:
        """The events of a transaction, in order. Raises MissingArchiveError."""
        own = [self._event(r) for r in self.rows(EVENTS, "of_transaction", transaction_id=transaction_id)]
        if any(e.event_id == transaction_id for e in own):
            # A transaction has the id of its first event, so none of it is archived.
            return own
        parameters = {"transaction_id": transaction_id}
        archived = map(self._event, self.archives.events("of_transaction", 0, LAST_POSITION, **parameters))
        known = {e.position for e in own}
        return [*(e for e in archived if e.position not in known), *own]

    def content(self, position: int) -> bytes | None:
        """The content file bytes beside an event. Raises MissingArchiveError."""
        found = self.content_row(position)
        return None if found is None else found["data"]

    def entries(self, position: int) -> pa.Table | None:
        """The canonical entries beside an event, with paths as they are now; None where it has none.

        Raises MissingArchiveError, CorruptLogError.
        """
        from icecore.engine.formats.event_content import decode_content

        data = self.content(position)
        return None if data is None else self.relocations.since(position).entries(decode_content(data, position))

    def content_row(self, position: int) -> sqlite3.Row | None:
        """The content files beside an event, `data` and `row_count`. Raises MissingArchiveError."""
        return (
            self.row(EVENTS, "content_with_rows", position=position)
            or self.archives.kept_row("kept_content_at", position=position)
            or self.archives.at("content_with_rows", position)
        )

    def position_at(self, timestamp_ms: int) -> int:
        """The last position recorded at or before a time."""
        found = self.row(EVENTS, "position_at", timestamp_ms=timestamp_ms)
        own = 0 if found is None else int(found["position"])
        return own or self.archives.position_at(timestamp_ms)


def extent_text(head: int) -> str:
    """The positions that a log has whose last one is `head`, in words."""
    return f"the log goes from 1 to {head}" if head else "the log is empty"


def _fits(event: Event, conditions: Mapping[str, Any]) -> bool:
    """Whether an event meets the conditions, as in the query `filtered`."""
    after, since, until = conditions["after"], conditions["since_ms"], conditions["until_ms"]
    return (
        event.position > after
        and event.kind == conditions["kind"]
        and conditions["stream"] in (None, event.stream)
        and conditions["actor"] in (None, event.provenance.actor)
        and (since is None or event.recorded_at_ms >= since)
        and (until is None or event.recorded_at_ms <= until)
    )
