"""The last commit of an actor, which an undo undoes.

Commits that were undone already are passed over, and so are reverts and events that only tell of files, erasures and
moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from icecore.engine.errors import ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.joint_commit.joint_revert import undone_by
from icecore.engine.log.store import EventStore

_AT_A_TIME = 500
_PASSED = {*ev.ABOUT_FILES, ev.LOG_FORGOTTEN, *ev.RELOCATING, ev.TABLE_RELOCATED, ev.VIEW_RELOCATED}


def last_commit(store: EventStore, actor: str, stream: str | None) -> list[Event]:
    """The events of the last commit by an actor, to a table or view or to anything, that still stands.

    All events of its transaction are of it. Raises ValidationError where there is none.
    """
    undone: set[int] = set()
    for event in _backwards(store):
        if event.position in undone:
            continue
        if reverted := undone_by(store, event):
            undone.update(reverted)
        elif event.provenance.actor == actor and stream in (None, event.stream) and event.kind not in _PASSED:
            return store.transaction_events(event.transaction_id)
    raise ValidationError(f"there is no commit by {actor!r} that could be undone")


def _backwards(store: EventStore, **conditions: Any) -> Iterator[Event]:
    """The events, the latest first."""
    end = store.head()[0]
    while end > 0:
        yield from reversed(list(store.filtered_events(after=end - _AT_A_TIME, up_to=end, **conditions)))
        end -= _AT_A_TIME
