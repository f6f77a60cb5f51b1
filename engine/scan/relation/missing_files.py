"""Files of a scan that are gone: the commit that expired its snapshot or purged its table is named, where one did.

Where none did, somebody deleted them beside the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from icecore.engine.errors import MissingFileError, name_text
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.restore_state import expiry_of
from icecore.engine.spec.snapshot import Snapshot
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
    """A context in which files of snapshots, and of those before them, are read.

    Raises MissingFileError as `with_expiry` tells it.
    """
    try:
        yield
    except MissingFileError as e:
        ids = dict.fromkeys(i for s in snapshots for i in (s.snapshot_id, s.parent_snapshot_id) if i is not None)
        raise _told(repository, state, ids, e) from e


def _told(
    repository: Repository, state: TableState, snapshot_ids: Iterable[int], error: MissingFileError
) -> MissingFileError:
    """The error with the first commit after the state that expired a snapshot, else the purge, else what tells more."""
    name = name_text(state.identifier)
    for snapshot_id in snapshot_ids:
        if (gone := expiry_of(repository.store, state.stream, snapshot_id, state.position)) is not None:
            told = f"snapshot {snapshot_id} of {name} was expired"
            break
    else:
        if (purged_at := repository.state(state.stream).purged_at) is None:
            return MissingFileError(f"{error}; no commit let it go: `icecore verify` tells all files that are gone")
        gone, told = repository.store.event_at(purged_at), f"{name} was purged"
    when = datetime.fromtimestamp(gone.recorded_at_ms / 1000, UTC)
    return MissingFileError(
        f"{error}; {told} at position {gone.position}, {when:%Y-%m-%d %H:%M:%S} UTC, by {gone.provenance.told}"
    )
