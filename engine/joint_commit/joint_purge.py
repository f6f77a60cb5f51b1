"""Drops of tables that are purged at once, both in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field

from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.common.identifiers import Identifier
from icecore.engine.deletion.delete_files import Deletion, finish_due
from icecore.engine.deletion.purge_table import Purged, PurgePlan, purged_by
from icecore.engine.errors import NoSuchTableError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.name_events import Dropped, read_name_event
from icecore.engine.joint_commit.joint_commit import CommitTargets, commit_jointly, dry_run_jointly
from icecore.engine.log.store import WriteTransaction
from icecore.engine.metadata.fold import TableState, fold
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.retry_policy import RetryPolicy
from icecore.engine.repository.reused_key import reused_key
from icecore.projections.plan.planner import Planner


def drop_and_purge(
    desk: CommitTargets, planner: Planner, identifier: Identifier, provenance: Provenance, *, dry_run: bool
) -> Purged | CatalogDryRun:
    """Drops a table and deletes its files for good. Raises NoSuchTableError, and as `purge_dropped`."""
    repository = desk.repository
    repository.check_writable()
    if not dry_run and (done := repository.already(provenance)) is not None:
        return _answer(repository, identifier, done)
    try:
        return _drop_and_purge(desk, planner, identifier, provenance, dry_run=dry_run)
    except NoSuchTableError:
        # Another call with the same key may have dropped it meanwhile.
        if dry_run or (done := repository.already(provenance)) is None:
            raise
        return _answer(repository, identifier, done)


def _drop_and_purge(
    desk: CommitTargets, planner: Planner, identifier: Identifier, provenance: Provenance, *, dry_run: bool
) -> Purged | CatalogDryRun:
    repository = desk.repository
    repository.foreign.adopt_each()
    stream = repository.models.table_stream(identifier)
    part = _DroppedAndPurged(identifier, stream, planner)
    if dry_run:
        return dry_run_jointly(desk, [part], provenance)
    finish_due(repository, stream)
    if not commit_jointly(desk, [part], provenance) and (done := repository.already(provenance)) is not None:
        # Another call with the same key made it meanwhile.
        return _answer(repository, identifier, done)
    assert part.result is not None, "it was committed"
    return part.result


def _answer(repository: Repository, identifier: Identifier, event: Event) -> Purged:
    """The result of the earlier call with the same idempotency key. Raises ReusedKeyError."""
    purges = [e for e in repository.store.transaction_events(event.transaction_id) if e.kind == ev.TABLE_PURGED]
    if read_name_event(event.kind, event.payload) != Dropped(identifier) or not purges:
        raise reused_key(event)
    return purged_by(repository, identifier, purges[0])


@define
class _DroppedAndPurged:
    name: Identifier
    stream: str
    planner: Planner
    result: Purged | None = None
    _plan: PurgePlan = field(init=False)
    _going: Deletion = field(init=False)
    _purge: Event | None = None

    def retry_policy(self, desk: CommitTargets) -> RetryPolicy:
        """No retry: to find out again which files may go takes long."""
        return RetryPolicy(retries=0)

    def answered_by(self, event: Event) -> bool:
        return event.stream == self.stream and read_name_event(event.kind, event.payload) == Dropped(self.name)

    def prepare(self, desk: CommitTargets) -> None:
        self._plan = PurgePlan.of(desk.repository, desk.repository.live_state(self.stream))
        self._going = self._plan.deletion()

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        repository, before = desk.repository, len(transaction.events)

        def drop() -> TableState:
            state = repository.live_state(self.stream)
            if repository.models.table_stream(self.name) != self.stream:
                raise NoSuchTableError(f"{name_text(self.name)} was replaced by another table meanwhile")
            payload = Dropped(self.name).to_dict()
            event = repository.append_inside(transaction, self.stream, ev.TABLE_DROPPED, payload, provenance)
            after = fold(state, [event])
            assert after is not None, "a fold of one event has a state"
            return after

        later = evolve(provenance, idempotency_key=None)
        self._purge = self._plan.append(repository, transaction, self._going, drop, later)
        return transaction.events[before:]

    def follow(self, desk: CommitTargets) -> None:
        self.result = self._plan.finish(self._purge, self.planner)
