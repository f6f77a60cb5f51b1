"""The manifest lists and manifests that a client wrote for a commit of its own: read, and checked before the commit.

A list is read whole, but only manifests that the table does not have yet, so a check costs what is new. For each
commit, our own too, it is checked that no file which it adds was removed as an orphan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from icecore.engine.common.ids import now_ms
from icecore.engine.errors import CorruptFileError, StorageError, ValidationError
from icecore.engine.events.event import SCHEMA_VERSION, TABLE_CREATED, Event, Provenance, canonical
from icecore.engine.events.files_of_others import MANIFEST, MANIFEST_LIST, GivenFile
from icecore.engine.log.read_models import ReadModels
from icecore.engine.metadata.fold import TableState, fold
from icecore.engine.repository.manifest_lists import ManifestLists, inline_manifest
from icecore.engine.spec.content_file import ManifestFile
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.file_io import Storage

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.commit.decide import Decision
    from icecore.engine.commit.given_manifests import GivenCheck
    from icecore.engine.log.store import EventStore
    from icecore.engine.repository.location_check import LocationCheck
    from icecore.engine.spec.metadata import TableMetadata


@define
class GivenFiles:
    """The reading and checking of the files of clients' commits."""

    store: EventStore
    models: ReadModels
    lists: ManifestLists
    storage_of: Callable[[TableState], Storage]
    locations: Callable[[], LocationCheck]

    def of_decision(self, state: TableState, decision: Decision) -> tuple[GivenFile, ...]:
        """The new files of a decision's snapshots that a client made by itself; none for our own snapshots.

        Raises CommitConflictError for a file that was removed as an orphan.
        Raises ValidationError where a file is missing, can't be read, or does not fit the table, CommitFailedError
        where it fitted before another commit; see `commit/given_manifests.py`. Raises ForbiddenLocationError for a list
        or manifest that is where the rules don't allow it, as in a place of another table.
        """
        if decision.content is not None:
            self.check_added(state, decision.content)
        snapshots = decision.given
        if not snapshots or decision.metadata is None:
            return ()
        return self._look(state, state.metadata, decision.metadata, snapshots, decision.moved_orders)

    def of_new_table(self, stream: str, kind: str, payload: Mapping[str, Any]) -> tuple[GivenFile, ...]:
        """The files of the snapshots that a new table comes with.

        Raises as `of_decision` for one that is created; what is registered is taken as it lies there.
        """
        event = Event(
            0, "", stream, 1, kind, SCHEMA_VERSION, "", now_ms(), Provenance(), canonical(payload), None, "", ""
        )
        first = fold(None, [event])
        assert first is not None, "a fold of one event has a state"
        return self._of_creation(first, payload) if kind == TABLE_CREATED else self._of_registration(first)

    def _of_registration(self, first: TableState) -> tuple[GivenFile, ...]:
        from icecore.engine.foreign.foreign_manifests import files_of_registered

        rules = self.locations().rules
        ruled = evolve(self.storage_of(first), check_read=lambda location: rules.check_inside(location, "file"))
        return files_of_registered(first.metadata, ruled)

    def _of_creation(self, first: TableState, payload: Mapping[str, Any]) -> tuple[GivenFile, ...]:
        from icecore.engine.commit.given_updates import check_given_updates
        from icecore.engine.spec.updates.table_update import read_table_updates

        check_given_updates(None, first.metadata, tuple(read_table_updates(payload["updates"])))
        return self._look(first, None, first.metadata, first.metadata.snapshots)

    def check_added(self, state: TableState, entries: pa.Table) -> None:
        """Raises CommitConflictError where a file that a commit adds, one of ours too, was removed as an orphan."""
        from icecore.engine.repository.removed_orphans import check_none_removed

        check_none_removed(self.store, state, self.storage_of(state), entries)

    def _look(
        self,
        state: TableState,
        before: TableMetadata | None,
        after: TableMetadata,
        snapshots: Sequence[Snapshot],
        moved_orders: Mapping[int, int] = MappingProxyType({}),
    ) -> tuple[GivenFile, ...]:
        looking = _Looking(self, state, before, after, moved_orders)
        for snapshot in snapshots:
            looking.look(snapshot)
        return tuple(looking.files.values())


@define
class _Looking:
    """The look at the files of one commit."""

    given: GivenFiles
    state: TableState
    before: TableMetadata | None
    after: TableMetadata
    moved_orders: Mapping[int, int]
    files: dict[str, GivenFile] = field(factory=dict)
    _listed: dict[int, Mapping[str, ManifestFile]] = field(factory=dict)

    def look(self, snapshot: Snapshot) -> None:
        """Reads and checks the files of one snapshot."""
        from icecore.engine.commit.given_manifests import GivenCheck

        check = GivenCheck(self.after, snapshot, self.moved_orders)
        known = self._parent_list(snapshot)
        manifests = self._list(check, known)
        for manifest in manifests:
            same = known.get(manifest.manifest_path) or self._elsewhere(manifest.manifest_path)
            if same is not None:
                check.check_same(manifest, same)
            elif manifest.key_metadata is None:
                self._look_into(check, manifest)
            else:
                self._check_place(manifest.manifest_path)
        self._listed[snapshot.snapshot_id] = {m.manifest_path: m for m in manifests}

    def _parent_list(self, snapshot: Snapshot) -> Mapping[str, ManifestFile]:
        parent_id = snapshot.parent_snapshot_id
        if parent_id is None or parent_id in self._listed:
            return self._listed.get(parent_id, {}) if parent_id is not None else {}
        parent = None if self.before is None else self.before.snapshot_by_id(parent_id)
        try:
            listed = () if parent is None else self.given.lists.list_manifests(self.state, parent)
        except (StorageError, CorruptFileError):
            # Then all that the new list names is read.
            listed = ()
        return {m.manifest.manifest_path: m.manifest for m in listed}

    def _elsewhere(self, path: str) -> ManifestFile | None:
        """The record of a manifest that another snapshot of this commit or of the table has."""
        for listed in self._listed.values():
            if path in listed:
                return listed[path]
        found = self.given.models.manifest(self.state.stream, path)
        return None if found is None else found.manifest

    def _list(self, check: GivenCheck, known: Mapping[str, ManifestFile]) -> tuple[ManifestFile, ...]:
        from icecore.engine.formats.avro_blocks import read_header
        from icecore.engine.formats.manifest_list_avro import read_manifest_list

        location = check.snapshot.manifest_list
        if location is None:
            return self._inline(check, known)
        data = self._read(check, location)
        try:
            header, manifests = read_header(data, location), read_manifest_list(data, location)
        except CorruptFileError as e:
            raise check.refusal(location, str(e)) from e
        check.check_list(header, manifests)
        self.files[location] = GivenFile(location, MANIFEST_LIST, data)
        return manifests

    def _inline(self, check: GivenCheck, known: Mapping[str, ManifestFile]) -> tuple[ManifestFile, ...]:
        """The manifests that a snapshot of version 1 names without a list."""
        snapshot = check.snapshot
        if self.after.format_version > 1 or snapshot.manifests is None:
            raise ValidationError(f"snapshot {snapshot.snapshot_id} can't be taken: it has no manifest list")
        out = []
        for path in snapshot.manifests:
            if path not in known and self._elsewhere(path) is None:
                self._check_place(path)
            try:
                storage = self.given.storage_of(self.state)
                out.append(known.get(path) or inline_manifest(path, snapshot, storage))
            except (StorageError, CorruptFileError) as e:
                raise check.refusal(path, str(e)) from e
            check.check_record(out[-1])
        return tuple(out)

    def _look_into(self, check: GivenCheck, manifest: ManifestFile) -> None:
        from icecore.engine.formats.avro_blocks import read_header
        from icecore.projections.entries.decode_entries import decode_manifest

        path, spec_id = manifest.manifest_path, manifest.partition_spec_id
        data = self._read(check, path)
        if manifest.manifest_length > 0 and manifest.manifest_length != len(data):
            raise check.refusal(path, f"the list says {manifest.manifest_length} bytes, it has {len(data)}")
        try:
            header = read_header(data, path)
            # As it is read later: by the spec in the header, else by the table's after this commit.
            entries = decode_manifest(data, where=path, spec_id=spec_id, metadata_spec=self.after.specs.get(spec_id))
        except CorruptFileError as e:
            raise check.refusal(path, str(e)) from e
        check.check_header(header, manifest)
        check.check_entries(manifest, entries)
        self.given.check_added(self.state, entries)
        self.files[path] = GivenFile(path, MANIFEST, data)

    def _read(self, check: GivenCheck, location: str) -> bytes:
        self._check_place(location)
        try:
            return self.given.storage_of(self.state).read_bytes(location)
        except StorageError as e:
            raise check.refusal(location, str(e)) from e

    def _check_place(self, location: str) -> None:
        resolved = self.given.storage_of(self.state).resolve(location)
        self.given.locations().check_file(self.state, resolved, "file")
