"""The last commit of an actor, which an undo undoes.

Commits that were undone already are passed over, and so are reverts and events that only tell of files, erasures and
moves.
"""

from __future__ import annotations

from collections.abc import Iterator

from icecore.engine.errors import ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.joint_commit.joint_revert import undone_by
from icecore.engine.log.store import EventStore

_AT_A_TIME = 500
_PASSED = {*ev.ABOUT_FILES, ev.LOG_FORGOTTEN, *ev.RELOCATING, ev.TABLE_RELOCATED, ev.VIEW_RELOCATED}


def last_commit(store: EventStore, actor: str, stream: str | None) -> list[Event]:
    """The events of the last commit by an actor, to a table or view or to anything, that still stands.

    All events of its transaction are of it. Raises ValidationError where there is none, MissingArchiveError where it
    would be archived.
    """
    undone: set[int] = set()
    for event in _backwards(store):
        if event.position in undone:
            continue
        if event.provenance.causation_id is not None:
            # A revert, also where what it undid is in an archive that is lost.
            undone.update(undone_by(store, event))
        elif event.provenance.actor == actor and stream in (None, event.stream) and event.kind not in _PASSED:
            return store.transaction_events(event.transaction_id)
    raise ValidationError(f"there is no commit by {actor!r} that could be undone")


def _backwards(store: EventStore) -> Iterator[Event]:
    """The events, the latest first; archives, whose files may be lost, are read after all that the log has itself."""
    end, archived = store.head()[0], store.archives.last_position
    while end > 0:
        after = max(end - _AT_A_TIME, archived if end > archived else 0)
        yield from reversed(list(store.filtered_events(after=after, up_to=end)))
        end = after
