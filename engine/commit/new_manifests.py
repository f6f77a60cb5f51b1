"""The manifests that a new snapshot adds, and their entries in the log.

Entries that a manifest carries over from others are not stored again: the log keeps added and deleted entries, and all
entries only where they come in another order or too many manifests would build on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, field, frozen

from icecore.engine.commit.manifest_merge import MAX_DEPTH, Clustering, bins_to_merge, entries_per_manifest
from icecore.engine.commit.manifest_summary import summarize
from icecore.engine.events.manifest_changes import OWN_EVENT, ListedManifest, ManifestChanges
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, with_status
from icecore.engine.metadata.fold import metadata_folder
from icecore.engine.spec.content_file import DataFileContent, ManifestContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata


@frozen
class ManifestRemoval:
    """The entries that a command removes from one manifest of the parent's list.

    `survivors` and `removed` are canonical entries with everything inherited: the live files that stay, and those
    that go.
    """

    listed: ListedManifest
    survivors: pa.Table = field(repr=False)
    removed: pa.Table = field(repr=False)


class EventContent:
    """The content of an event in the making: the entries of its manifests that the log holds, in order."""

    def __init__(self, event_id: str) -> None:
        self._event_id = event_id
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._manifests = 0

    def next_path(self, metadata: TableMetadata) -> str:
        """The location of the event's next manifest."""
        folder = metadata_folder(metadata.location, metadata.properties)
        return f"{folder}/{self._event_id}-m{self._manifests}.avro"

    def keep(self, entries: pa.Table) -> int:
        """Appends the entries of the next manifest, maybe none; returns the row where they begin."""
        first = self._rows
        if entries.num_rows:
            self._tables.append(entries)
        self._rows += entries.num_rows
        self._manifests += 1
        return first

    def table(self) -> pa.Table | None:
        """All entries; None where there is none."""
        return pa.concat_tables(self._tables) if self._tables else None


def _of_kind(entries: pa.Table, spec_id: int, is_delete: bool) -> pa.Table:
    are_deletes = pc.not_equal(entries["content"], int(DataFileContent.DATA))
    return entries.filter(pc.and_(pc.equal(entries["spec_id"], spec_id), pc.equal(are_deletes, is_delete)))


class NewManifests:
    """The maker of the manifests of one snapshot."""

    def __init__(self, metadata: TableMetadata, snapshot_id: int, sequence_number: int, content: EventContent) -> None:
        self._metadata = metadata
        self._snapshot_id = snapshot_id
        self._sequence_number = sequence_number
        self._content = content

    def added(self, entries: pa.Table | None) -> tuple[ListedManifest, ...]:
        """New manifests of the added entries: one spec and one kind of content each (M1), of bounded size."""
        if entries is None or entries.num_rows == 0:
            return ()
        # The snapshot id could be inherited (M2), but PyIceberg 0.10 stores an inherited one as the status, and then
        # passes over the deletes of such entries, and can't write them again.
        added = with_status(entries.select(ENTRY_SCHEMA.names), ManifestEntryStatus.ADDED, self._snapshot_id)
        limit = entries_per_manifest(self._metadata.properties)
        out = []
        keys = sorted(
            {(s, c != 0) for s, c in zip(*(added[n].to_pylist() for n in ("spec_id", "content")), strict=True)}
        )
        for spec_id, is_delete in keys:
            chosen = added if len(keys) == 1 else _of_kind(added, spec_id, is_delete)
            for start in range(0, chosen.num_rows, limit):
                part = chosen.slice(start, limit)
                content = ManifestContent.DELETES if is_delete else ManifestContent.DATA
                out.append(self._manifest(part, part, spec_id, content))
        return tuple(out)

    def rewritten(self, removal: ManifestRemoval) -> ListedManifest:
        """The manifest that takes another's place: its surviving entries as existing, the removed ones as deleted."""
        deleted = with_status(
            removal.removed.select(ENTRY_SCHEMA.names), ManifestEntryStatus.DELETED, self._snapshot_id
        )
        existing = with_status(removal.survivors.select(ENTRY_SCHEMA.names), ManifestEntryStatus.EXISTING)
        return self._carrying((removal.listed,), existing, deleted)

    def clustered(self, clusterings: Iterable[Clustering]) -> Iterable[ListedManifest]:
        """Manifests that hold the entries of others in another order, so that the log has to keep them."""
        limit = entries_per_manifest(self._metadata.properties)
        for clustering in clusterings:
            entries = with_status(clustering.entries.select(ENTRY_SCHEMA.names), ManifestEntryStatus.EXISTING)
            for start in range(0, entries.num_rows, limit):
                part = entries.slice(start, limit)
                yield self._manifest(part, part, clustering.spec_id, ManifestContent.DATA)

    def merged(
        self,
        changes: ManifestChanges,
        parent: tuple[ListedManifest, ...],
        live_entries: Callable[[ListedManifest], pa.Table],
    ) -> ManifestChanges:
        """The changes with manifests merged where the list would have too many."""
        manifests = changes.apply(parent)
        # This event's manifests are not in the log yet, those of its other snapshots included.
        new = frozenset(m.manifest.manifest_path for m in manifests if m.position == OWN_EVENT)
        merged, removed = [], set(changes.removed)
        for sources in bins_to_merge(manifests, new, self._metadata.properties):
            tables = [live_entries(m).select(ENTRY_SCHEMA.names) for m in sources]
            existing = with_status(pa.concat_tables(tables), ManifestEntryStatus.EXISTING)
            nothing = existing.slice(0, 0)
            merged.append(self._carrying(sources, existing, nothing))
            removed |= {m.manifest.manifest_path for m in sources}
        return ManifestChanges((*changes.added, *merged), frozenset(removed))

    def _carrying(
        self,
        sources: tuple[ListedManifest, ...],
        existing: pa.Table,
        deleted: pa.Table,
    ) -> ListedManifest:
        """A manifest that takes the place of others of one spec and content.

        The log keeps only its deleted entries, or all where too many manifests would build on each other.
        """
        entries = pa.concat_tables([existing, deleted])
        depth = 1 + max(m.depth for m in sources)
        stored = deleted if depth <= MAX_DEPTH else entries
        first = sources[0].manifest
        spec_id, content = first.partition_spec_id, first.content
        listed = self._manifest(entries, stored, spec_id, content)
        if stored is entries:
            return listed
        paths = tuple(m.manifest.manifest_path for m in sources)
        first_row_ids = tuple(m.manifest.first_row_id for m in sources)
        return evolve(listed, sources=paths, source_first_row_ids=first_row_ids, depth=depth)

    def _manifest(
        self,
        entries: pa.Table,
        stored: pa.Table,
        spec_id: int,
        content: ManifestContent,
    ) -> ListedManifest:
        manifest = summarize(
            entries,
            manifest_path=self._content.next_path(self._metadata),
            spec=self._metadata.spec_by_id(spec_id),
            schema=self._metadata.all_fields,
            content=content,
            sequence_number=self._sequence_number,
            snapshot_id=self._snapshot_id,
        )
        return ListedManifest(manifest, OWN_EVENT, self._content.keep(stored), stored.num_rows)
