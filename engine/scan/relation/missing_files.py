"""Missing files of a scan: errors name the commit that expired its snapshot, purged its table or deleted the file.

Without such a commit, somebody deleted the files without the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from icecore.engine.common.location import location_key
from icecore.engine.errors import MissingFileError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import table_updates
from icecore.engine.log.deletion_content import deleted_files
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.restore_state import expiry_of
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.spec.updates.table_update import RemoveSnapshots
from icecore.projections.plan.planner import Planner

if TYPE_CHECKING:
    from typing import Protocol

    class OfSnapshot(Protocol):
        """A scan of one snapshot."""

        _planner: Planner
        _state: TableState
        snapshot: Snapshot | None


def with_expiry(scan: OfSnapshot, error: MissingFileError) -> MissingFileError:
    """The error of a missing file, which says when and by whom the snapshot was expired or the table purged, if so."""
    if scan.snapshot is None:
        return error
    return _told(scan._planner.repository, scan._state, (scan.snapshot.snapshot_id,), error)


def rows_or_expiry(scan: OfSnapshot, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that are read for a scan. Raises MissingFileError as `with_expiry` tells it."""
    try:
        yield from batches
    except MissingFileError as e:
        raise with_expiry(scan, e) from e


@contextmanager
def telling_expiry(repository: Repository, state: TableState, snapshots: Iterable[Snapshot]) -> Iterator[None]:
    """A context for reading the files of snapshots, and of the snapshots before them.

    Raises MissingFileError as `with_expiry` tells it.
    """
    try:
        yield
    except MissingFileError as e:
        raise _told(repository, state, [s.snapshot_id for s in snapshots], e) from e


def _told(
    repository: Repository, state: TableState, snapshot_ids: Iterable[int], error: MissingFileError
) -> MissingFileError:
    """The error, naming the first commit after the state that expired one of the snapshots, else what deleted the file.

    Else that is the purge of the table. The expiry of earlier snapshots proves nothing: it may be about other files.
    """
    name, store = name_text(state.identifier), repository.store
    for snapshot_id in snapshot_ids:
        if (gone := expiry_of(store, state.stream, snapshot_id, state.position)) is not None:
            told = f"snapshot {snapshot_id} of {name} was expired"
            break
    else:
        gone, any_expired = _deletion_of(repository, state, error.location)
        if gone is None and (purged_at := repository.state(state.stream).purged_at) is not None:
            gone = store.event_at(purged_at)
        if gone is None:
            # A client that expires snapshots deletes their files itself, and the log does not tell which.
            lead = "" if any_expired else "no commit let it go: "
            return MissingFileError(f"{error}; {lead}`icecore verify` tells all files that are gone")
        is_purge = gone.kind == ev.TABLE_PURGED
        told = f"{name} was purged" if is_purge else f"{gone.payload['operation']} of {name} deleted it"
    when = datetime.fromtimestamp(gone.recorded_at_ms / 1000, UTC)
    return MissingFileError(
        f"{error}; {told} at position {gone.position}, {when:%Y-%m-%d %H:%M:%S} UTC, by {gone.provenance.told}"
    )


def _deletion_of(repository: Repository, state: TableState, location: str | None) -> tuple[Event | None, bool]:
    """The first event after a state that deleted a file, and, where there is none, if any snapshot was expired."""
    any_expired, key = False, None if location is None else location_key(location)
    for event in repository.store.filtered_events(stream=state.stream, after=state.position):
        if event.kind in ev.DELETIONS and key is not None:
            if any(location_key(f.location) == key for f in deleted_files(repository.store, event)):
                return event, True
        elif event.kind in (ev.TABLE_COMMITTED, ev.TABLE_ADOPTED):
            any_expired = any_expired or any(isinstance(u, RemoveSnapshots) for u in table_updates(event))
    return None, any_expired
