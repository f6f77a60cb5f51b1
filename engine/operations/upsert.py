"""Upserts: rows that the table has by key are updated, others inserted.

Spec: Row Lineage (RL6: an updated row keeps its row id). The semantics are PyIceberg's, with two differences: keys are
compared null-safe, and a column that the data lacks keeps its value in an updated row.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from operator import ne
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.commit.dry_run import DryRun
from icecore.engine.common.identifiers import names_of
from icecore.engine.data.arrow.arrow_partitions import comparable
from icecore.engine.data.arrow.arrow_values import from_array
from icecore.engine.data.arrow.equality import EqualityKeys
from icecore.engine.data.arrow.to_arrow import to_arrow
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.conform import conform
from icecore.engine.errors import ValidationError
from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import table_updates
from icecore.engine.expression.nodes import TRUE, Expression, Predicate, PredicateOperator, Reference, TypedValue
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.formats.arrays import Longs, Mask
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.conflict_validation import Check, CommitBase
from icecore.engine.operations.copy_on_write import LiveRows, write_again
from icecore.engine.operations.delete_by_filter import read_snapshot
from icecore.engine.operations.file_effects import FileEffects, discarding_on_error, produce
from icecore.engine.operations.merge_on_read import Selected, merges_on_read
from icecore.engine.operations.reusable_files import ReusableFiles, TaskKey, table_shape, task_key
from icecore.engine.properties.table_properties import UPDATE_MODE
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import ROW_ID
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import DoubleType, FloatType, PrimitiveType
from icecore.engine.spec.updates.table_update import AddSnapshot

ROWS_UPDATED = "icecore.rows-updated"
ROWS_INSERTED = "icecore.rows-inserted"
MAX_VALUES = 200
ROWS_TO_FILES = 10
"""The factor by which rows take fewer bytes on disk than in memory; LOCKED_BYTES counts those on disk."""


@frozen
class UpsertResult:
    """The number of rows updated and inserted; after a dry run, of those that would be, with its outcome."""

    rows_updated: int = 0
    rows_inserted: int = 0
    outcome: DryRun | None = field(default=None, repr=False)


@define
class Upsert:
    """An upsert of rows by key columns; `result` is that of the latest planning, final after the commit."""

    rows: pa.Table
    keys: tuple[str, ...]
    target: SnapshotTarget
    updates: bool
    inserts: bool
    base: CommitBase | None = None
    before: ReusableFiles = field(factory=ReusableFiles)
    result: UpsertResult = UpsertResult()
    _matching: _Matching | None = None
    # The work of the latest attempt itself: the files that it read, and whether it wrote the new rows.
    _read: frozenset[str] = frozenset()
    _wrote: bool = False

    @classmethod
    def of(
        cls,
        data: Any,
        join_cols: Sequence[str] | None,
        schema: Schema,
        target: SnapshotTarget,
        updates: bool,
        inserts: bool,
        base: CommitBase | None = None,
        before: ReusableFiles | None = None,
    ) -> Upsert:
        """The upsert of data. Raises ValidationError where the key columns can't be told, or a key comes twice."""
        if not updates and not inserts:
            raise ValidationError("an upsert must update, insert or both")
        rows = _as_table(data, schema)
        keys = schema.identifier_field_names() if join_cols is None else names_of(join_cols, "join_cols")
        if not keys:
            raise ValidationError("an upsert needs join_cols: the table has no identifier fields")
        for key in keys:
            if key not in {f.name for f in schema.fields} or not schema.find_field(key).field_type.is_primitive:
                raise ValidationError(f"a key of an upsert must be a top-level primitive column, found {key!r}")
            if key not in rows.column_names:
                raise ValidationError(f"the data lacks the key column {key!r}")
        upsert = cls(rows, keys, target, updates, inserts, base, before or ReusableFiles())
        upsert.check_keys(conform(rows, schema))
        return upsert

    def plan(self, at: PlanContext) -> ProduceSnapshot:
        """The command for the head of the branch as it is now.

        An upsert with a base finds the keys there: raises ConflictingCommitsError where a commit since changed that.
        """
        schema, branch = at.metadata.schema(), self.target.branch
        self.before.use(at.metadata)
        if self._matching is None or self._matching.shape != table_shape(at.metadata):
            self._matching = _Matching(self, at.metadata)
        matching, deletes = self._matching, DeleteCache()
        effects = FileEffects(merges_on_read(at.metadata, UPDATE_MODE))
        check = self.base and Check.of(at, self.base, branch)
        snapshot = read_snapshot(at, branch, self.base)
        if check and matching.source.num_rows:
            check.read(matching.wanted)
        tasks: list[FileScanTask] = []
        if snapshot is not None and matching.source.num_rows:
            tasks = at.planner.tasks(at.state, snapshot, matching.wanted, schema)
        self._check_work(at, matching, tasks)
        with discarding_on_error(at, effects, self.before):
            for task in tasks:
                rows = LiveRows(task, at.metadata, at.storage, deletes)
                effects.take(rows, matching.search(rows), self.before)
            effects.write(at, deletes, self.before)
            if check:
                check.touched(effects.touched, vectors=effects.by_position)
            new = matching.new_rows(tasks)
            self.result = UpsertResult(new.updated, new.rows.num_rows - new.updated)
            effects.added += self._written(at, new)
            return produce(at, self.target.with_summary(_counts(self.result)), (), effects)

    def _check_work(self, at: PlanContext, matching: _Matching, tasks: Sequence[FileScanTask]) -> None:
        """Raises StaleRemovals in the write lock where this attempt has much more to do than the last, which was quick.

        It raises before anything is written, so whatever earlier attempts found and wrote can still be used.
        """
        new = [t for t in tasks if task_key(t) not in matching.found]
        at.check_reading(sum(t.file.file_size_in_bytes for t in new if t.file.file_path not in self._read))
        self._read = frozenset(t.file.file_path for t in new)
        if at.is_locked and not self._wrote:
            for task in new:
                matching.search(LiveRows(task, at.metadata, at.storage, DeleteCache()))
            coming = matching.new_rows(tasks)
            at.check_reading(0 if coming.key in self.before.inserted else coming.rows.nbytes // ROWS_TO_FILES)

    def _written(self, at: PlanContext, new: _NewRows) -> tuple[ContentFile, ...]:
        self._wrote = new.rows.num_rows > 0 and new.key not in self.before.inserted
        if self._wrote:
            self.before.inserted[new.key] = tuple(write_again(new.rows, at.metadata, at.storage))
        return self.before.inserted.get(new.key, ())

    def check_keys(self, source: pa.Table) -> None:
        """Raises ValidationError where a key comes twice in the rows."""
        if not source.num_rows:
            return
        columns = key_columns(source, self.keys)
        numbers = EqualityKeys.of(columns).find(columns)
        twice = np.bincount(numbers)[numbers] > 1
        if twice.any():
            first = int(np.argmax(twice))
            raise ValidationError(f"the data has the key {_key_text(source, self.keys, first)} more than once")


def result_of(event: Event) -> UpsertResult:
    """The result of an upsert that is in the log already."""
    for update in table_updates(event):
        if isinstance(update, AddSnapshot):
            summary = update.snapshot.summary or {}
            return UpsertResult(int(summary.get(ROWS_UPDATED, 0)), int(summary.get(ROWS_INSERTED, 0)))
    return UpsertResult()


def key_filter(source: pa.Table, keys: Iterable[str], schema: Schema) -> Expression:
    """A filter that every row with a key of `source` satisfies: values where they are few, else ranges."""
    condition: Expression = TRUE
    for key in keys:
        kind = schema.find_field(key).field_type
        assert isinstance(kind, PrimitiveType), "keys were checked"
        if isinstance(kind, (FloatType, DoubleType)):
            continue  # NaN is no literal, and -0.0 equals 0.0
        column = source[key].combine_chunks()
        values = set(from_array(kind, column.drop_null()))
        tests: list[Expression] = []
        if values:
            tests.append(_one_of(Reference(key), kind, values))
        if column.null_count:
            tests.append(Predicate(PredicateOperator.IS_NULL, Reference(key)))
        condition = and_(condition, or_(*tests))
    return condition


def key_columns(rows: pa.Table, keys: Iterable[str]) -> list[pa.Array]:
    """The key columns in a form in which equal keys are equal: -0.0 is 0.0."""
    out = []
    for key in keys:
        column = _combined(rows, key)
        out.append(pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column)
    return out


@frozen
class _Found:
    """The source's rows whose keys a file has, by place, and the file's rows to replace, with their replacements."""

    at: Longs
    selected: Selected
    updated: tuple[pa.Table, ...]


@frozen
class _NewRows:
    """The rows to write: `updated` replacements of the table's rows, then inserted rows. Equal `key`s, equal rows."""

    key: Hashable
    rows: pa.Table
    updated: int


class _Matching:
    """The search for the source's keys in rows of the table, file by file.

    What was found in a file holds as long as the file and its deletes are the same, for tables of one `shape`.
    """

    def __init__(self, upsert: Upsert, metadata: TableMetadata) -> None:
        self.upsert = upsert
        self.shape = table_shape(metadata)
        self.source = source = conform(upsert.rows, metadata.schema())
        self.wanted = key_filter(source, upsert.keys, metadata.schema())
        self.compared = [n for n in upsert.rows.column_names if n not in upsert.keys]
        self.kept = [n for n in source.column_names if n not in upsert.rows.column_names]
        self.found: dict[TaskKey, _Found] = {}
        self.keeps_row_ids = metadata.format_version >= 3
        if source.num_rows:
            upsert.check_keys(source)
            columns = key_columns(source, upsert.keys)
            self.index = EqualityKeys.of(columns)
            numbers = self.index.find(columns)
            self.place = np.empty(len(numbers), dtype=np.int64)
            self.place[numbers] = np.arange(len(numbers))

    def search(self, rows: LiveRows) -> Selected:
        """The rows of a file that are to be replaced."""
        key = task_key(rows.task)
        if key not in self.found:
            places, updated = [np.zeros(0, np.int64)], list[pa.Table]()
            selected = rows.chosen(lambda some: self._changed(some, places, updated))
            self.found[key] = _Found(np.concatenate(places), selected, tuple(updated))
        return self.found[key].selected

    def _changed(self, rows: pa.Table, places: list[Longs], updated: list[pa.Table]) -> Mask:
        """A mask of the rows to be replaced; their replacements, and the places of all keys, are noted."""
        numbers = self.index.find(key_columns(rows, self.upsert.keys))
        hit = np.flatnonzero(numbers >= 0)
        at = self.place[numbers[hit]]
        mask = np.zeros(rows.num_rows, dtype=bool)
        places.append(at)
        if not self.upsert.updates or not len(hit):
            return mask
        old, new = rows.take(pa.array(hit)), self.source.take(pa.array(at))
        differs = _differs(old, new, self.compared)
        if differs.any():
            mask[hit[differs]] = True
            updated.append(self._replacing(old.filter(pa.array(differs)), new.filter(pa.array(differs))))
        return mask

    def _check_once(self, at: Longs, matched: Mask) -> None:
        again = at[matched[at]]
        if not len(again) and len(at):
            again = at[np.bincount(at)[at] > 1]
        if len(again):
            key = _key_text(self.source, self.upsert.keys, int(again[0]))
            raise ValidationError(f"the table has the key {key} more than once")

    def _replacing(self, old: pa.Table, new: pa.Table) -> pa.Table:
        for name in self.kept:
            new = new.set_column(new.column_names.index(name), new.schema.field(name), old[name].cast(new[name].type))
        if self.keeps_row_ids:
            ids = old[ROW_ID.name] if ROW_ID.name in old.column_names else pa.nulls(old.num_rows, pa.int64())
            new = new.append_column(pa.field(ROW_ID.name, pa.int64()), ids)
        return new

    def new_rows(self, tasks: Sequence[FileScanTask]) -> _NewRows:
        """The rows to write for the searched files of these tasks; matches in other files are forgotten.

        Raises ValidationError for a key that the table has twice.
        """
        self.found = {key: self.found[key] for key in map(task_key, tasks)}
        matched, updated = np.zeros(self.source.num_rows, dtype=bool), list[pa.Table]()
        # By task, as `found` has a file once: one that is listed twice has each of its rows twice.
        for found in (self.found[task_key(t)] for t in tasks):
            if self.upsert.updates:
                self._check_once(found.at, matched)
            matched[found.at] = True
            updated += found.updated
        inserted = self.source.filter(pa.array(~matched)) if self.upsert.inserts else self.source.slice(0, 0)
        if updated and self.keeps_row_ids:
            ids = pa.nulls(inserted.num_rows, pa.int64())
            inserted = inserted.append_column(pa.field(ROW_ID.name, pa.int64()), ids)
        key = frozenset(k for k, found in self.found.items() if found.updated), matched.tobytes()
        return _NewRows(key, pa.concat_tables([*updated, inserted]), sum(t.num_rows for t in updated))


def _differs(old: pa.Table, new: pa.Table, names: Sequence[str]) -> Mask:
    """A mask of the rows that differ in one of the columns; null equals null and NaN equals NaN."""
    out = np.zeros(old.num_rows, dtype=bool)
    for name in names:
        a, b = comparable(_combined(old, name)), comparable(_combined(new, name))
        if pa.types.is_nested(a.type):
            pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
            # Their text tells -0.0 from 0.0, and makes NaN equal to itself.
            unequal = (lambda x, y: repr(x) != repr(y)) if _has_floats(a.type) else ne
            out |= np.fromiter((unequal(x, y) for x, y in pairs), bool, len(a))
            continue
        unequal = pc.fill_null(pc.not_equal(a, b), False)
        out |= np.asarray(pc.or_(unequal, pc.xor(a.is_null(), b.is_null())))
    return out


def _has_floats(t: pa.DataType) -> bool:
    return pa.types.is_floating(t) or any(_has_floats(t.field(i).type) for i in range(t.num_fields))


def _one_of(term: Reference, kind: PrimitiveType, values: set[Any]) -> Expression:
    if len(values) <= MAX_VALUES:
        return Predicate(PredicateOperator.IN, term, tuple(TypedValue(kind, v) for v in values))
    low, high = TypedValue(kind, min(values)), TypedValue(kind, max(values))
    return and_(Predicate(PredicateOperator.GT_EQ, term, (low,)), Predicate(PredicateOperator.LT_EQ, term, (high,)))


def _combined(rows: pa.Table, name: str) -> pa.Array:
    column = rows[name].combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _key_text(rows: pa.Table, keys: Sequence[str], place: int) -> str:
    return ", ".join(f"{k}={rows[k][place].as_py()!r}" for k in keys)


def _counts(result: UpsertResult) -> dict[str, str]:
    counts = {ROWS_UPDATED: result.rows_updated, ROWS_INSERTED: result.rows_inserted}
    return {k: str(v) for k, v in counts.items() if v}


def _as_table(data: Any, schema: Schema) -> pa.Table:
    if hasattr(data, "toArrow"):
        data = data.toArrow()
    incoming = to_arrow(data, schema)
    if isinstance(incoming, pa.RecordBatchReader):
        return incoming.read_all()
    return pa.Table.from_batches([incoming]) if isinstance(incoming, pa.RecordBatch) else incoming
