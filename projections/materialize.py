"""Writes the files that other engines read: manifests, manifest lists, metadata files, version hints.

Everything here follows from the log: names and bytes are determined by the event, so a crash between append and write
heals at the next open, processes that catch up together write the same bytes, and a rebuild gives the same files.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import ClassVar

from attrs import define, field, frozen

from icecore.engine.errors import (
    FileExistsInStorageError,
    ForeignCommitError,
    MissingFileError,
)
from icecore.engine.events import TABLE_ADOPTED, TABLE_REGISTERED, Event
from icecore.engine.foreign_metadata import original_bytes
from icecore.engine.formats.manifest_avro import write_manifest
from icecore.engine.formats.manifest_list_avro import write_manifest_list
from icecore.engine.formats.metadata_json import compress, table_metadata_to_json
from icecore.engine.log.read_models import ReadModels, dotted
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.manifest_changes import ListedManifest, changes_of
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.state import (
    COMMIT_SCHEME,
    FILE_SYSTEM,
    METADATA_COMPRESSION,
    TableFold,
    TableState,
)
from icecore.engine.storage import Storage
from icecore.projections.forgotten_metadata import Forgotten, note_forgotten, sweep
from icecore.projections.manifest_entries import ManifestEntries, for_writing
from icecore.projections.version_claims import VersionClaims

REMOVE_SNAPSHOTS = "remove-snapshots"
VERSION_HINT = "version-hint.text"
FOREIGN_METADATA = "foreign-metadata"
CLAIMS_FOLDER = ".icecore/claims"
_VERSIONED = re.compile(r"^v(\d+)(?:\.gz)?\.metadata\.json(?:\.gz)?$")


@frozen
class WrittenFile:
    location: str
    kind: str
    length: int
    sha256: str
    position: int


@frozen
class Expiring:
    """Snapshots that later events of a batch remove, and the manifests that the others of the batch list."""

    snapshot_ids: frozenset[int] = frozenset()
    needed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, events: Sequence[Event], models: ReadModels) -> Expiring:
        if not any(REMOVE_SNAPSHOTS in e.payload_text for e in events):
            return cls()
        added, gone = set[int](), set[int]()
        for event in events:
            for update in event.payload.get("updates", ()):
                if update["action"] == "add-snapshot":
                    added.add(update["snapshot"]["snapshot-id"])
                elif update["action"] == REMOVE_SNAPSHOTS:
                    gone |= set(update["snapshot-ids"])
        lists = (models.list_manifests(events[0].stream, i) or () for i in added - gone)
        return cls(frozenset(gone), frozenset(m.manifest.manifest_path for listed in lists for m in listed))

    def needs(self, snapshot_id: int, listed: ListedManifest) -> bool:
        """Whether a manifest that a snapshot adds is to be written."""
        return snapshot_id not in self.snapshot_ids or listed.manifest.manifest_path in self.needed


@frozen
class Advance:
    """What was written of a stream: from the state whose files were there to the one whose files are there now."""

    stream: str
    base: TableState | None
    state: TableState | None
    written: tuple[WrittenFile, ...]
    forgotten: Forgotten = Forgotten()

    @property
    def moves(self) -> bool:
        """Whether there are pointers to move."""
        state, base = self.state, self.base
        return state is not None and (bool(self.written) or base is None or state.stream_version != base.stream_version)


@define
class Materializer:
    """Brings the files of tables up to their streams."""

    is_dry: ClassVar[bool] = False
    """Whether nothing is to be written, as in a dry run."""

    _store: EventStore
    _models: ReadModels
    _entries: ManifestEntries
    _storage: Storage = field(factory=Storage)
    _lengths: dict[str, int] = field(factory=dict)
    _claims: VersionClaims = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._claims = VersionClaims(self._store, self._store.path.absolute().parent / CLAIMS_FOLDER, self._storage)

    def catch_up(self, stream: str, base: TableState | None, storage: Storage) -> TableState | None:
        """Writes what the events after `base` amount to, then moves the pointers; returns the state that was written.

        Commits at the end that are to be written out by hand are left. Raises StorageError where a file can't be
        written; what was written stays and the next call goes on.
        """
        advance = self.write(stream, base, storage)
        if advance.moves:
            with self._store.write():
                self._move_pointers(advance, storage)
        return advance.state

    def move(self, advance: Advance, storage: Storage) -> None:
        """Moves the pointers in the SQLite transaction that is open, which may hold the events themselves."""
        if advance.moves:
            self._move_pointers(advance, storage)

    def write(self, stream: str, base: TableState | None, storage: Storage) -> Advance:
        """Writes the files of the events after `base`, and moves no pointer. Raises StorageError."""
        folding = TableFold(base)
        latest = state = base
        pending: list[tuple[Event, TableState | None, TableState]] = []
        written: list[WrittenFile] = []
        events = list(self._store.stream_events(stream, base.stream_version if base else 0))
        expired = Expiring.of(events, self._models)
        forgotten = Forgotten.of(self._store, base, events)
        for event in events:
            folding.apply(event)
            before, latest = latest, folding.state()
            assert latest is not None, "a fold of at least one event has a state"
            pending.append((event, before, latest))
            if latest.pending:
                continue
            for step in pending:
                written += self.write_event(*step, storage, expired, forgotten)
            pending, state = [], latest
        if state is not None:
            self._restore_foreign(events, state, storage)
        for folder in sorted({f.location.rsplit("/", 1)[0] for f in written if f.kind != FOREIGN_METADATA}):
            storage.sync_folder(folder)
        return Advance(stream, base, state, tuple(written), forgotten)

    def _restore_foreign(self, events: Sequence[Event], state: TableState, storage: Storage) -> None:
        """Writes metadata files of other engines that the table still names and that are lost, from the log."""
        named = {state.metadata_location, *(e.metadata_file for e in state.metadata.metadata_log)}
        for event in events:
            if event.kind == TABLE_ADOPTED:
                location = event.payload["metadata-location"]
                if location in named and not storage.exists(location):
                    storage.write_atomic(location, original_bytes(event.payload))

    def sweep_forgotten(self, storage_of: Callable[[str], Storage]) -> None:
        """Deletes metadata files that a crash left, though the metadata log let them go."""
        for row in self._store.rows(MODELS, "streams_that_forgot"):
            sweep(self._store, row["stream"], storage_of(row["stream"]))

    def claim_version(self, event: Event, before: TableState | None, state: TableState, storage: Storage) -> None:
        """Notes that an event of a file system table is about to make its version; inside of the write lock."""
        self._claims.settle(event.stream)
        location = state.metadata_location
        if location is not None and location != (before.metadata_location if before else None):
            self._claims.take(event, state.metadata_version, storage.resolve(location), metadata_bytes(state))

    def settle_claim(self, stream: str) -> None:
        """Ends the claim of one file system table, as `settle_claims`; inside of the write lock."""
        self._claims.settle(stream)

    def settle_claims(self) -> None:
        """Takes back versions of file system tables that a crash left without their event."""
        if self._claims.any:
            with self._store.write():
                self._claims.settle_all()

    def finish(self, state: TableState, storage: Storage) -> None:
        """What follows a commit whose files are written and whose pointer has moved: claim and version hint.

        Of processes that finish together the last writes the hint of the latest version. Raises StorageError.
        """
        if is_file_system(state) and self._claims.has(state.stream):
            with self._store.write():
                self._claims.settle(state.stream)
        sweep(self._store, state.stream, storage)
        self.follow_with_hint(state, storage)

    def follow_with_hint(self, state: TableState, storage: Storage) -> None:
        """Lets the version hint name the table's published version. Raises StorageError."""
        if self._store.row(MODELS, "get_file", location=state.metadata_location or "") is None:
            # Registered as it lies there: nothing beside it is ours to change.
            return
        location = state.metadata_location
        while location is not None:
            write_hint(state, location, storage)
            head = self._store.row(MODELS, "get_head", stream=state.stream)
            if head is None or head["metadata_location"] in (location, None):
                return
            location = head["metadata_location"]

    def is_claimed(self, stream: str) -> bool:
        """Whether a process is about to make the next version of a file system table, or died over it."""
        return self._claims.has(stream)

    def settle_all_claims(self) -> None:
        """As `settle_claims`, inside of a write transaction that the caller holds."""
        self._claims.settle_all()

    def write_event(
        self,
        event: Event,
        before: TableState | None,
        state: TableState,
        storage: Storage,
        expiring: Expiring | None = None,
        forgotten: Forgotten | None = None,
    ) -> list[WrittenFile]:
        """Writes the files of one event, which leads from one state to the next. Writing them again is harmless.

        What only snapshots need that later events remove is left out, and so are metadata files that later events take
        out of the metadata log: those files may be deleted already (R2).
        """
        files = self._write_snapshots(event, state.metadata, storage, expiring or Expiring())
        is_new = state.metadata_location != (before.metadata_location if before else None)
        left_out = forgotten is not None and state.metadata_location in forgotten.own
        if event.kind == TABLE_ADOPTED:
            files.append(foreign_file(event))
        elif is_new and state.metadata_location is not None and event.kind != TABLE_REGISTERED and not left_out:
            files += self._write_metadata(event, state, storage)
        return files

    def _write_snapshots(
        self, event: Event, metadata: TableMetadata, storage: Storage, expiring: Expiring
    ) -> list[WrittenFile]:
        files = []
        for snapshot_id, changes in changes_of(event.payload, event.position).items():
            for listed in changes.added:
                if listed.position == event.position and expiring.needs(snapshot_id, listed):
                    files.append(self._write_manifest(event, listed, metadata, storage))
            if snapshot_id not in expiring.snapshot_ids:
                files.append(self._write_list(event, snapshot_id, metadata, storage))
        return files

    def _write_manifest(
        self, event: Event, listed: ListedManifest, metadata: TableMetadata, storage: Storage
    ) -> WrittenFile:
        manifest = listed.manifest
        entries = self._entries.canonical(event.stream, listed, storage)
        data = write_manifest(
            for_writing(entries, manifest, metadata.format_version),
            spec=metadata.spec_by_id(manifest.partition_spec_id),
            schema=metadata.schema(),
            all_fields=metadata.all_fields,
            content=manifest.content,
            format_version=metadata.format_version,
            sync_marker=sync_marker(event, manifest.manifest_path),
        )
        return self._put(event, manifest.manifest_path, "manifest", data, storage)

    def _write_list(self, event: Event, snapshot_id: int, metadata: TableMetadata, storage: Storage) -> WrittenFile:
        snapshot = metadata.find_snapshot(snapshot_id)
        location = snapshot.manifest_list
        assert location is not None, "a snapshot made here has a manifest list"
        manifests = self._models.list_manifests(event.stream, snapshot_id) or ()
        data = write_manifest_list(
            [m.with_length(self._length(m, storage)).manifest for m in manifests],
            format_version=metadata.format_version,
            snapshot_id=snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            first_row_id=snapshot.first_row_id,
            sync_marker=sync_marker(event, location),
        )
        return self._put(event, location, "manifest-list", data, storage)

    def _length(self, listed: ListedManifest, storage: Storage) -> int:
        """The length of a manifest's file: known for foreign ones, noted or looked up for ours."""
        if listed.is_foreign:
            return listed.manifest.manifest_length
        path = listed.manifest.manifest_path
        if path not in self._lengths:
            row = self._store.row(MODELS, "get_file", location=path)
            self._lengths[path] = storage.size(path) if row is None else row["length"]
        return self._lengths[path]

    def _write_metadata(self, event: Event, state: TableState, storage: Storage) -> list[WrittenFile]:
        location = state.metadata_location
        assert location is not None, "the caller checked"
        file_system = is_file_system(state)
        return [self._put(event, location, "metadata", metadata_bytes(state), storage, exclusive=file_system)]

    def _put(
        self, event: Event, location: str, kind: str, data: bytes, storage: Storage, *, exclusive: bool = False
    ) -> WrittenFile:
        if exclusive:
            create_same(storage, location, data)
        else:
            storage.write_atomic(location, data)
        self._lengths[location] = len(data)
        return WrittenFile(location, kind, len(data), hashlib.sha256(data).hexdigest(), event.position)

    def _move_pointers(self, advance: Advance, storage: Storage) -> None:
        state = advance.state
        assert state is not None, "the caller checked"
        head = self._store.row(MODELS, "get_head", stream=advance.stream)
        for f in advance.written:
            self._store.execute(
                MODELS,
                "put_file",
                location=f.location,
                stream=advance.stream,
                position=f.position,
                kind=f.kind,
                length=f.length,
                sha256=f.sha256,
            )
        moved = self._store.execute(
            MODELS,
            "put_materialized",
            stream=advance.stream,
            version=state.stream_version,
            metadata_location=state.metadata_location,
        )
        if not moved.rowcount or head is None or state.metadata_location is None:
            return
        identifier = self._models.identifier_of(advance.stream)
        if identifier is not None and head["metadata_location"] != state.metadata_location:
            self._share(identifier, head["metadata_location"], state.metadata_location)
        note_forgotten(self._store, advance.stream, state.position, advance.forgotten, storage)
        self._store.execute(MODELS, "note_hint", stream=advance.stream)

    def _share(self, identifier: tuple[str, ...], known: str | None, metadata_location: str) -> None:
        """Moves the pointer that other engines read. Raises ForeignCommitError where one of them did so meanwhile."""
        key = {
            "catalog": self._models.catalog_name,
            "namespace": dotted(identifier[:-1]),
            "name": identifier[-1],
        }
        shared = self._store.row(MODELS, "get_iceberg_table", **key)
        if shared is not None and shared["metadata_location"] not in (known, metadata_location):
            raise ForeignCommitError(
                f"{dotted(identifier)}: another engine committed {shared['metadata_location']} through "
                f"iceberg_tables; {metadata_location} of the log does not follow it, and the pointer stays"
            )
        self._store.execute(
            MODELS, "put_iceberg_table", **key, metadata_location=metadata_location, iceberg_type="TABLE"
        )


def foreign_file(event: Event) -> WrittenFile:
    """The metadata file that another engine wrote, as the event knows it."""
    p = event.payload
    return WrittenFile(
        p["metadata-location"], FOREIGN_METADATA, p["metadata-length"], p["metadata-sha256"], event.position
    )


def is_file_system(state: TableState) -> bool:
    return state.metadata.properties.get(COMMIT_SCHEME) == FILE_SYSTEM


def metadata_bytes(state: TableState) -> bytes:
    """The bytes of the state's metadata file."""
    codec = state.metadata.properties.get(METADATA_COMPRESSION, "none").lower()
    return compress(table_metadata_to_json(state.metadata), codec)


def write_hint(state: TableState, location: str, storage: Storage) -> None:
    """Writes the version hint beside a metadata file (MD7): a number, or the file's name without its ending."""
    folder, name = location.rsplit("/", 1)
    numbered = _VERSIONED.match(name) if is_file_system(state) else None
    if is_file_system(state) and numbered is None:
        # Another engine's file, found through iceberg_tables: those who follow the hint look for numbers.
        return
    hint = numbered[1] if numbered else name.removesuffix(".metadata.json")
    storage.write_atomic(f"{folder}/{VERSION_HINT}", hint.encode())


def hint_of(state: TableState) -> str:
    """What the version hint of a state with a metadata file says."""
    assert state.metadata_location is not None, "the caller checked"
    name = state.metadata_location.rsplit("/", 1)[-1]
    return str(state.metadata_version) if is_file_system(state) else name.removesuffix(".metadata.json")


def sync_marker(event: Event, location: str) -> bytes:
    """The 16 bytes between the blocks of an Avro file; Avro leaves them free, here the event decides."""
    name = location.rsplit("/", 1)[-1]
    return hashlib.sha256(f"{event.event_id}/{name}".encode()).digest()[:16]


def create_same(storage: Storage, location: str, data: bytes) -> None:
    """Creates a file that must be new, or was made before with the very same bytes.

    Raises ForeignCommitError where another writer made it.
    """
    try:
        storage.create(location, data)
    except FileExistsInStorageError:
        found = b""
        with contextlib.suppress(MissingFileError):
            found = storage.read_bytes(location)
        if found != data:
            raise ForeignCommitError(
                f"{location} was made by another writer: the table is a file system table, and that version is taken"
            ) from None
