"""Merges of Spark DataFrames into a table: their clauses, and the commit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, TypeAlias, Unpack

from attrs import evolve, field, frozen

from icecore.engine.commit.dry_run import DryRun
from icecore.engine.common.identifiers import names_of
from icecore.engine.common.keyword_options import options_of, takes_options
from icecore.engine.errors import ValidationError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.operations.action import PlanContext
from icecore.engine.operations.merge_on_read import merges_on_read
from icecore.engine.operations.replace_files import DecidedRows
from icecore.engine.operations.upsert import ROWS_INSERTED, ROWS_UPDATED
from icecore.engine.properties.table_properties import MERGE_ISOLATION, MERGE_MODE, UPDATE_MODE, KnownProperty
from icecore.engine.spark.change.assignments import Values
from icecore.engine.spark.change.changed_values import differs
from icecore.engine.spark.change.merge_clause import (
    MergeClause,
    MergeNames,
    Then,
    When,
    check_clauses,
    condition_of,
)
from icecore.engine.spark.change.row_merge import RowMerge
from icecore.engine.spark.change.session_audit import audited_rows
from icecore.engine.spark.name_rule import KnownNames, is_case_sensitive
from icecore.engine.spark.pyspark_api import Column
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.table.commit_options import CommitOptions, PinnedChangeOptions, PinnedOptions
from icecore.engine.table.deciding_transaction import DecidingTransaction
from icecore.engine.table.merged_schema import taken_in
from icecore.engine.table.table_handle import TableHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_DELETED = "icecore.rows-deleted"

Condition: TypeAlias = str | Column | None


@frozen
class MergeResult:
    """The numbers of rows updated, deleted and inserted; after a dry run, of those that would be, with its outcome."""

    rows_updated: int = 0
    rows_deleted: int = 0
    rows_inserted: int = 0
    outcome: DryRun | None = field(default=None, repr=False)


@frozen
class Names:
    """The names under which expressions find the columns of the table and of the source."""

    target: str = "target"
    source: str = "source"


@frozen
class SparkMerge:
    """A merge that is not made yet. Adding a clause gives a new merge; for each row the first clause that applies acts.

    Conditions are Spark's SQL or Columns; values map columns of the table to SQL text, Columns, or constants other than
    text. Clauses for matched rows may use both sides, others only the side that the row is of. A row that two rows of
    the source would change is an error, unless the only clause for matched rows deletes them all. Rows that no clause
    is for stay as they are, and a merge that changes no row writes nothing.
    """

    _table: TableHandle
    _source: DataFrame = field(repr=False)
    _on: str | Column | Sequence[str]
    _target_filter: str | Expression | None = None
    _names: Names = Names()
    _clauses: tuple[MergeClause, ...] = ()
    _merge_schema: bool = False
    _mode: KnownProperty[str] = field(default=MERGE_MODE, repr=False)
    _is_upsert: bool = False

    def when_matched_update(self, set: Values, condition: Condition = None) -> SparkMerge:
        """Updates rows that match by values of columns; other columns stay as they are."""
        return self._with(When.MATCHED, Then.UPDATE, condition, set)

    def when_matched_update_all(self, condition: Condition = None) -> SparkMerge:
        """Updates rows that match by the source's columns of the same names; its other columns are left out."""
        return self._with(When.MATCHED, Then.UPDATE, condition)

    def when_matched_delete(self, condition: Condition = None) -> SparkMerge:
        """Deletes rows that match."""
        return self._with(When.MATCHED, Then.DELETE, condition)

    def when_not_matched_insert(self, values: Values, condition: Condition = None) -> SparkMerge:
        """Inserts rows of the source that match none; columns without value get their default."""
        return self._with(When.NOT_MATCHED, Then.INSERT, condition, values)

    def when_not_matched_insert_all(self, condition: Condition = None) -> SparkMerge:
        """Inserts rows of the source that match none, with its columns of the same names."""
        return self._with(When.NOT_MATCHED, Then.INSERT, condition)

    def when_not_matched_by_source_update(self, set: Values, condition: Condition = None) -> SparkMerge:
        """Updates rows of the table that no row of the source matches. All files that the filter lets in are read."""
        return self._with(When.NOT_MATCHED_BY_SOURCE, Then.UPDATE, condition, set)

    def when_not_matched_by_source_delete(self, condition: Condition = None) -> SparkMerge:
        """Deletes rows of the table that no row of the source matches. All files that the filter lets in are read."""
        return self._with(When.NOT_MATCHED_BY_SOURCE, Then.DELETE, condition)

    @takes_options(PinnedOptions)
    def commit(self, **options: Unpack[PinnedOptions]) -> MergeResult:
        """Makes the merge, as one commit; `write.merge.mode` says how old rows are deleted.

        It is of the rows of a base, as the other changes by Spark. Raises ValidationError where clauses or values don't
        fit, and where rows of the source change one row of the table; ConflictingCommitsError, NoSuchSnapshotError.
        """
        check_clauses(self._clauses)
        with DecidingTransaction.of(self._table, options_of(CommitOptions, options)) as transaction:
            options = audited_rows(self._source, transaction.metadata, options)
            if self._merge_schema:
                taken_in(transaction, self._source)
            pinned = options_of(PinnedChangeOptions, options)
            rows = transaction.decide(self._decide, MERGE_ISOLATION, **pinned)
        updated, deleted, inserted = (int(rows.summary.get(k, 0)) for k in (ROWS_UPDATED, ROWS_DELETED, ROWS_INSERTED))
        return MergeResult(updated, deleted, inserted, transaction.outcome)

    def _with(self, when: When, then: Then, condition: Condition, values: Values | None = None) -> SparkMerge:
        return evolve(self, clauses=(*self._clauses, MergeClause(when, then, condition, values)))

    def _decide(self, at: PlanContext, snapshot: Snapshot | None) -> DecidedRows:
        schema = at.metadata.schema()
        target_filter = parse_filter(self._target_filter)
        bind(target_filter, schema)
        merge = RowMerge(
            at.metadata,
            at.storage,
            self._source,
            _on(self._on, _columns(schema, self._source)),
            tuple(self._changing(clause, schema) for clause in self._clauses),
            target_filter,
            self._names.target,
            self._names.source,
            merges_on_read(at.metadata, self._mode),
            self._is_upsert,
        )
        written, read = merge.write(
            lambda wanted: [] if snapshot is None else at.planner.tasks(at.state, snapshot, wanted, schema)
        )
        counts = {
            ROWS_UPDATED: written.rows_updated,
            ROWS_DELETED: written.rows_deleted,
            ROWS_INSERTED: written.rows_inserted,
        }
        summary = {name: str(n) for name, n in counts.items() if n}
        return DecidedRows(written.gone, written.marked, written.added, read, summary)

    def _changing(self, clause: MergeClause, schema: Schema) -> MergeClause:
        """The clause; an upsert's update is only for rows that would change, in any column that the table has now."""
        if not self._is_upsert or clause.then is not Then.UPDATE:
            return clause
        return evolve(clause, condition=_differs(self._source, self._on, schema))


def upsert_of(
    table: TableHandle,
    source: DataFrame,
    join_cols: Sequence[str] | None,
    *,
    updates: bool,
    inserts: bool,
    merge_schema: bool,
) -> SparkMerge:
    """The merge that is an upsert. Raises ValidationError where there are no keys, or nothing to do."""
    schema = table.metadata.schema()
    if not updates and not inserts:
        raise ValidationError("an upsert must update, insert or both")
    keys = schema.identifier_field_names()
    if join_cols is not None:
        keys = _in_table(names_of(join_cols, "join_cols"), _columns(schema, source))
    if not keys:
        raise ValidationError("an upsert needs join_cols: the table has no identifier fields")
    merge = SparkMerge(table, source, keys, merge_schema=merge_schema, mode=UPDATE_MODE, is_upsert=True)
    if updates:
        merge = merge.when_matched_update_all()
    return merge.when_not_matched_insert_all() if inserts else merge


def _differs(source: DataFrame, keys: Sequence[str], schema: Schema) -> Column:
    """The condition that a row would change."""
    found = {f.name: f for f in source.schema.fields}
    names = MergeNames(
        Names().target, Names().source, schema, tuple(source.columns), is_case_sensitive(source.sparkSession)
    )
    tests = [
        differs(schema.find_field(name), found[column], names)
        for name, column in names.common().items()
        if name not in keys
    ]
    return reduce(or_, tests, F.lit(False))


def _on(on: str | Column | Sequence[str], known: KnownNames) -> Column | tuple[str, ...]:
    """The condition, or the names of key columns; one name may be given as it is. Raises ValidationError."""
    if isinstance(on, Column):
        return on
    if isinstance(on, str):
        return condition_of(on) if (name := known.find(on)) is None else (name,)
    names = names_of(on, "on")
    if not names:
        raise ValidationError("a merge needs a condition, or names of key columns")
    return _in_table(names, known)


def _columns(schema: Schema, source: DataFrame) -> KnownNames:
    """The names of the table's columns, matched by the session's rule of case."""
    return KnownNames((f.name for f in schema.fields), case_sensitive=is_case_sensitive(source.sparkSession))


def _in_table(names: Sequence[str], known: KnownNames) -> tuple[str, ...]:
    return tuple(known.find(name) or name for name in names)
