"""The planner of scans, in SQL: from a snapshot and a filter to the files, their deletes and residuals.

Spec: Scan Planning (SP1 to SP8). A plan never leaves a file out that may hold a row of the filter.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, fields

from icecore.engine.common.fork_safety import Turn
from icecore.engine.common.identity_cache import IdentityCache
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import StorageError, name_text
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.sql.parse import FilterLike, parse_filter
from icecore.engine.formats import arrays
from icecore.engine.metadata.fold import TableState
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.byte_cache import ByteCache, within_memory
from icecore.projections.plan import file_queries
from icecore.projections.plan.deletes.delete_pairs import DeletePairs
from icecore.projections.plan.deletes.live_deletes import LiveDeletes
from icecore.projections.plan.deletes.lost_values import telling_specs
from icecore.projections.plan.manifest_pruning import matching_manifests
from icecore.projections.plan.planned_files import EMPTY, PlanCounts
from icecore.projections.plan.planned_files import PlannedFiles as PlannedFiles
from icecore.projections.plan.planned_manifests import PlannedManifests, within
from icecore.projections.plan.predicate import RECORD_COUNT, PlanPredicate, plan_predicate
from icecore.projections.segments.entry_faults import FAULTS, UNTRUSTED, is_fault, unplannable
from icecore.projections.segments.entry_table import EntryTable, ScannedEntries
from icecore.projections.segments.entry_tables import EntryTables
from icecore.projections.segments.manifest_selection import ManifestSelection

Found = TypeVar("Found")
Run = Callable[[duckdb.DuckDBPyConnection, ScannedEntries], Found]
KEPT_LISTS = 16
KEPT_FILES_BYTES = within_memory(256 * 2**20)
BYTES_OF_METADATA = 32 * 2**10
"""The bytes for the live files of the snapshots asked for last, and the bytes counted for the metadata of each."""
FORGOTTEN = "forgotten/"
"""Before a stream, the key in `warehouse` of the position at which bounds of its files were forgotten last."""


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
    _deletes: IdentityCache[ManifestSelection, LiveDeletes] = field(init=False, factory=IdentityCache, repr=False)
    _files: ByteCache[tuple[object, ...], tuple[TableMetadata, pa.Table]] = field(init=False, repr=False)
    _turn: Turn = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._tables = EntryTables(self.repository.entries, self.cache, self.memory, self.forgotten)
        self._turn = self._tables.lock
        self._files = ByteCache(KEPT_FILES_BYTES, lambda kept: kept[1].get_total_buffer_size() + BYTES_OF_METADATA)

    def waiting(self, seconds: float, otherwise: type[Exception]) -> Planner:
        """This planner, which waits so long at most for other threads' plans, made one at a time.

        Its plans raise `otherwise` then.
        """
        waiting = object.__new__(Planner)  # A copy is opened anew, as in a worker, and knows no entries.
        for part in fields(Planner):
            setattr(waiting, part.name, getattr(self, part.name))
        waiting._turn = self._tables.lock.within(seconds, otherwise)
        return waiting

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

        They are for changes: a file is not left out for having no rows, so that it can be removed.
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
        with self._turn:
            known = self._lists.get(key)
            if known is None or known[0] != snapshot:
                known = (snapshot, self.repository.list_manifests(state, snapshot))
                self._lists[key] = known
                while len(self._lists) > KEPT_LISTS:
                    self._lists.popitem(last=False)
            self._lists.move_to_end(key)
            return known[1]

    def kept_files(self, state: TableState, what: Hashable, read: Callable[[], pa.Table]) -> pa.Table:
        """The rows about files that `read` gives, kept for the same metadata; `what` tells which rows they are."""
        metadata = state.metadata
        # The metadata is held with what was read by it: the identity of an object that is gone is given out again.
        key = (state.stream, id(metadata), what, self.forgotten(state.stream))
        return self._files.get(key, lambda _: (metadata, read()))[1]

    def plan(self, state: TableState, snapshot: Snapshot | None, bound: Expression, schema: Schema) -> PlannedFiles:
        """The plan of a snapshot by a filter bound to `schema`; an empty one for no snapshot.

        Raises CorruptFileError or StorageError where a manifest can't be read, and CorruptFileError where a delete file
        names a data file of another partition (SP7).
        """
        return self.plan_manifests(
            state, () if snapshot is None else self.list_manifests(state, snapshot), bound, schema
        )

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
        """The plan as of `plan_manifests`, with the data manifests; `m` of a file is its manifest's place there."""
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
        *,
        only: range | None = None,
        most: int | None = None,
    ) -> tuple[PlannedFiles, pa.Table]:
        """The plan as of `plan_manifests`, with the named wide columns that there are, in the order of `files`.

        `only` are the places of the data manifests that are to be planned. Where there are more files than `most`, one
        more than that is planned, in no order, and without deletes and columns.
        """

        def look() -> tuple[PlannedFiles, pa.Table]:
            planned, scope = self._plan(state, listed, bound, schema, entries, only=only, most=most)
            if not columns or not planned.files.num_rows or planned.is_beyond(most):
                return planned, pa.table({})
            names = [n for n in columns if n in scope.columns()]
            return planned, file_queries.columns_of_files(self._tables.connection, scope, planned.files, names)

        return self._trusting(state, listed, look)

    def count_by_manifest(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        bound: Expression,
        schema: Schema,
        entries: str = "TRUE",
    ) -> dict[int, int]:
        """The number of files that `plan_manifests` plans of each manifest, by its place, where there are any."""

        def look() -> dict[int, int]:
            table = self._table(state)
            data, _ = self._scopes(state, table, self._manifests.of(listed, PlannedManifests.of), bound, schema)
            if not data.parts:
                return {}
            predicate = self._predicate(state, data, data.columns(), bound, schema)
            found = file_queries.count_by_manifest(self._tables.connection, data, predicate, entries)
            places = {id(m): i for i, m in enumerate(listed)}
            manifests = (places[id(data.manifests[p])] for p in data.places_of(found["m"]).tolist())
            return dict(sorted(zip(manifests, found["files"].to_pylist(), strict=True)))

        return self._trusting(state, listed, look)

    def over_entries(self, state: TableState, snapshot: Snapshot, run: Run[Found]) -> Found:
        """The result of `run` over all entries of a snapshot, deleted ones too; `scan_manifests` has its manifests.

        Raises CorruptFileError or StorageError where a manifest can't be read.
        """
        return self.over_manifests(state, self.list_manifests(state, snapshot), run)

    def over_manifests(self, state: TableState, listed: Sequence[ListedManifest], run: Run[Found]) -> Found:
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

    def _trusting(
        self, state: TableState, listed: Sequence[ListedManifest], action: Callable[[], Found], *, is_first: bool = True
    ) -> Found:
        """The result of an action on loaded entries, which are loaded again where they prove damaged.

        Raises StorageError where that does not help.
        """
        with self._turn:
            try:
                return action()
            except FAULTS as e:
                if not is_fault(e):
                    raise
                if not (is_first and isinstance(e, UNTRUSTED)):
                    raise StorageError(unplannable(name_text(state.identifier), listed, e)) from e
                # A damaged segment file, most likely: DuckDB has no exception of its own for that.
                self._tables.distrust(state.stream)
            return self._trusting(state, listed, action, is_first=False)

    def _plan(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        bound: Expression,
        schema: Schema,
        entries: str = "TRUE",
        *,
        without_rows: bool = False,
        only: range | None = None,
        most: int | None = None,
    ) -> tuple[PlannedFiles, ManifestSelection]:
        """The plan, and the scope of its data files: `m` of these is the place of their manifest there."""
        started = time.perf_counter()
        table = self._table(state)
        manifests = self._manifests.of(listed, PlannedManifests.of)
        data, deletes = self._scopes(state, table, manifests, bound, schema)
        all_data, data = data, data if only is None else table.scope(within(data.manifests, listed, only))
        files, deleting, pairs = EMPTY, EMPTY, DeletePairs.none()
        if data.parts:
            columns = {n: t for n, t in data.columns().items() if not (without_rows and n == RECORD_COUNT)}
            predicate = self._predicate(state, data, columns, bound, schema)
            connection = self._tables.connection
            known = self._live_deletes(deletes, all_data) if deletes.parts else None
            metrics = () if known is None else known.metrics()
            files = data.in_list_order(file_queries.data_files(connection, data, predicate, entries, metrics, most))
            if known is not None and files.num_rows and not (most is not None and files.num_rows > most):
                found = known.entries_for(connection, files, state.metadata)
                deleting, pairs = found.files, found.pairs(connection, files, state.metadata)
            files = files.drop_columns(list(metrics))

        def count(planned: PlannedFiles) -> PlanCounts:
            return self._trusting(state, listed, lambda: self._counts(planned, manifests, entries))

        seconds = time.perf_counter() - started
        return PlannedFiles(state, schema, bound, files, deleting, pairs, seconds, count), data

    @staticmethod
    def _predicate(
        state: TableState, data: ManifestSelection, columns: Mapping[str, str], bound: Expression, schema: Schema
    ) -> PlanPredicate:
        return plan_predicate(bound, telling_specs(state.metadata), schema, columns, data.spec_ids)

    def _live_deletes(self, deletes: ManifestSelection, data: ManifestSelection) -> LiveDeletes:
        return self._deletes.of(deletes, lambda _: LiveDeletes.of(self._tables.connection, deletes, data))

    def _table(self, state: TableState) -> EntryTable:
        return self._tables.table(state.stream, state.metadata, self.repository.state(state.stream).metadata)

    def _scopes(
        self, state: TableState, table: EntryTable, manifests: PlannedManifests, bound: Expression, schema: Schema
    ) -> tuple[ManifestSelection, ManifestSelection]:
        """The scopes of data files and of delete files: all manifests if they are loaded, else the wanted ones.

        Loaded manifests are not left out by their summaries: the entries themselves say as much at less cost.
        """
        data, deletes = manifests.scopes_in(table)
        if data.complete and deletes.complete:
            return data, deletes
        wanted = self._prune(manifests.data, bound, state, schema)
        wanted_deletes = self._prune(manifests.deletes, bound, state, schema) if wanted else []
        storage = self.repository.storage_of(state)
        self._tables.load(table, [*wanted, *wanted_deletes], storage, manifests.listed)
        data, deletes = manifests.scopes_in(table)
        if data.complete and deletes.complete:
            return data, deletes
        return table.scope(wanted), table.scope(wanted_deletes)

    def _prune(
        self, manifests: Sequence[ListedManifest], bound: Expression, state: TableState, schema: Schema
    ) -> list[ListedManifest]:
        specs, planning = telling_specs(state.metadata), self._table(state).schema
        return matching_manifests(self._tables.connection, manifests, bound, specs, schema, planning)

    # Counting

    def _counts(self, planned: PlannedFiles, manifests: PlannedManifests, entries: str) -> PlanCounts:
        state, scanned, rows, after_partition = planned.state, 0, 0, 0
        table = self._table(state)
        wanted = self._prune(manifests.data, planned.bound, state, planned.schema)
        wanted_deletes = self._prune(manifests.deletes, planned.bound, state, planned.schema) if wanted else []
        if wanted:
            self._tables.load(table, wanted, self.repository.storage_of(state), manifests.listed)
            scanned, rows, after_partition = self._count(table.scope(wanted), planned, entries)
        totals = manifests.totals(added_only=entries != "TRUE") or (scanned, rows)
        looked_into = len(wanted) + len(wanted_deletes)
        return PlanCounts.of(planned, len(manifests.listed), looked_into, totals, scanned, after_partition)

    def _count(self, scope: ManifestSelection, planned: PlannedFiles, entries: str) -> tuple[int, int, int]:
        """Live data files in the manifests looked into, their rows, and the files that partition values leave."""
        if not scope.parts:
            return 0, 0, 0
        columns = file_queries.partition_columns(scope.columns())
        by_partition = self._predicate(planned.state, scope, columns, planned.bound, planned.schema)
        return file_queries.count_files(self._tables.connection, scope, by_partition, entries)

    def clear(self) -> None:
        """Drops all cached entries and lists; segments on disk stay."""
        with self._tables.lock:
            self._let_go()
            self._tables.clear()

    def is_open(self) -> bool:
        """Whether DuckDB is open: `close` closes it, and the next plan opens it again."""
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
