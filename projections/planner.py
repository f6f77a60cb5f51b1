"""Plans scans in SQL: from a snapshot and a filter to the files, their deletes and what is left of the filter.

Spec: Scan Planning (SP1 to SP8). A plan never leaves a file out that may hold a row of the filter.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, field

from icecore.engine.errors import CorruptFileError, StorageError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.parse import parse_filter
from icecore.engine.manifest_changes import ListedManifest
from icecore.engine.repository import Repository
from icecore.engine.scan_task import FileScanTask
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.sql_files import query, quote
from icecore.engine.state import TableState
from icecore.projections import duck
from icecore.projections.deletes import DeleteKinds, delete_pairs_sql
from icecore.projections.entry_scope import Scope, used_columns
from icecore.projections.entry_table import EntryTable
from icecore.projections.entry_tables import EntryTables
from icecore.projections.file_order import in_list_order
from icecore.projections.manifest_pruning import matching_manifests
from icecore.projections.metrics_predicate import conjunction
from icecore.projections.planned_files import EMPTY, EMPTY_PAIRS, records
from icecore.projections.planned_files import PlanCounts as PlanCounts
from icecore.projections.planned_files import PlannedFiles as PlannedFiles
from icecore.projections.predicate import PlanPredicate, plan_predicate
from icecore.projections.wide_filters import bit_columns

Found = TypeVar("Found")

FILES = "plan/files.sql"
KEPT_LISTS = 16


@define
class _Manifests:
    """The manifests of a plan, and where they were last found: `scopes` belong to a version of a table's segments."""

    listed: Sequence[ListedManifest]
    data: tuple[ListedManifest, ...]
    deletes: tuple[ListedManifest, ...]
    scopes: tuple[EntryTable, int, Scope, Scope] | None = None

    @classmethod
    def of(cls, listed: Sequence[ListedManifest]) -> _Manifests:
        live = [m for m in listed if m.manifest.has_live_files]
        data = tuple(m for m in live if m.manifest.content is ManifestContent.DATA)
        return cls(listed, data, tuple(m for m in live if m.manifest.content is ManifestContent.DELETES))

    def scopes_in(self, table: EntryTable) -> tuple[Scope, Scope]:
        known = self.scopes
        if known is None or known[0] is not table or known[1] != table.version:
            known = (table, table.version, table.scope(self.data), table.scope(self.deletes))
            self.scopes = known
        return known[2:]


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
    _known: OrderedDict[int, _Manifests] = field(init=False, factory=OrderedDict, repr=False)
    _delete_kinds: OrderedDict[int, tuple[Scope, DeleteKinds]] = field(init=False, factory=OrderedDict, repr=False)

    def __attrs_post_init__(self) -> None:
        self._tables = EntryTables(self.repository.entries, self.cache, self.memory)

    def tasks(
        self,
        state: TableState,
        snapshot: Snapshot,
        row_filter: str | Expression | None,
        schema: Schema,
        *,
        paths: Collection[str] | None = None,
    ) -> list[FileScanTask]:
        """The tasks of a scan of one snapshot by a filter over `schema`, or those of some of its files."""
        bound = bind(parse_filter(row_filter), schema)
        planned = self.plan(state, snapshot, bound, schema)
        if paths is not None:
            wanted = pc.is_in(planned.files["file_path"], pa.array(sorted(paths), pa.string()))
            planned = evolve(planned, files=planned.files.filter(wanted))
        return planned.tasks()

    def list_manifests(self, state: TableState, snapshot: Snapshot) -> tuple[ListedManifest, ...]:
        """The manifests of a snapshot. The same tuple each time, while it is among the last that were asked for."""
        key = (state.stream, snapshot.snapshot_id)
        with self._tables.lock:
            known = self._lists.get(key)
            if known is None or known[0] != snapshot:
                known = (snapshot, self.repository.list_manifests(state, snapshot))
                _keep(self._lists, key, known)
            return known[1]

    def plan(self, state: TableState, snapshot: Snapshot | None, bound: Expression, schema: Schema) -> PlannedFiles:
        """Plans a snapshot by a filter bound to `schema`. No snapshot gives an empty plan.

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
        """Plans over any manifests of the table, as `plan` does over those of a snapshot.

        `entries` is a condition in SQL over the entries `e`, without parameters, that a data file has to satisfy too.
        """
        started = time.perf_counter()
        return self._trusting(state, lambda: self._plan(state, listed, bound, schema, entries, started))

    def plan_with_columns(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        bound: Expression,
        schema: Schema,
        columns: Sequence[str],
        entries: str = "TRUE",
    ) -> tuple[PlannedFiles, pa.Table]:
        """As `plan_manifests`, with those of the named columns that the wide entries have, in the order of `files`."""

        def look() -> tuple[PlannedFiles, pa.Table]:
            planned = self.plan_manifests(state, listed, bound, schema, entries)
            if not planned.files.num_rows:
                return planned, pa.table({})
            table = self._table(state)
            scope = table.scope(self._manifests(listed).data)
            names = [n for n in columns if n in scope.columns()]
            places = planned.files.select(["m", "ordinal"]).append_column(
                "place", pa.array(range(planned.files.num_rows), pa.int64())
            )
            with duck.registered(self._tables.connection, "planned_files", places):
                selected = "".join(f", e.{quote(n)}" for n in names)
                sql = query(FILES, "columns_of_files")
                relation = scope.relation(dict.fromkeys(("ordinal", *names)))
                return planned, self._arrow(sql.format(entries=relation, columns=selected), {})

        return self._trusting(state, look)

    def over_entries(
        self,
        state: TableState,
        snapshot: Snapshot,
        run: Callable[[duckdb.DuckDBPyConnection, EntryTable], Found],
    ) -> Found:
        """What `run` finds in all entries of a snapshot, deleted ones too: `scan_manifests` has its manifests.

        Raises CorruptFileError or StorageError where a manifest can't be read.
        """
        return self.over_manifests(state, self.list_manifests(state, snapshot), run)

    def over_manifests(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        run: Callable[[duckdb.DuckDBPyConnection, EntryTable], Found],
    ) -> Found:
        """As `over_entries`, for any manifests of the table."""

        def look() -> Found:
            table = self._table(state)
            self._tables.load(table, listed, self.repository.storage_of(state))
            scope = table.scope(listed)
            connection = self._tables.connection
            with duck.registered(connection, "scan_manifests_arrow", scope.to_arrow()):
                duck.rows(connection, query("plan/scan.sql", "scan_manifests"))
            if table.columns:
                view = query("plan/scan.sql", "entries_view")
                columns = [c for c in table.columns if c != "m"]
                entries = (scope if scope.parts else Scope.nothing(table.segments, table.typing)).relation(columns)
                duck.rows(connection, view.format(name=table.name, entries=entries))
            return run(connection, table)

        return self._trusting(state, look)

    def _trusting(self, state: TableState, action: Callable[[], Found]) -> Found:
        """Runs what needs loaded entries. Where DuckDB can't read them they are loaded again, from the manifests."""
        with self._tables.lock:
            try:
                return action()
            except duckdb.Error:
                # A damaged segment file, most likely: DuckDB has no exception of its own for that.
                self._tables.distrust(state.stream)
            try:
                return action()
            except duckdb.Error as e:
                raise StorageError(f"the entries of {state.stream} can't be read: {e}") from e

    def _plan(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        bound: Expression,
        schema: Schema,
        entries: str,
        started: float,
    ) -> PlannedFiles:
        table = self._table(state)
        manifests = self._manifests(listed)
        data, deletes = self._scopes(state, table, manifests, bound, schema)
        files, delete_files, pairs = EMPTY, EMPTY, EMPTY_PAIRS
        if data.parts:
            metadata = state.metadata
            predicate = plan_predicate(bound, metadata.specs, schema, data.columns(), data.spec_ids)
            files = in_list_order(self._files(data, predicate, entries), manifests.data, table.numbers)
            if deletes.parts and files.num_rows:
                pairs, delete_files = self._deletes(data, deletes, predicate, entries, metadata)
                delete_files = in_list_order(delete_files, manifests.deletes, table.numbers)

        def count(planned: PlannedFiles) -> PlanCounts:
            return self._trusting(state, lambda: self._counts(planned, manifests, entries))

        seconds = time.perf_counter() - started
        return PlannedFiles(state, schema, bound, files, delete_files, pairs, seconds, count)

    def _table(self, state: TableState) -> EntryTable:
        return self._tables.table(state.stream, state.metadata, self.repository.state(state.stream).metadata)

    def _manifests(self, listed: Sequence[ListedManifest]) -> _Manifests:
        known = self._known.get(id(listed))
        if known is None or known.listed is not listed:
            known = _Manifests.of(listed)
            _keep(self._known, id(listed), known)
        return known

    def _scopes(
        self, state: TableState, table: EntryTable, manifests: _Manifests, bound: Expression, schema: Schema
    ) -> tuple[Scope, Scope]:
        """Where to look for data files and for delete files: in all manifests that are loaded, else in the wanted ones.

        What is loaded is not left out by the summaries of manifests: the entries themselves say as much at less cost.
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
        return matching_manifests(self._tables.connection, manifests, bound, metadata.specs, schema, table.schema)

    def _files(self, scope: Scope, predicate: PlanPredicate, entries: str) -> pa.Table:
        where = conjunction(entries, predicate.where_sql)
        parameters = dict(predicate.parameters)
        might = bit_columns("might", predicate.leaf_might, parameters)
        surely = bit_columns("all", predicate.leaf_all, parameters)
        names = used_columns((where, might, surely), scope.columns())
        sql = query(FILES, "data_files").format(
            entries=scope.relation(dict.fromkeys((*DATA_COLUMNS, *names))), where=where, might=might, all=surely
        )
        files = self._arrow(sql, parameters)
        index = files.schema.get_field_index("first_row_id")
        row_ids = scope.row_ids(files["m"], files["first_row_id"], files["row_offset"])
        return files.set_column(index, "first_row_id", row_ids)

    def _deletes(
        self, data: Scope, deletes: Scope, predicate: PlanPredicate, entries: str, metadata: TableMetadata
    ) -> tuple[pa.Table, pa.Table]:
        unpartitioned = [s.spec_id for s in metadata.partition_specs if s.is_unpartitioned]
        kinds = self._kinds(deletes)
        sql = delete_pairs_sql(data, deletes, kinds, conjunction(entries, predicate.where_sql))
        pairs = self._arrow(sql, {**predicate.parameters, "unpartitioned": unpartitioned})
        _check_partitions(pairs)
        files = query(FILES, "delete_files").format(entries=deletes.relation(DELETE_COLUMNS))
        return pairs, self._arrow(files, {})

    def _kinds(self, deletes: Scope) -> DeleteKinds:
        known = self._delete_kinds.get(id(deletes))
        if known is None or known[0] is not deletes:
            known = (deletes, DeleteKinds.of(self._tables.connection, deletes))
            _keep(self._delete_kinds, id(deletes), known)
        return known[1]

    def _arrow(self, sql: str, parameters: Mapping[str, Any]) -> pa.Table:
        return duck.arrow(self._tables.connection, sql, _used(sql, parameters))

    # Counting

    def _counts(self, planned: PlannedFiles, manifests: _Manifests, entries: str) -> PlanCounts:
        state, scanned, rows, after_partition = planned.state, 0, 0, 0
        table = self._table(state)
        wanted = self._prune(manifests.data, planned.bound, table, state.metadata, planned.schema)
        wanted_deletes: list[ListedManifest] = []
        if wanted:
            wanted_deletes = self._prune(manifests.deletes, planned.bound, table, state.metadata, planned.schema)
            self._tables.load(table, wanted, self.repository.storage_of(state), manifests.listed)
            scanned, rows, after_partition = self._count(table.scope(wanted), planned, entries)
        data = [m for m in manifests.listed if m.manifest.content is ManifestContent.DATA]
        totals = _totals(data, added_only=entries != "TRUE")
        files_total = totals[0] if totals else scanned
        deletes = planned.pairs.select(["dm", "dordinal"]).group_by(["dm", "dordinal"]).aggregate([])
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
            delete_files_planned=deletes.num_rows,
            seconds=planned.seconds,
        )

    def _count(self, scope: Scope, planned: PlannedFiles, entries: str) -> tuple[int, int, int]:
        """Live data files in the manifests looked into, their rows, and the files that partition values leave."""
        if not scope.parts:
            return 0, 0, 0
        parts = {n: t for n, t in scope.columns().items() if n.startswith("part_") or n == "spec_id"}
        specs = planned.state.metadata.specs
        by_partition = plan_predicate(planned.bound, specs, planned.schema, parts, scope.spec_ids)
        names = used_columns((by_partition.where_sql,), parts)
        sql = query(FILES, "count_files").format(
            entries=scope.relation(dict.fromkeys((*COUNTED_COLUMNS, *names))),
            where=entries,
            by_partition=by_partition.where_sql,
        )
        files, rows, left = duck.rows(self._tables.connection, sql, _used(sql, by_partition.parameters))[0]
        return files, rows, left

    def clear(self) -> None:
        with self._tables.lock:
            self._lists.clear()
            self._known.clear()
            self._delete_kinds.clear()
            self._tables.clear()

    def close(self) -> None:
        with self._tables.lock:
            self._lists.clear()
            self._known.clear()
            self._delete_kinds.clear()
            self._tables.close()


DATA_COLUMNS = (
    "ordinal",
    "status",
    "content",
    "snapshot_id",
    "file_path",
    "file_format",
    "spec_id",
    "partition",
    "partition_key",
    "record_count",
    "file_size_in_bytes",
    "sequence_number",
    "first_row_id",
    "row_offset",
    "sort_order_id",
    "split_offsets",
    "key_metadata",
)
DELETE_COLUMNS = (
    "ordinal",
    "status",
    "content",
    "snapshot_id",
    "file_path",
    "file_format",
    "spec_id",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "sequence_number",
    "file_sequence_number",
    "sort_order_id",
    "split_offsets",
    "key_metadata",
    "equality_ids",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
COUNTED_COLUMNS = ("status", "content", "snapshot_id", "spec_id", "record_count")

Key = TypeVar("Key")
Value = TypeVar("Value")


def _keep(cache: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > KEPT_LISTS:
        cache.popitem(last=False)


def _used(sql: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that occur in a statement: DuckDB refuses others."""
    names = set(re.findall(r"\$(\w+)", sql))
    return {k: v for k, v in parameters.items() if k in names}


def _totals(manifests: Sequence[ListedManifest], added_only: bool) -> tuple[int, int] | None:
    """Live or added files and rows of all data manifests by their counts; None where a v1 writer left them out."""
    files = rows = 0
    for listed in manifests:
        m = listed.manifest
        counts = (m.added_files_count, m.existing_files_count, m.added_rows_count, m.existing_rows_count)
        if any(c is None for c in counts):
            return None
        files += (m.added_files_count or 0) + (0 if added_only else m.existing_files_count or 0)
        rows += (m.added_rows_count or 0) + (0 if added_only else m.existing_rows_count or 0)
    return files, rows


def _check_partitions(pairs: pa.Table) -> None:
    wrong = pairs.filter(pc.invert(pairs["same_partition"]))
    for pair in wrong.slice(0, 1).to_pylist():
        raise CorruptFileError(
            "a delete file that names a data file has another partition than that file "
            f"(manifest {pair['dm']}, entry {pair['dordinal']}; SP7)"
        )
