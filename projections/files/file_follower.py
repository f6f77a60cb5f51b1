"""The follower of tables' streams that writes their files.

A commit stands whatever happens to its files, but for a file system table, where the metadata file is the commit.
"""

from __future__ import annotations

import contextlib
import sqlite3
import warnings
from collections.abc import Callable, Collection

from attrs import define, field

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import (
    CommitConflictError,
    CorruptLogError,
    ForeignCommitError,
    IcecoreError,
    MissingFileError,
    StorageError,
    UnwritableCommitError,
    ValidationError,
    WarehouseLockedError,
    name_text,
)
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.log.lock.standing import Standing
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.metadata.fold import TableState, folders_of, is_file_system, metadata_folder
from icecore.engine.replay.kinds import TableStates
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.materialize import Advance, Materializer
from icecore.projections.files.metadata_cleanup import deletes_metadata
from icecore.projections.files.pointers import take_to_be_there
from icecore.projections.files.version_files import version_after, version_of, version_of_another
from icecore.projections.files.version_hint import drop_lone_hint


class MaterializationWarning(UserWarning):
    """A warning of a commit whose files could not all be written yet; the next open or commit goes on."""


def warn_of_unwritten(identifier: Identifier, error: Exception) -> None:
    """Warns of a commit whose files failed: an error would say that the commit did, and it would be made twice."""
    warnings.warn(
        f"the commit to {name_text(identifier)} is in the log, but not all of its files are written yet "
        f"({type(error).__name__}: {error}); the next open or commit goes on",
        MaterializationWarning,
        stacklevel=5,
    )


@define
class FileFollower:
    """The follower of all tables; remembers the states whose files are written."""

    store: EventStore
    states: TableStates
    materializer: Materializer
    storage_of: Callable[[TableState], Storage]
    _materialized: dict[str, TableState] = field(factory=dict)
    _published: dict[str, TableState] = field(factory=dict)
    """States that were published with their events, which may be rolled back still."""
    hint_later: Callable[[str], object] | None = None
    """A callback that takes streams whose version hints may be written later, by `hint`, once for several commits."""
    is_idle: bool = False
    """Whether nothing is written after a commit, as when a clone adopts commits before its tables have their places."""

    def follow(self, state: TableState) -> None:
        """Writes the files and checkpoints after a commit. The commit stands whatever happens here."""
        if self.is_idle:
            return
        try:
            if not state.pending and not self._finish_published(state):
                self.materialize(state.stream)
                self.finish(state)
            self.states.checkpoint_if_due(state)
        except Exception as e:
            warn_of_unwritten(state.identifier, e)

    def publish(
        self, state: TableState, event: Event, before: TableState | None, standing: Standing | None = None
    ) -> None:
        """Writes the files of an event before its COMMIT and moves the pointer in the same transaction.

        So no other engine can commit between the two. `standing` is the stream's before the event, where that is known
        and the event is its last. Where storage refuses a file the event stands without: the pointer stays, and
        `follow` says so. A file system table's version is its commit, so there the error is raised: StorageError, and
        CommitConflictError where another writer made that version. Entries that no manifest can hold are never
        accepted: ValidationError is raised for this event, and UnwritableCommitError for an earlier one, of a log that
        an earlier release wrote, unless this event leads out of that.
        """
        storage = self.storage_of(state)
        try:
            if state.pending or self.materializer.is_dry:
                self.materializer.check(event, state, storage)
            else:
                self._publish(state, event, before, storage, standing)
        except UnwritableCommitError as e:
            raise self._refusal(state, e) from e

    def _publish(
        self, state: TableState, event: Event, before: TableState | None, storage: Storage, standing: Standing | None
    ) -> None:
        strict = is_file_system(state)
        if strict:
            self._check_folder(state, before, event, storage)
            # Other writers see its version before COMMIT, and read what it names.
            self.store.settle_files()
            self.materializer.claim_version(event, before, state, storage)
        if standing is not None and standing.written_version != (before.stream_version if before else 0):
            standing = None
        try:
            if standing is not None:
                advance = self.materializer.write_event(event, before, state, storage)
            else:
                base = self._base(state.stream, self._head(state.stream)["materialized_version"])
                advance = self.materializer.write(state.stream, base, storage)
        except UnwritableCommitError:
            raise
        except Exception:
            # Where SQLite took the transaction back, as on a read that failed, there is none to go on with.
            if strict or not self.store.connection().in_transaction:
                raise
            return
        is_published = self.materializer.move(advance, storage, standing)
        if is_published and advance.state is not None and advance.has_metadata:
            self._published[state.stream] = advance.state

    def _check_folder(self, state: TableState, before: TableState | None, event: Event, storage: Storage) -> None:
        """Raises CommitConflictError where a folder has another table's versions, since it was emptied or from before.

        No later attempt can make this version. Versions are read only where the last one is a local file that is gone
        or has another length than ours.
        """
        last = None if before is None else before.metadata_location
        if last == state.metadata_location or event.kind == ev.TABLE_REGISTERED:
            return
        if before is None or last is None or version_of(last) is None:
            self._check_first(state, storage)
            return
        known = self.store.row(MODELS, "get_file", location=last)
        if storage.local_path(last) is None or _has_length(last, known, storage):
            return
        if (found := version_of_another(before.metadata, last, storage)) is not None:
            raise CommitConflictError(f"{name_text(state.identifier)}: {_taken_by(found)}")

    def _check_first(self, state: TableState, storage: Storage) -> None:
        """Raises CommitConflictError where versions lie in the folder that come after a table's first one."""
        folder = metadata_folder(state.metadata.location, state.metadata.properties)
        if (found := version_after(folder, state.metadata_version, storage)) is not None:
            raise CommitConflictError(
                f"{name_text(state.identifier)}: {found} is another table's, and would be the next version of one that "
                f"is made in its folder: name another location, or take it out of the folder"
            )

    def _refusal(self, state: TableState, error: UnwritableCommitError) -> ValidationError:
        """The error of a commit that can't be made, because of itself or of an unreadable one before it."""
        name = name_text(state.identifier)
        if not self.store.is_committed(error.position):
            return ValidationError(f"{name}: the commit can't be written to manifests: {error.reason}")
        return UnwritableCommitError(
            f"{name}: the commit at position {error.position} holds what no manifest can ({error.reason}), so no other "
            f"engine can follow the table, and no further commit is taken that builds on it; revert({error.position}), "
            f"or delete or compact the file that it names, and drop branches and tags that still have it",
            error.position,
            error.reason,
        )

    def unwritable_snapshots(self, state: TableState) -> frozenset[int]:
        """The snapshots that no other engine can read, for their files can't be written; mostly none.

        They are looked for only where files are behind the log.
        """
        head = self._head(state.stream)
        if self.materializer.is_dry or head["materialized_version"] >= state.stream_version:
            return frozenset()
        base = self._base(state.stream, head["materialized_version"])
        paths = self.materializer.unwritable(state.stream, base, self.storage_of(state)).keys()
        if not paths:
            return frozenset()
        models = self.materializer.models
        return frozenset(
            s.snapshot_id
            for s in state.metadata.snapshots
            if any(m.manifest.manifest_path in paths for m in models.list_manifests(state.stream, s.snapshot_id) or ())
        )

    def advance(self, state: TableState) -> None:
        """Writes the files up to a state before its COMMIT, and moves the pointer with its events.

        Raises StorageError, ForeignCommitError.
        """
        base = self._base(state.stream, self._head(state.stream)["materialized_version"])
        storage = self.storage_of(state)
        self.materializer.move(self.materializer.write(state.stream, base, storage), storage)

    def materialize(self, stream: str) -> None:
        """Writes the files of a table up to its latest event. Raises StorageError."""
        head = self._head(stream)
        done = head["materialized_version"]
        if done >= head["stream_version"]:
            return
        state = self.states.state(stream)
        storage = self.storage_of(state)
        if storage.is_shared(state.metadata.location):
            with self.store.write():
                take_to_be_there(self.store, self.materializer.models, state)
            return
        try:
            after = self.materializer.catch_up(stream, self._base(stream, done), storage)
        except UnwritableCommitError as e:
            raise self._refusal(state, e) from e
        if after is not None:
            self._materialized[stream] = after
            self.materializer.finish(after, storage)

    def rewrite(self, stream: str, damaged: Collection[str]) -> TableState | None:
        """Writes all files of a table again and moves its pointers, inside of the write transaction that is open.

        Returns the state that is written, which `finish_again` takes once that is committed. Raises StorageError,
        UnwritableCommitError, and ForeignCommitError where another table has its versions in the folder now.
        """
        state = self.states.state(stream)
        storage = self.storage_of(state)
        if storage.is_shared(state.metadata.location):
            take_to_be_there(self.store, self.materializer.models, state)
            return None
        if self._is_left_to_another(state, storage):
            self.materializer.move(Advance(stream, None, state, ()), storage)
            return None
        try:
            advance = self.materializer.write(stream, None, storage, damaged)
        except UnwritableCommitError as e:
            raise self._refusal(state, e) from e
        self.materializer.move(advance, storage)
        return advance.state

    def _is_left_to_another(self, state: TableState, storage: Storage) -> bool:
        """Whether a dropped table's folder has another one's versions. Raises ForeignCommitError of a present table."""
        if state.metadata_location is None or version_of(state.metadata_location) is None:
            return False
        first = next(self.store.stream_events(state.stream))
        if first.kind == ev.TABLE_REGISTERED and first.payload["metadata-location"] == state.metadata_location:
            # No version is ours.
            return False
        found = version_of_another(state.metadata, state.metadata_location, storage)
        if found is not None and not state.dropped:
            raise ForeignCommitError(_taken_by(found))
        return found is not None

    def finish_again(self, state: TableState) -> None:
        """Finishes the rewriting of a table's files, after COMMIT. Raises StorageError."""
        self.materializer.finish(state, self.storage_of(state), durable=True)

    def _head(self, stream: str) -> sqlite3.Row:
        head = self.store.row(MODELS, "get_head", stream=stream)
        if head is None:
            raise CorruptLogError(f"the read models know no stream {stream}; rebuild the warehouse")
        return head

    def _base(self, stream: str, done: int) -> TableState | None:
        """The state whose files are written."""
        base = self._materialized.get(stream)
        if base is None or base.stream_version != done:
            base = self.states.state_at_version(stream, done, base)
        return base

    def finish(self, state: TableState) -> None:
        """Finishes a commit that was published with its event. Raises StorageError."""
        known = self._materialized.get(state.stream)
        if known is None or known.stream_version < state.stream_version:
            # It was published with its event.
            self._materialized[state.stream] = state
            self._finish(state)

    def _finish(self, state: TableState, *, is_published: bool = False) -> None:
        # Written at once: the hint of a file system table, by which other writers go, and one whose older file may be
        # gone soon.
        is_late = self.hint_later is not None and not is_file_system(state) and not deletes_metadata(state)
        storage = self.storage_of(state)
        self.materializer.finish(state, storage, is_published=is_published, with_hint=not is_late)
        if is_late and self.hint_later is not None:
            self.hint_later(state.stream)

    def _finish_published(self, state: TableState) -> bool:
        """Finishes a commit, whose event is in the log, where its files were published with it. Raises StorageError."""
        published = self._published.get(state.stream)
        if published is None or published.event_hash != state.event_hash:
            return False
        self._published.pop(state.stream, None)
        self._materialized[state.stream] = state
        self._finish(state, is_published=True)
        return True

    def hint(self, stream: str, *, durable: bool = False) -> None:
        """Writes the version hint of a table that has a name. Raises StorageError."""
        state = self.states.state(stream)
        if state.dropped:
            return
        self.materializer.follow_with_hint(state, self.storage_of(state), durable=durable)
        if (now := self.states.state(stream)).purged_at is not None:
            # It was purged meanwhile, by a process that found no hint in its folder.
            storage = self.storage_of(now)
            drop_lone_hint(metadata_folder(now.metadata.location, now.metadata.properties), storage)
            for folder in folders_of(now):
                storage.remove_empty_folders(folder)

    def heal(self) -> None:
        """Writes files of commits that a crash left unwritten; warns of tables whose files can't be.

        Tidying that fails, as on a full disk, is left to another open: there are still rows to read.
        """
        for tidy in (self.materializer.settle_claims, self._hint_again, self._sweep_forgotten):
            with contextlib.suppress(StorageError, WarehouseLockedError):
                tidy()
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

    def _sweep_forgotten(self) -> None:
        self.materializer.sweep_forgotten(lambda stream: self.storage_of(self.states.state(stream)))

    def _hint_again(self) -> None:
        """Writes the version hints that a crash after a commit may have left behind.

        A commit notes its table together with the pointer, and the next open writes the hint: so no commit needs
        another transaction for it.
        """
        if not self.store.rows(MODELS, "hints_due"):
            return
        with self.store.write():
            for row in self.store.rows(MODELS, "hints_due"):
                with contextlib.suppress(IcecoreError):
                    self.hint(row["stream"], durable=True)
            self.store.execute(MODELS, "forget_hints")

    def forget(self) -> None:
        """Drops the remembered states."""
        self._materialized.clear()
        self._published.clear()


def _has_length(location: str, known: sqlite3.Row | None, storage: Storage) -> bool:
    """Whether there is a file that has the length that is noted of it, where one is."""
    try:
        length = storage.size(location)
    except MissingFileError:
        return False
    return known is None or length == known["length"]


def _taken_by(found: str) -> str:
    return (
        f"{found} is another table's, which was made in the folder of this one, so that none of its versions is "
        f"written there: drop it, or take the other one out of the folder"
    )
