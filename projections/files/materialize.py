"""Materialization: the files that other engines read, from manifests to version hints.

Everything here follows from the log: names and bytes are determined by the event, so a crash between append and write
heals at the next open, processes that catch up together write the same bytes, and a rebuild gives the same files.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import ClassVar

from attrs import define, field, frozen

from icecore.engine.errors import CorruptFileError, MissingFileError, StorageError, UnwritableCommitError
from icecore.engine.events.event import TABLE_ADOPTED, TABLE_PURGED, TABLE_REGISTERED, Event
from icecore.engine.events.files_of_others import METADATA_FILE, kept_files, original_bytes
from icecore.engine.log.lock.standing import Standing
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.metadata.fold import TableFold, TableState, fold, is_file_system
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.manifest_entries import ManifestEntries
from icecore.projections.files.event_files import FOREIGN_METADATA, EventFiles, Expiring, given_files, metadata_bytes
from icecore.projections.files.metadata_cleanup import DroppedMetadata, deletes_metadata, note_forgotten, sweep
from icecore.projections.files.pointers import WrittenFile, move_pointers
from icecore.projections.files.version_claims import Claim, VersionClaims
from icecore.projections.files.version_files import version_of
from icecore.projections.files.version_hint import write_hint

CLAIMS_FOLDER = ".icecore/claims"
Step = tuple[Event, TableState | None, TableState]
"""An event, and the states before and after it."""


@frozen
class Advance:
    """The files written of a stream, and the states before and after them."""

    stream: str
    base: TableState | None
    state: TableState | None
    written: tuple[WrittenFile, ...]
    forgotten: DroppedMetadata = DroppedMetadata()

    @property
    def moves(self) -> bool:
        """Whether there are pointers to move."""
        state, base = self.state, self.base
        return state is not None and (bool(self.written) or base is None or state.stream_version != base.stream_version)

    @property
    def has_metadata(self) -> bool:
        """Whether the state's metadata file is among them; that of a registered table is not, nor a purged one's."""
        return self.state is not None and any(f.location == self.state.metadata_location for f in self.written)


@define
class Materializer:
    """The writer of tables' files, up to the ends of their streams."""

    is_dry: ClassVar[bool] = False
    """Whether nothing is to be written, as in a dry run."""

    _store: EventStore
    models: ReadModels
    _entries: ManifestEntries
    _storage: Storage = field(factory=Storage)
    _files: EventFiles = field(init=False)
    _claims: VersionClaims = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._files = EventFiles(self._store, self.models, self._entries)
        self._claims = VersionClaims(self._store, self._store.path.absolute().parent / CLAIMS_FOLDER, self._storage)

    def catch_up(self, stream: str, base: TableState | None, storage: Storage) -> TableState | None:
        """Writes the files of the events after `base`, then moves the pointers; returns the state that was written.

        Commits at the end that are to be written out by hand are left. Raises StorageError where a file can't be
        written; what was written stays and the next call goes on.
        """
        advance = self.write(stream, base, storage)
        if advance.moves:
            with self._store.write():
                self._move_pointers(advance, storage)
        return advance.state

    def move(self, advance: Advance, storage: Storage, standing: Standing | None = None) -> bool:
        """Moves the pointers in the SQLite transaction that is open, which may hold the events themselves.

        `standing` is the stream's, where that is known. Says whether the state is published by that.
        """
        return advance.moves and self._move_pointers(advance, storage, standing)

    def write(self, stream: str, base: TableState | None, storage: Storage, damaged: Collection[str] = ()) -> Advance:
        """Writes the files of the events after `base`, and moves no pointer; `damaged` metadata files are written over.

        Raises StorageError, and UnwritableCommitError where an event holds what no manifest can.
        """
        events = list(self._store.stream_events(stream, base.stream_version if base else 0))
        if any(e.kind == TABLE_PURGED for e in events):
            # No file of it is to be there any more.
            return Advance(stream, base, fold(base, events), ())
        return self._write(stream, base, events, _steps(base, events), storage, damaged)

    def write_event(self, event: Event, before: TableState | None, after: TableState, storage: Storage) -> Advance:
        """Writes as `write` the files of one event that is the stream's last, and whose states are known."""
        return self._write(event.stream, before, [event], [(event, before, after)], storage)

    def _write(
        self,
        stream: str,
        base: TableState | None,
        events: Sequence[Event],
        steps: Iterable[Step],
        storage: Storage,
        damaged: Collection[str] = (),
    ) -> Advance:
        state = base
        pending: list[Step] = []
        written: list[WrittenFile] = []
        expired = Expiring.of(events, lambda i, snapshot: self._known_manifests(stream, i, snapshot, storage))
        forgotten = DroppedMetadata.of(self._store, base, events)
        for step in steps:
            pending.append(step)
            latest = step[-1]
            if latest.pending:
                continue
            for each in pending:
                written += self._files.write(*each, storage, expired, forgotten, damaged)
            pending, state = [], latest
        if state is not None:
            # The files of a registered table that was dropped are left to whoever has them.
            lasting = [e for e in events if not (state.dropped and e.kind == TABLE_REGISTERED)]
            self._restore_foreign(lasting, state, {f.location for f in written}, storage)
            if base is None:
                self._restore_kept(lasting, state, storage)
        for folder in sorted({f.location.rsplit("/", 1)[0] for f in written if f.kind != FOREIGN_METADATA}):
            storage.sync_folder(folder, self._store.late_files)
        done = 0 if state is None else state.position
        written += (f for e in events if e.position <= done for f in given_files(e))
        return Advance(stream, base, state, tuple(written), forgotten)

    def unwritable(self, stream: str, base: TableState | None, storage: Storage) -> dict[str, UnwritableCommitError]:
        """The manifests that events after `base` make and that can't be written, by path, with the reason."""
        folding = TableFold(base)
        found: dict[str, UnwritableCommitError] = {}
        for event in self._store.stream_events(stream, base.stream_version if base else 0):
            folding.apply(event)
            state = folding.state()
            assert state is not None, "a fold of at least one event has a state"
            found |= self._files.unwritable(event, state.metadata, storage)
        return found

    def check(self, event: Event, state: TableState, storage: Storage) -> None:
        """Raises UnwritableCommitError where a manifest that an event makes can't be written; writes nothing."""
        for error in self._files.unwritable(event, state.metadata, storage).values():
            raise error

    def _restore_foreign(
        self, events: Sequence[Event], state: TableState, ours: Collection[str], storage: Storage
    ) -> None:
        """Writes metadata files of other engines that the table still names and that are lost, from the log.

        The file of a registered table is looked for on a local disk alone, and is not written beside one that neither
        the table nor the log names: there another table may have been made, whose next version it would be, or the same
        one goes on without us.
        """
        of_others = (e for e in events if e.kind in (TABLE_ADOPTED, TABLE_REGISTERED))
        adopted = [e for e in of_others if e.kind == TABLE_ADOPTED or _is_whole(e, storage)]
        if not adopted:
            return
        named = {state.metadata_location, *(e.metadata_file for e in state.metadata.metadata_log)}
        for event in adopted:
            location = event.payload["metadata-location"]
            if location not in named or storage.exists(location):
                continue
            if event.kind == TABLE_ADOPTED or not _has_others(location, {*named, *ours}, storage):
                storage.write_atomic(location, original_bytes(event.payload))

    def _restore_kept(self, events: Sequence[Event], state: TableState, storage: Storage) -> None:
        """Writes manifests and lists of others that snapshots need and that are lost or changed, from the log."""
        kept = {f.location: f.sha256 for e in events for f in kept_files(e.payload)}
        if not kept:
            return
        # Kept lists come first: once all kept files are found no other list is read. A registered table may have
        # thousands.
        for snapshot in sorted(state.metadata.snapshots, key=lambda s: s.manifest_list not in kept):
            if not kept:
                return
            location = snapshot.manifest_list
            if location in kept:
                self._restore(state.stream, location, kept.pop(location), storage)
            for path in self._manifests(state.stream, snapshot.snapshot_id, snapshot, storage) or ():
                if path in kept:
                    self._restore(state.stream, path, kept.pop(path), storage)

    def _manifests(
        self, stream: str, snapshot_id: int, snapshot: Snapshot | None, storage: Storage
    ) -> list[str] | None:
        """The manifests of a snapshot; None where another's list is lost for good."""
        known = self.models.list_manifests(stream, snapshot_id)
        if known is not None:
            return [m.manifest.manifest_path for m in known]
        if snapshot is None or snapshot.manifest_list is None:
            return None if snapshot is None else list(snapshot.manifests or ())
        from icecore.engine.formats.manifest_list_avro import read_manifest_list

        try:
            data = self._entries.file_bytes(stream, snapshot.manifest_list, storage)
            return [m.manifest_path for m in read_manifest_list(data, snapshot.manifest_list)]
        except (MissingFileError, CorruptFileError):
            return None

    def _known_manifests(
        self, stream: str, snapshot_id: int, snapshot: Snapshot | None, storage: Storage
    ) -> list[str] | None:
        """The manifests of a snapshot; None too where another's list can't be read now."""
        with contextlib.suppress(StorageError):
            return self._manifests(stream, snapshot_id, snapshot, storage)
        return None

    def _restore(self, stream: str, location: str, sha256: str, storage: Storage) -> None:
        with contextlib.suppress(MissingFileError):
            if hashlib.sha256(storage.read_bytes(location)).hexdigest() == sha256:
                return
        data = self._entries.kept_bytes(stream, location)
        if data is not None:
            storage.write_atomic(location, data)

    def sweep_forgotten(self, storage_of: Callable[[str], Storage]) -> None:
        """Deletes metadata files that a crash left, though the metadata log no longer has them."""
        for row in self._store.rows(MODELS, "streams_that_forgot"):
            sweep(self._store, row["stream"], storage_of(row["stream"]))

    def claim_version(self, event: Event, before: TableState | None, state: TableState, storage: Storage) -> None:
        """Notes that an event of a file system table is about to make its version; inside of the write lock."""
        self._claims.settle(event.stream)
        if event.kind == TABLE_REGISTERED:
            # A registered table's file lies there already: a claim that is taken back would delete it.
            return
        location = state.metadata_location
        if location is not None and location != (before.metadata_location if before else None):
            self._claims.take(event, before, state, storage.resolve(location), metadata_bytes(state))

    def settle_claim(self, stream: str) -> None:
        """Ends the claim of one file system table, as `settle_claims`; inside of the write lock."""
        self._claims.settle(stream)

    def claim_of(self, stream: str) -> Claim | None:
        """The claim of a file system table that is not ended; inside of the write lock."""
        return self._claims.of(stream)

    def settle_claims(self) -> None:
        """Deletes versions of file system tables that a crash left without their event."""
        if self._claims.any:
            with self._store.write():
                self._claims.settle_all()

    def finish(
        self,
        state: TableState,
        storage: Storage,
        *,
        durable: bool = False,
        is_published: bool = False,
        with_hint: bool = True,
    ) -> None:
        """Finishes a commit whose files are written and whose pointer has moved: claim and version hint.

        Of processes that finish together the last writes the hint of the latest version. It need not be `durable` where
        it was noted with the pointer, for the next open writes it again. `is_published` says that the metadata file is
        known to be ours. Raises StorageError.
        """
        if is_file_system(state) and self._claims.has(state.stream):
            with self._store.write():
                self._claims.settle(state.stream)
        if not is_published or deletes_metadata(state):
            sweep(self._store, state.stream, storage)
        if with_hint:
            is_ours = is_published or self._has_written(state, storage)
            self._hint(state, storage, durable=durable, is_ours=is_ours)

    def follow_with_hint(self, state: TableState, storage: Storage, *, durable: bool) -> None:
        """Lets the version hint name the table's published version, `durable` or not. Raises StorageError."""
        self._hint(state, storage, durable=durable, is_ours=self._has_written(state, storage))

    def _has_written(self, state: TableState, storage: Storage) -> bool:
        location = state.metadata_location
        if location is None or self._store.row(MODELS, "get_file", location=location) is None:
            return False
        # Where a version is lost, files beside its place may be another table's.
        return not is_file_system(state) or storage.exists(location)

    def _hint(self, state: TableState, storage: Storage, *, durable: bool, is_ours: bool) -> None:
        if not is_ours:
            # Registered as it lies there: nothing beside it is ours to change.
            return
        written, location = None, self._published(state.stream) or state.metadata_location
        while location is not None and location != written:
            # Commits of the same group may be published meanwhile, whose hint must not be written over.
            write_hint(state, location, storage, durable=durable)
            written, location = location, self._published(state.stream)

    def _published(self, stream: str) -> str | None:
        head = self._store.row(MODELS, "get_head", stream=stream)
        return None if head is None else head["metadata_location"]

    def is_claimed(self, stream: str) -> bool:
        """Whether a process is about to make the next version of a file system table, or died over it."""
        return self._claims.has(stream)

    def forget_in_claims(self, text: str, left: str) -> None:
        """Replaces a text by `left` in claims, inside of a write transaction."""
        self._claims.forget(text, left)

    def settle_all_claims(self) -> None:
        """Settles as `settle_claims`, inside of a write transaction that the caller holds."""
        self._claims.settle_all()

    def _move_pointers(self, advance: Advance, storage: Storage, standing: Standing | None = None) -> bool:
        state = advance.state
        assert state is not None, "the caller checked"
        is_published = move_pointers(self._store, self.models, state, advance.written, standing)
        if is_published:
            if standing is None or deletes_metadata(state) or advance.forgotten.locations:
                note_forgotten(self._store, advance.stream, state.position, advance.forgotten, storage)
            self._store.execute(MODELS, "note_hint", stream=advance.stream)
        return is_published


def _steps(base: TableState | None, events: Iterable[Event]) -> Iterator[Step]:
    """The events with the states before and after each."""
    folding, latest = TableFold(base), base
    for event in events:
        folding.apply(event)
        before, latest = latest, folding.state()
        assert latest is not None, "a fold of at least one event has a state"
        yield event, before, latest


def _is_whole(event: Event, storage: Storage) -> bool:
    """Whether the event of a registered table has its metadata file, which lay on a local disk."""
    return METADATA_FILE in event.payload and storage.local_path(event.payload["metadata-location"]) is not None


def _has_others(location: str, known: Collection[str | None], storage: Storage) -> bool:
    """Whether the folder of a metadata file has another one that is not known.

    Names that only tell versions, as `v2.metadata.json`, are the same for all tables, so they are never known.
    """
    names = {k.rpartition("/")[2] for k in known if k is not None and version_of(k) is None}
    return any(".metadata.json" in n and n not in names for n in storage.list(location.rpartition("/")[0]))
