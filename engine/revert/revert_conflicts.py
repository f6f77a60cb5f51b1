"""The later commits that stand in the way of undoing one, in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from icecore.engine.events.event import ABOUT_FILES, CATALOG_STREAM, Event
from icecore.engine.log.store import EventStore
from icecore.projections.inspect.log_table import describe_changes

NAMED = 5


def later_commits(store: EventStore, event: Event, touches: Callable[[Event], bool] = lambda _: True) -> str:
    """The later commits to the event's stream for which `touches` holds, as the end of a sentence."""
    found = [e for e in store.stream_events(event.stream, event.stream_version) if touches(e)]
    told = [_describe(e) for e in found if e.kind not in ABOUT_FILES]
    if not told:
        return ""
    more = f" and {len(told) - NAMED} more" if len(told) > NAMED else ""
    what = "catalog" if event.stream == CATALOG_STREAM else "table or view"
    return f"; later commits to the {what}: {'; '.join(told[:NAMED])}{more}"


def positions_text(events: Sequence[Event]) -> str:
    """The positions of events in words: `position 3`, `positions 3 to 5`."""
    first, last = events[0].position, events[-1].position
    return f"position {first}" if first == last else f"positions {first} to {last}"


def _describe(event: Event) -> str:
    changes = "; ".join(describe_changes(event.kind, event.payload))
    return f"position {event.position} by {event.provenance.actor or 'unknown'} ({changes})"
