"""The state of a view from the nearest one that was noted, so that a replay needs no archived events."""

from __future__ import annotations

from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.table_states import is_checkpoint, newer
from icecore.engine.view_state import ViewState, decode_view_checkpoint, fold_view

_LAST_VERSION = 2**62


def replayed_view(store: EventStore, stream: str, version: int | None = None) -> ViewState | None:
    """The state after a given number of events of the stream, after all without one; None before the first.

    Raises CorruptLogError, MissingArchiveError where the state is one from before what was archived.
    """
    last = _LAST_VERSION if version is None else version
    row = store.row(MODELS, "checkpoint_at_version", stream=stream, version=last)
    row = newer(row, store.archives.kept_row("state_by_version", stream=stream, version=last))
    base = None
    if row is not None and is_checkpoint(store, stream, row):
        base = decode_view_checkpoint(row["state"], stream)
    if last == 0:
        return None
    events = store.stream_events(stream, base.stream_version if base else 0)
    return fold_view(base, (e for e in events if e.stream_version <= last))
