"""The changes of a table's files by commits since a base snapshot, found in SQL over the commits' entries.

One answer is a data or delete file with the snapshot that added or removed it. What may matter to a filter is decided
as in a plan: by partition values and column metrics, so that too much is found rather than too little (C5).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, frozen

from icecore.engine.errors import CommitConflictError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.sql.fragment import BoundParameters
from icecore.engine.formats.entry_arrow import decode_partition, path_keys
from icecore.engine.metadata.fold import TableState
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.repository.ancestors import parent_id
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ManifestContent, ManifestEntryStatus
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.projections.plan.deletes.delete_kinds import DeleteKinds
from icecore.projections.plan.deletes.lost_values import telling_specs
from icecore.projections.plan.deletes.pair_statement import live_deletes, pairs_between, path_key
from icecore.projections.plan.file_queries import partition_columns
from icecore.projections.plan.planner import Planner
from icecore.projections.plan.predicate import plan_predicate
from icecore.projections.segments.entry_table import ScannedEntries

CONFLICTS = "plan/conflicts.sql"


@frozen
class ChangedFile:
    """A file that a snapshot since the base added or removed; `spec_id` and `partition` are its place."""

    file_path: str
    snapshot_id: int
    spec_id: int
    partition: tuple[Any, ...]


def snapshots_since(
    repository: Repository, state: TableState, base_snapshot_id: int | None, head: Snapshot | None
) -> tuple[Snapshot, ...]:
    """The snapshots of a branch after the base, newest first; all of them for the base None, that of an empty branch.

    Raises CommitConflictError where the branch does not build on the base any more, or its history was expired.
    """
    out: list[Snapshot] = []
    for snapshot in state.metadata.ancestors(head.snapshot_id if head else None):
        if snapshot.snapshot_id == base_snapshot_id:
            return tuple(out)
        out.append(snapshot)
    is_cut = bool(out) and parent_id(repository, state, out[-1]) is not None
    if base_snapshot_id is None and not is_cut:
        return tuple(out)
    what = "the first snapshot" if base_snapshot_id is None else f"snapshot {base_snapshot_id}"
    raise CommitConflictError(
        f"what was committed since {what} can't be told: "
        f"{'its history was expired' if is_cut else 'the branch was moved elsewhere'}"
    )


@define
class ChangesSince:
    """The changes of a branch between a base and its head."""

    planner: Planner
    state: TableState
    head: Snapshot | None
    snapshots: tuple[Snapshot, ...]
    _manifests: tuple[ListedManifest, ...] | None = None

    @classmethod
    def of(
        cls, planner: Planner, state: TableState, base_snapshot_id: int | None, head: Snapshot | None
    ) -> ChangesSince:
        """The changes since a base. Raises CommitConflictError as `snapshots_since` does."""
        return cls(planner, state, head, snapshots_since(planner.repository, state, base_snapshot_id, head))

    def added_data(self, bound: Expression, schema: Schema) -> list[ChangedFile]:
        """Added data files that may have rows of the filter, without rewritten ones, whose rows were there before."""
        return self._changed_data(ManifestEntryStatus.ADDED, bound, schema)

    def removed_data(self, bound: Expression, schema: Schema) -> list[ChangedFile]:
        """Removed data files that may have had rows of the filter, without those that were rewritten."""
        return self._changed_data(ManifestEntryStatus.DELETED, bound, schema)

    def changed_deletes(self, bound: Expression, schema: Schema, base: Collection[str]) -> list[ChangedFile]:
        """Added or removed delete files that may concern rows of the filter.

        `base` are the data files that may have rows of it at the base: a delete file that names any other one is left
        out.
        """

        def run(connection: duckdb.DuckDBPyConnection, table: ScannedEntries) -> pa.Table:
            # Metrics of delete files say nothing of the other columns of the rows that they delete.
            columns = partition_columns(table.columns)
            predicate = plan_predicate(bound, telling_specs(self.state.metadata), schema, columns)
            parameters = BoundParameters()
            where = parameters.write(predicate.where)
            sql = query(CONFLICTS, "changed_deletes", entries=table.name, where=where)
            return duck.arrow(connection, sql, parameters.values)

        found = self._ask(run, self._manifests_of(ManifestContent.DELETES))
        if not found.num_rows:
            return []
        named = found["referenced_data_file"]
        known = path_keys(pa.array(base, pa.string()))
        return self._files(found.filter(pc.or_(named.is_null(), pc.is_in(path_keys(named), known))))

    def missing_data(self, paths: Collection[str]) -> list[ChangedFile]:
        """The changes that removed one of the data files, rewrites too."""
        return self._of_files("missing_data", paths, ManifestContent.DATA)

    def concurrent_vectors(self, paths: Collection[str]) -> list[ChangedFile]:
        """The changes that gave one of the data files a deletion vector, rewrites too."""
        return self._of_files(
            "concurrent_vectors",
            paths,
            ManifestContent.DELETES,
            named_key=path_key("e.referenced_data_file"),
            key_of_interest=path_key("file_path"),
        )

    def deletes_for(self, paths: Collection[str]) -> list[ChangedFile]:
        """The data files among these whose delete files changed, by the rules of scan planning, and by whom."""
        return self._files(self._deletes_for(paths))

    def deletes_around(self, number: int, paths: Collection[str]) -> tuple[list[ChangedFile], list[ChangedFile]]:
        """The changes that `deletes_for` gives without equality deletes after a sequence number, and those by them."""
        found = self._deletes_for(paths, str(number))
        if not found.num_rows:
            return [], []
        is_later = found["is_later"]
        return self._files(found.filter(pc.invert(is_later))), self._files(found.filter(is_later))

    def _deletes_for(self, paths: Collection[str], number: str = "NULL") -> pa.Table:
        if not paths or not self._manifests_of(ManifestContent.DELETES):
            return pa.table({"file_path": pa.array([], pa.string())})
        assert self.head is not None, "there are manifests"
        listed = self.planner.repository.list_manifests(self.state, self.head)
        data = [m for m in listed if m.manifest.content is ManifestContent.DATA and m.manifest.has_live_files]

        def run(connection: duckdb.DuckDBPyConnection, table: ScannedEntries) -> pa.Table:
            register(connection, "files_of_interest", pa.table({"file_path": pa.array(list(paths), pa.string())}))
            sql = query(CONFLICTS, "deletes_and_their_files", entries=table.name)
            duck.rows(connection, sql)
            kinds = DeleteKinds.of_query(connection, "deletes_and_their_files")
            data = f"({query(CONFLICTS, 'files_with_deletes')})"
            deletes = live_deletes("deletes_and_their_files", table.columns)
            metadata = self.state.metadata
            with pairs_between(connection, data, deletes, table.columns, kinds, metadata) as (pairs, parameters):
                sql = query(CONFLICTS, "deletes_for_files", pairs=pairs, number=number)
                return duck.arrow(connection, sql, parameters)

        return self._ask(run, [*data, *self._manifests_of(ManifestContent.DELETES)])

    def _changed_data(self, status: ManifestEntryStatus, bound: Expression, schema: Schema) -> list[ChangedFile]:
        def run(connection: duckdb.DuckDBPyConnection, table: ScannedEntries) -> pa.Table:
            predicate = plan_predicate(bound, telling_specs(self.state.metadata), schema, table.columns)
            parameters = BoundParameters()
            where = parameters.write(predicate.where)
            sql = query(CONFLICTS, "changed_data", entries=table.name, status=str(int(status)), where=where)
            return duck.arrow(connection, sql, parameters.values)

        return self._files(self._ask(run, self._manifests_of(ManifestContent.DATA)))

    def _of_files(self, name: str, paths: Collection[str], content: ManifestContent, **parts: str) -> list[ChangedFile]:
        if not paths:
            return []

        def run(connection: duckdb.DuckDBPyConnection, table: ScannedEntries) -> pa.Table:
            register(connection, "files_of_interest", pa.table({"file_path": pa.array(list(paths), pa.string())}))
            return duck.arrow(connection, query(CONFLICTS, name, entries=table.name, **parts))

        return self._files(self._ask(run, self._manifests_of(content)))

    def _ask(self, run: Any, manifests: Sequence[ListedManifest]) -> pa.Table:
        if not manifests:
            return pa.table({"file_path": pa.array([], pa.string())})

        def with_snapshots(connection: duckdb.DuckDBPyConnection, table: ScannedEntries) -> pa.Table:
            ids = pa.array([s.snapshot_id for s in self.snapshots], pa.int64())
            replaces = pa.array([s.operation == Operation.REPLACE for s in self.snapshots], pa.bool_())
            register(connection, "new_snapshots", pa.table({"snapshot_id": ids, "replaces": replaces}))
            found: pa.Table = run(connection, table)
            return found

        return self.planner.over_manifests(self.state, manifests, with_snapshots)

    def _manifests_of(self, content: ManifestContent) -> list[ListedManifest]:
        """The manifests that the snapshots made themselves: no other has entries of theirs."""
        if self._manifests is None:
            self._manifests = tuple(self._made())
        return [m for m in self._manifests if m.manifest.content is content]

    def _made(self) -> Iterator[ListedManifest]:
        seen: set[str] = set()
        for snapshot in self.snapshots:
            for listed in self.planner.repository.list_manifests(self.state, snapshot):
                path, by = listed.manifest.manifest_path, listed.manifest.added_snapshot_id
                if by in (snapshot.snapshot_id, None) and path not in seen:
                    seen.add(path)
                    yield listed

    def _files(self, rows: pa.Table) -> list[ChangedFile]:
        return [self._file(r) for r in rows.to_pylist()]

    def _file(self, row: dict[str, Any]) -> ChangedFile:
        metadata = self.state.metadata
        spec = metadata.specs[row["spec_id"]]
        partition = decode_partition(spec, metadata.all_fields, row["partition"])
        return ChangedFile(row["file_path"], row["snapshot_id"], spec.spec_id, partition)


def register(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> None:
    """Makes a temporary table of conflicts.sql from rows."""
    connection.register(f"{name}_arrow", rows)
    try:
        duck.rows(connection, query(CONFLICTS, name))
    finally:
        connection.unregister(f"{name}_arrow")
