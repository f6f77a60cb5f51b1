"""The changes of names as values: `NameEvent` is the closed union of them, of tables and views alike.

`to_dict` is the payload of events that change nothing but a name. The metadata that stands beside a name in some
payloads is not read, as all events of names are gone through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event


@frozen
class Named:
    """A new or registered table or view."""

    identifier: Identifier


@frozen
class Renamed:
    """A table or view that is called otherwise than `before`."""

    before: Identifier
    identifier: Identifier

    def kind(self, stream: str) -> str:
        """The kind of the event in a table's or a view's stream."""
        return ev.VIEW_RENAMED if ev.is_view_stream(stream) else ev.TABLE_RENAMED

    def to_dict(self) -> dict[str, Any]:
        return {"from": list(self.before), "to": list(self.identifier)}


@frozen
class Dropped:
    """A table or view that has no name any more; the files of one that `is_unregistered` may be another catalog's."""

    identifier: Identifier
    is_unregistered: bool = False

    def kind(self, stream: str) -> str:
        """The kind of the event in a table's or a view's stream."""
        return ev.VIEW_DROPPED if ev.is_view_stream(stream) else ev.TABLE_DROPPED

    def to_dict(self) -> dict[str, Any]:
        return {"identifier": list(self.identifier), **({"unregistered": True} if self.is_unregistered else {})}


@frozen
class Undropped:
    """A dropped table or view that has a name again."""

    identifier: Identifier

    def kind(self, stream: str) -> str:
        """The kind of the event in a table's or a view's stream."""
        return ev.VIEW_UNDROPPED if ev.is_view_stream(stream) else ev.TABLE_UNDROPPED

    def to_dict(self) -> dict[str, Any]:
        return {"identifier": list(self.identifier)}


NameEvent = Named | Renamed | Dropped | Undropped


def read_name_event(kind: str, payload: Mapping[str, Any]) -> NameEvent | None:
    """A change of a name as a value; None of an event of anything else."""
    match kind:
        case ev.TABLE_CREATED | ev.TABLE_REGISTERED | ev.VIEW_CREATED | ev.VIEW_REGISTERED:
            return Named(tuple(payload["identifier"]))
        case ev.TABLE_RENAMED | ev.VIEW_RENAMED:
            return Renamed(tuple(payload["from"]), tuple(payload["to"]))
        case ev.TABLE_DROPPED | ev.VIEW_DROPPED:
            return Dropped(tuple(payload["identifier"]), payload.get("unregistered") is True)
        case ev.TABLE_UNDROPPED | ev.VIEW_UNDROPPED:
            return Undropped(tuple(payload["identifier"]))
        case _:
            return None


def became_of(event: Event, *, is_last: bool) -> tuple[str, tuple[Identifier, ...]]:
    """The words for what became of a name, by the event that took it away, and the namespaces that these tell of.

    `is_last` says that the event is the last one of the table or view.
    """
    by = f"at position {event.position} by {event.provenance.told}"
    match read_name_event(event.kind, event.payload):
        case Renamed(before, now):
            return f"; it was renamed to {name_text(now)} {by}", (before[:-1], now[:-1])
        case Dropped(name, is_unregistered):
            back = "; undrop brings it back" if is_last else ""
            return f"; it was {'unregistered' if is_unregistered else 'dropped'} {by}{back}", (name[:-1],)
        case _:
            return f"; it was dropped {by}", (tuple(event.payload["namespace"]),)


def taken_text(name: Identifier, taken: str, kind: str, before: Identifier | None, given: Event | None = None) -> str:
    """The words of Java's catalogs for a name that was to be given to a `kind`, while a `taken` has it.

    They go on with the event that gave the name, where it is known.
    """
    by = given_by(given)
    if before is not None:
        return f"Cannot rename {name_text(before)} to {name_text(name)}. {taken.capitalize()} already exists{by}"
    of_other = "" if taken == kind else " with same name"
    return f"{taken.capitalize()}{of_other} already exists: {name_text(name)}{by}"


def given_by(event: Event | None) -> str:
    """The words for the event that gave a table, view or namespace its name; none where it is not known."""
    if event is None:
        return ""
    verb = event.kind.partition(".")[2]
    verb = "given that name" if verb == "renamed" else verb
    return f"; it was {verb} at position {event.position} by {event.provenance.told}"
