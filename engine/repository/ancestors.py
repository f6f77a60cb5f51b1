"""The snapshots that a snapshot was built on, of which the log knows those that have expired too."""

from __future__ import annotations

from collections.abc import Iterator

from icecore.engine.events.event import TABLE_ADOPTED, TABLE_COMMITTED
from icecore.engine.events.event_updates import table_updates
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.spec.updates.table_update import AddSnapshot


def ancestors_since(
    repository: Repository, state: TableState, snapshot_id: int | None, position: int
) -> Iterator[Snapshot]:
    """A snapshot and its ancestors, newest first: all that the table has, and those that came after a position.

    Raises MissingArchiveError, where some have expired.
    """
    parent = snapshot_id
    for snapshot in state.metadata.ancestors(snapshot_id):
        yield snapshot
        parent = snapshot.parent_snapshot_id
    if parent is None or state.metadata.snapshot_by_id(parent) is not None:
        return
    events = repository.store.filtered_events(stream=state.stream, after=position)
    updates = (u for e in events if e.kind in (TABLE_COMMITTED, TABLE_ADOPTED) for u in table_updates(e))
    added = {u.snapshot.snapshot_id: u.snapshot for u in updates if isinstance(u, AddSnapshot)}
    while parent in added:
        snapshot = added.pop(parent)
        yield snapshot
        parent = snapshot.parent_snapshot_id
