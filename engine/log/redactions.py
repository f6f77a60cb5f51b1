"""The redactions of events, as the `log.forgotten` events tell them, by which a log with holes is still verified.

Each redaction names the position, the part, and two hashes: of the part as it `was`, and of what is `left` instead. The
chain is computed with the first, what stands in the log is compared with the second. An event of schema version 1 is
hashed with its texts themselves: where one is redacted, a redaction of the part `envelope` has the event's own hash,
and the hash that it has with the texts that are left. As the event that tells all this is in the chain itself, nothing
can be changed later on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from icecore.engine.errors import CorruptLogError
from icecore.engine.events.event import CATALOG_STREAM, CONTENT, LOG_FORGOTTEN, Event, text_hash

if TYPE_CHECKING:
    from icecore.engine.log.reader import EventReader

ENVELOPE = "envelope"


@frozen
class Redaction:
    """One part of one event that was forgotten. Both hashes are SHA-256 in hexadecimal."""

    position: int
    part: str
    was: str
    left: str

    def to_dict(self) -> dict[str, Any]:
        return {"position": self.position, "part": self.part, "was": self.was, "left": self.left}


def redactions_of(event: Event) -> tuple[Redaction, ...]:
    """The redactions of a `log.forgotten` event. Raises CorruptLogError."""
    try:
        out = tuple(Redaction(r["position"], r["part"], r["was"], r["left"]) for r in event.payload["redactions"])
    except (LookupError, TypeError) as e:
        raise CorruptLogError(f"position {event.position}: what was forgotten can't be read: {e!r}") from e
    for r in out:
        if not isinstance(r.position, int) or not 0 < r.position < event.position:
            raise CorruptLogError(f"position {event.position}: it can't forget what stands at position {r.position}")
    return out


class Redactions:
    """All redactions of a log, by position and part; of several the first `was` and the last `left` count."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        """Reads the redactions of the events. Raises CorruptLogError."""
        self._parts: dict[int, dict[str, Redaction]] = {}
        for event in events:
            self.add(event)

    @classmethod
    def of(cls, store: EventReader) -> Redactions:
        """The redactions of a log. Raises CorruptLogError."""
        return cls(store.stream_events(CATALOG_STREAM))

    def add(self, event: Event) -> None:
        """Adds the redactions of one event of the log, if it has any. Raises CorruptLogError."""
        for r in redactions_of(event) if event.kind == LOG_FORGOTTEN else ():
            known = self._parts.setdefault(r.position, {})
            known[r.part] = evolve(r, was=known[r.part].was) if r.part in known else r

    @property
    def positions(self) -> frozenset[int]:
        """The positions of redacted events."""
        return frozenset(self._parts)

    def of_event(self, position: int) -> Mapping[str, Redaction]:
        """The redactions of one event, by part."""
        return self._parts.get(position, {})

    def event_problem(self, event: Event) -> str | None:
        """The fault of an event beside its place in the chain; None where it is as it was, or as redacted."""
        parts = self.of_event(event.position)
        for name, text in event.texts.items():
            if name in parts and text_hash(text) != parts[name].left:
                return f"its {name} is not what was left of it when it was forgotten"
        if event.is_hashed_by_parts:
            computed = event.computed_hash({n: r.was for n, r in parts.items() if n in event.texts})
        else:
            whole = parts.get(ENVELOPE)
            computed = event.computed_hash()
            if whole is not None:
                computed = whole.was if computed == whole.left else computed
        return None if computed == event.hash else "it was changed after it was written: it has another hash"

    def content_hash(self, event: Event) -> str | None:
        """The hash that the content files beside an event must have now; None where it has none."""
        redacted = self.of_event(event.position).get(CONTENT)
        if redacted is None:
            return event.content_sha256
        # A redaction that is not of what the event had vouches for nothing.
        return redacted.left if redacted.was == event.content_sha256 else event.content_sha256
