"""Commits that lost a race: commands prepared again, and messages that tell what did not hold and who changed it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from icecore.engine.errors import CommitFailedError, MissingArchiveError, name_text
from icecore.engine.events.event import TABLE_COMMITTED, Event
from icecore.engine.events.name_events import Named, Renamed, Undropped, read_name_event
from icecore.engine.log.store import EventStore
from icecore.engine.spec.updates.requirement import AssertTableUuid, TableRequirement

if TYPE_CHECKING:
    from icecore.engine.commit.decide import Command, Context, Decision
    from icecore.engine.metadata.fold import TableState

SEARCHED_COMMITS = 100


def last_commit(store: EventStore, state: TableState) -> str:
    """The newest commit to a table, with who made it."""
    return _described(store, store.event_at(state.position))


def failure(store: EventStore, state: TableState, requirement: TableRequirement, text: str) -> str:
    """The text of a requirement that does not hold, with the newest commit that changed what it is about.

    Of a requirement on the table's UUID that is the commit that gave the table its name.
    """
    from icecore.engine.commit.conflict_text import changes

    if isinstance(requirement, AssertTableUuid):
        return f"{text} in {name_text(state.identifier)}{_named(store, state)}"
    newest = max(0, state.stream_version - SEARCHED_COMMITS)
    newest = max(newest, store.archives.last_version(state.stream))
    events = [e for e in store.stream_events(state.stream, newest) if changes(e, requirement)]
    by = f"; it was changed by {_described(store, events[-1])}" if events else ""
    return f"{text} in {name_text(state.identifier)}{by}"


def decided(
    store: EventStore,
    state: TableState,
    commands: Sequence[Command],
    context: Context,
    again: Callable[[TableState], Sequence[Command]] | None = None,
) -> tuple[Sequence[Command], Decision]:
    """The commands and the decision on them; stale commands are prepared again by `again`, if given.

    CommitFailedError, for a command that was made for an older state, names the last commit. Raises as `decide`.
    """
    from icecore.engine.commit.decide import StaleRemovals, decide

    try:
        return commands, decide(state.metadata, commands, context)
    except StaleRemovals:
        if again is None:
            raise
        return decided(store, state, again(state), context)
    except CommitFailedError as e:
        raise CommitFailedError(
            f"{e} in {name_text(state.identifier)}; its last commit is {last_commit(store, state)}"
        ) from e


def _named(store: EventStore, state: TableState) -> str:
    given = [
        event
        for event in store.naming_events_of(state.stream)
        if isinstance(read_name_event(event.kind, event.payload), Named | Renamed | Undropped)
    ]
    return f"; the table has that name since {_described(store, given[-1])}" if given else ""


def _described(store: EventStore, event: Event) -> str:
    from icecore.engine.commit.conflict_text import describe

    entries = None
    if event.kind == TABLE_COMMITTED:
        with contextlib.suppress(MissingArchiveError):
            entries = store.entries(event.position)
    return describe(event, entries)
