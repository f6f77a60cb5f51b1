"""The imperative shell around decide and fold: loads states, commits, and lets the projections follow."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from attrs import define, evolve, field, frozen

from icecore.engine import events as ev
from icecore.engine.conflict_text import changes, describe
from icecore.engine.decide import Command, Context, Decision, StaleRemovals, decide
from icecore.engine.dry_run import DryRun, dry_run_of
from icecore.engine.errors import (
    CommitConflictError,
    CommitFailedError,
    CorruptLogError,
    IcecoreError,
    NoSuchTableError,
    ReadOnlyError,
    StorageError,
)
from icecore.engine.events import Event, Provenance
from icecore.engine.formats.manifest_list_avro import read_manifest_list
from icecore.engine.ids import new_event_id, now_ms
from icecore.engine.log.content import decode_content, encode_content
from icecore.engine.log.read_models import ReadModels, dotted
from icecore.engine.log.store import MODELS, EventStore, WriteTransaction
from icecore.engine.manifest_changes import ListedManifest
from icecore.engine.manifest_summary import summarize
from icecore.engine.requirements import Requirement, failures
from icecore.engine.spec.content_file import ManifestContent, ManifestFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.state import (
    COMMIT_SCHEME,
    FILE_SYSTEM,
    MATERIALIZE,
    TableState,
    fold,
    metadata_folder,
    state_from_dict,
    state_to_dict,
)
from icecore.engine.storage import Storage
from icecore.engine.view_state import ViewState
from icecore.projections.manifest_entries import ManifestEntries
from icecore.projections.materialize import Materializer

Prepare = Callable[[TableState], Sequence[Command]]

MANUAL = "manual"
CHECKPOINT_EVERY = 64
MAX_ATTEMPTS = 20
SEARCHED_COMMITS = 100


class MaterializationWarning(UserWarning):
    """A commit is in the log, but its files could not all be written yet; the next open or commit goes on."""


@frozen
class CommitResult:
    """The state after a commit, and its event; None where there was nothing to change."""

    state: TableState
    event: Event | None


@frozen
class TablePart:
    """What a commit over several tables does to one of them."""

    stream: str
    prepare: Prepare
    requirements: tuple[Requirement, ...] = ()


@define
class Repository:
    """Tables by stream. States are cached and brought up to date by the events that came since."""

    store: EventStore
    models: ReadModels
    entries: ManifestEntries
    materializer: Materializer
    storage: Storage
    _states: dict[str, TableState] = field(factory=dict)
    _materialized: dict[str, TableState] = field(factory=dict)
    _checkpointed: dict[str, int] = field(factory=dict)
    _foreign_lists: dict[str, tuple[ListedManifest, ...]] = field(factory=dict)
    _lock: threading.RLock = field(factory=threading.RLock, repr=False)

    # States

    def state(self, stream: str) -> TableState:
        """The latest state of a table, dropped ones too. Raises NoSuchTableError, CorruptLogError."""
        with self._lock:
            cached = self._states.get(stream)
            if cached is None:
                found = self.state_at(stream)
            else:
                found = self._forward(cached)
            if found is None:
                raise NoSuchTableError(f"there is no {stream}")
            self._states[stream] = found
            return found

    def live_state(self, stream: str) -> TableState:
        """The latest state of a table that has a name. Raises NoSuchTableError where it was dropped."""
        state = self.state(stream)
        if state.dropped:
            raise NoSuchTableError(f"the table {dotted(state.identifier)!r} was dropped")
        return state

    def check_writable(self) -> None:
        """Raises ReadOnlyError where the warehouse was opened read-only."""
        if self.store.read_only:
            raise ReadOnlyError(f"the warehouse {self.store.path.parent} was opened read-only")

    def _forward(self, state: TableState) -> TableState:
        newer = fold(state, self.store.stream_events(state.stream, state.stream_version))
        assert newer is not None, "a fold from a state has a state"
        return newer

    def state_at(self, stream: str, position: int | None = None) -> TableState | None:
        """The state as of a position of the log, from the nearest checkpoint before it; None before the first event."""
        up_to = 2**62 if position is None else position
        base = self._checkpoint(stream, up_to)
        return fold(base, self.store.stream_events(stream, base.stream_version if base else 0, up_to))

    def _checkpoint(self, stream: str, up_to: int) -> TableState | None:
        row = self.store.row(MODELS, "latest_checkpoint", stream=stream, up_to=up_to)
        if row is None:
            return None
        event = self.store.event_at(row["position"])
        if event.stream != stream or event.hash != row["event_hash"]:
            return None
        self._checkpointed[stream] = max(self._checkpointed.get(stream, 0), row["stream_version"])
        return decode_checkpoint(row["state"], stream)

    def _state_at_version(self, stream: str, version: int) -> TableState | None:
        """The state after a given number of events of the stream."""
        if version == 0:
            return None
        state = self._materialized.get(stream)
        if state is None or state.stream_version > version:
            last = next(self.store.stream_events(stream, version - 1), None)
            state = None if last is None else self._checkpoint(stream, last.position)
        events = self.store.stream_events(stream, state.stream_version if state else 0)
        return fold(state, (e for e in events if e.stream_version <= version))

    def storage_of(self, state: TableState) -> Storage:
        """The storage that resolves the table's locations."""
        if not state.location_mapping.prefixes:
            return self.storage
        return evolve(self.storage, mapping=state.location_mapping)

    # Manifests

    def list_manifests(self, state: TableState, snapshot: Snapshot) -> tuple[ListedManifest, ...]:
        """The manifests of a snapshot, from the log or, where the snapshot came from outside, from its files."""
        known = self.models.list_manifests(state.stream, snapshot.snapshot_id)
        return known if known is not None else self._foreign_list(state, snapshot)

    def _foreign_list(self, state: TableState, snapshot: Snapshot) -> tuple[ListedManifest, ...]:
        key = f"{state.stream}/{snapshot.snapshot_id}"
        if key not in self._foreign_lists:
            self._foreign_lists[key] = self._read_foreign_list(snapshot, self.storage_of(state))
        return self._foreign_lists[key]

    def _complete_list(self, state: TableState, snapshot: Snapshot) -> tuple[ListedManifest, ...]:
        """The manifests of a snapshot with all counts, which v1 writers could leave out and new lists need (L1)."""
        return tuple(
            evolve(m, manifest=self._counted(state, m)) if m.is_foreign and not is_counted(m.manifest) else m
            for m in self.list_manifests(state, snapshot)
        )

    def _counted(self, state: TableState, listed: ListedManifest) -> ManifestFile:
        known = listed.manifest
        counted = summarize(
            self.entries.inherited(state.stream, listed, self.storage_of(state)),
            manifest_path=known.manifest_path,
            spec=state.metadata.spec_by_id(known.partition_spec_id),
            schema=state.metadata.all_fields,
            content=known.content,
            sequence_number=known.sequence_number,
            snapshot_id=known.added_snapshot_id or 0,
        )
        return evolve(
            counted,
            manifest_length=known.manifest_length,
            key_metadata=known.key_metadata,
            first_row_id=known.first_row_id,
        )

    def _read_foreign_list(self, snapshot: Snapshot, storage: Storage) -> tuple[ListedManifest, ...]:
        if snapshot.manifest_list is not None:
            data = storage.read_bytes(snapshot.manifest_list)
            return tuple(ListedManifest(m) for m in read_manifest_list(data, snapshot.manifest_list))
        # A v1 snapshot without a list names its manifests; their headers say which spec they are of.
        return tuple(ListedManifest(inline_manifest(path, snapshot, storage)) for path in snapshot.manifests or ())

    # Commits

    def create(
        self, stream: str, kind: str, payload: Mapping[str, Any], identifier: tuple[str, ...], provenance: Provenance
    ) -> TableState:
        """Appends the first event of a table. Raises TableAlreadyExistsError, NoSuchNamespaceError."""
        with self.store.write() as transaction:
            if (done := self.already(provenance)) is None:
                self.models.check_new_name(identifier)
                event = self._append(transaction, stream, kind, payload, provenance)
                first = fold(None, [event])
                assert first is not None, "a fold of one event has a state"
                self._check_reachable(None, first)
                self._claim_version(event, None, first)
        if done is not None:
            return self.state(done.stream)
        state = self.state(stream)
        self.follow(state)
        return state

    def append_simple(
        self,
        stream: str,
        kind: str,
        payload: Mapping[str, Any],
        provenance: Provenance,
        check_inside: Callable[[], None],
    ) -> Event:
        """Appends an event that needs no decision beyond a check made inside of the lock."""
        with self.store.write() as transaction:
            done = self.already(provenance)
            if done is not None:
                return done
            check_inside()
            return self._append(transaction, stream, kind, payload, provenance)

    def commit(
        self,
        stream: str,
        prepare: Prepare,
        provenance: Provenance,
        *,
        requirements: Sequence[Requirement] = (),
    ) -> CommitResult:
        """Decides on the latest state and appends the event; what lost a race is prepared again on the new state.

        Raises CommitConflictError, ValidationError, NoSuchTableError; nothing is stored then.
        """
        for attempt in range(MAX_ATTEMPTS):
            state = self.state(stream)
            commands = prepare(state)
            try:
                result = self._try_commit(state, commands, provenance, requirements)
            except StaleRemovals:
                time.sleep(random.uniform(0, min(1.0, 0.01 * 2**attempt)))
                continue
            self.follow(result.state)
            return result
        raise CommitConflictError(
            f"{dotted(state.identifier)}: the branch kept moving during {MAX_ATTEMPTS} attempts; "
            f"the last commit there was {self._last_commit(stream)}"
        )

    def commit_all(self, parts: Sequence[TablePart], provenance: Provenance) -> tuple[CommitResult, ...]:
        """Commits to several tables in one SQLite transaction with one transaction id: all or nothing.

        Where one part lost a race all are prepared again. The first event carries the idempotency key. Raises as
        `commit` does.
        """
        for attempt in range(MAX_ATTEMPTS):
            states = [self.state(p.stream) for p in parts]
            prepared = [p.prepare(state) for p, state in zip(parts, states, strict=True)]
            try:
                results = self._try_all(parts, states, prepared, provenance)
            except StaleRemovals:
                time.sleep(random.uniform(0, min(1.0, 0.01 * 2**attempt)))
                continue
            for result in results:
                self.follow(result.state)
            return results
        moved = "; ".join(f"{dotted(s.identifier)} by {self._last_commit(s.stream)}" for s in states)
        raise CommitConflictError(f"the branches kept moving during {MAX_ATTEMPTS} attempts, last {moved}")

    def _try_all(
        self,
        parts: Sequence[TablePart],
        states: Sequence[TableState],
        prepared: Sequence[Sequence[Command]],
        provenance: Provenance,
    ) -> tuple[CommitResult, ...]:
        results = []
        try:
            with self.store.write() as transaction:
                done = self.already(provenance)
                if done is not None:
                    return tuple(CommitResult(self.state(p.stream), None) for p in parts)
                for part, state, commands in zip(parts, states, prepared, strict=True):
                    result = self._commit_inside(transaction, state, commands, provenance, part.requirements)
                    results.append(result)
                    if result.event is not None:
                        provenance = evolve(provenance, idempotency_key=None)
        except BaseException:
            # Versions of file system tables that were made before another table's part was refused.
            with contextlib.suppress(IcecoreError):
                self.materializer.settle_claims()
            raise
        for result in results:
            self._states[result.state.stream] = result.state
        return tuple(results)

    def dry_run(self, stream: str, prepare: Prepare, *, requirements: Sequence[Requirement] = ()) -> DryRun:
        """Decides on the latest state and stores nothing. Raises ValidationError, NoSuchTableError.

        What a commit would be refused for because of others is among the outcome's conflicts.
        """
        state = self.live_state(stream)
        commands = prepare(state)
        conflicts = [self._failure(state, r, text) for r, text in failures(state.metadata, requirements)]
        try:
            self.check_pointer(state)
        except CommitConflictError as e:
            conflicts.append(str(e))
        context = self._context(max(now_ms(), self.store.head()[2] + 1), state)
        decision = decide(state.metadata, commands, context)
        return dry_run_of(state.metadata, decision, context.recorded_at_ms, conflicts)

    def _try_commit(
        self,
        base: TableState,
        commands: Sequence[Command],
        provenance: Provenance,
        requirements: Sequence[Requirement],
    ) -> CommitResult:
        with self.store.write() as transaction:
            done = self.already(provenance)
            if done is not None:
                return CommitResult(self.state(done.stream), done)
            result = self._commit_inside(transaction, base, commands, provenance, requirements)
        self._states[base.stream] = result.state
        return result

    def _commit_inside(
        self,
        transaction: WriteTransaction,
        base: TableState,
        commands: Sequence[Command],
        provenance: Provenance,
        requirements: Sequence[Requirement],
    ) -> CommitResult:
        state = self._forward(base)
        if state.dropped:
            raise NoSuchTableError(f"the table {dotted(state.identifier)!r} was dropped")
        self.check_pointer(state)
        for requirement, text in failures(state.metadata, requirements):
            raise CommitFailedError(self._failure(state, requirement, text))
        context = self._context(transaction.next_recorded_at_ms(), state)
        decision = decide(state.metadata, commands, context)
        if decision.is_empty:
            return CommitResult(state, None)
        event, after = self._append_decision(transaction, state, context, decision, provenance)
        return CommitResult(after, event)

    def _context(self, recorded_at_ms: int, state: TableState) -> Context:
        return Context(
            new_event_id(),
            recorded_at_ms,
            lambda snapshot_id: self._complete_list(state, state.metadata.find_snapshot(snapshot_id)),
            lambda snapshot_id: self.models.has_list(state.stream, snapshot_id),
            lambda listed: self.entries.live(state.stream, listed, self.storage_of(state)),
        )

    def _append_decision(
        self,
        transaction: WriteTransaction,
        state: TableState,
        context: Context,
        decision: Decision,
        provenance: Provenance,
    ) -> tuple[Event, TableState]:
        payload = decision.to_payload()
        if is_manual(state.metadata):
            payload["materialize"] = False
        content = decision.content
        event = transaction.append(
            state.stream,
            ev.TABLE_COMMITTED,
            payload,
            event_id=context.event_id,
            recorded_at_ms=context.recorded_at_ms,
            provenance=provenance,
            content=None if content is None else encode_content(content),
            content_rows=0 if content is None else content.num_rows,
        )
        self.models.apply(event)
        after = fold(state, [event])
        assert after is not None, "a fold of one event has a state"
        self._check_reachable(state, after)
        self._claim_version(event, state, after)
        return event, after

    def _claim_version(self, event: Event, before: TableState | None, after: TableState | None) -> None:
        """Makes the new version's file of a file system table, inside of the lock: that is what other writers see.

        Raises CommitConflictError where another writer made that version.
        """
        if after is None or after.metadata.properties.get(COMMIT_SCHEME) != FILE_SYSTEM or after.pending:
            return
        self.materializer.claim_version(event, before, after, self.storage_of(after))

    def _check_reachable(self, before: TableState | None, after: TableState) -> None:
        """Raises StorageError where metadata files are to go where nothing can be, so that no commit waits for them."""
        folders = [metadata_folder(s.metadata.location, s.metadata.properties) for s in (before, after) if s]
        if len(set(folders)) == len(folders):
            self.storage_of(after).list(folders[-1])

    def _append(
        self, transaction: WriteTransaction, stream: str, kind: str, payload: Mapping[str, Any], provenance: Provenance
    ) -> Event:
        event = transaction.append(
            stream,
            kind,
            payload,
            event_id=new_event_id(),
            recorded_at_ms=transaction.next_recorded_at_ms(),
            provenance=provenance,
        )
        self.models.apply(event)
        return event

    def already(self, provenance: Provenance) -> Event | None:
        """The event of an earlier call with the same idempotency key, which is the answer to this one."""
        key = provenance.idempotency_key
        return None if key is None else self.store.event_by_idempotency_key(key)

    def check_pointer(self, state: TableState | ViewState) -> None:
        """Raises CommitConflictError where another engine moved the pointer behind the log's back."""
        head = self.store.row(MODELS, "get_head", stream=state.stream)
        shared = self.store.row(
            MODELS,
            "get_iceberg_table",
            catalog=self.models.catalog_name,
            namespace=dotted(state.identifier[:-1]),
            name=state.identifier[-1],
        )
        if head is None or shared is None:
            return
        if shared["metadata_location"] not in (head["metadata_location"], state.metadata_location):
            raise CommitConflictError(
                f"{dotted(state.identifier)}: another engine committed {shared['metadata_location']} through "
                f"iceberg_tables; the log ends at {head['metadata_location']}"
            )

    def _last_commit(self, stream: str) -> str:
        return self._describe(self.store.event_at(self.state(stream).position))

    def _failure(self, state: TableState, requirement: Mapping[str, Any], text: str) -> str:
        """A requirement that does not hold, with the newest commit that changed what it is about."""
        newest = max(0, state.stream_version - SEARCHED_COMMITS)
        events = [e for e in self.store.stream_events(state.stream, newest) if changes(e, requirement)]
        by = f"; it was changed by {self._describe(events[-1])}" if events else ""
        return f"{dotted(state.identifier)}: {text}{by}"

    def _describe(self, event: Event) -> str:
        data = self.store.content(event.position)
        return describe(event, None if data is None else decode_content(data, event.position))

    # Projections

    def follow(self, state: TableState) -> None:
        """Lets files and checkpoints follow a commit. The commit stands whatever happens here."""
        try:
            if not state.pending:
                self.materialize(state.stream)
            self._checkpoint_if_due(state)
        except Exception as e:
            # Whatever went wrong here, raising it would say that the commit failed, and it would be made twice.
            warnings.warn(
                f"the commit to {dotted(state.identifier)} is in the log, but not all of its files are written yet "
                f"({type(e).__name__}: {e}); the next open or commit goes on",
                MaterializationWarning,
                stacklevel=3,
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
            base = self._state_at_version(stream, done)
        after = self.materializer.catch_up(stream, base, self.storage_of(self.state(stream)))
        if after is not None:
            self._materialized[stream] = after

    def materialize_pending(self, stream: str, provenance: Provenance) -> None:
        """Writes out a table whose commits are materialized by hand; an event says that it was done."""
        state = self.state(stream)
        if state.pending:
            with self.store.write() as transaction:
                state = self._forward(state)
                if state.pending:
                    event = self._append(transaction, stream, ev.TABLE_MATERIALIZED, {}, provenance)
                    self._claim_version(event, state, fold(state, [event]))
        self.materialize(stream)

    def heal(self) -> None:
        """Writes what commits before a crash left unwritten; warns of tables that can't be written."""
        self.materializer.settle_claims()
        for row in self.store.rows(MODELS, "behind"):
            if ev.is_view_stream(row["stream"]):
                continue
            try:
                if not self.state(row["stream"]).pending:
                    self.materialize(row["stream"])
            except IcecoreError as e:
                warnings.warn(
                    f"the files of {row['stream']} are behind its log, and can't be written ({type(e).__name__}: {e})",
                    MaterializationWarning,
                    stacklevel=3,
                )

    def _checkpoint_if_due(self, state: TableState) -> None:
        interval = max(CHECKPOINT_EVERY, len(state.metadata.snapshots) // 8)
        if state.stream_version - self._checkpointed.get(state.stream, 0) < interval:
            return
        self.checkpoint(state)

    def checkpoint(self, state: TableState) -> None:
        """Notes a state, so that the next process replays from there only. The latest two of a table are kept."""
        with self.store.write():
            self.store.execute(
                MODELS,
                "put_checkpoint",
                stream=state.stream,
                stream_version=state.stream_version,
                position=state.position,
                event_hash=state.event_hash,
                state=encode_checkpoint(state),
            )
            self.store.execute(MODELS, "trim_checkpoints", stream=state.stream)
        self._checkpointed[state.stream] = state.stream_version

    def forget(self) -> None:
        """Drops every cached state."""
        with self._lock:
            self._states.clear()
            self._materialized.clear()
            self._checkpointed.clear()
            self._foreign_lists.clear()


def is_counted(manifest: ManifestFile) -> bool:
    """Whether the record of a manifest has all that a v2 list requires."""
    counts = (
        manifest.added_snapshot_id,
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
        manifest.added_rows_count,
        manifest.existing_rows_count,
        manifest.deleted_rows_count,
    )
    return None not in counts


def is_manual(metadata: TableMetadata) -> bool:
    return metadata.properties.get(MATERIALIZE, "commit").lower() == MANUAL


def encode_checkpoint(state: TableState) -> bytes:
    return zlib.compress(orjson.dumps(state_to_dict(state)), 1)


def decode_checkpoint(data: bytes, stream: str) -> TableState:
    """Raises CorruptLogError where the bytes are no checkpoint."""
    try:
        return state_from_dict(orjson.loads(zlib.decompress(data)))
    except (zlib.error, ValueError, KeyError, TypeError) as e:
        raise CorruptLogError(f"a checkpoint of {stream} can't be read: {e}; rebuild the warehouse") from e


def inline_manifest(path: str, snapshot: Snapshot, storage: Storage) -> ManifestFile:
    """The record of a manifest that a v1 snapshot names without a list: its counts are not known."""
    from icecore.engine.formats.manifest_avro import read_manifest_header

    data = storage.read_bytes(path)
    header = read_manifest_header(data, path)
    if header.spec_id is None and header.spec_fields:
        raise StorageError(f"{path}: its header names no partition spec and no manifest list does")
    return ManifestFile(
        manifest_path=path,
        manifest_length=len(data),
        partition_spec_id=header.spec_id or 0,
        content=ManifestContent.DATA,
        added_snapshot_id=snapshot.snapshot_id,
    )
