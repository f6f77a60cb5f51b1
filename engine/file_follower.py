"""Lets the files of tables follow their streams. A commit stands whatever happens to its files."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from attrs import define, field

from icecore.engine import events as ev
from icecore.engine.errors import CorruptLogError, IcecoreError
from icecore.engine.log.read_models import dotted
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.state import TableState
from icecore.engine.storage import Storage
from icecore.engine.table_states import TableStates
from icecore.projections.materialize import Materializer


class MaterializationWarning(UserWarning):
    """A commit is in the log, but its files could not all be written yet; the next open or commit goes on."""


@define
class FileFollower:
    """Materializes tables; remembers the state whose files are written."""

    store: EventStore
    states: TableStates
    materializer: Materializer
    storage_of: Callable[[TableState], Storage]
    _materialized: dict[str, TableState] = field(factory=dict)

    def follow(self, state: TableState) -> None:
        """Lets files and checkpoints follow a commit. The commit stands whatever happens here."""
        try:
            if not state.pending:
                self.materialize(state.stream)
            self.states.checkpoint_if_due(state)
        except Exception as e:
            # Whatever went wrong here, raising it would say that the commit failed, and it would be made twice.
            warnings.warn(
                f"the commit to {dotted(state.identifier)} is in the log, but not all of its files are written yet "
                f"({type(e).__name__}: {e}); the next open or commit goes on",
                MaterializationWarning,
                stacklevel=4,
            )

    def materialize(self, stream: str) -> None:
        """Writes the files of a table up to its latest event. Raises StorageError."""
        head = self.store.row(MODELS, "get_head", stream=stream)
        if head is None:
            raise CorruptLogError(f"the read models know no stream {stream}; rebuild the warehouse")
        done = head["materialized_version"]
        if done >= head["stream_version"]:
            return
        base = self._materialized.get(stream)
        if base is None or base.stream_version != done:
            base = self.states.state_at_version(stream, done, base)
        after = self.materializer.catch_up(stream, base, self.storage_of(self.states.state(stream)))
        if after is not None:
            self._materialized[stream] = after

    def heal(self) -> None:
        """Writes what commits before a crash left unwritten; warns of tables that can't be written."""
        self.materializer.settle_claims()
        self.materializer.sweep_forgotten(lambda stream: self.storage_of(self.states.state(stream)))
        for row in self.store.rows(MODELS, "behind"):
            if ev.is_view_stream(row["stream"]):
                continue
            try:
                if not self.states.state(row["stream"]).pending:
                    self.materialize(row["stream"])
            except IcecoreError as e:
                warnings.warn(
                    f"the files of {row['stream']} are behind its log, and can't be written ({type(e).__name__}: {e})",
                    MaterializationWarning,
                    stacklevel=4,
                )

    def forget(self) -> None:
        """Drops what is remembered."""
        self._materialized.clear()
