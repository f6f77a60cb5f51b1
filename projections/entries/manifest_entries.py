"""The entries of a manifest, wherever they are: in the log for manifests it made, else in the manifest's file."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from attrs import evolve

from icecore.engine.errors import CorruptLogError, MissingFileError
from icecore.engine.events.event import TABLE_PURGED, Event
from icecore.engine.events.files_of_others import kept_files
from icecore.engine.events.manifest_changes import ListedManifest, ManifestChanges
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import EventStore
from icecore.engine.spec.content_file import ManifestFile
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.storage.byte_cache import ByteCache
from icecore.engine.storage.file_io import Storage

if TYPE_CHECKING:
    import pyarrow as pa

CACHED_BYTES = 64 * 2**20
_NO_FILES: Mapping[str, tuple[int, str]] = {}
REQUESTS_AT_ONCE = 8
"""The number of manifests that are requested of an object store at once: each takes long to answer."""

SpecsOf: TypeAlias = "Callable[[str, Collection[int]], Mapping[int, PartitionSpec]]"
"""Gives the partition specs of a stream's table, with those of some ids if it has them."""


class ManifestEntries:
    """The entries of manifests. A manifest of ours is put together of its rows in the log and its source manifests."""

    def __init__(self, store: EventStore, models: ReadModels, specs_of: SpecsOf) -> None:
        self._store = store
        self._models = models
        self._specs_of = specs_of
        self._cached: ByteCache[int, pa.Table | None] = ByteCache(
            CACHED_BYTES, lambda table: 0 if table is None else table.get_total_buffer_size()
        )
        self._merged: ByteCache[str, pa.Table] = ByteCache(CACHED_BYTES, lambda table: table.get_total_buffer_size())
        self._purged: dict[str, tuple[int, Mapping[str, tuple[int, str]]]] = {}
        """By stream: a version of it, and the positions and checksums of files kept by then, by location."""
        self._kept: ByteCache[int, dict[str, bytes | None]] = ByteCache(
            CACHED_BYTES, lambda files: sum(len(data or b"") for data in files.values())
        )

    def canonical(
        self, stream: str, listed: ListedManifest, storage: Storage, left_out: frozenset[str] = frozenset()
    ) -> pa.Table:
        """The entries as the manifest's file has them: what can be inherited is null (M2).

        Columns in `left_out` may be null. Raises CorruptLogError or CorruptFileError where the entries can't be had.
        """

        from icecore.projections.entries.decode_entries import decode_manifest

        if listed.is_foreign:
            path = listed.manifest.manifest_path
            data, spec_id = self.file_bytes(stream, path, storage), listed.manifest.partition_spec_id
            spec = self.spec_of(stream, spec_id)
            return decode_manifest(data, where=path, spec_id=spec_id, metadata_spec=spec, left_out=left_out)
        if listed.row_count:
            rows = cut_out(self._content(listed.position), listed)
        else:
            from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA

            rows = ENTRY_SCHEMA.empty_table()
        if rows.num_rows != listed.row_count:
            raise CorruptLogError(f"position {listed.position}: its content files end too early")
        if not listed.sources:
            return rows
        # A manifest's path is of one event, so it never stands for other entries.
        return self._merged.get(
            listed.manifest.manifest_path, lambda _: self._put_together(stream, listed, rows, storage)
        )

    def canonical_all(
        self, stream: str, manifests: Iterable[ListedManifest], storage: Storage, left_out: frozenset[str] = frozenset()
    ) -> Iterator[pa.Table]:
        """The entries of many manifests, as `canonical`, at much less cost where they are small."""

        from icecore.projections.entries.decode_entries import decode_manifests

        for is_foreign, run in groupby(manifests, lambda m: m.is_foreign):
            if is_foreign:
                others = [m.manifest for m in run]
                specs = self._specs_of(stream, {m.partition_spec_id for m in others})
                yield from decode_manifests(self._files(stream, others, storage), left_out, specs)
            else:
                yield from (self.canonical(stream, m, storage, left_out) for m in run)

    def spec_of(self, stream: str, spec_id: int) -> PartitionSpec | None:
        """The spec of that id in a stream's table, for what a manifest itself does not tell."""
        return self._specs_of(stream, (spec_id,)).get(spec_id)

    def beside(self, position: int) -> pa.Table | None:
        """The canonical entries beside an event, None for none. Raises MissingArchiveError, CorruptLogError."""
        # An event that isn't committed yet may be rolled back, and another one get its position.
        if self._store.is_committed(position):
            return self._cached.get(position, self._store.entries)
        return self._store.entries(position)

    def inherited(self, stream: str, listed: ListedManifest, storage: Storage) -> pa.Table:
        """The entries with sequence numbers, snapshot ids and first row ids filled in (M2, RL3)."""

        from icecore.projections.entries.wide_entries import inherit

        return inherit(self.canonical(stream, listed, storage), listed.manifest)

    def live(self, stream: str, listed: ListedManifest, storage: Storage) -> pa.Table:
        """The inherited entries that are not deleted."""
        from icecore.projections.entries.carried_entries import live_entries

        return live_entries(self.inherited(stream, listed, storage))

    def _put_together(self, stream: str, listed: ListedManifest, rows: pa.Table, storage: Storage) -> pa.Table:
        from icecore.projections.entries.carried_entries import put_together
        from icecore.projections.entries.decode_entries import decode_manifest

        try:
            return put_together((self.live(stream, s, storage) for s in self.sources(stream, listed)), rows)
        except MissingFileError:
            # Another engine that expires snapshots deletes manifests of its own, from which ours carry entries over.
            own = listed.manifest
            with contextlib.suppress(MissingFileError):
                data = storage.read_bytes(own.manifest_path)
                return decode_manifest(data, where=own.manifest_path, spec_id=own.partition_spec_id)
            raise

    def sources(self, stream: str, listed: ListedManifest) -> list[ListedManifest]:
        """The manifests that one was made of, as they were listed then. Raises CorruptLogError."""
        out = []
        for number, path in enumerate(listed.sources):
            found = self._models.manifest(stream, path)
            if found is None:
                raise CorruptLogError(f"{listed.manifest.manifest_path}: its source {path} is not in the log")
            if listed.source_first_row_ids:
                first_row_id = listed.source_first_row_ids[number]
                found = evolve(found, manifest=evolve(found.manifest, first_row_id=first_row_id))
            out.append(found)
        return out

    def file_bytes(self, stream: str, location: str, storage: Storage) -> bytes:
        """The bytes of another engine's manifest or list: from its file or, where that is gone, from the log.

        Raises MissingFileError, StorageError, CorruptLogError.
        """
        try:
            return storage.read_bytes(location)
        except MissingFileError:
            kept = self.kept_bytes(stream, location)
            if kept is None:
                raise
            return kept

    def _files(
        self, stream: str, manifests: Sequence[ManifestFile], storage: Storage
    ) -> Iterator[tuple[str, bytes, int]]:
        """The paths, bytes and spec ids of others' manifests; those of object stores are read ahead, in threads."""
        if all(storage.local_path(m.manifest_path) is not None for m in manifests):
            yield from (
                (m.manifest_path, self.file_bytes(stream, m.manifest_path, storage), m.partition_spec_id)
                for m in manifests
            )
            return

        from icecore.engine.data.read.read_ahead import read_ahead

        def read(manifest: ManifestFile) -> bytes | MissingFileError:
            try:
                return storage.read_bytes(manifest.manifest_path)
            except MissingFileError as e:
                # The log is read by the thread that has it open.
                return e

        for manifest, found in zip(manifests, read_ahead(read, manifests, REQUESTS_AT_ONCE), strict=True):
            path = manifest.manifest_path
            data = found if isinstance(found, bytes) else self.file_bytes(stream, path, storage)
            yield path, data, manifest.partition_spec_id

    def kept_bytes(self, stream: str, location: str) -> bytes | None:
        """The bytes that the log keeps of another engine's manifest or list, if any. Raises CorruptLogError."""
        found = self._models.kept_file(stream, location)
        known = self._kept_when_purged(stream).get(location) if found is None else (found["position"], found["sha256"])
        if known is None:
            return None
        position, sha256 = known
        is_sure = self._store.is_committed(position)
        files = self._kept.get(position, self._load_kept) if is_sure else self._load_kept(position)
        since = self._store.relocations.since(position)
        for name, data in files.items():
            if data is not None and since.location(name) == location:
                if hashlib.sha256(data).hexdigest() != sha256:
                    raise CorruptLogError(f"position {position}: its copy of {location} is not what was written")
                return data
        return None

    def _kept_when_purged(self, stream: str) -> Mapping[str, tuple[int, str]]:
        """The positions and checksums of files that the log keeps of a purged table, which read models have no more."""
        version = self._store.last_version(stream)
        known, found = self._purged.get(stream, (None, _NO_FILES))
        if known != version:
            events = list(self._store.stream_events(stream))
            kept = events if any(e.kind == TABLE_PURGED for e in events) else []
            found = {self._now(e, f.location): (e.position, f.sha256) for e in kept for f in kept_files(e.payload)}
            self._purged[stream] = version, found
        return found

    def _now(self, event: Event, location: str) -> str:
        return self._store.relocations.since(event.position).location(location)

    def _load_kept(self, position: int) -> dict[str, bytes | None]:
        from icecore.engine.formats.event_content import files_part

        data = self._store.content(position)
        return {} if data is None else files_part(data, position)

    def forget(self) -> None:
        """Drops everything cached."""
        self._cached.clear()
        self._kept.clear()
        self._purged.clear()
        self._merged.clear()

    def _content(self, position: int) -> pa.Table:
        entries = self.beside(position)
        if entries is None:
            raise CorruptLogError(f"position {position}: its content files are missing")
        return entries


def rows_beside(position: int, change: ManifestChanges, content: pa.Table | None) -> list[pa.Table]:
    """The entries that a snapshot's change made, from the `content` beside its event. Raises CorruptLogError."""
    made = [m for m in change.added if m.position == position and m.row_count]
    if made and content is None:
        raise CorruptLogError(f"position {position}: its content files are missing")
    return [cut_out(content, m) for m in made] if content is not None else []


def cut_out(content: pa.Table, listed: ListedManifest) -> pa.Table:
    """The entries of a manifest, from the `content` beside its event: mostly all of it, which takes no time."""
    is_all = listed.row_offset == 0 and listed.row_count == content.num_rows
    return content if is_all else content.slice(listed.row_offset, listed.row_count)
