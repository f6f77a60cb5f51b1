"""Scans of a table: planned in SQL, read here or handed to Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
from attrs import define, evolve, field

from icecore.engine.common.lazy_property import lazy_property
from icecore.engine.common.optional_packages import to_pandas
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.expression.sql.parse import FilterLike, parse_filter
from icecore.engine.expression.timestamps import TimestampLike, to_epoch_ms
from icecore.engine.formats.arrays import to_numbers
from icecore.engine.metadata.fold import TableState
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.scan import planned_by_spark, refine_scan, scan_frames
from icecore.engine.scan.refine_scan import checked_limit, remaking
from icecore.engine.scan.relation.missing_files import rows_or_expiry, telling_expiry
from icecore.engine.scan.scan_display import ScanDisplay
from icecore.engine.spec.reserved import DELETED, select, with_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotRefType
from icecore.projections.plan.planner import PlannedFiles, Planner
from icecore.projections.plan.scan_plan import ScanPlan

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from icecore.engine.data.read.apply_deletes import DeleteCache
    from icecore.engine.scan.aggregates import Aggregate, Aggregates, Read
    from icecore.engine.spec.metadata import TableMetadata
    from icecore.engine.spec.types import StructType
    from icecore.projections.explain.explain import Explanation


@define(slots=False, repr=False)
class DataScan(ScanDisplay):
    """A scan of one snapshot. Nothing is planned or read before it is asked for; a plan is made once."""

    _planner: Planner
    _state: TableState
    snapshot: Snapshot | None
    schema: Schema
    row_filter: Expression
    selected_fields: tuple[str, ...]
    case_sensitive: bool
    limit: int | None
    # The call that makes this scan again with other options.
    _again: Callable[..., Any] = field(kw_only=True, repr=False, eq=False)
    _session: SparkSession | None = field(default=None, repr=False, kw_only=True)

    @classmethod
    def of(
        cls,
        planner: Planner,
        state: TableState,
        row_filter: FilterLike,
        *,
        selected_fields: tuple[str, ...],
        snapshot_id: int | None,
        ref: str | None,
        as_of: TimestampLike | None,
        case_sensitive: bool,
        limit: int | None,
        parameters: Mapping[str, Any] | Sequence[Any] | None,
    ) -> DataScan:
        """The scan that a caller asks for.

        Raises ValidationError where the snapshot is chosen twice, NoSuchSnapshotError, ExpressionError.
        """
        if sum(x is not None for x in (snapshot_id, ref, as_of)) > 1:
            raise ValidationError("a scan takes one of snapshot_id, ref and as_of")
        limit = checked_limit(limit)
        snapshot, schema = _snapshot_and_schema(state, snapshot_id, ref, as_of)
        unbound = parse_filter(row_filter, parameters)
        bound = bind(unbound, schema, case_sensitive)
        again = remaking(
            partial(cls.of, planner, state),
            row_filter=unbound,
            selected_fields=selected_fields,
            snapshot_id=snapshot_id,
            ref=ref,
            as_of=as_of,
            case_sensitive=case_sensitive,
            limit=limit,
        )
        scan = cls(planner, state, snapshot, schema, bound, selected_fields, case_sensitive, limit, again=again)
        scan.projection  # noqa: B018 - an unknown column is an error now, not when rows are read
        return scan

    @lazy_property
    def projection(self) -> Schema:
        """The schema of the rows, columns in the order asked for; metadata columns like `_row_id` can be among them.

        With `_deleted` among them, deleted rows of the planned files are included.
        """
        return select(self.schema, self.selected_fields, self.case_sensitive, self._partition_type)

    def _partition_type(self) -> StructType:
        from icecore.projections.inspect.partition_statistics import unified_partition_type

        return unified_partition_type(self._state.metadata)

    @lazy_property
    def planned(self) -> PlannedFiles:
        """The plan's files as columns."""
        return planned_by_spark.planned(self)

    def _manifests(self) -> tuple[tuple[ListedManifest, ...], str]:
        """The manifests to plan over, and a condition in SQL over their entries `e`."""
        if self.snapshot is None:
            return (), "TRUE"
        return self._planner.list_manifests(self._state, self.snapshot), "TRUE"

    planned_by = planned_by_spark.planned_by
    plan_frame = planned_by_spark.plan_frame

    def plan_files(self) -> list[FileScanTask]:
        """One task for each file, whole."""
        return self.planned.tasks()

    def plan(self) -> ScanPlan:
        """The plan as Arrow, with splits, and with counts of skipped files by reason."""
        return ScanPlan(self.planned, self._state.metadata.properties)

    def explain(self) -> Explanation:
        """The reason why each data file is in the plan or is not, with sums by reason and the SQL that ran."""
        from icecore.projections.explain.explain import explain

        listed, entries = self._manifests()
        return explain(self._planner, self._state, listed, self.row_filter, self.schema, entries)

    # The same scan with other options
    update = refine_scan.update
    filter = refine_scan.filter
    select = refine_scan.select
    use_ref = refine_scan.use_ref
    with_case_sensitive = refine_scan.with_case_sensitive

    # Reading

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of batches; files are opened as the stream gets to them."""
        from icecore.engine.data.arrow.arrow_schema import schema_to_arrow

        schema = schema_to_arrow(self.projection, with_ids=False)
        return pa.RecordBatchReader.from_batches(schema, self._batches())

    def to_arrow(self) -> pa.Table:
        """The rows as a table. Files are read in parallel, rows come in the order of the plan."""
        from icecore.engine.data.arrow.arrow_schema import schema_to_arrow

        schema = schema_to_arrow(self.projection, with_ids=False)
        return pa.Table.from_batches(list(self._batches()), schema)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame. Raises MissingDependencyError where pandas is not installed."""
        return to_pandas(self.to_arrow())

    to_ray = scan_frames.to_ray
    to_daft = scan_frames.to_daft

    def to_duckdb(
        self, table_name: str = "scan", connection: duckdb.DuckDBPyConnection | None = None
    ) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection, a new one unless given, in which the rows are a view of that name.

        Rows are read when they are asked for, local Parquet files by DuckDB itself; position deletes are read now.
        """
        from icecore.engine.scan.relation.registered_scan import register_scan

        con = connection or duckdb.connect(":memory:")
        register_scan(con, table_name, self)
        return con

    def to_polars(self) -> pl.LazyFrame:
        """The rows as a lazy frame of Polars: files are planned and read by its filters, columns and limit."""
        from icecore.engine.scan.polars_frame import lazy_frame

        return lazy_frame(self)

    def filtered(self, further: Expression) -> DataScan:
        """The same scan with a further filter, which is bound to the schema."""
        from icecore.engine.expression.simplify import and_

        return evolve(self, row_filter=and_(self.row_filter, further))

    def is_of_same_state(self, other: DataScan) -> bool:
        """Whether both are planned over one state of a table by one planner."""
        return self._state is other._state and self._planner is other._planner

    def forgotten(self) -> str:
        """The position at which bounds of the table's files were forgotten last; empty where they never were."""
        return self._planner.forgotten(self._state.stream)

    def count(self) -> int:
        """The number of rows: from metadata and deleted positions where no residual is in the way."""
        from icecore.engine.data.read.apply_deletes import DeleteCache

        planned = self.planned
        exact, has_deleted = planned.are_exactly_counted, DELETED in self.projection.fields
        tasks = planned.of_rows(np.flatnonzero(~exact)).tasks()
        with telling_expiry(self._planner.repository, self._state, filter(None, (self.snapshot,))):
            counted, left = (0, tasks) if has_deleted else DeleteCache().counted_rows(self.storage, tasks)
        known: int = int(to_numbers(planned.files["record_count"])[exact].sum()) + counted
        known += sum(b.num_rows for b in self.read_tasks(left, self._narrowest()))
        return known if self.limit is None else min(known, self.limit)

    def aggregate(self, *aggregates: str) -> Aggregates:
        """`count(*)`, `count(x)`, `null_count(x)`, `min(x)` and `max(x)` of the rows, reading as few files as it can.

        Files of which metadata tells the answer exactly are not read. NaN is greater than all numbers. Raises
        ValidationError for anything else, and for a scan with a limit.
        """
        from icecore.engine.data.read.apply_deletes import DeleteCache
        from icecore.engine.scan.aggregates import Aggregate

        if self.limit is not None:
            raise ValidationError("aggregates are of all rows of a scan: it can't have a limit")
        if not aggregates:
            raise ValidationError("no aggregate was asked for")
        asked = [Aggregate.parse(a, self.schema, self.case_sensitive) for a in aggregates]
        deletes = DeleteCache()
        return self._aggregated(asked, lambda task, columns: self._read_one(task, columns, deletes))

    def _aggregated(self, asked: Sequence[Aggregate], read: Read) -> Aggregates:
        from icecore.engine.scan.aggregates import aggregate
        from icecore.engine.scan.file_metrics import metric_columns

        fields = [a.column for a in asked if a.column is not None]
        names = metric_columns(fields, self._state.metadata.specs)
        planned, columns = planned_by_spark.planned_with_columns(self, names)
        return aggregate(asked, planned, columns, self.schema, read)

    def to_spark(self, session: SparkSession | None = None) -> DataFrame:
        """The rows as a Spark DataFrame, read by Spark from exactly the planned files.

        Without a session the active one reads; raises ValidationError where there is none. Where metadata tells it,
        the DataFrame's `count()` starts no job, and counts, minima and maxima in queries read no file.
        """
        from icecore.engine.spark.read.scan_to_spark import read_plan, with_known_count
        from icecore.engine.spark.relation.java_classes import compile_ahead
        from icecore.engine.spark.session import given_or_active

        compile_ahead(session := given_or_active(session))
        planned = self.planned
        frame = read_plan(
            session,
            planned,
            projection=self.projection,
            metadata=self._state.metadata,
            storage=self.storage,
            filter=self.row_filter,
            replanned=planned_by_spark.replanned(self),
        )
        return frame.limit(self.limit) if self.limit is not None else with_known_count(frame, planned.exact_count)

    def to_spark_filtered_there(self, session: SparkSession, further: Expression) -> DataFrame:
        """The rows of the files that may match a further filter, bound to the schema; Spark applies it to rows itself.

        The limit is not applied. A join in the query may prune further files.
        """
        from icecore.engine.expression.simplify import and_
        from icecore.engine.spark.read.scan_to_spark import read_plan

        listed, entries = self._manifests()
        condition = and_(self.row_filter, further)
        planned = self._planner.plan_manifests(self._state, listed, condition, self.schema, entries)
        return read_plan(
            session,
            planned,
            projection=self.projection,
            metadata=self._state.metadata,
            storage=self.storage,
            filter=self.row_filter,
            replanned=planned_by_spark.replanned(self, further),
        )

    def export(self, folder: str | Path) -> None:
        """Writes the plan to a folder, from which `icecore.spark.load_plan` reads the rows without table or log.

        A plan that is there already is replaced. Raises ExpressionError for a filter that can't be written down,
        StorageError where the folder can't be written to.
        """
        from icecore.engine.scan.exported_plan import ExportedPlan, export_plan

        plan = ExportedPlan(
            self._state.identifier,
            None if self.snapshot is None else self.snapshot.snapshot_id,
            self.plan_files(),
            self.schema,
            self.projection,
            self.row_filter,
            self.limit,
            self._state.metadata,
            self.storage.mapping,
        )
        export_plan(plan, str(folder))

    def _narrowest(self) -> Schema:
        """The projection for counting rows: only what the filter needs, or `_deleted`, else one column."""
        if self.row_filter != TRUE or DELETED in self.projection.fields:
            return Schema((), self.schema.schema_id)
        return Schema(self.schema.fields[:1], self.schema.schema_id)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
        from icecore.engine.data.arrow.narrow import narrow

        if self.limit == 0:
            return
        left = self.limit
        wanted = schema_to_arrow(self.projection, with_ids=False)
        for batch in self.read_tasks(self.plan_files(), self.projection):
            batch = narrow(batch, wanted)
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            if batch.num_rows:
                yield batch
            if left == 0:
                return

    def read_tasks(self, tasks: Sequence[FileScanTask], projection: Schema) -> Iterator[pa.RecordBatch]:
        """The selected rows of the tasks, in order, read ahead; what the filter needs and `_deleted` come too."""
        from icecore.engine.data.read.apply_deletes import DeleteCache
        from icecore.engine.data.read.read_ahead import read_ahead

        deletes = DeleteCache()
        if len(tasks) <= 1:
            for task in tasks:
                yield from self._read_one(task, projection, deletes)
            return
        for batches in read_ahead(lambda task: list(self._read_one(task, projection, deletes)), tasks):
            yield from batches

    def _read_one(self, task: FileScanTask, projection: Schema, deletes: DeleteCache) -> Iterator[pa.RecordBatch]:
        from icecore.engine.data.arrow.row_filter import filter_batches, filter_columns
        from icecore.engine.data.read.read_tasks import read_task

        # With `_deleted` deleted rows come too, whichever columns are read.
        more = (f for f in self.projection.fields if f == DELETED and f not in projection.fields)
        columns = filter_columns(task.residual, self.schema, with_columns(projection, *more))
        batches = read_task(
            task,
            projection=columns,
            table_schema=self.schema,
            specs=self._state.metadata.specs,
            storage=self.storage,
            name_mapping=NAME_MAPPING.find(self._state.metadata.properties),
            table_schemas=self._state.metadata.schemas,
            deletes=deletes,
        )
        return rows_or_expiry(self, filter_batches(batches, task.residual, self.schema))

    @property
    def metadata(self) -> TableMetadata:
        """The table's metadata."""
        return self._state.metadata

    @property
    def storage(self) -> Any:
        """The storage that the table's files are in."""
        return self._planner.repository.storage_of(self._state)


def _snapshot_and_schema(
    state: TableState, snapshot_id: int | None, ref: str | None, as_of: TimestampLike | None
) -> tuple[Snapshot | None, Schema]:
    """The snapshot of a scan, and the schema to read it by.

    A branch is read by the table's schema, a tag, a snapshot or a time by the schema of that snapshot (SP8).
    """
    metadata = state.metadata
    if snapshot_id is not None:
        snapshot: Snapshot | None = metadata.find_snapshot(snapshot_id)
    elif as_of is not None:
        snapshot = metadata.snapshot_as_of(to_epoch_ms(as_of, "as_of"))
    else:
        name = MAIN_BRANCH if ref is None else ref
        snapshot = metadata.snapshot_by_ref(name)
        found = metadata.refs.get(name)
        if found is None or found.type is SnapshotRefType.BRANCH:
            return snapshot, metadata.schema()
    if snapshot is None or snapshot.schema_id is None:
        return snapshot, metadata.schema()
    return snapshot, metadata.schema_by_id(snapshot.schema_id)
