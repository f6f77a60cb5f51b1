"""`table.inspect`: Iceberg's sixteen metadata tables of one table, as Arrow.

Names of methods, parameters and columns are PyIceberg's; `all_entries` and `position_deletes`, which it does not have,
are Iceberg Java's. Made from entries in bulk: no row is looked at in Python but those of manifests and snapshots.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from attrs import frozen

from icecore.engine.common.text import short_repr
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.bind import bind
from icecore.engine.expression.sql.parse import FilterLike, parse_filter
from icecore.engine.formats.entry_arrow import METRICS
from icecore.engine.metadata.fold import TableState
from icecore.projections.inspect import manifest_rows, partitions, position_delete_rows, snapshot_rows
from icecore.projections.inspect.entry_batches import (
    ALL_CONTENTS,
    DATA,
    DELETES,
    POSITION_DELETES,
    TableEntries,
    faults_told,
)
from icecore.projections.inspect.file_rows_of_entries import EntryColumns
from icecore.projections.plan.planner import Planner


@frozen(eq=False)
class InspectTable:
    """The metadata tables of a table as it was loaded. A table without snapshots has none of their rows.

    Methods that read manifests raise StorageError or CorruptFileError where one can't be read, those that take a
    `snapshot_id` NoSuchSnapshotError, and those of files ValidationError where a partition spec has an unknown
    transform.
    """

    __repr__ = short_repr

    _planner: Planner
    _state: TableState

    # Of the metadata

    def history(self) -> pa.Table:
        """Each time that a snapshot became current: see `snapshot_rows.HISTORY`."""
        return snapshot_rows.history(self._state.metadata)

    def snapshots(self) -> pa.Table:
        """The snapshots: see `snapshot_rows.SNAPSHOTS_OF_TABLE`."""
        return snapshot_rows.snapshots(self._state.metadata)

    def refs(self) -> pa.Table:
        """The branches and tags: see `snapshot_rows.REFS_OF_TABLE`."""
        return snapshot_rows.refs(self._state.metadata)

    def metadata_log_entries(self) -> pa.Table:
        """The metadata files, the current one last: see `snapshot_rows.METADATA_LOG_ENTRIES`."""
        return snapshot_rows.metadata_log_entries(self._state)

    # Of manifest lists

    def manifests(self, snapshot_id: int | None = None) -> pa.Table:
        """The manifests of a snapshot, by default the current one: see `manifest_rows.MANIFESTS_OF_TABLE`."""
        return manifest_rows.manifests(self._planner.repository, self._state, self._all.snapshot(snapshot_id))

    def all_manifests(self) -> pa.Table:
        """The manifests of each snapshot, again for each that lists them: see `manifest_rows.ALL_MANIFESTS`."""
        return manifest_rows.all_manifests(self._planner.repository, self._state)

    # Of manifests

    def entries(self, snapshot_id: int | None = None) -> pa.Table:
        """The manifest entries of a snapshot, by default the current one, deleted ones too: see `EntryColumns`."""
        return self._entries(self._all.listed(snapshot_id))

    def all_entries(self) -> pa.Table:
        """The entries of the manifests of all snapshots, each manifest once."""
        return self._entries(self._all.all_listed())

    def files(self, snapshot_id: int | None = None) -> pa.Table:
        """The live data and delete files of a snapshot, by default the current one: see `EntryColumns`."""
        return self._files(self._all.listed(snapshot_id))

    def data_files(self, snapshot_id: int | None = None) -> pa.Table:
        """The data files among `files`."""
        return self._files(self._all.listed(snapshot_id), DATA)

    def delete_files(self, snapshot_id: int | None = None) -> pa.Table:
        """The delete files among `files`."""
        return self._files(self._all.listed(snapshot_id), DELETES)

    def all_files(self) -> pa.Table:
        """The live files of the manifests of all snapshots, each manifest once."""
        return self._files(self._all.all_listed())

    def all_data_files(self) -> pa.Table:
        """The data files among `all_files`."""
        return self._files(self._all.all_listed(), DATA)

    def all_delete_files(self) -> pa.Table:
        """The delete files among `all_files`."""
        return self._files(self._all.all_listed(), DELETES)

    def partitions(
        self,
        snapshot_id: int | None = None,
        row_filter: FilterLike = None,
        case_sensitive: bool = True,
    ) -> pa.Table:
        """The partitions of a snapshot, by default the current one, with their counts: see `partitions.partitions`.

        With a filter those that a scan by it would read a data file of. Raises ExpressionError too.
        """
        metadata, snapshot = self._state.metadata, self._all.snapshot(snapshot_id)
        schema = metadata.schema()
        if snapshot_id is not None and snapshot is not None and snapshot.schema_id is not None:
            schema = metadata.schema_by_id(snapshot.schema_id)
        bound = bind(parse_filter(row_filter), schema, case_sensitive)
        return partitions.partitions(self._planner, self._state, snapshot, bound, schema)

    def position_deletes(self, snapshot_id: int | None = None) -> pa.Table:
        """The positions that live delete files of a snapshot delete: see `position_deletes_schema`.

        Reads the delete files. Raises MissingFileError too.
        """
        columns, metadata = EntryColumns.of(self._state.metadata), self._state.metadata
        storage = self._planner.repository.storage_of(self._state)
        found = self._all.live(self._all.listed(snapshot_id), POSITION_DELETES, frozenset(METRICS))
        with faults_told(self._state):
            return position_delete_rows.position_deletes(columns, found, metadata, storage)

    @property
    def _all(self) -> TableEntries:
        return TableEntries(self._planner, self._state)

    def _files(self, listed: Sequence[ListedManifest], contents: frozenset[int] = ALL_CONTENTS) -> pa.Table:
        columns = EntryColumns.of(self._state.metadata)
        return self._all.table("files", columns.files, columns.file_rows, listed, contents)

    def _entries(self, listed: Sequence[ListedManifest]) -> pa.Table:
        columns = EntryColumns.of(self._state.metadata)
        return self._all.table("entries", columns.entries, columns.entry_rows, listed, None)
