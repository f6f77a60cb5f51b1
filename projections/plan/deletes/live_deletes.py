"""The live delete files of a snapshot, and which of a plan's data files each applies to.

Spec: Scan Planning (SP2 to SP7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, frozen

from icecore.engine.errors import CorruptFileError
from icecore.engine.formats.entry_arrow import path_keys
from icecore.engine.queries import duck
from icecore.engine.spec.metadata import TableMetadata
from icecore.projections.plan.deletes.delete_bounds import PATH_BOUNDS
from icecore.projections.plan.deletes.delete_kinds import DeleteKinds
from icecore.projections.plan.deletes.delete_pairs import DeletePairs, numbered
from icecore.projections.plan.deletes.lost_values import losable_fields
from icecore.projections.plan.deletes.pair_statement import live_deletes, near_some, pairs_between, unpartitioned_ids
from icecore.projections.segments.manifest_selection import ManifestSelection

ENTRIES = "delete_entries"
PLANNED = "planned_data"
OF_DATA = ("file_path", "record_count", "sequence_number", "partition_key")
OF_DELETES = (
    "ordinal",
    "status",
    "content",
    "file_format",
    "spec_id",
    "record_count",
    "sequence_number",
    "partition_key",
    "referenced_data_file",
    "equality_ids",
)
OF_FILES = (
    "file_path",
    "file_format",
    "spec_id",
    "partition",
    "partition_key",
    "record_count",
    "file_size_in_bytes",
    "sequence_number",
    "file_sequence_number",
    "snapshot_id",
    "content",
    "sort_order_id",
    "split_offsets",
    "key_metadata",
    "equality_ids",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
FEW_FILES = 1_000
"""The most data files for which delete files are chosen by partition and name before pairing, which costs less."""
KEPT_DELETES = 16_384
"""The most delete files whose columns that plans look at are kept from plan to plan."""


@define(eq=False)
class LiveDeletes:
    """The live delete files of a scope, `deletes`, for plans of any filter.

    `columns` are the columns of bounds and counts, with their DuckDB types: those that data files need too, and the
    bounds on paths. `paths` has the latter alone.
    """

    deletes: ManifestSelection
    kinds: DeleteKinds
    columns: Mapping[str, str]
    paths: Mapping[str, str]
    _kept: DeleteEntries | None = None

    @classmethod
    def of(
        cls, connection: duckdb.DuckDBPyConnection, deletes: ManifestSelection, data: ManifestSelection
    ) -> LiveDeletes:
        """The delete files of `deletes`, for the data files of another scope."""
        kinds = DeleteKinds.of_query(connection, deletes.relation(OF_DELETES))
        known = {**deletes.columns(), **data.columns()}
        columns = {c: known[c] for c in kinds.metrics_in(known)}
        paths = {c: known[c] for c, _ in PATH_BOUNDS if c in known}
        return cls(deletes, kinds, {**columns, **paths}, paths)

    def metrics(self) -> list[str]:
        """The columns of metrics that data files need to be paired with these."""
        return self.kinds.metrics_in(self.columns)

    def entries_for(
        self, connection: duckdb.DuckDBPyConnection, files: pa.Table, metadata: TableMetadata
    ) -> DeleteEntries:
        """The delete files to pair with planned data files: all that apply to any, and perhaps others.

        They are all live ones where these are few, and are kept then, or where the near ones are not known.
        """
        if self.kinds.count > KEPT_DELETES:
            if not _are_near_ones_known(files, metadata):
                return self._read(connection)
            with duck.registered(connection, PLANNED, files.select(OF_DATA)):
                near = near_some(PLANNED)
                return self._read(connection, near, duck.used(near, {"unpartitioned": unpartitioned_ids(metadata)}))
        if self._kept is None:
            self._kept = self._read(connection)
        return self._kept

    def _read(
        self, connection: duckdb.DuckDBPyConnection, near: str = "", parameters: Mapping[str, Any] | None = None
    ) -> DeleteEntries:
        """The delete files in the order of the scope's manifests."""
        names = dict.fromkeys((*OF_DELETES, *OF_FILES, *self.columns))
        statement = live_deletes(self.deletes.relation(names), self.paths, near)
        found = self.deletes.in_list_order(duck.arrow(connection, statement, parameters or {}))
        seen = [n for n in found.column_names if n in OF_DELETES or n not in ("m", *OF_FILES)]
        return DeleteEntries.of(self.kinds, found.select(OF_FILES), numbered(found.select(seen)), self.columns)


def _are_near_ones_known(files: pa.Table, metadata: TableMetadata) -> bool:
    """Whether delete files are chosen by partition and name: for few data files, if no partition values are lost."""
    return files.num_rows <= FEW_FILES and not losable_fields(metadata)


@frozen(eq=False)
class DeleteEntries:
    """Some live delete files: `files` has their columns in a plan, `entries` those for pairing.

    `number` of the latter is the row in both. `columns` are those of bounds and counts, with their DuckDB types;
    `named` has the `path_keys` of the data files that vectors and position deletes name.
    """

    kinds: DeleteKinds
    files: pa.Table
    entries: pa.Table
    columns: Mapping[str, str]
    named: pa.ChunkedArray

    @classmethod
    def of(cls, kinds: DeleteKinds, files: pa.Table, entries: pa.Table, columns: Mapping[str, str]) -> DeleteEntries:
        """The delete files, with the keys of the data files that they name."""
        path, by_position = entries["referenced_data_file"], pc.equal(entries["content"], 1)
        return cls(kinds, files, entries, columns, path_keys(pc.if_else(by_position, path, None)))

    def pairs(self, connection: duckdb.DuckDBPyConnection, files: pa.Table, metadata: TableMetadata) -> DeletePairs:
        """The pairs of rows of `files`, planned data files, and rows of the delete files that apply to them.

        Raises CorruptFileError where a delete file names a data file of another partition (SP7).
        """
        entries, kinds = self.entries, self.kinds
        if _are_near_ones_known(files, metadata):
            entries = self.near(files, metadata)
            kinds = kinds.among(entries)
        if not entries.num_rows:
            return DeletePairs.none()
        data = numbered(files.select([*OF_DATA, *self.kinds.metrics_in(self.columns)]))
        with (
            duck.registered(connection, PLANNED, data),
            duck.registered(connection, ENTRIES, entries),
            pairs_between(connection, PLANNED, ENTRIES, self.columns, kinds, metadata) as (sql, parameters),
        ):
            found = duck.arrow(connection, sql, parameters)
        wrong = found.filter(pc.invert(found["same_partition"])).slice(0, 1)
        if wrong.num_rows:
            delete, file = (t["file_path"][wrong[c][0].as_py()] for t, c in ((self.files, "delete"), (files, "file")))
            raise CorruptFileError(f"{delete} deletes rows of {file}, which is in another partition (SP7)")
        return DeletePairs.from_arrow(found)

    def near(self, files: pa.Table, metadata: TableMetadata) -> pa.Table:
        """The `entries` that can apply to some data files, by the data file that they name or by their partition.

        Partitions must have lost no values.
        """
        near = pc.is_in(self.entries["partition_key"], files["partition_key"].unique())
        if self.kinds.equality:
            unpartitioned = pa.array(unpartitioned_ids(metadata), self.entries["spec_id"].type)
            everywhere = pc.and_(pc.equal(self.entries["content"], 2), pc.is_in(self.entries["spec_id"], unpartitioned))
            near = pc.or_(near, everywhere)
        if self.kinds.named or self.kinds.vectors:
            is_named = pc.is_in(self.named, path_keys(files["file_path"]).unique())
            near = pc.if_else(pc.is_valid(self.named), is_named, near)
        return self.entries.filter(near)
