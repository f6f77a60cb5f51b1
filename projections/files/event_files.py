"""The files of one event: manifests, manifest lists and the metadata file.

Their names and bytes are determined by the event, so that writing them again is harmless.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain

import orjson
from attrs import define, field, frozen

from icecore.engine.common.compressed_json import compress, decompress
from icecore.engine.errors import (
    FileExistsInStorageError,
    ForeignCommitError,
    MissingFileError,
    UnwritableCommitError,
    ValidationError,
)
from icecore.engine.events.event import TABLE_ADOPTED, TABLE_REGISTERED, TABLE_RELOCATED, Event
from icecore.engine.events.event_updates import table_updates
from icecore.engine.events.files_of_others import KEPT_FILES, kept_files
from icecore.engine.events.manifest_changes import ListedManifest, changes_of
from icecore.engine.events.relocated_manifests import RelocatedManifests
from icecore.engine.events.relocation import Relocations
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.metadata.fold import TableState, is_file_system
from icecore.engine.properties.table_properties import METADATA_COMPRESSION
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.spec.updates.table_update import AddSnapshot, RemoveSnapshots
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.manifest_entries import ManifestEntries
from icecore.projections.files.metadata_cleanup import DroppedMetadata
from icecore.projections.files.pointers import WrittenFile

FOREIGN_METADATA = "foreign-metadata"
_MOST_LENGTHS = 65_536
"""The most lengths of files that a process remembers; the log knows the others."""


@frozen
class Expiring:
    """Snapshots that later events of a batch remove, and the manifests that the batch's other snapshots list.

    `needed` is None where one of those lists can't be read: then any manifest may be needed. `relocated` has the
    snapshots that events of the batch give new lists, with the position of the last such event.
    """

    snapshot_ids: frozenset[int] = frozenset()
    needed: frozenset[str] | None = frozenset()
    relocated: Mapping[int, int] = field(factory=dict)

    @classmethod
    def of(cls, events: Sequence[Event], listed: Callable[[int, Snapshot | None], Iterable[str] | None]) -> Expiring:
        """The snapshots that the events of one stream expire, in order.

        `listed` gives the manifests of a snapshot by its id, and by the snapshot itself where an event of these adds
        it; None where they are not known: its list may be another engine's.
        """
        relocated = {
            int(i): e.position for e in events if e.kind == TABLE_RELOCATED for i in e.payload["manifest-lists"]
        }
        if not relocated and not any(RemoveSnapshots.action in e.payload_text for e in events):
            return cls()
        added, gone = dict[int, Snapshot | None].fromkeys(relocated), set[int]()
        for event in events:
            for update in table_updates(event):
                if isinstance(update, AddSnapshot):
                    added[update.snapshot.snapshot_id] = update.snapshot
                elif isinstance(update, RemoveSnapshots):
                    gone |= set(update.snapshot_ids)
        lists = [listed(i, snapshot) for i, snapshot in added.items() if i not in gone]
        known = [paths for paths in lists if paths is not None]
        needed = frozenset(chain.from_iterable(known)) if len(known) == len(lists) else None
        return cls(frozenset(gone), needed, relocated)

    def needs(self, snapshot_id: int, listed: ListedManifest) -> bool:
        """Whether a manifest that a snapshot adds is to be written."""
        is_final = snapshot_id not in self.snapshot_ids and snapshot_id not in self.relocated
        return is_final or self.is_needed(listed)

    def is_needed(self, listed: ListedManifest) -> bool:
        """Whether a snapshot that stays may list a manifest."""
        return self.needed is None or listed.manifest.manifest_path in self.needed

    def needs_list(self, snapshot_id: int, position: int) -> bool:
        """Whether the list that an event gives a snapshot is to be written: the last one that it gets."""
        return snapshot_id not in self.snapshot_ids and self.relocated.get(snapshot_id, position) <= position


@define
class EventFiles:
    """The writer of the files of one log's events, which remembers their lengths."""

    _store: EventStore
    _models: ReadModels
    _entries: ManifestEntries
    _lengths: dict[str, int] = field(factory=dict)

    def write(
        self,
        event: Event,
        before: TableState | None,
        state: TableState,
        storage: Storage,
        expiring: Expiring | None = None,
        forgotten: DroppedMetadata | None = None,
        damaged: Collection[str] = (),
    ) -> list[WrittenFile]:
        """Writes the files of one event, which leads from one state to the next. Writing them again is harmless.

        A version of a file system table is never written over, unless it is known to be `damaged`. Left out are files
        that only snapshots need which later events remove, and metadata files that later events take out of the
        metadata log: those files may be deleted already (R2).
        """
        expiring = expiring or Expiring()
        files = self._write_snapshots(event, state.metadata, storage, expiring)
        if event.kind == TABLE_RELOCATED:
            files += self._write_relocated(event, state.metadata, storage, expiring)
        is_new = state.metadata_location != (before.metadata_location if before else None)
        left_out = forgotten is not None and state.metadata_location in forgotten.own
        if event.kind == TABLE_ADOPTED:
            files.append(foreign_file(event))
        elif is_new and state.metadata_location is not None and event.kind != TABLE_REGISTERED and not left_out:
            files += self._write_metadata(event, state, storage, damaged)
        return files

    def _write_snapshots(
        self, event: Event, metadata: TableMetadata, storage: Storage, expiring: Expiring
    ) -> list[WrittenFile]:
        files = []
        for snapshot_id, changes in changes_of(event.payload, event.position).items():
            for listed in changes.added:
                if listed.position == event.position and expiring.needs(snapshot_id, listed):
                    try:
                        files.append(self._write_manifest(event, listed, metadata, storage))
                    except UnwritableCommitError:
                        # A manifest that has deleted entries only is left out of the list.
                        if listed.manifest.has_live_files:
                            raise
            if expiring.needs_list(snapshot_id, event.position):
                files.append(self._write_list(event, snapshot_id, metadata, storage))
        return files

    def _write_relocated(
        self, event: Event, metadata: TableMetadata, storage: Storage, expiring: Expiring
    ) -> list[WrittenFile]:
        """Writes the manifests and lists that a relocation made, except those that only expiring snapshots need."""
        relocated = RelocatedManifests.from_dict(event.payload, event.position)
        written = [m for m in relocated.manifests if expiring.is_needed(m)]
        lists = [i for i in relocated.lists if expiring.needs_list(i, event.position)]
        return [
            *(self._write_manifest(event, m, metadata, storage) for m in written),
            *(self._write_list(event, i, metadata, storage) for i in lists),
        ]

    def _write_manifest(
        self, event: Event, listed: ListedManifest, metadata: TableMetadata, storage: Storage
    ) -> WrittenFile:
        data = self._manifest(event, listed, metadata, storage)
        return self._put(event, listed.manifest.manifest_path, "manifest", data, storage)

    def _manifest(self, event: Event, listed: ListedManifest, metadata: TableMetadata, storage: Storage) -> bytes:
        from icecore.engine.commit.writable_entries import encoded_manifest

        entries = self._entries.canonical(event.stream, listed, storage)
        marker = sync_marker(event, listed.manifest.manifest_path)
        return encoded_manifest(entries, listed.manifest, metadata, marker, event.position)

    def unwritable(self, event: Event, metadata: TableMetadata, storage: Storage) -> dict[str, UnwritableCommitError]:
        """The manifests of one event that can't be written, by path, with the error."""
        found = {}
        for changes in changes_of(event.payload, event.position).values():
            for listed in changes.added:
                if listed.position == event.position:
                    try:
                        self._manifest(event, listed, metadata, storage)
                    except UnwritableCommitError as e:
                        if listed.manifest.has_live_files:
                            found[listed.manifest.manifest_path] = e
        return found

    def _write_list(self, event: Event, snapshot_id: int, metadata: TableMetadata, storage: Storage) -> WrittenFile:
        from icecore.engine.formats.manifest_list_avro import write_manifest_list

        snapshot = metadata.find_snapshot(snapshot_id)
        location = snapshot.manifest_list
        assert location is not None, "a snapshot made here has a manifest list"
        manifests = [
            m
            for m in self._models.list_manifests(event.stream, snapshot_id) or ()
            if m.manifest.has_live_files or self._is_written(m)
        ]
        # A list that a relocation writes anew may be from before version 3, without row ids (RL3).
        is_older = event.kind == TABLE_RELOCATED and snapshot.first_row_id is None
        data = write_manifest_list(
            [m.with_length(self._length(m, storage)) for m in manifests],
            format_version=min(metadata.format_version, 2) if is_older else metadata.format_version,
            snapshot_id=snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            first_row_id=snapshot.first_row_id,
            sync_marker=sync_marker(event, location),
        )
        return self._put(event, location, "manifest-list", data, storage)

    def _is_written(self, listed: ListedManifest) -> bool:
        path = listed.manifest.manifest_path
        return (
            listed.is_foreign or path in self._lengths or self._store.row(MODELS, "get_file", location=path) is not None
        )

    def _length(self, listed: ListedManifest, storage: Storage) -> int:
        """The length of a manifest's file: known for foreign ones, noted or looked up for ours."""
        if listed.is_foreign:
            return listed.manifest.manifest_length
        path = listed.manifest.manifest_path
        if path not in self._lengths:
            row = self._store.row(MODELS, "get_file", location=path)
            self._note(path, storage.size(path) if row is None else row["length"])
        return self._lengths[path]

    def _note(self, path: str, length: int) -> None:
        self._lengths[path] = length
        if len(self._lengths) > _MOST_LENGTHS:
            del self._lengths[next(iter(self._lengths))]

    def _write_metadata(
        self, event: Event, state: TableState, storage: Storage, damaged: Collection[str]
    ) -> list[WrittenFile]:
        location = state.metadata_location
        assert location is not None, "the caller checked"
        exclusive = is_file_system(state) and location not in damaged
        return [self._put(event, location, "metadata", metadata_bytes(state), storage, exclusive=exclusive)]

    def _put(
        self, event: Event, location: str, kind: str, data: bytes, storage: Storage, *, exclusive: bool = False
    ) -> WrittenFile:
        if exclusive:
            create_same(storage, location, data, self._store.relocations.since(event.position))
        else:
            storage.write_atomic(location, data, self._store.late_files)
        self._note(location, len(data))
        return WrittenFile(location, kind, len(data), hashlib.sha256(data).hexdigest(), event.position)


def foreign_file(event: Event) -> WrittenFile:
    """The metadata file that another engine wrote, as the event knows it."""
    p = event.payload
    return WrittenFile(
        p["metadata-location"], FOREIGN_METADATA, p["metadata-length"], p["metadata-sha256"], event.position
    )


def given_files(event: Event) -> list[WrittenFile]:
    """The manifests and lists that others wrote for a commit of theirs, as the event knows them."""
    found = kept_files(event.payload) if KEPT_FILES in event.payload_text else ()
    return [WrittenFile(f.location, f.kind, f.length, f.sha256, event.position) for f in found]


def metadata_bytes(state: TableState) -> bytes:
    """The bytes of the state's metadata file."""
    return compress(state.metadata.to_json(), METADATA_COMPRESSION.of(state.metadata.properties))


def sync_marker(event: Event, location: str) -> bytes:
    """The 16 bytes between the blocks of an Avro file; Avro leaves them free, here the event decides."""
    name = location.rsplit("/", 1)[-1]
    return hashlib.sha256(f"{event.event_id}/{name}".encode()).digest()[:16]


def create_same(storage: Storage, location: str, data: bytes, relocations: Relocations) -> None:
    """Creates a metadata file; one that is there must have the same bytes, or differ by a former folder's locations.

    Raises ForeignCommitError where another writer made it.
    """
    try:
        storage.create(location, data)
    except FileExistsInStorageError:
        found = b""
        with contextlib.suppress(MissingFileError):
            found = storage.read_bytes(location)
        if _is_of_former_folder(found, data, relocations):
            storage.write_atomic(location, data)
        elif found != data:
            raise ForeignCommitError(
                f"{location} was made by another writer: the table is a file system table, and that version is taken"
            ) from None


def _is_of_former_folder(found: bytes, data: bytes, relocations: Relocations) -> bool:
    """Whether a metadata file differs from the bytes to be written by a former folder's locations only."""
    if not relocations or found == data:
        return False
    try:
        was, now = (orjson.loads(decompress(part)) for part in (found, data))
    except (ValueError, ValidationError):
        return False
    starts = range(len(relocations.steps))
    return any(Relocations(relocations.steps[start:]).value(was) == now for start in starts)
