"""Plans scans in SQL: from a snapshot and a filter to the files, their deletes and what is left of the filter.

Spec: Scan Planning (SP1 to SP8). A plan never leaves a file out that may hold a row of the filter.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, evolve, field, frozen

from icecore.engine.errors import CorruptFileError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import AlwaysTrue, Expression
from icecore.engine.expression.parse import parse_filter
from icecore.engine.formats.entry_arrow import decode_partition, row_to_file
from icecore.engine.manifest_changes import ListedManifest
from icecore.engine.repository import Repository
from icecore.engine.scan_task import FileScanTask
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat, ManifestContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.sql_files import query, quote
from icecore.engine.state import TableState
from icecore.engine.storage import Storage
from icecore.projections import duck
from icecore.projections.deletes import delete_pairs_sql
from icecore.projections.entry_tables import EntryTable, EntryTables
from icecore.projections.manifest_pruning import matching_manifests
from icecore.projections.metrics_predicate import conjunction
from icecore.projections.predicate import PlanPredicate, plan_predicate, residual

Found = TypeVar("Found")

FILES = "plan/files.sql"
LEAVES_PER_NUMBER = 62
FORMATS = {str(f): f for f in FileFormat}
TASK_COLUMNS = (
    "file_path",
    "file_format",
    "spec_id",
    "record_count",
    "file_size_in_bytes",
    "key_metadata",
    "split_offsets",
    "sort_order_id",
    "first_row_id",
)


@frozen
class PlanCounts:
    """How a plan came down to its files. Files and records are live data files of the snapshot and their rows."""

    manifests_total: int
    manifests_scanned: int
    files_total: int
    records_total: int
    pruned_by_manifest: int
    pruned_by_partition: int
    pruned_by_metrics: int
    files_planned: int
    records_planned: int
    delete_files_planned: int
    seconds: float


@define(frozen=True, slots=False)
class PlannedFiles:
    """The result of a plan as Arrow.

    `files` has a row for each planned data file, `deletes` one for each live delete file that may matter, `pairs` says
    which delete file applies to which data file by (m, ordinal) and (dm, dordinal). `seconds` is how long it took.
    """

    state: TableState
    schema: Schema
    bound: Expression
    files: pa.Table = field(repr=False)
    deletes: pa.Table = field(repr=False)
    pairs: pa.Table = field(repr=False)
    seconds: float
    _count: Callable[[PlannedFiles], PlanCounts] = field(repr=False)

    @cached_property
    def counts(self) -> PlanCounts:
        """What the plan left out, and why. Counted when it is asked for: a plan needs none of it."""
        return self._count(self)

    def residuals(self) -> list[Expression]:
        """What is left of the filter for each file, in the order of `files`."""
        if isinstance(self.bound, AlwaysTrue):
            return [self.bound] * self.files.num_rows
        known: dict[tuple[tuple[int, ...], tuple[int, ...]], Expression] = {}
        out = []
        for might, surely in zip(*(self.files[n].to_pylist() for n in ("might_bits", "all_bits")), strict=True):
            key = (tuple(might), tuple(surely))
            if key not in known:
                known[key] = residual(self.bound, _from_bits(might), _from_bits(surely))
            out.append(known[key])
        return out

    def tasks(self) -> list[FileScanTask]:
        """One task for each file, whole."""
        specs, schema = self.state.metadata.specs, self.state.metadata.all_fields
        deletes = self._deletes_by_file(specs, schema)
        files = self.files
        names = (*TASK_COLUMNS, "m", "ordinal", "sequence_number")
        columns = zip(*(files[n].to_pylist() for n in names), strict=True) if files.num_rows else ()
        rows = zip(columns, self._partitions(specs, schema), self.residuals(), strict=True)
        return [
            FileScanTask(
                ContentFile(
                    DataFileContent.DATA,
                    path,
                    FORMATS.get(file_format) or FileFormat(file_format.upper()),
                    spec_id,
                    partition,
                    record_count,
                    size,
                    key_metadata=key_metadata,
                    split_offsets=None if offsets is None else tuple(offsets),
                    sort_order_id=sort_order_id,
                    first_row_id=first_row_id,
                ),
                deletes.get((m, ordinal), ()) if deletes else (),
                left,
                0,
                size,
                sequence_number or 0,
            )
            for (
                (
                    path,
                    file_format,
                    spec_id,
                    record_count,
                    size,
                    key_metadata,
                    offsets,
                    sort_order_id,
                    first_row_id,
                    m,
                    ordinal,
                    sequence_number,
                ),
                partition,
                left,
            ) in rows
        ]

    def _partitions(self, specs: Mapping[int, PartitionSpec], schema: Schema) -> list[tuple[Any, ...]]:
        """The partition tuple of each file; each tuple is decoded once, however many files have it."""
        if self.files.num_rows == 0:
            return []
        keys = self.files["partition_key"].combine_chunks().dictionary_encode()
        codes = keys.indices.to_numpy()
        _, first = np.unique(codes, return_index=True)
        distinct = self.files.select(["spec_id", "partition"]).take(pa.array(first)).to_pylist()
        decoded = [decode_partition(specs[r["spec_id"]], schema, r["partition"]) for r in distinct]
        return [decoded[c] for c in codes.tolist()]

    def _deletes_by_file(
        self, specs: Mapping[int, Any], schema: Schema
    ) -> dict[tuple[int, int], tuple[ContentFile, ...]]:
        if self.pairs.num_rows == 0:
            return {}
        files = {(r["m"], r["ordinal"]): row_to_file(r, specs[r["spec_id"]], schema) for r in self.deletes.to_pylist()}
        found: dict[tuple[int, int], tuple[ContentFile, ...]] = {}
        for pair in self.pairs.to_pylist():
            key = (pair["m"], pair["ordinal"])
            found[key] = (*found.get(key, ()), files[pair["dm"], pair["dordinal"]])
        return found


@define
class Planner:
    """Plans over the entries of a repository's tables. `cache` is the folder of segments; None keeps none on disk."""

    repository: Repository
    cache: Path | None
    _tables: EntryTables = field(init=False, repr=False)
    _scanned: tuple[list[int], list[int | None]] | None = field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        self._tables = EntryTables(
            self.repository.entries, self.cache, Storage(scratch=self.repository.storage.scratch)
        )

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

    def plan(self, state: TableState, snapshot: Snapshot | None, bound: Expression, schema: Schema) -> PlannedFiles:
        """Plans a snapshot by a filter bound to `schema`. No snapshot gives an empty plan.

        Raises CorruptFileError or StorageError where a manifest can't be read, and CorruptFileError where a delete file
        names a data file of another partition (SP7).
        """
        listed = () if snapshot is None else self.repository.list_manifests(state, snapshot)
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
        with self._tables.lock:
            return self._plan(state, listed, bound, schema, entries, started)

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
        with self._tables.lock:
            planned = self.plan_manifests(state, listed, bound, schema, entries)
            if not planned.files.num_rows:
                return planned, pa.table({})
            table = self._table(state)
            names = [n for n in columns if n in table.columns]
            places = planned.files.select(["m", "ordinal"]).append_column(
                "place", pa.array(range(planned.files.num_rows), pa.int64())
            )
            self._tables.connection.register("planned_files", places)
            try:
                selected = "".join(f", e.{quote(n)}" for n in names)
                sql = query(FILES, "columns_of_files").format(entries=table.name, columns=selected)
                return planned, self._arrow(sql, {})
            finally:
                self._tables.connection.unregister("planned_files")

    def _plan(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        bound: Expression,
        schema: Schema,
        entries: str,
        started: float,
    ) -> PlannedFiles:
        metadata = state.metadata
        table = self._table(state)
        data = [m for m in listed if m.manifest.content is ManifestContent.DATA]
        deletes = [m for m in listed if m.manifest.content is ManifestContent.DELETES]
        wanted = self._prune(data, bound, table, metadata, schema)
        wanted_deletes = self._prune(deletes, bound, table, metadata, schema) if wanted else []
        self._load(state, table, wanted, wanted_deletes)
        files, delete_files, pairs = EMPTY, EMPTY, EMPTY_PAIRS
        if table.columns and wanted:
            predicate = plan_predicate(bound, metadata.specs, schema, table.columns)
            files = self._files(table, predicate, entries)
            if wanted_deletes:
                pairs, delete_files = self._deletes(table, predicate, metadata)

        def count(planned: PlannedFiles) -> PlanCounts:
            return self._counts(planned, listed, data, wanted, wanted_deletes, entries)

        seconds = time.perf_counter() - started
        return PlannedFiles(state, schema, bound, files, delete_files, pairs, seconds, count)

    def _counts(
        self,
        planned: PlannedFiles,
        listed: Sequence[ListedManifest],
        data: Sequence[ListedManifest],
        wanted: Sequence[ListedManifest],
        wanted_deletes: Sequence[ListedManifest],
        entries: str,
    ) -> PlanCounts:
        scanned = records = after_partition = 0
        if wanted:
            with self._tables.lock:
                table = self._table(planned.state)
                self._load(planned.state, table, wanted, wanted_deletes)
                scanned, records, after_partition = self._count(table, planned, entries)
        totals = _totals(data, added_only=entries != "TRUE")
        files_total = totals[0] if totals else scanned
        deletes = planned.pairs.select(["dm", "dordinal"]).group_by(["dm", "dordinal"]).aggregate([])
        return PlanCounts(
            manifests_total=len(listed),
            manifests_scanned=len(wanted) + len(wanted_deletes),
            files_total=files_total,
            records_total=totals[1] if totals else records,
            pruned_by_manifest=files_total - scanned,
            pruned_by_partition=scanned - after_partition,
            pruned_by_metrics=after_partition - planned.files.num_rows,
            files_planned=planned.files.num_rows,
            records_planned=pc.sum(planned.files["record_count"]).as_py() or 0,
            delete_files_planned=deletes.num_rows,
            seconds=planned.seconds,
        )

    def _table(self, state: TableState) -> EntryTable:
        return self._tables.table(state.stream, state.metadata, self.repository.state(state.stream).metadata)

    def over_entries(
        self,
        state: TableState,
        snapshot: Snapshot,
        run: Callable[[duckdb.DuckDBPyConnection, EntryTable], pa.Table],
    ) -> pa.Table:
        """What `run` finds in all entries of a snapshot, deleted ones too: `scan_manifests` has its manifests.

        Raises CorruptFileError or StorageError where a manifest can't be read.
        """
        return self.over_manifests(state, self.repository.list_manifests(state, snapshot), run)

    def over_manifests(
        self,
        state: TableState,
        listed: Sequence[ListedManifest],
        run: Callable[[duckdb.DuckDBPyConnection, EntryTable], Found],
    ) -> Found:
        """As `over_entries`, for any manifests of the table."""
        with self._tables.lock:
            table = self._table(state)
            self._load(state, table, listed, ())
            return run(self._tables.connection, table)

    def _prune(
        self,
        manifests: Sequence[ListedManifest],
        bound: Expression,
        table: EntryTable,
        metadata: TableMetadata,
        schema: Schema,
    ) -> list[ListedManifest]:
        return matching_manifests(self._tables.connection, manifests, bound, metadata.specs, schema, table.schema)

    def _load(
        self,
        state: TableState,
        table: EntryTable,
        data: Sequence[ListedManifest],
        deletes: Sequence[ListedManifest],
    ) -> None:
        wanted = [*data, *deletes]
        numbers = self._tables.load(table, wanted, self.repository.storage_of(state))
        first_row_ids = [m.manifest.first_row_id for m in wanted]
        scanned = (numbers, first_row_ids)
        if scanned == self._scanned:
            return
        self._scanned = scanned
        in_scan = pa.table({"m": pa.array(numbers, pa.int32()), "first_row_id": pa.array(first_row_ids, pa.int64())})
        self._tables.connection.register("scan_manifests_arrow", in_scan)
        duck.rows(self._tables.connection, query("plan/scan.sql", "scan_manifests"))
        self._tables.connection.unregister("scan_manifests_arrow")

    def _files(self, table: EntryTable, predicate: PlanPredicate, entries: str) -> pa.Table:
        sql = query(FILES, "data_files").format(
            entries=table.name,
            where=conjunction(entries, predicate.where_sql),
            might=_bits(predicate.leaf_might),
            all=_bits(predicate.leaf_all),
        )
        return self._arrow(sql, predicate.parameters)

    def _deletes(
        self, table: EntryTable, predicate: PlanPredicate, metadata: TableMetadata
    ) -> tuple[pa.Table, pa.Table]:
        unpartitioned = [s.spec_id for s in metadata.partition_specs if s.is_unpartitioned]
        sql = delete_pairs_sql(table, predicate.where_sql)
        pairs = self._arrow(sql, {**predicate.parameters, "unpartitioned": unpartitioned})
        _check_partitions(pairs)
        files = query(FILES, "delete_files").format(entries=table.name, where="TRUE")
        return pairs, self._arrow(files, {})

    def _count(self, table: EntryTable, planned: PlannedFiles, entries: str) -> tuple[int, int, int]:
        """Live data files in the manifests looked into, their rows, and the files that partition values leave."""
        parts = {n: t for n, t in table.columns.items() if n.startswith("part_") or n == "spec_id"}
        by_partition = plan_predicate(planned.bound, planned.state.metadata.specs, planned.schema, parts)
        sql = query(FILES, "count_files").format(entries=table.name, where=entries, by_partition=by_partition.where_sql)
        files, records, left = duck.rows(self._tables.connection, sql, _used(sql, by_partition.parameters))[0]
        return files, records, left

    def _arrow(self, sql: str, parameters: Mapping[str, Any]) -> pa.Table:
        return duck.arrow(self._tables.connection, sql, _used(sql, parameters))

    def clear(self) -> None:
        self._tables.clear()

    def close(self) -> None:
        self._tables.close()


EMPTY = pa.table(
    {
        "m": pa.array([], pa.int32()),
        "ordinal": pa.array([], pa.int64()),
        "file_path": pa.array([], pa.string()),
        "file_format": pa.array([], pa.string()),
        "spec_id": pa.array([], pa.int32()),
        "record_count": pa.array([], pa.int64()),
        "file_size_in_bytes": pa.array([], pa.int64()),
        "sequence_number": pa.array([], pa.int64()),
        "first_row_id": pa.array([], pa.int64()),
        "might_bits": pa.array([], pa.list_(pa.int64())),
        "all_bits": pa.array([], pa.list_(pa.int64())),
    }
)
EMPTY_PAIRS = pa.table({n: pa.array([], pa.int64()) for n in ("m", "ordinal", "dm", "dordinal")})


def _bits(conditions: Sequence[str]) -> str:
    """Conditions as a list of numbers of LEAVES_PER_NUMBER bits each, the first condition in the lowest bit."""
    numbers = []
    for start in range(0, max(len(conditions), 1), LEAVES_PER_NUMBER):
        chunk = enumerate(conditions[start : start + LEAVES_PER_NUMBER])
        terms = [f"CASE WHEN {c} THEN {1 << i}::BIGINT ELSE 0 END" for i, c in chunk if c != "FALSE"]
        numbers.append(f"({' + '.join(terms) if terms else '0::BIGINT'})")
    return f"[{', '.join(numbers)}]"


def _from_bits(numbers: Sequence[int]) -> int:
    return sum(n << LEAVES_PER_NUMBER * i for i, n in enumerate(numbers))


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
    for pair in pairs.to_pylist():
        if not pair["same_partition"]:
            raise CorruptFileError(
                "a delete file that names a data file has another partition than that file "
                f"(manifest {pair['dm']}, entry {pair['dordinal']}; SP7)"
            )
