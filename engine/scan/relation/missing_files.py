"""Files of a scan that are gone: the commit that expired its snapshot is named, where one did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from icecore.engine.errors import MissingFileError, name_text
from icecore.engine.metadata.fold import TableState
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
    """The error of a missing file, which says when and by whom the scan's snapshot was expired since, if it was."""
    if scan.snapshot is None:
        return error
    state, snapshot_id = scan._state, scan.snapshot.snapshot_id
    expiry = expiry_of(scan._planner.repository.store, state.stream, snapshot_id, state.position)
    if expiry is None:
        return error
    when = datetime.fromtimestamp(expiry.recorded_at_ms / 1000, UTC)
    return MissingFileError(
        f"{error}; snapshot {snapshot_id} of {name_text(state.identifier)} was expired at position {expiry.position}, "
        f"{when:%Y-%m-%d %H:%M:%S} UTC, by {expiry.provenance.told}"
    )


def rows_or_expiry(scan: OfSnapshot, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows that are read for a scan. Raises MissingFileError as `with_expiry` tells it."""
    try:
        yield from batches
    except MissingFileError as e:
        raise with_expiry(scan, e) from e
