"""The changes of rows that a table offers by Spark: what is large is read and written in Spark's tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from attrs import frozen

from icecore.engine.common.keyword_options import options_of, takes_options
from icecore.engine.errors import ExpressionError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.sql.parse import check_given, parse_filter
from icecore.engine.operations.action import PlanContext
from icecore.engine.operations.merge_on_read import merges_on_read
from icecore.engine.operations.replace_files import DecidedRows
from icecore.engine.operations.upsert import UpsertResult
from icecore.engine.properties.table_properties import DELETE_ISOLATION, UPDATE_ISOLATION, UPDATE_MODE, KnownProperty
from icecore.engine.spark.change.assignments import Values
from icecore.engine.spark.change.row_change import Condition, RowChange
from icecore.engine.spark.change.session_audit import audited
from icecore.engine.spark.change.written_rows import WrittenRows
from icecore.engine.spark.pyspark_api import Column
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.table.by_spark.spark_maintenance import SparkMaintenance
from icecore.engine.table.by_spark.spark_merge import Names, SparkMerge, upsert_of
from icecore.engine.table.commit_options import CommitOptions, PinnedChangeOptions, PinnedOptions
from icecore.engine.table.deciding_transaction import DecidingTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from icecore.engine.commit.dry_run import DryRun


@frozen
class Within:
    """A condition of Spark's, and a bound filter of the engine that all its rows satisfy, to choose files by."""

    condition: Column
    filter: Expression


class SparkChanges(SparkMaintenance):
    """Changes of a table's rows by Spark, each as one commit; their options are those of the table's own calls.

    A change is of the rows of a base: the snapshot that is named, else the branch's head as the call begins. It raises
    ConflictingCommitsError, and nothing is changed, where another commit meanwhile changed what it read or touched:
    see `operations/conflict_validation.py`. A job that fails leaves files that no snapshot holds, which
    `maintenance.remove_orphan_files` removes. What Spark finds wrong it reports in exceptions of its own.

    Conditions are in the engine's grammar, as in `Table.delete`. Text beyond it and Columns are evaluated by Spark, and
    then no file is left out by its metadata. Other SQL text is Spark's.
    """

    def with_session(self, session: SparkSession) -> SparkChanges:
        """The same changes by this session, instead of the running one or a local one."""
        return SparkChanges(self._table, session)

    @takes_options(PinnedOptions)
    def delete(
        self, delete_filter: str | Expression | Column | Within, **options: Unpack[PinnedOptions]
    ) -> DryRun | None:
        """Deletes the rows that match.

        Files whose rows all match go as a whole; others are written again without the rows, or get deletes by position,
        as `write.delete.mode` says. Raises ConflictingCommitsError, ValidationError, NoSuchSnapshotError, and
        ExpressionError for None.
        """
        check_given(delete_filter)

        def decide(at: PlanContext, snapshot: Snapshot | None) -> DecidedRows:
            change, read = self._change(at, snapshot, delete_filter)
            return decided(change.delete(), read)

        return self._commit(decide, DELETE_ISOLATION, options)

    @takes_options(PinnedOptions)
    def update(
        self,
        set: Values,  # the word of SQL
        where: str | Expression | Column | Within | None = None,
        **options: Unpack[PinnedOptions],
    ) -> DryRun | None:
        """Sets columns to new values in the rows that match, or in all rows without a condition.

        Values, by column (`"point.x"` inside of a struct), are SQL text, Columns, or constants other than text. They
        are computed from the old row, whose columns may be called `target.x` too. Rows keep their ids (v3);
        `write.update.mode` says how old rows are deleted. Raises ConflictingCommitsError, ValidationError where a value
        doesn't fit its column or another column has nanoseconds, NoSuchSnapshotError.
        """

        def decide(at: PlanContext, snapshot: Snapshot | None) -> DecidedRows:
            change, read = self._change(at, snapshot, where, UPDATE_MODE)
            return decided(change.update(set), read)

        return self._commit(decide, UPDATE_ISOLATION, options)

    def merge(
        self,
        source: DataFrame,
        on: str | Column | Sequence[str],
        *,
        target_filter: str | Expression | None = None,
        target_alias: str = "target",
        source_alias: str = "source",
        merge_schema: bool = False,
    ) -> SparkMerge:
        """A merge of a source into the table: clauses are added to it, and its `commit()` makes it.

        `on` is a condition in Spark's SQL or a Column, over columns like `target.id` and `source.id`, or names of key
        columns, which leaves out files that can have no key of the source; null equals nothing. Only rows of the
        `target_filter`, in the engine's grammar, take part: it leaves out files too. With `merge_schema` the table gets
        the columns that only the source has, in structs too, and wider types, as by `append`. The source is computed
        once, and kept by Spark's executors meanwhile.
        """
        names = Names(target_alias, source_alias)
        return SparkMerge(self._table, source, on, target_filter, names, merge_schema=merge_schema)

    @takes_options(PinnedOptions)
    def upsert(
        self,
        source: DataFrame,
        join_cols: Sequence[str] | None = None,
        *,
        when_matched_update_all: bool = True,
        when_not_matched_insert_all: bool = True,
        merge_schema: bool = False,
        **options: Unpack[PinnedOptions],
    ) -> UpsertResult:
        """Updates the rows whose keys the source has and inserts the others, in one commit, as `Table.upsert` does.

        The keys are `join_cols`, else the identifier fields; null equals null. Rows that would stay the same are not
        written again; a column that the source lacks keeps its value. All rows of the table with a key are updated,
        where `Table.upsert` refuses a key that is twice there. `merge_schema` is that of `merge`. Raises
        ValidationError where a key is twice in the source, ConflictingCommitsError.
        """
        merge = upsert_of(
            self._table,
            source,
            join_cols,
            updates=when_matched_update_all,
            inserts=when_not_matched_insert_all,
            merge_schema=merge_schema,
        )
        result = merge.commit(**options)
        return UpsertResult(result.rows_updated, result.rows_inserted, result.outcome)

    def _change(
        self, at: PlanContext, snapshot: Snapshot | None, condition: Any, *modes: KnownProperty[str]
    ) -> tuple[RowChange, Expression | None]:
        """The change, and the filter of the rows that it reads."""
        schema = at.metadata.schema()
        told = condition.condition if isinstance(condition, Within) else condition
        parsed = own_filter(told, schema)
        read = condition.filter if isinstance(condition, Within) else parsed
        tasks = [] if snapshot is None else at.planner.tasks(at.state, snapshot, read, schema)
        how: Condition = bind(parsed, schema) if parsed is not None else _spark_condition(told)
        running = self._running()
        return RowChange(running, at.metadata, at.storage, tasks, how, merges_on_read(at.metadata, *modes)), read

    def _commit(self, decide: Any, isolation: KnownProperty[str], options: PinnedOptions) -> DryRun | None:
        with DecidingTransaction.of(self._table, options_of(CommitOptions, options)) as transaction:
            options = audited(self._running(), transaction.metadata, options)
            transaction.decide(decide, isolation, **options_of(PinnedChangeOptions, options))
        return transaction.outcome


def decided(written: WrittenRows, row_filter: Expression | None) -> DecidedRows:
    """The files written, and the filter of the rows read for them."""
    return DecidedRows(written.gone, written.marked, written.added, row_filter)


def own_filter(condition: Any, schema: Schema) -> Expression | None:
    """The condition as the engine's filter; None where only Spark understands it. Raises ExpressionError."""
    if isinstance(condition, Column):
        return None
    try:
        parsed = parse_filter(condition)
        bind(parsed, schema)
    except ExpressionError:
        if isinstance(condition, str):
            return None
        raise
    return parsed


def _spark_condition(condition: str | Column) -> Column:
    return F.expr(condition) if isinstance(condition, str) else condition
