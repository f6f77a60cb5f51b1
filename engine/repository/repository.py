"""The repository of tables, the imperative shell around decide and fold: states, commits, and the files that follow."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import define, evolve, field, frozen

from icecore.engine.common.ids import new_event_id, new_salt, now_ms
from icecore.engine.errors import CommitConflictError, CommitFailedError, ForeignCommitError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.commit_watch import note_earlier, note_stored
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.files_of_others import GivenFile
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.events.namespace_events import NamespaceCreated
from icecore.engine.foreign.adopter import Adopter
from icecore.engine.foreign.foreign_manifests import append_keeping
from icecore.engine.log.lock.standing import Standing
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import EventStore, WriteTransaction
from icecore.engine.metadata.fold import TableState, fold, metadata_folder
from icecore.engine.metadata.materialize_mode import is_manual, writes_again
from icecore.engine.replay.kinds import TABLES, TableStates
from icecore.engine.replay.states import States
from icecore.engine.repository.failed_requirements import decided, failure, last_commit
from icecore.engine.repository.given_files import GivenFiles
from icecore.engine.repository.manifest_lists import ManifestLists
from icecore.engine.repository.required_message import check_message
from icecore.engine.repository.reused_key import reused_key
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.location_rules import LocationRules
from icecore.projections.entries.manifest_entries import ManifestEntries
from icecore.projections.files.file_follower import FileFollower
from icecore.projections.files.materialize import Materializer
from icecore.projections.files.metadata_cleanup import let_go, new_versions_max

if TYPE_CHECKING:
    from icecore.engine.commit.decide import Command, Context, Decision
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.repository.location_check import LocationCheck
    from icecore.engine.spec.updates.requirement import TableRequirement

Prepare: TypeAlias = "Callable[[TableState], Sequence[Command]]"
WithIt: TypeAlias = "Callable[[WriteTransaction, TableState], TableState]"


@frozen
class CommitResult:
    """The state after a commit, and its event; None where there was nothing to change."""

    state: TableState
    event: Event | None


@frozen
class TablePart:
    """One table's part of a commit over several."""

    stream: str
    prepare: Prepare
    requirements: tuple[TableRequirement, ...] = ()


@define
class Repository:
    """Tables by stream. States are cached and brought up to date by the events since."""

    store: EventStore
    models: ReadModels
    entries: ManifestEntries
    materializer: Materializer
    storage: Storage
    location_rules: LocationRules = LocationRules()
    states: TableStates = field(init=False)
    lists: ManifestLists = field(init=False)
    given: GivenFiles = field(init=False)
    files: FileFollower = field(init=False)
    foreign: Adopter = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.states = States(TABLES, self.store)
        self.lists = ManifestLists(self.models, self.entries, self.storage_of)
        self.given = GivenFiles(self.store, self.models, self.lists, self.storage_of, lambda: self.locations)
        self.files = FileFollower(self.store, self.states, self.materializer, self.storage_of)
        ruled = evolve(self.storage, check_read=lambda location: self.location_rules.check_inside(location, "file"))
        parts = self.store, self.models, self.states, self.files, ruled
        self.foreign = Adopter.of(*parts, lambda before, after: self.locations.check_taken(before, after))

    # What the parts do

    def state(self, stream: str) -> TableState:
        """The latest state of a table, dropped ones too. Raises NoSuchTableError, CorruptLogError."""
        return self.states.state(stream)

    def live_state(self, stream: str) -> TableState:
        """The latest state of a table that has a name. Raises NoSuchTableError where it was dropped."""
        return self.states.live_state(stream)

    def state_at(self, stream: str, position: int | None = None) -> TableState | None:
        """The state as of a position of the log; None before the first event."""
        return self.states.state_at(stream, position)

    def list_manifests(self, state: TableState, snapshot: Snapshot) -> tuple[ListedManifest, ...]:
        """The manifests of a snapshot. Raises StorageError, CorruptFileError."""
        return self.lists.list_manifests(state, snapshot)

    def storage_of(self, state: TableState) -> Storage:
        """The storage that resolves the table's locations."""
        return self.storage.behind(state.location_mapping)

    @property
    def locations(self) -> LocationCheck:
        """The check of places against the rules."""
        from icecore.engine.repository.location_check import LocationCheck

        return LocationCheck(self.store, self.models, self.location_rules)

    def check_writable(self) -> None:
        """Raises ReadOnlyError where the warehouse was opened read-only, or in another folder than its own."""
        self.store.check_writable()

    # Inside of a write transaction that the caller holds, and that may hold other changes

    def give_name_inside(
        self,
        transaction: WriteTransaction,
        identifier: tuple[str, ...],
        provenance: Provenance,
        *,
        kind: str = "table",
        before: tuple[str, ...] | None = None,
    ) -> None:
        """Checks that a name is free, and creates its namespace where that is only implied by those inside of it.

        `kind` is what gets it, a `table` or `view`; `before` the name that it has already. Raises
        TableAlreadyExistsError, NoSuchNamespaceError.
        """
        self.models.check_new_name(identifier, kind=kind, before=before)
        if self.models.is_implied(identifier[:-1]):
            made = NamespaceCreated(identifier[:-1], {})
            later = evolve(provenance, idempotency_key=None)
            self.append_inside(transaction, ev.CATALOG_STREAM, made.kind, made.to_dict(), later)

    def create_inside(
        self,
        transaction: WriteTransaction,
        stream: str,
        kind: str,
        payload: Mapping[str, Any],
        identifier: tuple[str, ...],
        provenance: Provenance,
    ) -> tuple[Event, TableState]:
        """Appends the first event of a table.

        Raises TableAlreadyExistsError, NoSuchNamespaceError, ValidationError where the namespace asks for a reason.
        """
        self.give_name_inside(transaction, identifier, provenance)
        check_message(self.models, identifier, {}, provenance)
        given = self.given.of_new_table(stream, kind, payload)
        event = self.append_inside(transaction, stream, kind, payload, provenance, given)
        first = fold(None, [event])
        assert first is not None, "a fold of one event has a state"
        if self.location_rules.is_any:
            self.locations.check(None, first)
        transaction.at_end.append(lambda: self.files.publish(first, event, None))
        return event, first

    def append_inside(
        self,
        transaction: WriteTransaction,
        stream: str,
        kind: str,
        payload: Mapping[str, Any],
        provenance: Provenance,
        given: Sequence[GivenFile] = (),
    ) -> Event:
        """Appends an event that needs no decision, and keeps the files that are given with it."""
        event = append_keeping(transaction, self.models, stream, kind, payload, provenance, given)
        self.models.apply(event)
        return event

    # Commits

    def commit(
        self,
        stream: str,
        prepare: Prepare,
        provenance: Provenance,
        *,
        requirements: Sequence[TableRequirement] = (),
        with_it: WithIt | None = None,
    ) -> CommitResult:
        """Decides on the latest state and appends the event; after a lost race it is prepared again on the new state.

        After a second lost race that is done inside of the write lock, where the branch can't move, if it was quick.
        `with_it` appends what belongs to the commit, inside of the write lock; it may raise StaleRemovals. Raises
        CommitConflictError, ValidationError, NoSuchTableError, ReusedKeyError; nothing is stored then.
        """
        from icecore.engine.commit.decide import StaleRemovals
        from icecore.engine.repository.retry_policy import RetryPolicy, plans_inside

        attempt, state = 0, self.foreign.latest(stream)
        for attempt in RetryPolicy.of(state.metadata.properties).attempts():
            state, began = self.foreign.latest(stream) if attempt else state, time.monotonic()
            commands = prepare(state)
            again = prepare if plans_inside(attempt, began) else None
            try:
                result = self._try_commit(state, commands, provenance, requirements, with_it, again)
            except (StaleRemovals, ForeignCommitError):
                continue
            self.files.follow(result.state)
            return result
        raise CommitConflictError(
            f"{name_text(state.identifier)}: the branch kept moving during {attempt + 1} attempts; "
            f"the last commit there was {last_commit(self.store, self.state(stream))}"
        )

    def dry_run(self, stream: str, prepare: Prepare, *, requirements: Sequence[TableRequirement] = ()) -> DryRun:
        """The outcome that a commit on the latest state would have; stores nothing.

        Conflicts with other commits are not raised, but are among the outcome's conflicts. Raises ValidationError,
        NoSuchTableError.
        """
        from icecore.engine.commit.decide import decide
        from icecore.engine.commit.dry_run import conflicts_of, dry_run_of, refused
        from icecore.engine.metadata.requirements import failures

        with contextlib.suppress(ForeignCommitError):
            self.foreign.adopt_stream(stream)
        state = self.live_state(stream)
        conflicts = [failure(self.store, state, r, text) for r, text in failures(state.metadata, requirements)]
        try:
            commands = prepare(state)
        except CommitConflictError as e:
            return refused(state.metadata, [*conflicts, *conflicts_of(e)])
        try:
            self.foreign.check(state)
        except CommitConflictError as e:
            conflicts.append(str(e))
        context = self._context(max(now_ms(), self.store.head()[2] + 1), state)
        try:
            decision = decide(state.metadata, commands, context)
        except CommitFailedError as e:
            return refused(state.metadata, [*conflicts, str(e)])
        self.given.of_decision(state, decision)
        return dry_run_of(state.metadata, decision, context.recorded_at_ms, conflicts)

    def _try_commit(
        self,
        base: TableState,
        commands: Sequence[Command],
        provenance: Provenance,
        requirements: Sequence[TableRequirement],
        with_it: WithIt | None,
        again: Prepare | None,
    ) -> CommitResult:
        def write(transaction: WriteTransaction) -> CommitResult:
            done = self.already(provenance)
            if done is not None:
                self.check_answer(done, base.stream)
                return CommitResult(self.state(done.stream), done)
            result = self.commit_inside(transaction, base, commands, provenance, requirements, again)
            if with_it is not None and result.event is not None:
                result = CommitResult(with_it(transaction, result.state), result.event)
            return result

        result = self.store.write_with(write, alone=again is not None)
        if result.event is not None:
            note_stored(result.event)
        self.states.put(result.state)
        return result

    def commit_inside(
        self,
        transaction: WriteTransaction,
        base: TableState,
        commands: Sequence[Command],
        provenance: Provenance,
        requirements: Sequence[TableRequirement] = (),
        again: Prepare | None = None,
    ) -> CommitResult:
        """Decides on the latest state and appends the event; `again` prepares commands anew if they are stale.

        Raises StaleRemovals besides what `commit` raises: CommitFailedError, NoSuchTableError, ValidationError.
        """
        from icecore.engine.commit.decide import leaving_out
        from icecore.engine.metadata.requirements import failures

        standing = self.models.standing(base.stream)
        state = self.states.forward(base, standing.last_version)
        if state.dropped:
            raise self.states.missing(state)
        self.foreign.check(state, standing)
        for requirement, text in failures(state.metadata, requirements):
            raise CommitFailedError(failure(self.store, state, requirement, text))
        context = self._context(transaction.next_recorded_at_ms(), state)
        commands, decision = decided(self.store, state, commands, context, again)
        if decision.is_empty:
            return CommitResult(state, None)
        given = self.given.of_decision(state, decision)
        check_message(self.models, state.identifier, state.metadata.properties, provenance)
        is_behind = not state.pending and standing.written_version < state.stream_version
        if is_behind and (lost := self.files.unwritable_snapshots(state)):
            # No engine could ever read these snapshots, so the commit removes them.
            _, decision = decided(self.store, state, (*commands, leaving_out(lost)), context)
        event, after = self._append_decision(transaction, state, context, decision, provenance, given, standing)
        return CommitResult(after, event)

    def _context(self, recorded_at_ms: int, state: TableState) -> Context:
        from icecore.engine.commit.decide import Context

        return Context(
            new_event_id(),
            recorded_at_ms,
            lambda snapshot_id: self.lists.complete_list(state, state.metadata.find_snapshot(snapshot_id)),
            lambda snapshot_id: self.models.has_list(state.stream, snapshot_id),
            lambda listed: self.lists.live_entries(state, listed),
        )

    def _append_decision(
        self,
        transaction: WriteTransaction,
        state: TableState,
        context: Context,
        decision: Decision,
        provenance: Provenance,
        given: Sequence[GivenFile],
        standing: Standing,
    ) -> tuple[Event, TableState]:
        from icecore.engine.formats.event_content import encode_parts

        keeping = self.models.keeping(state.stream, given)
        payload = decision.to_payload() | keeping.to_payload()
        if is_manual(state.metadata) and not writes_again(decision.updates):
            payload["materialize"] = False
        else:
            length = new_versions_max(state, decision.updates)
            payload |= length | let_go(self.store, state, decision.updates, *length.values())
        content = decision.content
        event = transaction.append(
            state.stream,
            ev.TABLE_COMMITTED,
            payload,
            event_id=context.event_id,
            recorded_at_ms=context.recorded_at_ms,
            provenance=provenance,
            content=encode_parts(content, keeping.data, new_salt()),
            content_rows=0 if content is None else content.num_rows,
            stream_version=state.stream_version + 1,
        )
        self.models.apply(event, content)
        after = fold(state, [event])
        assert after is not None, "a fold of one event has a state"
        self.check_place(state, after)
        transaction.at_end.append(
            lambda: self.files.publish(after, event, state, standing if transaction.is_last(event) else None)
        )
        return event, after

    def check_place(self, before: TableState | None, after: TableState) -> None:
        """Raises StorageError where metadata files would go where none can be, so that no commit waits for its files.

        Raises ForbiddenLocationError too. For a new table it is called before the log is locked: a store may be slow.
        """
        if self.location_rules.is_any:
            self.locations.check_so_far(before, after)
        folders = [metadata_folder(s.metadata.location, s.metadata.properties) for s in (before, after) if s]
        self.storage_of(after).check_writable(after.metadata.location, folders[-1])
        if len(set(folders)) == len(folders):
            self.storage_of(after).list(folders[-1])

    def already(self, provenance: Provenance) -> Event | None:
        """The event of an earlier call with the same idempotency key, which is the answer to this one."""
        key = provenance.idempotency_key
        return None if key is None else note_earlier(self.store.event_by_idempotency_key(key))

    def check_answer(self, event: Event, stream: str) -> None:
        """Raises ReusedKeyError where the event of an idempotency key is no commit to the stream."""
        if event.stream != stream or event.kind not in (ev.TABLE_COMMITTED, ev.TABLE_ADOPTED, ev.VIEW_COMMITTED):
            raise reused_key(event, self.models.identifier_of(event.stream))

    def added_paths(self, event: Event | None) -> frozenset[str]:
        """The content files that a commit added; none of a commit that was not made."""
        from icecore.engine.commit.dry_run import paths_of

        entries = None if event is None else self.store.entries(event.position)
        return frozenset() if entries is None else frozenset(paths_of(entries, ManifestEntryStatus.ADDED))

    def forget(self) -> None:
        """Drops everything cached."""
        self.states.forget()
        self.lists.forget()
        self.files.forget()
