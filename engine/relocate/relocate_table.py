"""The files of a table to be written anew in another folder: manifests, manifest lists and delete files.

The log is read with the new folder in its locations, so what follows from it is not among them: these are manifests and
lists of other engines, and delete files that name data files by path.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, field, frozen

from icecore.engine.common.ids import new_event_id, new_salt
from icecore.engine.common.lazy_property import lazy_property
from icecore.engine.common.location import LocationMapping
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.events.manifest_changes import OWN_EVENT, ListedManifest, Listing
from icecore.engine.events.relocated_manifests import RelocatedManifests
from icecore.engine.events.relocation import Relocation
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.formats.event_content import encode_content
from icecore.engine.log.store import EventStore
from icecore.engine.maintenance.moved_deletes import MovedDeletes
from icecore.engine.metadata.fold import TableState, metadata_folder
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import DataFileContent, ManifestContent
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.wide_entries import inherit_sequence_numbers

_WITHOUT_METADATA = frozenset(
    (
        ev.TABLE_FILES_DELETED,
        *(f"{what}.{done}" for what in ("table", "view") for done in ("renamed", "dropped", "undropped")),
    )
)
_FOREIGN = frozenset({ev.TABLE_ADOPTED, ev.TABLE_REGISTERED, ev.VIEW_ADOPTED, ev.VIEW_REGISTERED})


@frozen
class Needs:
    """The parts of a table to be written anew: manifests, whole lists of them, and the snapshots whose lists change."""

    manifests: dict[Listing, ListedManifest]
    whole: dict[int, tuple[ListedManifest, ...]]
    snapshots: tuple[int, ...]
    has_foreign_head: bool

    def __bool__(self) -> bool:
        return bool(self.snapshots) or self.has_foreign_head


@frozen
class RelocatedTable:
    """The `table.relocated` event of a table in the making, and the number of delete files written for it."""

    event_id: str
    payload: dict[str, Any]
    content: bytes | None
    rows: int
    manifests: int
    delete_files: int


def needs_of(repository: Repository, state: TableState, step: Relocation) -> Needs:
    """The needs of a table's snapshots. Raises StorageError, CorruptFileError."""
    moved = step.mapping().resolve
    if state.purged_at is not None or all(
        moved(x) == x for x in (state.metadata.location, state.metadata_location or "")
    ):
        return Needs({}, {}, (), False)
    looking = _Looking(repository, state, step)
    needed: dict[Listing, ListedManifest] = {}
    whole: dict[int, tuple[ListedManifest, ...]] = {}
    snapshots = []
    for snapshot in state.metadata.snapshots:
        known = repository.models.list_manifests(state.stream, snapshot.snapshot_id)
        listed = repository.lists.complete_list(state, snapshot) if known is None else known
        found = [m for m in listed if known is None or looking.needs(m)]
        needed.update((m.listing, m) for m in found)
        if known is None:
            whole[snapshot.snapshot_id] = listed
        if known is None or found:
            snapshots.append(snapshot.snapshot_id)
    return Needs(needed, whole, tuple(snapshots), has_foreign_head(repository.store, state.stream))


def has_foreign_head(store: EventStore, stream: str) -> bool:
    """Whether another engine wrote the current metadata file of a table or view, which then names the old folder."""
    is_foreign = False
    for event in store.stream_events(stream):
        is_foreign = event.kind in _FOREIGN or (is_foreign and not _has_metadata(event))
    return is_foreign


def _has_metadata(event: Event) -> bool:
    """Whether a metadata file of ours is written for an event; none is of a commit that waits to be written by hand."""
    return event.kind not in _WITHOUT_METADATA and bool(event.payload.get("materialize", True))


@define
class _Looking:
    repository: Repository
    state: TableState
    step: Relocation
    _known: dict[str, bool] = field(factory=dict)

    def needs(self, listed: ListedManifest) -> bool:
        path = listed.manifest.manifest_path
        if path not in self._known:
            self._known[path] = self._is_of_files(listed) or self._names_files(listed)
        return self._known[path]

    def _is_of_files(self, listed: ListedManifest) -> bool:
        """Whether its entries, or some that it carries over, are in a file only."""
        sources = self.repository.entries.sources(self.state.stream, listed) if listed.sources else []
        return listed.is_foreign or any(self._is_of_files(s) for s in sources)

    def _names_files(self, listed: ListedManifest) -> bool:
        if self.step.shares_data or listed.manifest.content is not ManifestContent.DELETES:
            return False
        entries = self.repository.lists.live_entries(self.state, listed)
        return bool(pc.any(pc.equal(entries["content"], int(DataFileContent.POSITION_DELETES))).as_py())


def relocated_table(
    repository: Repository, state: TableState, needs: Needs, step: Relocation, target: Storage
) -> RelocatedTable:
    """Writes delete files anew and gathers the event; written again, the files are the same.

    `state` is the table before the relocation, whose files `repository` finds; `target` writes to the new locations.
    Raises StorageError, CorruptFileError.
    """
    making = _Making(repository, state, step, target, new_event_id())
    manifests = tuple(making.manifest(m) for m in needs.manifests.values())
    places = {key: index for index, key in enumerate(needs.manifests)}
    relocated = RelocatedManifests(
        {i: making.list_location(i) for i in needs.snapshots},
        manifests,
        tuple(making.now(key) for key in needs.manifests),
        {i: tuple(places[m.listing] for m in listed) for i, listed in needs.whole.items()},
    )
    content = making.content()
    return RelocatedTable(
        making.event_id,
        relocated.to_dict(),
        None if content is None else encode_content(content, new_salt()),
        0 if content is None else content.num_rows,
        len(manifests),
        len(making.deletes.written),
    )


@define(slots=False)
class _Making:
    repository: Repository
    state: TableState
    step: Relocation
    target: Storage
    event_id: str
    _tables: list[pa.Table] = field(factory=list)
    _rows: int = 0
    _count: int = 0

    @property
    def mapping(self) -> LocationMapping:
        return self.step.mapping()

    @lazy_property
    def deletes(self) -> MovedDeletes:
        """The delete files that name data files by path."""
        metadata = self.state.metadata
        elsewhere = f"{self.mapping.resolve(metadata.location)}/data"
        source = self.repository.storage_of(self.state)
        return MovedDeletes(metadata, self.step.content_mapping(), source, self.target, elsewhere)

    @property
    def folder(self) -> str:
        """The folder of the table's metadata now."""
        metadata = self.state.metadata
        properties = {k: self.mapping.resolve(v) for k, v in metadata.properties.items()}
        return metadata_folder(self.mapping.resolve(metadata.location), properties)

    def now(self, key: Listing) -> Listing:
        """A manifest as it is listed when the log is read with the new folder."""
        return self.mapping.resolve(key[0]), key[1]

    def list_location(self, snapshot_id: int) -> str:
        return f"{self.folder}/snap-{snapshot_id}-1-{self.event_id}.avro"

    def manifest(self, listed: ListedManifest) -> ListedManifest:
        """The same manifest with new paths, whose entries are all in the event."""
        storage = self.repository.storage_of(self.state)
        entries = self.repository.entries.canonical(self.state.stream, listed, storage).select(ENTRY_SCHEMA.names)
        # Entries of version 1 have no sequence numbers, and this may be written in a later version (M3).
        entries = inherit_sequence_numbers(entries, [listed.manifest], [entries.num_rows])
        if not self.step.shares_data:
            entries = self.deletes.moved(entries.combine_chunks())
        path = f"{self.folder}/{self.event_id}-m{self._count}.avro"
        first, self._count, self._rows = self._rows, self._count + 1, self._rows + entries.num_rows
        self._tables.append(entries)
        record = evolve(listed.manifest, manifest_path=path)
        return ListedManifest(record, OWN_EVENT, first, entries.num_rows)

    def content(self) -> pa.Table | None:
        return pa.concat_tables(self._tables) if self._rows else None
