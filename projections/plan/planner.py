"""The planner of scans, in SQL: from a snapshot and a filter to the files, their deletes and residuals.

Spec: Scan Planning (SP1 to SP8). A plan never leaves a file out that may hold a row of the filter.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Sequence
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

from icecore.engine.common.identity_cache import IdentityCache
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import IcecoreError, StorageError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.sql.parse import FilterLike, parse_filter
from icecore.engine.formats import arrays
from icecore.engine.log.read_models import dotted
from icecore.engine.metadata.fold import TableState
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.byte_cache import ByteCache
from icecore.projections.plan.delete_pairs import DeletePairs
from icecore.projections.plan.file_queries import columns_of_files, count_files, data_files, partition_columns
from icecore.projections.plan.lost_values import telling_specs
from icecore.projections.plan.manifest_pruning import matching_manifests
from icecore.projections.plan.plan_deletes import DeleteEntries
from icecore.projections.plan.planned_files import EMPTY, records
from icecore.projections.plan.planned_files import PlanCounts as PlanCounts
from icecore.projections.plan.planned_files import PlannedFiles as PlannedFiles
from icecore.projections.plan.planned_manifests import PlannedManifests
from icecore.projections.plan.predicate import RECORD_COUNT, plan_predicate
from icecore.projections.segments.entry_table import EntryTable, ScannedEntries
from icecore.projections.segments.entry_tables import EntryTables
from icecore.projections.segments.manifest_selection import ManifestSelection, StrayEntriesError

KEPT_DELETES = 16_384
"""Of so many delete files at most what plans look at is kept from plan to plan."""
Found = TypeVar("Found")
KEPT_LISTS = 16
KEPT_FILES_BYTES = 64 * 2**20
BYTES_OF_METADATA = 32 * 2**10
"""What the live files of snapshots that were asked for last may take, and what the metadata held with each counts."""
FORGOTTEN = "forgotten/"
"""Before a stream, the key in `warehouse` of the position at which bounds of its files were forgotten last."""

UNTRUSTED = (duckdb.Error, pa.ArrowException, LookupError, StrayEntriesError)
"""What loaded entries that are not as they must be end in; what the manifests say is read again then."""
FAULTS = (*UNTRUSTED, ValueError, TypeError, ArithmeticError, OSError)
MANIFESTS_NAMED = 3


@define
class Planner:
    """Plans over the entries of a repository's tables. `cache` is the folder of segments; None keeps none on disk.

    `memory` is how much of them may be held in memory, as `512MB`; None leaves it to the environment.
    """

    repository: Repository
    cache: Path | None
    memory: str | None = None
    _tables: EntryTables = field(init=False, repr=False)
    _lists: OrderedDict[tuple[str, int], tuple[Snapshot, tuple[ListedManifest, ...]]] = field(
        init=False, factory=OrderedDict, repr=False
    )
    _manifests: IdentityCache[Sequence[ListedManifest], PlannedManifests] = field(
        init=False, factory=IdentityCache, repr=False
    )
    _deletes: IdentityCache[ManifestSelection, DeleteEntries] = field(init=False, factory=IdentityCache, repr=False)
    _files: ByteCache[tuple[object, ...], tuple[TableMetadata, pa.Table]] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._tables = EntryTables(self.repository.entries, self.cache, self.memory, self.forgotten)
        self._files = ByteCache(KEPT_FILES_BYTES, lambda kept: kept[1].nbytes + BYTES_OF_METADATA)

    def forgotten(self, stream: str) -> str:
        """The position at which bounds of a table's files were forgotten last; empty where they never were."""
        return self.repository.store.warehouse_value(f"{FORGOTTEN}{stream}") or ""

    def remove_stale(self, stream: str) -> None:
        """Removes cached entries of a table from before bounds of its files were forgotten."""
        with self._tables.lock:
            self.clear()
            self._tables.remove_stale(stream)

    def remove(self, stream: str) -> None:
        """Removes all cached entries of a table; a plan of its past makes them again."""
        with self._tables.lock:
            self.clear()
            self._tables.remove(stream)

    def tasks(
        self,
        state: TableState,
        snapshot: Snapshot,
        row_filter: FilterLike,
        schema: Schema,
        *,
        paths: Collection[str] | None = None,
    ) -> list[FileScanTask]:
        """The tasks of a scan of one snapshot by a filter over `schema`, or those of some of its files.

        They are for changes: a file without rows is among them where nothing else leaves it out, so that it can go.
        """
        bound = bind(parse_filter(row_filter), schema)
        listed = self.list_manifests(state, snapshot)
        planned, _ = self._trusting(state, listed, lambda: self._plan(state, listed, bound, schema, without_rows=True))
        if paths is not None:
            wanted = pc.is_in(planned.files["file_path"], pa.array(sorted(paths), pa.string()))
            planned = planned.of_rows(np.flatnonzero(arrays.to_mask(wanted)))
        return planned.tasks()

    def list_manifests(self, state: TableState, snapshot: Snapshot) -> tuple[ListedManifest, ...]:
        """The manifests of a snapshot. The same tuple each time, while the snapshot is among the last ones."""
        key = (state.stream, snapshot.snapshot_id)
        with self._tables.lock:
            known = self._lists.get(key)
            if known is None or known[0] != snapshot:
                known = (snapshot, self.repository.list_manifests(state, snapshot))
                self._lists[key] = known
                self._lists.move_to_end(key)
                while len(self._lists) > KEPT_LISTS:
                    self._lists.popitem(last=False)
            return known[1]

    def kept_files(self, state: TableState, what: Hashable, read: Callable[[], pa.Table]) -> pa.Table:
        """The rows about files as `read` gives them, now or earlier, of the same metadata; `what` tells which."""
        metadata = state.metadata
        # The metadata is held with what was read by it: the identity of an object that is gone is given out again.
        key = (state.stream, id(metadata), what, self.forgotten(state.stream))
        return self._files.get(key, lambda _: (metadata, read()))[1]

    def plan(self, state: TableState, snapshot: Snapshot | None, bound: Expression, schema: Schema) -> PlannedFiles:
        """The plan of a snapshot by a filter bound to `schema`; an empty one for no snapshot.

        Raises CorruptFileError or StorageError where a manifest can't be read, and CorruptFileError where a delete file
        names a data file of another partition (SP7).
        """
        listed = () if snapshot is None else self.list_manifests(state, snapshot)
        return self.plan_manifests(state, listed, bound, schema)

    def plan_manifests(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        bound: Expression,
        schema: Schema,
        entries: str = "TRUE",
    ) -> PlannedFiles:
        """The plan over any manifests of the table, as `plan` does over those of a snapshot.

        `entries` is a condition in SQL over the entries `e`, without parameters, that a data file has to satisfy too.
        """
        return self._trusting(state, listed, lambda: self._plan(state, listed, bound, schema, entries)[0])

    def plan_with_manifests(
        self, state: TableState, listed: Sequence[ListedManifest], bound: Expression, schema: Schema
    ) -> tuple[PlannedFiles, Sequence[ListedManifest]]:
        """The plan as of `plan_manifests`, with the data manifests whose places `m` of the files has."""
        planned, scope = self._trusting(state, listed, lambda: self._plan(state, listed, bound, schema))
        return planned, scope.manifests

    def plan_with_columns(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        bound: Expression,
        schema: Schema,
        columns: Sequence[str],
        entries: str = "TRUE",
    ) -> tuple[PlannedFiles, pa.Table]:
        """The plan as of `plan_manifests`, with the named wide columns that there are, in the order of `files`."""

        def look() -> tuple[PlannedFiles, pa.Table]:
            planned, scope = self._plan(state, listed, bound, schema, entries)
            if not planned.files.num_rows:
                return planned, pa.table({})
            names = [n for n in columns if n in scope.columns()]
            return planned, columns_of_files(self._tables.connection, scope, planned.files, names)

        return self._trusting(state, listed, look)

    def over_entries(
        self,
        state: TableState,
        snapshot: Snapshot,
        run: Callable[[duckdb.DuckDBPyConnection, ScannedEntries], Found],
    ) -> Found:
        """The result of `run` over all entries of a snapshot, deleted ones too; `scan_manifests` has its manifests.

        Raises CorruptFileError or StorageError where a manifest can't be read.
        """
        return self.over_manifests(state, self.list_manifests(state, snapshot), run)

    def over_manifests(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        run: Callable[[duckdb.DuckDBPyConnection, ScannedEntries], Found],
    ) -> Found:
        """The result of `run` over all entries of any manifests of the table, as in `over_entries`."""

        def look() -> Found:
            table = self._table(state)
            self._tables.load(table, listed, self.repository.storage_of(state))
            scope = table.scope(listed)
            connection = self._tables.connection
            with duck.registered(connection, "scan_manifests_arrow", scope.to_arrow()):
                duck.rows(connection, query("plan/scan.sql", "scan_manifests"))
            found = table.loaded.columns
            if found:
                columns = [c for c in found if c != "m"]
                entries = (scope if scope.parts else ManifestSelection.nothing(table.segments, table.typing)).relation(
                    columns
                )
                duck.rows(connection, query("plan/scan.sql", "entries_view", name=table.name, entries=entries))
            return run(connection, ScannedEntries(table.name, found, scope))

        return self._trusting(state, listed, look)

    def _trusting(self, state: TableState, listed: Sequence[ListedManifest], action: Callable[[], Found]) -> Found:
        """The result of an action on loaded entries, which are loaded again where they don't make sense.

        Raises StorageError where they don't then either.
        """
        with self._tables.lock:
            try:
                return action()
            except FAULTS as e:
                if not _is_fault(e):
                    raise
                if not isinstance(e, UNTRUSTED):
                    raise StorageError(_unplannable(state, listed, e)) from e
                # A damaged segment file, most likely: DuckDB has no exception of its own for that.
                self._tables.distrust(state.stream)
            try:
                return action()
            except FAULTS as e:
                if not _is_fault(e):
                    raise
                raise StorageError(_unplannable(state, listed, e)) from e

    def _plan(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        bound: Expression,
        schema: Schema,
        entries: str = "TRUE",
        *,
        without_rows: bool = False,
    ) -> tuple[PlannedFiles, ManifestSelection]:
        """The plan, and the scope of its data files: `m` of these is the place of their manifest there."""
        started = time.perf_counter()
        table = self._table(state)
        manifests = self._manifests.of(listed, PlannedManifests.of)
        data, deletes = self._scopes(state, table, manifests, bound, schema)
        files, deleting, pairs = EMPTY, EMPTY, DeletePairs.none()
        if data.parts:
            metadata = state.metadata
            columns = {n: t for n, t in data.columns().items() if not (without_rows and n == RECORD_COUNT)}
            predicate = plan_predicate(bound, telling_specs(metadata), schema, columns, data.spec_ids)
            connection = self._tables.connection
            known = self._delete_entries(deletes, data) if deletes.parts else None
            metrics = () if known is None else known.metrics()
            files = data.in_list_order(data_files(connection, data, predicate, entries, metrics))
            if known is not None and files.num_rows:
                deleting, pairs = known.files, known.pairs(connection, files, metadata)
            files = files.drop_columns(list(metrics))

        def count(planned: PlannedFiles) -> PlanCounts:
            return self._trusting(state, listed, lambda: self._counts(planned, manifests, entries))

        seconds = time.perf_counter() - started
        return PlannedFiles(state, schema, bound, files, deleting, pairs, seconds, count), data

    def _delete_entries(self, deletes: ManifestSelection, data: ManifestSelection) -> DeleteEntries:
        made = self._deletes.of(deletes, lambda _: DeleteEntries.of(self._tables.connection, deletes, data))
        if made.entries.num_rows > KEPT_DELETES:
            self._deletes.clear()
        return made

    def _table(self, state: TableState) -> EntryTable:
        return self._tables.table(state.stream, state.metadata, self.repository.state(state.stream).metadata)

    def _scopes(
        self, state: TableState, table: EntryTable, manifests: PlannedManifests, bound: Expression, schema: Schema
    ) -> tuple[ManifestSelection, ManifestSelection]:
        """The scopes of data files and of delete files: all loaded manifests, else the wanted ones.

        Loaded manifests are not left out by their summaries: the entries themselves say as much at less cost.
        """
        data, deletes = manifests.scopes_in(table)
        if data.complete and deletes.complete:
            return data, deletes
        wanted = self._prune(manifests.data, bound, table, state.metadata, schema)
        wanted_deletes = self._prune(manifests.deletes, bound, table, state.metadata, schema) if wanted else []
        storage = self.repository.storage_of(state)
        self._tables.load(table, [*wanted, *wanted_deletes], storage, manifests.listed)
        data, deletes = manifests.scopes_in(table)
        if data.complete and deletes.complete:
            return data, deletes
        return table.scope(wanted), table.scope(wanted_deletes)

    def _prune(
        self,
        manifests: Sequence[ListedManifest],
        bound: Expression,
        table: EntryTable,
        metadata: TableMetadata,
        schema: Schema,
    ) -> list[ListedManifest]:
        specs = telling_specs(metadata)
        return matching_manifests(self._tables.connection, manifests, bound, specs, schema, table.schema)

    # Counting

    def _counts(self, planned: PlannedFiles, manifests: PlannedManifests, entries: str) -> PlanCounts:
        state, scanned, rows, after_partition = planned.state, 0, 0, 0
        table = self._table(state)
        wanted = self._prune(manifests.data, planned.bound, table, state.metadata, planned.schema)
        wanted_deletes: list[ListedManifest] = []
        if wanted:
            wanted_deletes = self._prune(manifests.deletes, planned.bound, table, state.metadata, planned.schema)
            self._tables.load(table, wanted, self.repository.storage_of(state), manifests.listed)
            scanned, rows, after_partition = self._count(table.scope(wanted), planned, entries)
        totals = manifests.totals(added_only=entries != "TRUE")
        files_total = totals[0] if totals else scanned
        return PlanCounts(
            manifests_total=len(manifests.listed),
            manifests_scanned=len(wanted) + len(wanted_deletes),
            files_total=files_total,
            records_total=totals[1] if totals else rows,
            pruned_by_manifest=files_total - scanned,
            pruned_by_partition=scanned - after_partition,
            pruned_by_metrics=after_partition - planned.files.num_rows,
            files_planned=planned.files.num_rows,
            records_planned=records(planned.files),
            delete_files_planned=len(planned.pairs.used_deletes()),
            seconds=planned.seconds,
        )

    def _count(self, scope: ManifestSelection, planned: PlannedFiles, entries: str) -> tuple[int, int, int]:
        """Live data files in the manifests looked into, their rows, and the files that partition values leave."""
        if not scope.parts:
            return 0, 0, 0
        specs, columns = telling_specs(planned.state.metadata), partition_columns(scope.columns())
        by_partition = plan_predicate(planned.bound, specs, planned.schema, columns, scope.spec_ids)
        return count_files(self._tables.connection, scope, by_partition, entries)

    def clear(self) -> None:
        """Drops all cached entries and lists; segments on disk stay."""
        with self._tables.lock:
            self._let_go()
            self._tables.clear()

    def is_open(self) -> bool:
        """Whether DuckDB is there: it goes with `close`, and comes back with the next plan."""
        return self._tables.is_open

    def close(self) -> None:
        """Drops all cached entries and lists, and closes DuckDB."""
        with self._tables.lock:
            self._let_go()
            self._tables.close()

    def _let_go(self) -> None:
        self._lists.clear()
        self._manifests.clear()
        self._deletes.clear()
        self._files.clear()


def _is_fault(e: Exception) -> bool:
    """Whether an error is a fault of the loaded entries, and none of ours that names its file."""
    return isinstance(e, StrayEntriesError) or not isinstance(e, IcecoreError)


def _unplannable(state: TableState, listed: Sequence[ListedManifest], fault: Exception) -> str:
    """The error that names the table and the manifests whose entries can't be read."""
    paths = [m.manifest.manifest_path for m in listed]
    named = ", ".join(paths[:MANIFESTS_NAMED]) or "no manifest"
    rest = f" and {len(paths) - MANIFESTS_NAMED} more" if len(paths) > MANIFESTS_NAMED else ""
    found = str(fault) if isinstance(fault, duckdb.Error) else f"{type(fault).__name__}: {fault}"
    return f"{dotted(state.identifier)}: the entries of {named}{rest} can't be read: {found}"
