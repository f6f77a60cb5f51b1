"""The metadata of a table for the place that its files are copied to: the first half of copying a table elsewhere.

As Java's RewriteTablePath, for all snapshots: files that name others by path are written anew into a staging folder,
and a list says which file is to be copied where. Nothing is committed, and the table stays as it is.
"""

from __future__ import annotations

import csv
import hashlib
import io
import uuid

import pyarrow as pa
from attrs import define, evolve, field, frozen

from icecore.engine.commit.writable_entries import encoded_manifest
from icecore.engine.common.compressed_json import codec_of_name, compress
from icecore.engine.common.lazy_property import lazy_property
from icecore.engine.common.location import LocationMapping, given_location, is_inside, local_path
from icecore.engine.common.text import short_repr
from icecore.engine.errors import ValidationError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.events.relocation import mapped_value
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.formats.manifest_list_avro import write_manifest_list
from icecore.engine.maintenance.moved_deletes import MovedDeletes
from icecore.engine.metadata.fold import TableState, metadata_folder
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import DataFileContent, ManifestEntryStatus, ManifestFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.wide_entries import inherit_sequence_numbers


@frozen
class RewrittenTablePath:
    """The result of `Maintenance.rewrite_table_path`.

    `latest_version` is the name of the metadata file, `metadata_location` where it is to be. `files` are the (source,
    target) locations of all files to copy, which the CSV file `file_list_location` holds too.
    """

    __repr__ = short_repr

    latest_version: str
    metadata_location: str
    staging_location: str
    file_list_location: str
    files: tuple[tuple[str, str], ...]


def rewrite_table_path(
    repository: Repository, state: TableState, source_prefix: str, target_prefix: str, staging_location: str | None
) -> RewrittenTablePath:
    """Writes the files of a table's metadata with locations of another prefix, and the list of all files to copy.

    Raises ValidationError where a file of the table is outside of the source prefix or would be written over,
    StorageError, CorruptFileError.
    """
    source, target = given_location(source_prefix), given_location(target_prefix)
    folder = metadata_folder(state.metadata.location, state.metadata.properties)
    staging = given_location(staging_location or f"{folder}/copy-table-staging-{uuid.uuid4()}")
    if is_inside(target, source) or is_inside(source, target):
        raise ValidationError(f"a table can't be copied from {source} to {target}: one lies in the other")
    if is_inside(source, staging) and is_inside(staging, source):
        raise ValidationError(f"{staging} can't be the staging folder: files of the table would be written over")
    path = local_path(source)
    olds = [source] if path is None else [f"{scheme}{path}" for scheme in ("file://", "file:", "")]
    rewriting = _Rewriting(repository, state, source, LocationMapping.of(dict.fromkeys(olds, target)), target, staging)
    return rewriting.run()


@define(slots=False)
class _Rewriting:
    repository: Repository
    state: TableState
    source: str
    mapping: LocationMapping
    target: str
    staging: str
    files: dict[str, str] = field(factory=dict)
    """The location that each file comes from, by its new location."""
    _manifests: dict[str, ManifestFile] = field(factory=dict)

    def run(self) -> RewrittenTablePath:
        """Writes everything. Raises as `rewrite_table_path`."""
        metadata, state = self.state.metadata, self.state
        self.moved(metadata.location)
        for snapshot in metadata.snapshots:
            self._write_snapshot(snapshot)
        paths = [s.statistics_path for s in metadata.statistics]
        paths += [s.statistics_path for s in metadata.partition_statistics]
        self.files.update((self.moved(path), path) for path in paths)
        # Earlier metadata files are not copied, so that the new one names none.
        told = {**mapped_value(metadata.to_dict(), self.mapping), "metadata-log": []}
        folder = metadata_folder(metadata.location, metadata.properties)
        location = self.moved(state.metadata_location or f"{folder}/00000-{state.event_hash[:32]}.metadata.json")
        # Readers tell the codec by the file's name, whatever the table's property says by now.
        codec = codec_of_name(location.rpartition("/")[2])
        self._put(location, compress(TableMetadata.from_dict(told).to_json(), codec))
        files = tuple((source, target) for target, source in sorted(self.files.items()))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(files)
        listed = f"{self.staging}/file-list.csv"
        self.repository.storage.write_atomic(listed, text.getvalue().encode())
        return RewrittenTablePath(location.rpartition("/")[2], location, self.staging, listed, files)

    @lazy_property
    def _source(self) -> Storage:
        return self.repository.storage_of(self.state)

    @lazy_property
    def _deletes(self) -> MovedDeletes:
        # What is to be below the target is written below the staging folder.
        target = evolve(self.repository.storage, mapping=LocationMapping.of({self.target: self.staging}))
        return MovedDeletes(self.state.metadata, self.mapping, self._source, target)

    def moved(self, location: str) -> str:
        """The new location of a file of the table. Raises ValidationError for one outside of the source prefix."""
        new = self.mapping.resolve(location)
        if new == location:
            raise ValidationError(f"{location} of the table is not in {self.source}, so it would not be copied")
        return new

    def _staged(self, location: str) -> str:
        return self.staging + location[len(self.target) :]

    def _put(self, location: str, data: bytes) -> None:
        staged = self._staged(location)
        self.repository.storage.write_atomic(staged, data)
        self.files[location] = staged

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        metadata = self.state.metadata
        manifests = [self._manifest(m) for m in self.repository.list_manifests(self.state, snapshot)]
        if snapshot.manifest_list is None:
            return
        location = self.moved(snapshot.manifest_list)
        # A snapshot from before version 3 has no row ids, which a list of that version would need (RL3).
        is_older = snapshot.first_row_id is None
        data = write_manifest_list(
            manifests,
            format_version=min(metadata.format_version, 2) if is_older else metadata.format_version,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            sequence_number=snapshot.sequence_number,
            first_row_id=snapshot.first_row_id,
            sync_marker=_marker(location),
        )
        self._put(location, data)

    def _manifest(self, listed: ListedManifest) -> ManifestFile:
        """A manifest as the new list names it; the file is written once, however many lists name it."""
        record = listed.manifest
        location = self.moved(record.manifest_path)
        if location not in self._manifests:
            entries = self.repository.entries.canonical(self.state.stream, listed, self._source)
            # Entries of version 1 have no sequence numbers, and this may be written in a later version (M3).
            entries = inherit_sequence_numbers(
                entries.select(ENTRY_SCHEMA.names), [record], [entries.num_rows]
            ).combine_chunks()
            moved = self._deletes.moved(entries)
            self._note(entries, moved)
            data = encoded_manifest(moved, record, self.state.metadata, _marker(location), listed.position)
            self._put(location, data)
            self._manifests[location] = evolve(record, manifest_path=location, manifest_length=len(data))
        return evolve(record, manifest_path=location, manifest_length=self._manifests[location].manifest_length)

    def _note(self, entries: pa.Table, moved: pa.Table) -> None:
        """Notes where live content files are copied from: position deletes were written anew."""
        columns = (entries["file_path"], moved["file_path"], moved["content"], moved["status"])
        for old, new, content, status in zip(*(c.to_pylist() for c in columns), strict=True):
            if status != ManifestEntryStatus.DELETED:
                self.moved(old)
                self.files[new] = self._staged(new) if content == DataFileContent.POSITION_DELETES else old


def _marker(location: str) -> bytes:
    """The sync marker of an Avro file, which follows from its location: a file written again is the same."""
    return hashlib.sha256(location.encode()).digest()[:16]
