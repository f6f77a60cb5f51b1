"""The live files of a snapshot, as reverts look for those that went or came back since."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from icecore.engine.common.lazy_property import lazy_property
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.revert_metadata import Kinds
from icecore.engine.spec.content_file import DataFileContent, ManifestContent
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.spec.updates.table_update import AddSnapshot, RemoveSnapshotRef, SetSnapshotRef
from icecore.projections.entries.carried_entries import file_keys

ROW_UPDATES: Kinds = (AddSnapshot, SetSnapshotRef, RemoveSnapshotRef)
_COLUMNS = (
    "sequence_number",
    "content",
    "file_path",
    "spec_id",
    "partition",
    "referenced_data_file",
    "content_offset",
)


@frozen
class BranchChange:
    """The net change of commits to one branch: canonical entries of the files that they added and removed.

    `operation` is that of their snapshots, None where they have several.
    """

    branch: str
    operation: str | None
    added: pa.Table = field(repr=False)
    removed: pa.Table = field(repr=False)


@frozen(eq=False, slots=False)
class LiveFiles:
    """The live data and delete files of a snapshot, or of some of its manifests, read when they are asked for.

    They are canonical entries with inherited values filled in, in the columns needed here. Reading them raises
    StorageError, CorruptFileError.
    """

    repository: Repository
    state: TableState
    manifests: Sequence[ListedManifest]

    @classmethod
    def of(
        cls, repository: Repository, state: TableState, snapshot: Snapshot | None, without: Collection[str] = ()
    ) -> LiveFiles:
        """The files of a snapshot, none without one; those in the manifests `without`, by their paths, are left out."""
        listed = repository.list_manifests(state, snapshot) if snapshot else ()
        return cls(repository, state, [m for m in listed if m.manifest.manifest_path not in without])

    @lazy_property
    def data(self) -> pa.Table:
        """The data files."""
        return self._of_content(ManifestContent.DATA)

    @lazy_property
    def deletes(self) -> pa.Table:
        """The delete files and deletion vectors."""
        return self._of_content(ManifestContent.DELETES)

    @classmethod
    def of_branch(cls, repository: Repository, state: TableState, branch: str) -> LiveFiles:
        """The files of a branch, none where there is none."""
        ref = state.metadata.refs.get(branch)
        return cls.of(repository, state, None if ref is None else state.metadata.find_snapshot(ref.snapshot_id))

    @property
    def manifest_paths(self) -> set[str]:
        """The paths of the manifests."""
        return {m.manifest.manifest_path for m in self.manifests}

    def missing(self, keys: pa.ChunkedArray) -> list[str]:
        """The keys, as `file_keys` gives them, of files that are not live."""
        found: list[str] = keys.filter(pc.invert(pc.is_in(keys, self._keys))).to_pylist()
        return found

    def present(self, keys: pa.ChunkedArray) -> list[str]:
        """The keys of files that are live."""
        found: list[str] = keys.filter(pc.is_in(keys, self._keys)).to_pylist()
        return found

    @lazy_property
    def _keys(self) -> pa.Array:
        return file_keys(pa.concat_tables([self.data, self.deletes])).combine_chunks()

    def _of_content(self, content: ManifestContent) -> pa.Table:
        tables = [
            self.repository.lists.live_entries(self.state, listed).select(_COLUMNS)
            for listed in self.manifests
            if listed.manifest.content is content and listed.manifest.has_live_files
        ]
        return pa.concat_tables([ENTRY_SCHEMA.empty_table().select(_COLUMNS), *tables])


def data_of(entries: pa.Table) -> pa.Table:
    """The entries of data files."""
    return entries.filter(pc.equal(entries["content"], int(DataFileContent.DATA)))


def deletes_of(entries: pa.Table) -> pa.Table:
    """The entries of delete files and deletion vectors."""
    return entries.filter(pc.not_equal(entries["content"], int(DataFileContent.DATA)))
