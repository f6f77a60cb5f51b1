"""Planned files as a Spark DataFrame.

Spark's own Parquet reader reads the files that it reads rightly; all others go through Python in Spark's tasks. The
rows are those of the plan, whatever names columns had, and whatever the session's settings are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Protocol

from icecore.engine.data.file_columns import FileColumns
from icecore.engine.data.read.column_resolution import FIRST_RESERVED_ID
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import FALSE, TRUE, BoundTerm, Expression
from icecore.engine.expression.walk import predicates
from icecore.engine.spark.pyspark_api import DataFrame, SparkSession
from icecore.engine.spark.read.frame_columns import path_sql, shown_primitive_sql, shown_sql
from icecore.engine.spark.read.native_scan import native_branch
from icecore.engine.spark.read.plain_files import plain_groups
from icecore.engine.spark.read.python_scan import python_branch
from icecore.engine.spark.read.routing import routes
from icecore.engine.spark.read.scan_context import Branch, ScanContext
from icecore.engine.spark.read.whole_files import whole_files
from icecore.engine.spark.relation.file_pruning import Replanned
from icecore.engine.spark.relation.planned_frame import PlannedFrames, ShownColumn
from icecore.engine.spark.session import prepare
from icecore.engine.spark.spark_filter import to_spark_sql
from icecore.engine.spark.spark_sql_text import quote
from icecore.engine.spark.spark_transforms import transform_column
from icecore.engine.spark.spark_types import schema_to_spark, shown_type
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import BucketTransform
from icecore.engine.spec.types import NestedField
from icecore.engine.storage.file_io import Storage


def prepare_to_read(session: SparkSession) -> None:
    """Sets what reading by public API needs, ahead of queries whose rows are planned only while they run.

    Tasks have the settings of the moment when the query began, and Spark's row by row reader goes by those, so a plan
    that is made while the query runs sets them too late.
    """
    if PlannedFrames.of(session) is None:
        prepare(session)


def read_tasks(
    session: SparkSession,
    tasks: Sequence[FileScanTask],
    *,
    projection: Schema,
    metadata: TableMetadata,
    storage: Storage,
    filter: Expression | None = None,
    replanned: Replanned | None = None,
) -> DataFrame:
    """The rows of the tasks that their delete files leave, and that satisfy the filter, with the projection's columns.

    `filter` is bound and may test columns that are not projected. The projection may hold the reserved columns `_file`,
    `_pos`, `_deleted`, `_spec_id`, `_partition`, `_row_id` and `_last_updated_sequence_number` by their ids; with
    `_deleted` deleted rows come too, marked by it. Types are those of `schema_to_spark`.

    `replanned` gives the locations of the files that a further filter, bound to the projection's schema, leaves: a
    query that filters the DataFrame reads only those. It may know aggregates of the rows, too. Without it all files are
    read.

    In classic sessions Spark reads through a relation of exactly these files (`PlannedFiles` in what `explain` shows),
    in which all settings that rows depend on are pinned. Elsewhere, in Spark Connect above all, public API alone is
    used: then the session's setting `spark.sql.parquet.fieldId.read.enabled` is switched on and must stay on while the
    DataFrame is used, and a session whose Parquet source is of version 2 is read through Python.

    Spark reports what fails while reading in exceptions of its own. Raises ValidationError where a file is planned
    twice or does not fit its partition spec.
    """
    condition = TRUE if filter is None else filter
    if not tasks or condition == FALSE:
        return session.createDataFrame([], schema_to_spark(projection))
    context = ScanContext(session, metadata, storage, projection, condition, replanned)
    if context.planned_frames is None:
        prepare(session)
    found = routes(context, whole_files(tasks, storage))
    is_all = len(found.native) == 1 and not found.python
    branches = [native_branch(context, group, is_all=is_all) for group in found.native]
    if found.python:
        branches.append(python_branch(context, found.python, context.read_columns(context.read_fields(frozenset()))))
    return _united([_finished(context, b) for b in branches])


class PlanOfFiles(Protocol):
    """A plan whose files can be taken as tasks, and as columns where nothing of them needs tasks."""

    def tasks(self) -> Sequence[FileScanTask]: ...

    def plain_columns(self) -> FileColumns | None: ...


def read_plan(
    session: SparkSession,
    planned: PlanOfFiles,
    *,
    projection: Schema,
    metadata: TableMetadata,
    storage: Storage,
    filter: Expression | None = None,
    replanned: Replanned | None = None,
) -> DataFrame:
    """The DataFrame of `read_tasks` for the plan, whose tasks are made only where a file has to be looked at itself."""
    context = ScanContext(session, metadata, storage, projection, TRUE if filter is None else filter, replanned)
    files = None if context.planned_frames is None or filter == FALSE else planned.plain_columns()
    groups = plain_groups(context, files) if files else None
    if groups is not None:
        is_all = len(groups) == 1
        return _united([_finished(context, native_branch(context, group, is_all=is_all)) for group in groups])
    return read_tasks(
        session,
        planned.tasks(),
        projection=projection,
        metadata=metadata,
        storage=storage,
        filter=filter,
        replanned=replanned,
    )


def with_known_count(frame: DataFrame, count: int | None) -> DataFrame:
    """The DataFrame itself, whose `count()` starts no job where `count` is given; others made of it count as usual."""
    if count is not None:
        by_spark = frame.count
        # A cache is filled by counting.
        frame.count = lambda: by_spark() if frame.is_cached else count
    return frame


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.union(b), frames)


def _finished(context: ScanContext, branch: Branch) -> DataFrame:
    frame = branch.frame
    if context.filter != TRUE:
        frame = _filtered(context, branch)
    columns = [_shown(branch, f) for f in context.projection.fields]
    if context.planned_frames is not None:
        return context.planned_frames.shown(frame, columns)
    return frame.select(*(c.of_pyspark() for c in columns))


def _shown(branch: Branch, f: NestedField) -> ShownColumn:
    sql, cast = branch.sql[f.field_id], None
    if f.field_id < FIRST_RESERVED_ID:
        column = branch.columns[f.field_id]
        # Where the file lacks a whole column, its SQL says what it is instead.
        sql = shown_sql(column, sql, f) if column.is_read else shown_primitive_sql(f.field_type, sql)
    if f.field_id >= FIRST_RESERVED_ID or not branch.columns[f.field_id].is_read:
        cast = shown_type(f.field_type)
    # Without metadata of its own the column would keep the field id, and what users do with its schema would go by it.
    return ShownColumn(f.name, sql, cast, {"comment": f.doc} if f.doc else {})


def _filtered(context: ScanContext, branch: Branch) -> DataFrame:
    def column(term: BoundTerm) -> str:
        return path_sql(branch.columns, branch.sql, context.id_path(term.field.field_id))

    names: dict[BoundTerm, str] = {}
    buckets = []
    for p in predicates(context.filter):
        if isinstance(p.term, BoundTerm) and isinstance(p.term.transform, BucketTransform) and p.term not in names:
            names[p.term] = f"__icecore_bucket{len(names)}"
            computed = transform_column(p.term.transform, p.term.source_type, column(p.term))
            if computed is not None:
                buckets.append(computed.alias(names[p.term]))
    frame = branch.frame.select("*", *buckets) if buckets else branch.frame
    return frame.where(to_spark_sql(context.filter, lambda t: quote(names[t]) if t in names else column(t)))
