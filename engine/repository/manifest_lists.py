"""The manifests of a snapshot: from the log or, where the snapshot came from outside, from its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from attrs import define, evolve, field

from icecore.engine.errors import StorageError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.log.read_models import ReadModels
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.content_file import ManifestContent, ManifestFile
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.byte_cache import ByteCache
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.manifest_entries import ManifestEntries

if TYPE_CHECKING:
    import pyarrow as pa

ListKey: TypeAlias = tuple[object, ...]
KEPT_BYTES = 64 * 2**20
BYTES_A_MANIFEST = 256
"""The approximate bytes of one manifest in a list; most lists share the record itself. Each commit of a client has a
list of all manifests, so not all lists can be kept."""


@define
class ManifestLists:
    """The manifest lists of all snapshots; those that other engines wrote are read once as long as they are kept."""

    models: ReadModels
    entries: ManifestEntries
    storage_of: Callable[[TableState], Storage]
    _foreign_lists: ByteCache[ListKey, tuple[ListedManifest, ...]] = field(
        factory=lambda: ByteCache(KEPT_BYTES, lambda listed: len(listed) * BYTES_A_MANIFEST), repr=False
    )

    def list_manifests(self, state: TableState, snapshot: Snapshot) -> tuple[ListedManifest, ...]:
        """The manifests of a snapshot, from the log or, where the snapshot came from outside, from its files."""
        known = self.models.list_manifests(state.stream, snapshot.snapshot_id)
        return known if known is not None else self._foreign_list(state, snapshot)

    def all_lists(self, state: TableState) -> Iterator[tuple[Snapshot, tuple[ListedManifest, ...]]]:
        """Each snapshot of a table with its manifests; a manifest's record is read once, however many lists have it."""
        snapshots = state.metadata.snapshots
        known = self.models.lists_of(state.stream, [s.snapshot_id for s in snapshots])
        for snapshot, listed in zip(snapshots, known, strict=True):
            yield snapshot, listed if listed is not None else self._foreign_list(state, snapshot)

    def live_entries(self, state: TableState, listed: ListedManifest) -> pa.Table:
        """The entries of a manifest that are not deleted, with all that they inherit."""
        return self.entries.live(state.stream, listed, self.storage_of(state))

    def _foreign_list(self, state: TableState, snapshot: Snapshot) -> tuple[ListedManifest, ...]:
        # An id may be given out again, by a writer that never heard of the first.
        key = (state.stream, snapshot.snapshot_id, snapshot.manifest_list, snapshot.manifests)
        return self._foreign_lists.get(
            key, lambda _: self._read_foreign_list(state.stream, snapshot, self.storage_of(state))
        )

    def complete_list(self, state: TableState, snapshot: Snapshot) -> tuple[ListedManifest, ...]:
        """The manifests of a snapshot with all counts, which v1 writers could leave out and new lists need (L1)."""
        return tuple(
            evolve(m, manifest=self.counted(state, m)) if m.is_foreign and not is_counted(m.manifest) else m
            for m in self.list_manifests(state, snapshot)
        )

    def counted(self, state: TableState, listed: ListedManifest) -> ManifestFile:
        """The record of a manifest, with the counts and partition summaries of its entries."""
        from icecore.engine.commit.manifest_summary import summarize

        manifest = listed.manifest
        counted = summarize(
            self.entries.inherited(state.stream, listed, self.storage_of(state)),
            manifest_path=manifest.manifest_path,
            spec=state.metadata.spec_by_id(manifest.partition_spec_id),
            schema=state.metadata.all_fields,
            content=manifest.content,
            sequence_number=manifest.sequence_number,
            snapshot_id=manifest.added_snapshot_id or 0,
        )
        return evolve(
            counted,
            manifest_length=manifest.manifest_length,
            key_metadata=manifest.key_metadata,
            first_row_id=manifest.first_row_id,
        )

    def _read_foreign_list(self, stream: str, snapshot: Snapshot, storage: Storage) -> tuple[ListedManifest, ...]:
        if snapshot.manifest_list is not None:
            from icecore.engine.formats.manifest_list_avro import read_manifest_list

            data = self.entries.file_bytes(stream, snapshot.manifest_list, storage)
            return tuple(ListedManifest(m) for m in read_manifest_list(data, snapshot.manifest_list))
        # A v1 snapshot without a list names its manifests; their headers say which spec they are of.
        return tuple(ListedManifest(inline_manifest(path, snapshot, storage)) for path in snapshot.manifests or ())

    def forget(self) -> None:
        """Drops the cached lists of files."""
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


def inline_manifest(path: str, snapshot: Snapshot, storage: Storage) -> ManifestFile:
    """The record of a manifest that a v1 snapshot names without a list, without counts. Raises StorageError."""

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
