"""The snapshots that a snapshot was built on; the log knows expired ones too."""

from __future__ import annotations

from collections.abc import Iterator

from icecore.engine.events.event import TABLE_ADOPTED
from icecore.engine.events.event_updates import snapshots_of
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.snapshot import Snapshot


def ancestors_since(
    repository: Repository, state: TableState, snapshot_id: int | None, position: int
) -> Iterator[Snapshot]:
    """A snapshot and its ancestors, newest first: all that the table has, and expired ones from after a position.

    Other engines, as PyIceberg, may remove the parent's id from a snapshot when the parent expires: the log has it.
    Raises MissingArchiveError, where some have expired.
    """
    added: dict[int, Snapshot] | None = None
    passed, at = set[int](), snapshot_id
    while at is not None and at not in passed:
        passed.add(at)
        snapshot = state.metadata.snapshot_by_id(at)
        if snapshot is None or (snapshot.parent_snapshot_id is None and (added or _was_adopted(repository, state))):
            added = _added(repository, state, position) if added is None else added
            snapshot = added.get(at, snapshot)
        if snapshot is None:
            return
        yield snapshot
        at = snapshot.parent_snapshot_id


def parent_id(repository: Repository, state: TableState, snapshot: Snapshot) -> int | None:
    """The id of the snapshot that a snapshot of the table was built on, as `ancestors_since` knows it."""
    return next(ancestors_since(repository, state, snapshot.snapshot_id, 0)).parent_snapshot_id


def _was_adopted(repository: Repository, state: TableState) -> bool:
    """Whether another engine ever wrote the table's metadata."""
    found = repository.store.filtered_events(stream=state.stream, kind=TABLE_ADOPTED)
    return next(found, None) is not None


def _added(repository: Repository, state: TableState, position: int) -> dict[int, Snapshot]:
    """The snapshots that came after a position, as they were then."""
    found: dict[int, Snapshot] = {}
    for event in repository.store.filtered_events(stream=state.stream, after=position):
        for snapshot in snapshots_of(event)[0]:
            found.setdefault(snapshot.snapshot_id, snapshot)
    return found
