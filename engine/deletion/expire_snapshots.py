"""Expiry of snapshots: one transaction removes them from the table and names the files to delete with them.

The files are determined before the write lock is taken, since that reads the manifest lists of expired snapshots, and
again where the table was committed to meanwhile. Files are retained that a snapshot of any other table of the warehouse
references, of dropped tables too, as these can be undropped; concurrent commits are checked under the lock, where the
event is appended. For the deletion itself see `delete_files.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from attrs import define, evolve, field, frozen

from icecore.engine.commit.decide import ChangeMetadata, Command, StaleRemovals
from icecore.engine.common.ids import now_ms
from icecore.engine.common.text import short_repr
from icecore.engine.deletion import delete_files
from icecore.engine.deletion.delete_files import Deletion, ours
from icecore.engine.deletion.deletion_candidates import Candidates
from icecore.engine.deletion.needed_files import Marking
from icecore.engine.errors import IcecoreError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.event_updates import table_updates
from icecore.engine.formats.deleted_files import DeletedBy
from icecore.engine.log.deletion_content import deleted_files
from icecore.engine.log.store import WriteTransaction
from icecore.engine.metadata.fold import TableState, fold
from icecore.engine.metadata.metadata_builder import MetadataBuilder
from icecore.engine.metadata.retention import Expiry, expiring_updates
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.table_update import RemoveSnapshotRef, RemoveSnapshots, TableUpdate
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import LocationIndex
from icecore.projections.files.metadata_cleanup import let_go
from icecore.projections.inspect.reachable_files import files_of_expired, shares_location

# The attempts to find out outside of the lock which files go; after these it is done inside, and writers wait.
_OUTSIDE = 3


@frozen
class Expired:
    """The result of an expiry: snapshots and refs removed from the table, files deleted."""

    __repr__ = short_repr

    snapshot_ids: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()
    deleted_files: tuple[str, ...] = ()

    @classmethod
    def of(cls, updates: Sequence[TableUpdate], files: tuple[str, ...]) -> Expired:
        """The result that the updates of an expiry have."""
        gone = next((u.snapshot_ids for u in updates if isinstance(u, RemoveSnapshots)), ())
        refs = tuple(u.ref_name for u in updates if isinstance(u, RemoveSnapshotRef))
        return cls(tuple(gone), refs, files)


def would_expire(repository: Repository, stream: str, expiry: Expiry, *, clean: bool) -> Expired:
    """The result that an expiry would have now; nothing is changed. Raises as `expire`."""
    clean = clean and _are_known(repository, stream)
    state = repository.live_state(stream)
    updates = expiring_updates(state.metadata, expiry, now_ms())
    going = _Going.of(repository, state, updates) if clean else None
    return Expired.of(updates, () if going is None else tuple(f.location for f in going.deletion.files))


def expire(
    repository: Repository, stream: str, expiry: Expiry, provenance: Provenance, *, clean: bool
) -> tuple[TableState, Expired]:
    """Expires snapshots and, unless told not to, deletes files that only they needed; the state and the result.

    Raises ValidationError, NoSuchSnapshotError, NoSuchTableError, CommitConflictError; nothing was changed then.
    """
    repository.check_writable()
    delete_files.finish_due(repository, stream)
    clean = clean and _are_known(repository, stream)
    plan = _Plan(repository, expiry, now_ms(), provenance, clean)
    result = repository.commit(stream, plan.prepare, provenance, with_it=plan.append_deletion)
    if result.event is None:
        return result.state, Expired()
    updates = table_updates(result.event)
    if plan.is_made:
        done = () if plan.event is None else delete_files.finish(repository, plan.event)
        return result.state, Expired.of(updates, done)
    return result.state, Expired.of(updates, _answered(repository, result.event))


def _are_known(repository: Repository, stream: str) -> bool:
    """Whether the log has all commits of other engines; it is not known which files those need that it can't take in.

    Warns of these. Raises ForeignCommitError where one is to the table itself.
    """
    repository.foreign.adopt_stream(stream)
    return not repository.foreign.adopt_all()


def _answered(repository: Repository, made: Event) -> tuple[str, ...]:
    """The files that an earlier expiry with the same idempotency key deleted."""
    for event in repository.store.transaction_events(made.transaction_id):
        if event.kind == ev.TABLE_FILES_DELETED:
            return tuple(f.location for f in deleted_files(repository.store, event))
    return ()


@define
class _Plan:
    """The plan of an expiry on the state it was last prepared on."""

    _repository: Repository
    _expiry: Expiry
    _at_ms: int
    _provenance: Provenance
    _clean: bool
    event: Event | None = None
    is_made: bool = False
    _state: TableState | None = None
    _going: _Going | None = None
    _prepared: int = field(default=0)

    def prepare(self, state: TableState) -> Sequence[Command]:
        self._prepared += 1
        self._work_out(state, self._updates(state.metadata))
        return [ChangeMetadata(self._updates)]

    def _updates(self, metadata: TableMetadata) -> list[TableUpdate]:
        return expiring_updates(metadata, self._expiry, self._at_ms)

    def _work_out(self, state: TableState, updates: Sequence[TableUpdate]) -> None:
        self._state = state
        self._going = _Going.of(self._repository, state, updates) if self._clean else None

    def append_deletion(self, transaction: WriteTransaction, state: TableState) -> TableState:
        """Appends the event of the deletion in the transaction of the expiry; `state` is the one after that."""
        assert self._state is not None, "a commit is prepared before it is made"
        if self._state.stream_version + 1 != state.stream_version:
            if self._prepared < _OUTSIDE:
                raise StaleRemovals
            before = self._repository.states.state_at_version(state.stream, state.stream_version - 1, self._state)
            assert before is not None, "an expiry is not the first event"
            self._work_out(before, self._updates(before.metadata))
        self.is_made = True
        deletion = None if self._going is None else self._going.look_again()
        if deletion is None:
            return state
        why = evolve(self._provenance, idempotency_key=None)
        if state.pending:
            state = self._write_out(transaction, state, why)
        self.event, after = deletion.append(self._repository, transaction, state, why)
        return after

    def _write_out(self, transaction: WriteTransaction, state: TableState, why: Provenance) -> TableState:
        """Writes out a table that is written by hand: readers of its older metadata would miss deleted files."""
        payload = let_go(self._repository.store, state)
        event = self._repository.append_inside(transaction, state.stream, ev.TABLE_MATERIALIZED, payload, why)
        after = fold(state, [event])
        assert after is not None, "a fold of one event has a state"
        transaction.at_end.append(lambda: self._repository.files.publish(after, event, state))
        return after


@define
class _Going:
    """The files that nothing needs once an expiry is made."""

    deletion: Deletion
    _storage: Storage
    _candidates: Candidates
    _marking: Marking

    @classmethod
    def of(cls, repository: Repository, state: TableState, updates: Sequence[TableUpdate]) -> _Going | None:
        """The files to delete; None where there are none, another table has the location, or references can't be read.

        Retained are the files that the remaining snapshots reference, and all of any other table that may have files in
        the same folders.
        """
        if not any(isinstance(u, RemoveSnapshots) for u in updates) or shares_location(repository, state):
            return None
        builder = MetadataBuilder(state.metadata)
        builder.apply(updates, state.metadata.last_updated_ms)
        storage = repository.storage_of(state)
        with contextlib.suppress(IcecoreError):
            files = files_of_expired(repository, evolve(state, metadata=builder.build()), state.metadata)
            is_ours = ours(repository, storage)
            files = [f for f in files if is_ours(f.location)]
            candidates = Candidates((storage.resolve(f.location) for f in files), LocationIndex(storage))
            marking = Marking(repository, state.stream, candidates)
            marking.mark_others()
            files = [f for f in files if candidates.may_go(storage.resolve(f.location))]
            if files:
                return cls(Deletion.of(DeletedBy.EXPIRE_SNAPSHOTS, files), storage, candidates, marking)
        return None

    def look_again(self) -> Deletion | None:
        """The deletion, checked inside of the write lock against commits since; None for no files."""
        try:
            self._marking.mark_events()
        except IcecoreError:
            return None
        files = [f for f in self.deletion.files if self._candidates.may_go(self._storage.resolve(f.location))]
        if len(files) < len(self.deletion.files):
            self.deletion = Deletion.of(self.deletion.operation, files)
        return self.deletion if files else None
