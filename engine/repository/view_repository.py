"""The repository of views, the shell around their builder and fold: states, commits, and the files that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.ids import now_ms
from icecore.engine.errors import CommitConflictError, CommitFailedError, CorruptLogError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.commit_watch import note_stored
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.name_events import given_by
from icecore.engine.log.store import MODELS, WriteTransaction
from icecore.engine.metadata.view_builder import ViewBuilder, check_view_requirements
from icecore.engine.metadata.view_fold import ViewState, evolve_view, view_metadata_folder
from icecore.engine.replay.kinds import VIEWS, ViewStates
from icecore.engine.replay.states import States
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.updates.metadata_update import stored_updates
from icecore.engine.spec.updates.requirement import AssertCreate, AssertViewUuid, ViewRequirement
from icecore.engine.spec.updates.view_update import ViewUpdate, read_view_updates
from icecore.projections.files.file_follower import warn_of_unwritten
from icecore.projections.files.materialize_view import catch_up_view, write_view
from icecore.projections.files.pointers import move_pointers, take_to_be_there

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import ViewDryRun

UpdatesAt = Callable[[int], Iterable[ViewUpdate]]
"""Gives the updates of a commit for the time (ms) at which it is made."""


@frozen
class ViewCommit:
    """The state after a commit, and its event; None where there was nothing to change."""

    state: ViewState
    event: Event | None


@define
class ViewRepository:
    """Views by stream, on the same log as the tables' repository."""

    repository: Repository
    states: ViewStates = field(init=False)
    _materialized: dict[str, ViewState] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.states = States(VIEWS, self.repository.store)

    # States

    def state(self, stream: str) -> ViewState:
        """The latest state of a view, dropped ones too. Raises NoSuchViewError, CorruptLogError."""
        return self.states.state(stream)

    def live_state(self, stream: str) -> ViewState:
        """The latest state of a view that has a name. Raises NoSuchViewError where it was dropped."""
        return self.states.live_state(stream)

    def state_at(self, stream: str, position: int | None = None) -> ViewState | None:
        """The state as of a position of the log; None before the first event."""
        return self.states.state_at(stream, position)

    def forget(self) -> None:
        """Drops everything cached."""
        self.states.forget()
        self._materialized.clear()

    # Commits

    def create_inside(
        self,
        transaction: WriteTransaction,
        stream: str,
        identifier: Identifier,
        updates_at: UpdatesAt,
        provenance: Provenance,
    ) -> Event:
        """Appends the first event of a view, inside of a write transaction that the caller holds.

        Raises TableAlreadyExistsError, NoSuchNamespaceError, ValidationError, StorageError.
        """
        self.repository.give_name_inside(transaction, identifier, provenance, kind="view")
        at = transaction.next_recorded_at_ms()
        accepted = _accepted(None, updates_at(at), at)
        payload = {"identifier": list(identifier), "updates": accepted, "requirements": [AssertCreate().to_dict()]}
        event = self._append(transaction, stream, ev.VIEW_CREATED, payload, provenance, at)
        self._check_reachable(None, evolve_view(None, event))
        transaction.at_end.append(lambda: self._publish(stream))
        return event

    def register_inside(
        self,
        transaction: WriteTransaction,
        stream: str,
        identifier: Identifier,
        payload: Mapping[str, Any],
        provenance: Provenance,
    ) -> Event:
        """Appends the event of a view whose metadata another engine wrote, inside of the caller's write transaction.

        Raises TableAlreadyExistsError, NoSuchNamespaceError, ForbiddenLocationError.
        """
        self.repository.give_name_inside(transaction, identifier, provenance, kind="view")
        event = self.repository.append_inside(transaction, stream, ev.VIEW_REGISTERED, payload, provenance)
        if self.repository.location_rules.is_any:
            self.repository.locations.check(None, evolve_view(None, event))
        return event

    def commit(
        self,
        stream: str,
        updates_at: UpdatesAt,
        provenance: Provenance,
        *,
        requirements: Sequence[ViewRequirement] = (),
    ) -> ViewCommit:
        """Appends the changes of the updates to the latest state, decided in the write lock, so no race is lost.

        Raises NoSuchViewError, ValidationError, CommitFailedError, CommitConflictError, ReusedKeyError; nothing is
        stored then.
        """
        self.repository.foreign.adopt_stream(stream)

        def write(transaction: WriteTransaction) -> Event | None:
            event = self.repository.already(provenance)
            if event is None:
                return self.commit_inside(transaction, stream, updates_at, provenance, requirements)
            self.repository.check_answer(event, stream)
            return event

        event = self.repository.store.write_with(write)
        if event is not None:
            note_stored(event)
        return ViewCommit(self._after(stream if event is None else event.stream), event)

    def dry_run(self, stream: str, updates_at: UpdatesAt) -> ViewDryRun:
        """The outcome that a commit of the updates would have; stores nothing.

        Raises NoSuchViewError, ValidationError.
        """
        from icecore.engine.commit.dry_run import ViewDryRun

        state = self.live_state(stream)
        conflicts = []
        try:
            self.repository.foreign.check(state)
        except CommitConflictError as e:
            conflicts.append(str(e))
        at = max(now_ms(), self.repository.store.head()[2] + 1)
        builder = ViewBuilder(state.metadata, at).apply(stored_updates(updates_at(at), read_view_updates))
        metadata = builder.build()
        asserted = [AssertViewUuid(state.metadata.view_uuid).to_dict()]
        changes = [u.to_dict() for u in builder.changes]
        payload = {"updates": changes, "requirements": asserted if changes else []}
        return ViewDryRun(payload, metadata, tuple(conflicts))

    def commit_inside(
        self,
        transaction: WriteTransaction,
        stream: str,
        updates_at: UpdatesAt,
        provenance: Provenance,
        requirements: Sequence[ViewRequirement] = (),
        *,
        may_drop_dialects: bool = False,
    ) -> Event | None:
        """Commits as `commit`, inside of a write transaction that the caller holds; None where nothing changes."""
        state = self.live_state(stream)
        self.repository.foreign.check(state)
        self._check_requirements(state, requirements)
        at = transaction.next_recorded_at_ms()
        accepted = _accepted(state, updates_at(at), at, may_drop_dialects=may_drop_dialects)
        if not accepted:
            return None
        asserted = [AssertViewUuid(state.metadata.view_uuid).to_dict()]
        payload = {"updates": accepted, "requirements": asserted}
        event = self._append(transaction, stream, ev.VIEW_COMMITTED, payload, provenance, at)
        self._check_reachable(state, evolve_view(state, event))
        transaction.at_end.append(lambda: self._publish(stream))
        return event

    def _check_requirements(self, state: ViewState, requirements: Sequence[ViewRequirement]) -> None:
        try:
            check_view_requirements(state.metadata, requirements)
        except CommitFailedError as e:
            given = self.repository.store.event_that_gave(state.stream)
            raise CommitFailedError(f"{e} in {name_text(state.identifier)}{given_by(given)}") from e

    def _append(
        self,
        transaction: WriteTransaction,
        stream: str,
        kind: str,
        payload: Mapping[str, Any],
        provenance: Provenance,
        at: int,
    ) -> Event:
        event = transaction.append(stream, kind, payload, provenance=provenance, recorded_at_ms=at)
        self.repository.models.apply(event)
        return event

    def _check_reachable(self, before: ViewState | None, after: ViewState) -> None:
        """Raises StorageError where metadata files would move where none can be, so that no commit waits for its files.

        Raises ForbiddenLocationError for a place that the rules don't allow.
        """
        if self.repository.location_rules.is_any:
            self.repository.locations.check(before, after)
        folder = view_metadata_folder(after.metadata)
        self.repository.storage.check_writable(folder)
        if before is not None and view_metadata_folder(before.metadata) != folder:
            self.repository.storage.list(folder)

    def check_new_place(self, updates_at: UpdatesAt) -> None:
        """Raises StorageError where the files of a new view would go where none can be.

        It is called before the log is locked: a store may be slow. Places that the rules don't allow are not looked at:
        the commit refuses them. Raises ValidationError where the updates make no view.
        """
        at = now_ms()
        metadata = _built(None, updates_at(at), at).build()
        folder = view_metadata_folder(metadata)
        rules, is_allowed = self.repository.location_rules, self.repository.locations.is_allowed
        if not rules.is_any or (is_allowed(metadata.location) and is_allowed(folder)):
            self.repository.storage.list(folder)

    # Files

    def follow(self, stream: str) -> None:
        """Writes the files of the events appended to a view. The commit stands whatever happens to them."""
        self._after(stream)

    def _after(self, stream: str) -> ViewState:
        """Writes the files after a commit, and returns the state. The commit stands whatever happens to them."""
        state = self.state(stream)
        try:
            self.materialize(stream)
            self.states.checkpoint_if_due(state)
        except Exception as e:
            warn_of_unwritten(state.identifier, e)
        return state

    def materialize(self, stream: str) -> None:
        """Writes the files of a view up to its latest event. Raises StorageError, CorruptLogError."""
        if self.repository.materializer.is_dry:
            return
        store = self.repository.store
        head = store.row(MODELS, "get_head", stream=stream)
        if head is None:
            raise CorruptLogError(f"the read models know no stream {stream}; rebuild the warehouse")
        done = head["materialized_version"]
        if done >= head["stream_version"]:
            return
        if self.repository.storage.is_shared(self.state(stream).metadata.location):
            with store.write():
                take_to_be_there(store, self.repository.models, self.state(stream))
            return
        after = catch_up_view(store, self.repository.models, self.repository.storage, stream, self._base(stream, done))
        if after is not None:
            self._materialized[stream] = after

    def rewrite(self, stream: str) -> None:
        """Writes all files of a view again and moves its pointers, inside of the write transaction that is open.

        Raises StorageError.
        """
        if self.repository.storage.is_shared(self.state(stream).metadata.location):
            take_to_be_there(self.repository.store, self.repository.models, self.state(stream))
            return
        state, written = write_view(self.repository.store, self.repository.storage, stream, None)
        if state is not None:
            move_pointers(self.repository.store, self.repository.models, state, written)

    def _base(self, stream: str, done: int) -> ViewState | None:
        """The state whose files are written."""
        base = self._materialized.get(stream)
        return base if base is not None and base.stream_version == done else self.states.state_at_version(stream, done)

    def _publish(self, stream: str) -> None:
        """Writes the file of an event that is about to be committed and moves the pointer, in one transaction.

        So no other engine can commit between the two. Where the file can't be written the event stands without.
        """
        store, storage = self.repository.store, self.repository.storage
        if self.repository.materializer.is_dry:
            return
        head = store.row(MODELS, "get_head", stream=stream)
        try:
            done = 0 if head is None else head["materialized_version"]
            state, written = write_view(store, storage, stream, self._base(stream, done))
        except Exception:
            return
        if state is not None:
            move_pointers(store, self.repository.models, state, written)

    def heal(self) -> None:
        """Writes files of commits that a crash left unwritten; warns of views whose files can't be."""
        for row in self.repository.store.rows(MODELS, "behind"):
            if ev.is_view_stream(row["stream"]):
                self._after(row["stream"])


def _accepted(
    base: ViewState | None, updates: Iterable[ViewUpdate], at: int, *, may_drop_dialects: bool = False
) -> list[dict[str, Any]]:
    """The updates with all that they were assigned, as they stand in the event; checked as a whole."""
    builder = _built(base, updates, at)
    builder.build(may_drop_dialects=may_drop_dialects)
    return [u.to_dict() for u in builder.changes]


def _built(base: ViewState | None, updates: Iterable[ViewUpdate], at: int) -> ViewBuilder:
    return ViewBuilder(base.metadata if base else None, at).apply(stored_updates(updates, read_view_updates))
