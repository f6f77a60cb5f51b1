"""Files of tables that are written by hand, not with each commit."""

from __future__ import annotations

from icecore.engine.commit.decide import leaving_out
from icecore.engine.events.event import TABLE_MATERIALIZED, Provenance
from icecore.engine.metadata.fold import fold
from icecore.engine.repository.repository import Repository
from icecore.projections.files.metadata_cleanup import let_go

LEFT_OUT = "snapshots that no manifest can hold are left out"


def materialize_pending(repository: Repository, stream: str, provenance: Provenance) -> None:
    """Writes out a table whose commits are materialized by hand; an event says that it was done.

    Raises StorageError, UnwritableCommitError, and NoSuchTableError where it was dropped meanwhile.
    """
    repository.foreign.adopt_stream(stream)
    state = repository.states.state(stream)
    if state.pending and (lost := repository.files.unwritable_snapshots(state)):
        repository.commit(stream, lambda _: (leaving_out(lost),), Provenance(provenance.actor, message=LEFT_OUT))
        state = repository.states.state(stream)
    if state.pending:
        with repository.store.write() as transaction:
            state = repository.states.forward(state)
            if state.dropped:
                raise repository.states.missing(state)
            repository.foreign.check(state)
            if state.pending:
                event = repository.append_inside(
                    transaction, stream, TABLE_MATERIALIZED, let_go(repository.store, state), provenance
                )
                after = fold(state, [event])
                assert after is not None, "a fold of one event has a state"
                repository.files.publish(after, event, state)
    repository.files.materialize(stream)
    repository.files.finish(repository.state(stream))
