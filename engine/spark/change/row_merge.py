"""Merges of a source DataFrame into a table, with the rules of SQL's MERGE.

The source is computed once and kept by Spark's executors, because it is read more than once: for its keys, for the
files that it touches where these are found first, and for the rows. The pairs of rows that change something are kept in
the same way, as positions and new rows are written by jobs of their own. Where rows of the source without a match
matter too, all pairs that match are kept, and an anti join with them gives the rows without a match: an outer join
would shuffle the table, though the source is small.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from functools import cached_property

from attrs import define

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.simplify import and_
from icecore.engine.spark.change.changed_rows import (
    computed_once,
    conformed,
    discarding_on_error,
    is_ordered,
    with_row_numbers,
    write_rows,
)
from icecore.engine.spark.change.file_rewrite import FileRewrite
from icecore.engine.spark.change.merge_clause import MergeClause, MergeNames, Then, When, check_clauses, condition_of
from icecore.engine.spark.change.merge_keys import keys_condition, keys_filter, source_keys
from icecore.engine.spark.change.own_names import check_names, with_own_names
from icecore.engine.spark.change.position_tasks import IS_UPDATE, write_positions
from icecore.engine.spark.change.target_rows import KEPT_ROW_ID, NUMBER, PATH, POSITION, TargetRows
from icecore.engine.spark.change.written_rows import WrittenRows
from icecore.engine.spark.name_rule import is_case_sensitive
from icecore.engine.spark.pyspark_api import Column, DataFrame
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.spark_write import translated_spark_errors
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage

Tasks = Callable[[Expression], Sequence[FileScanTask]]
_SOURCE_ROW, _CLAUSE, _COUNT = "__icecore_source_row", "__icecore_clause", "__icecore_count"
_MATCHED = "__icecore_matched"
_SMALL_BYTES, _FEW_FILES = 256 * 2**20, 64


@define(frozen=True, slots=False)
class RowMerge:
    """A merge into the rows of a table that `target_filter` selects.

    `by_position` says whether rows are deleted by position or by writing their files again. `on` is a condition, or
    names of key columns. In an upsert keys are unique in the source, and null equals null.
    """

    metadata: TableMetadata
    storage: Storage
    source: DataFrame
    on: Column | tuple[str, ...]
    clauses: tuple[MergeClause, ...]
    target_filter: Expression
    target_name: str
    source_name: str
    by_position: bool
    is_upsert: bool = False

    def write(self, tasks: Tasks) -> tuple[WrittenRows, Expression]:
        """Writes the changes of the merge, in files that `tasks` plans by a filter; the filter is returned, too.

        Raises ValidationError where clauses or values don't fit, and where two rows of the source change one row of the
        table; StorageError.
        """
        self.check()
        with computed_once(self._numbered_source) as source:
            if self.is_upsert:
                self._check_unique(source)
            wanted = self._wanted(source)
            target = self._target(tasks(wanted), wanted, source)
            rows = target.rows(bind(wanted, self.metadata.schema()))
            if self._is_split:
                with computed_once(target.numbered(self._pairs(rows, source))) as pairs:
                    others = self._without_match(source, pairs)
                    # A single clause reads these rows once.
                    is_read_once = len(self._for(When.NOT_MATCHED)) == 1
                    with contextlib.nullcontext(others) if is_read_once else computed_once(others) as others:
                        return self._written(pairs, others, target), wanted
            changes = self._changes(rows, source)
            with computed_once(target.numbered(changes) if self._has_target else changes) as found:
                return self._written(found, found, target), wanted

    def _written(self, changes: DataFrame, others: DataFrame, target: TargetRows) -> WrittenRows:
        """Writes the changes of the table's rows, and new rows for those of `others` without a match."""
        with discarding_on_error(self.storage) as written:
            if self._has_target:
                rewrite = FileRewrite.of(self.metadata, self.storage, str(uuid.uuid4()), by_position=self.by_position)
                positions, touched = self._positions(changes), _touched(changes, target)
                written.add(write_positions(positions, target, rewrite, touched=touched, may_repeat=self._may_repeat))
            frames = self._new_rows(changes, others)
            if frames:
                written.add(write_rows(conformed(frames, self.metadata), self.metadata, self.storage))
                written.add(WrittenRows(rows_inserted=-written.rows.rows_updated))
            return written.rows

    def check(self) -> None:
        """Raises ValidationError where clauses, names or values don't fit, before any job, and Spark's errors."""
        check_clauses(self.clauses)
        check_names([*(f.name for f in self.metadata.schema().fields), *self.source.columns])
        none = TargetRows(self.source.sparkSession, self.metadata, self.storage, ())
        rows, source = none.rows(), self._numbered_source
        if self._is_split:
            changes = self._pairs(rows, source)
            others = self._without_match(source, changes)
        else:
            changes = others = self._changes(rows, source)
        frames = self._new_rows(changes, others)
        if frames:
            conformed(frames, self.metadata)

    @cached_property
    def _names(self) -> MergeNames:
        case_sensitive = is_case_sensitive(self.source.sparkSession)
        columns = tuple(self.source.columns)
        return MergeNames(self.target_name, self.source_name, self.metadata.schema(), columns, case_sensitive)

    @cached_property
    def _numbered_source(self) -> DataFrame:
        """The source, with second names for columns that need them, and a number for each row where it matters."""
        named = with_own_names(self.source, self._names.own_names)
        return with_row_numbers(named, _SOURCE_ROW) if self._is_split else named.withColumn(_SOURCE_ROW, F.lit(0))

    @cached_property
    def _condition(self) -> Column:
        if isinstance(self.on, tuple):
            return keys_condition(self.on, self._names, self.source.schema, is_upsert=self.is_upsert)
        return self.on

    def _for(self, *when: When) -> tuple[MergeClause, ...]:
        return tuple(c for c in self.clauses if c.when in when)

    @property
    def _may_repeat(self) -> bool:
        """Whether a row may match several rows of the source, as where matching rows are only deleted."""
        return all(c.then is Then.DELETE and c.condition is None for c in self._for(When.MATCHED))

    def _wanted(self, source: DataFrame) -> Expression:
        """The filter of the table's rows that matter: by the source's keys, if rows without a match don't matter."""
        if not isinstance(self.on, tuple) or self._for(When.NOT_MATCHED_BY_SOURCE):
            return self.target_filter
        with translated_spark_errors():
            keys = keys_filter(source, self.on, self._names, nulls_are_equal=self.is_upsert)
        return and_(self.target_filter, keys)

    def _target(self, tasks: Sequence[FileScanTask], wanted: Expression, source: DataFrame) -> TargetRows:
        """The files of the merge: only those with a matching row, where files of a large table are written again.

        Elsewhere, looking for these first costs about as much as it saves, or more.
        """
        target = TargetRows(self.source.sparkSession, self.metadata, self.storage, tuple(tasks))
        is_small = sum(t.file.file_size_in_bytes for t in tasks) <= _SMALL_BYTES
        if self.by_position or is_small or self._for(When.NOT_MATCHED_BY_SOURCE) or not self._for(When.MATCHED):
            return target
        rows = target.rows(bind(wanted, self.metadata.schema())).alias(self.target_name)
        found = rows.join(source.alias(self.source_name), self._condition, "left_semi").select(PATH).distinct()
        with translated_spark_errors():
            return target.only({r[0] for r in found.collect()})

    @property
    def _is_split(self) -> bool:
        """Whether matching pairs of rows, and rows of the source without a match, are found by separate joins."""
        has_both = all(map(self._for, (When.MATCHED, When.NOT_MATCHED))) and not self._for(When.NOT_MATCHED_BY_SOURCE)
        return has_both and is_ordered(self.source.schema)

    def _pairs(self, rows: DataFrame, source: DataFrame) -> DataFrame:
        """All matching pairs, as `_changes` has them, with the source's row number; the clause is null if none acts."""
        joined = rows.alias(self.target_name).join(source.alias(self.source_name), self._condition)
        return self._with_values(joined, self._first_of(When.MATCHED), (*_place_in(rows), _SOURCE_ROW), When.MATCHED)

    def _without_match(self, source: DataFrame, pairs: DataFrame) -> DataFrame:
        """The rows of the source that are in no pair, and the clause for each."""
        matched = pairs.select(F.col(_SOURCE_ROW).alias(_MATCHED))
        left = source.alias(self.source_name).join(matched, F.col(_SOURCE_ROW) == F.col(_MATCHED), "left_anti")
        return self._with_values(left, self._first_of(When.NOT_MATCHED), (), When.NOT_MATCHED)

    def _changes(self, rows: DataFrame, source: DataFrame) -> DataFrame:
        """The pairs of rows that a clause is for: the place of the table's row, the clause, and the values it gives."""
        joined = self._joined(rows.alias(self.target_name), source)
        kept = _place_in(rows) if self._has_target else ()
        return self._with_values(joined, self._clause(), kept, *When).where(F.col(_CLAUSE).isNotNull())

    def _with_values(self, joined: DataFrame, clause: Column, kept: Sequence[str], *when: When) -> DataFrame:
        """Columns to keep, the number of the clause, and the values that clauses give."""
        outputs = [
            F.when(F.col(_CLAUSE) == i, value).alias(_output(i, n))
            for i, c in enumerate(self.clauses)
            if c.when in when and c.then is not Then.DELETE
            for n, value in enumerate(c.outputs(self._names).values())
        ]
        return joined.select("*", clause.alias(_CLAUSE)).select(*kept, _CLAUSE, *outputs)

    @property
    def _has_target(self) -> bool:
        """Whether a clause is for rows of the table."""
        return bool(self._for(When.MATCHED, When.NOT_MATCHED_BY_SOURCE))

    def _joined(self, target: DataFrame, source: DataFrame) -> DataFrame:
        source = source.alias(self.source_name)
        if not self._has_target:
            return source.join(target, self._condition, "left_anti")
        lone_target, lone_source = self._for(When.NOT_MATCHED_BY_SOURCE), self._for(When.NOT_MATCHED)
        how = "full" if lone_target and lone_source else "left" if lone_target else "right" if lone_source else "inner"
        return target.join(source, self._condition, how)

    def _clause(self) -> Column:
        """The number of the first clause that a pair satisfies; null for none."""
        if not self._has_target:
            return self._first_of(When.NOT_MATCHED)
        in_target, in_source = F.col(POSITION).isNotNull(), F.col(_SOURCE_ROW).isNotNull()
        out = F.when(in_target & in_source, self._first_of(When.MATCHED))
        return out.when(in_target, self._first_of(When.NOT_MATCHED_BY_SOURCE)).otherwise(
            self._first_of(When.NOT_MATCHED)
        )

    def _first_of(self, when: When) -> Column:
        conditions = [
            (F.lit(True) if c.condition is None else condition_of(c.condition), i)
            for i, c in enumerate(self.clauses)
            if c.when is when
        ]
        if not conditions:
            return F.lit(None).cast("int")
        (first, number), *others = conditions
        out = F.when(first, F.lit(number))
        for condition, number in others:
            out = out.when(condition, F.lit(number))
        return out

    def _positions(self, changes: DataFrame) -> DataFrame:
        updates = [i for i, c in enumerate(self.clauses) if c.then is Then.UPDATE]
        is_update = F.col(_CLAUSE).isin(updates) if updates else F.lit(False)
        changed = changes.where(F.col(POSITION).isNotNull() & F.col(_CLAUSE).isNotNull())
        return changed.select(NUMBER, POSITION, is_update.alias(IS_UPDATE))

    def _new_rows(self, changes: DataFrame, others: DataFrame) -> list[DataFrame]:
        """The new rows of each clause that has any; those for rows of the source without a match come from `others`."""
        out = []
        for i, clause in enumerate(self.clauses):
            if clause.then is Then.DELETE:
                continue
            names = list(clause.outputs(self._names))
            columns = [F.col(_output(i, n)).alias(name) for n, name in enumerate(names)]
            if clause.then is Then.UPDATE and self.metadata.format_version >= 3:
                columns.append(F.col(KEPT_ROW_ID))
            rows = others if clause.when is When.NOT_MATCHED else changes
            out.append(rows.where(F.col(_CLAUSE) == i).select(*columns))
        return out

    def _check_unique(self, source: DataFrame) -> None:
        assert isinstance(self.on, tuple), "keys have names"
        keys = source_keys(self.on, self._names, self.source.schema, is_upsert=True)
        with translated_spark_errors():
            columns = [column.alias(f"k{i}") for i, column in enumerate(keys.values())]
            rows = source.alias(self.source_name).select(*columns)
            counted = rows.groupBy(*rows.columns).agg(F.count(F.lit(1)).alias(_COUNT))
            twice = counted.where(F.col(_COUNT) > 1).limit(1).collect()
        if twice:
            text = ", ".join(f"{k}={twice[0][n]!r}" for n, k in enumerate(self.on))
            raise ValidationError(f"the data has the key {text} more than once")


def _place_in(rows: DataFrame) -> tuple[str, ...]:
    """The columns of the place of a row of the table, and of its id."""
    return tuple(c for c in (PATH, POSITION, KEPT_ROW_ID) if c in rows.columns)


def _touched(changes: DataFrame, target: TargetRows) -> list[int] | None:
    """The numbers of the files with changes; None, for all files, where they are few."""
    if len(target.tasks) <= _FEW_FILES:
        return None
    with translated_spark_errors():
        found = changes.where(F.col(_CLAUSE).isNotNull() & F.col(NUMBER).isNotNull())
        return [row[0] for row in found.select(NUMBER).distinct().collect()]


def _output(clause: int, place: int) -> str:
    return f"__icecore_new_{clause}_{place}"
