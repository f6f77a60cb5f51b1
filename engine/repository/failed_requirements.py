"""The messages of commits that lost a race: what did not hold, and the commit that changed it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from icecore.engine.errors import CommitFailedError, MissingArchiveError
from icecore.engine.events.event import TABLE_COMMITTED, Event
from icecore.engine.log.read_models import dotted
from icecore.engine.log.store import EventStore
from icecore.engine.spec.updates.requirement import TableRequirement

if TYPE_CHECKING:
    from icecore.engine.commit.decide import Command, Context, Decision
    from icecore.engine.metadata.fold import TableState

SEARCHED_COMMITS = 100


def last_commit(store: EventStore, state: TableState) -> str:
    """The newest commit to a table, with who made it."""
    return _described(store, store.event_at(state.position))


def failure(store: EventStore, state: TableState, requirement: TableRequirement, text: str) -> str:
    """A requirement that does not hold, with the newest commit that changed what it is about."""
    from icecore.engine.commit.conflict_text import changes

    newest = max(0, state.stream_version - SEARCHED_COMMITS)
    newest = max(newest, store.archives.last_version(state.stream))
    events = [e for e in store.stream_events(state.stream, newest) if changes(e, requirement)]
    by = f"; it was changed by {_described(store, events[-1])}" if events else ""
    return f"{text} in {dotted(state.identifier)}{by}"


def decided(store: EventStore, state: TableState, commands: Iterable[Command], context: Context) -> Decision:
    """The decision on a state; CommitFailedError, for a command that was made for an older one, names the last commit.

    Raises as `decide`.
    """
    from icecore.engine.commit.decide import decide

    try:
        return decide(state.metadata, commands, context)
    except CommitFailedError as e:
        raise CommitFailedError(
            f"{e} in {dotted(state.identifier)}; its last commit is {last_commit(store, state)}"
        ) from e


def _described(store: EventStore, event: Event) -> str:
    from icecore.engine.commit.conflict_text import describe

    entries = None
    if event.kind == TABLE_COMMITTED:
        with contextlib.suppress(MissingArchiveError):
            entries = store.entries(event.position)
    return describe(event, entries)
