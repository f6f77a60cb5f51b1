"""Commits of the log as clients are shown them: each event with the name that its table or view had then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.events.event import Event
from icecore.engine.events.name_events import Renamed, read_name_event
from icecore.engine.log.store import EventStore
from icecore.engine.server.feed.logged_operations import namespace_of, operation

Names = dict[str, Identifier]
"""The name of each table and view by its stream. One that was dropped keeps its last name, for its purge."""
NamedEvent = tuple[Event, Identifier | None]


@frozen
class NamedCommit:
    """The events of a commit that were asked for, with names, and how many events it has in all."""

    events: list[NamedEvent]
    count: int


def last_names(store: EventStore, position: int) -> Names:
    """The names up to a position. Raises MissingArchiveError, CorruptLogError."""
    names: Names = {}
    for event in store.naming_events(position):
        _named(event, names)
    return names


def named_commits(store: EventStore, names: Names, after: int, up_to: int | None = None) -> Iterator[NamedCommit]:
    """The events of each commit after a position, each with the name that its table or view had.

    `names` are the names at that position; they are kept up to date on the way. Raises MissingArchiveError.
    """
    for transaction_id, found in groupby(store.events(after, up_to), key=lambda e: e.transaction_id):
        events = [_named(e, names) for e in found]
        (first, _), (last, _) = events[0], events[-1]
        # The range may begin and end inside of a commit. The first event's id names the transaction.
        is_whole = first.event_id == transaction_id and last.position != up_to
        yield NamedCommit(events, len(events) if is_whole else len(store.transaction_events(transaction_id)))


def _named(event: Event, names: Names) -> NamedEvent:
    if (change := read_name_event(event.kind, event.payload)) is not None:
        names[event.stream] = change.identifier
    return event, names.get(event.stream)


def names_told(event: Event, name: Identifier | None) -> tuple[Identifier, ...]:
    """The names that an event is about: its namespace, or the name of its table or view; of a rename both names."""
    change, inside = read_name_event(event.kind, event.payload), namespace_of(event)
    before = (change.before,) if isinstance(change, Renamed) else ()
    return (*before, *(n for n in (name, inside) if n is not None))


def is_inside(names: Iterable[Identifier], namespace: Identifier) -> bool:
    """Whether one of the names is in a namespace, or the namespace itself; all is in the empty one."""
    return not namespace or any(name[: len(namespace)] == namespace for name in names)


def shown_event(event: Event, name: Identifier | None, count: int) -> dict[str, Any]:
    """An event of a commit of `count` events, in the shape that is proposed for the REST document."""
    provenance = event.provenance
    found: dict[str, Any] = {
        "event-id": event.event_id,
        "request-id": event.transaction_id,
        "event-count": count,
        "timestamp-ms": event.recorded_at_ms,
        "operation": operation(event, name),
        "x-icecore-position": event.position,
    }
    said = {"actor": provenance.actor, "x-icecore-engine": provenance.engine, "x-icecore-message": provenance.message}
    return found | {key: value for key, value in said.items() if value is not None}
