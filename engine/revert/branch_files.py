"""The live files of a snapshot, as reverts look for those that went or came back since."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.revert.revert_metadata import Kinds
from icecore.engine.spec.content_file import DataFileContent
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


@frozen(eq=False)
class LiveFiles:
    """The live data and delete files of a snapshot: canonical entries, all inherited, of the columns needed here."""

    entries: pa.Table

    @classmethod
    def of(cls, repository: Repository, state: TableState, snapshot: Snapshot | None) -> LiveFiles:
        """The files of a snapshot; none without one. Raises StorageError, CorruptFileError."""
        storage = repository.storage_of(state)
        tables = [
            repository.entries.live(state.stream, listed, storage).select(_COLUMNS)
            for listed in (repository.list_manifests(state, snapshot) if snapshot else ())
            if listed.manifest.has_live_files
        ]
        return cls(pa.concat_tables(tables) if tables else EMPTY)

    @property
    def data(self) -> pa.Table:
        """The data files."""
        return data_of(self.entries)

    @property
    def deletes(self) -> pa.Table:
        """The delete files and deletion vectors."""
        return deletes_of(self.entries)

    def missing(self, keys: pa.ChunkedArray) -> list[str]:
        """The keys, as `file_keys` gives them, of files that are not live."""
        found: list[str] = keys.filter(pc.invert(pc.is_in(keys, self._keys))).to_pylist()
        return found

    def present(self, keys: pa.ChunkedArray) -> list[str]:
        """The keys of files that are live."""
        found: list[str] = keys.filter(pc.is_in(keys, self._keys)).to_pylist()
        return found

    @property
    def _keys(self) -> pa.Array:
        return file_keys(self.entries).combine_chunks()


def data_of(entries: pa.Table) -> pa.Table:
    """The entries of data files."""
    return entries.filter(pc.equal(entries["content"], int(DataFileContent.DATA)))


def deletes_of(entries: pa.Table) -> pa.Table:
    """The entries of delete files and deletion vectors."""
    return entries.filter(pc.not_equal(entries["content"], int(DataFileContent.DATA)))


def _empty() -> pa.Table:
    from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA

    return ENTRY_SCHEMA.empty_table().select(_COLUMNS)


EMPTY = _empty()
