"""The changes of commits as a Spark DataFrame, read and compared in Spark's tasks.

Commits that only add or only remove files have these read like any others. Rows of other commits are compared: rows of
equal values come together in one task, and then the two forms of an updated row do. The driver sees files, never rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.changed_file_rows import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangedRowsReader,
    FileRows,
)
from icecore.engine.data.read.row_diff import RowDiff
from icecore.engine.data.read.rows_of_commits import CommitFiles, CommitRows
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import Expression
from icecore.engine.formats.arrays import Longs
from icecore.engine.spark.pyspark_api import Column, DataFrame, SparkSession
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.frame_columns import ReadColumn, aliased_columns, shown_sql
from icecore.engine.spark.read.scan_to_spark import read_tasks
from icecore.engine.spark.read.stored_arrow import stored_batch
from icecore.engine.spark.spark_sql_text import quote
from icecore.engine.spark.spark_types import schema_to_spark, shown_type
from icecore.engine.spark.task_frames import Batches, arrow_frame, chunked, made_in_tasks, mapped
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.reserved import (
    CHANGE_ORDINAL,
    CHANGE_TYPE,
    CHANGELOG,
    COMMIT_SNAPSHOT_ID,
    FILE,
    POS,
    ROW_ID,
    with_columns,
)
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FLOATING_TYPES, MapType, NestedField, VariantType, walk

_ROWS_PER_TASK = 200_000
_MOST_TASKS = 10_000
_TYPE, _ORDINAL, _SNAPSHOT = "__icecore_type", "__icecore_ordinal", "__icecore_snapshot"
_LABELS = (
    T.StructField(_TYPE, T.StringType()),
    T.StructField(_ORDINAL, T.IntegerType()),
    T.StructField(_SNAPSHOT, T.LongType()),
)
_PATH, _OF_PATH = "__icecore_path", "__icecore_of_path"
LabelledFile: TypeAlias = tuple[tuple[str, int, int], FileScanTask]
"""The kind of change, the ordinal and the snapshot of a file's rows, and the file's task."""
_Pieces = list[tuple[int, int, FileScanTask | None, FileScanTask | None]]


def changes_to_spark(
    session: SparkSession,
    commits: Sequence[CommitFiles],
    *,
    rows: CommitRows,
    metadata: TableMetadata,
    filter: Expression,
) -> DataFrame:
    """The changed rows of the commits that the filter selects, with the columns of `rows`.

    Spark reports what fails while reading, and rows that can't be told apart by their identifiers, in exceptions of its
    own.
    """
    files = [((kind, c.ordinal, c.snapshot_id), t) for c in commits for kind, t in _whole_files(c)]
    frames = [_WholeFiles(rows, metadata, filter, some).frame(session) for some in _without_repeats(files)]
    compared = [p for c in commits if c.must_be_compared for p in _pieces(c)]
    if compared:
        frames.append(_Comparison(rows).frame(session, compared))
    if not frames:
        return session.createDataFrame([], schema_to_spark(rows.projection))
    return reduce(lambda a, b: a.union(b), frames)


def _whole_files(commit: CommitFiles) -> Iterator[tuple[str, FileScanTask]]:
    """The files whose rows are all changes, each with the kind of change."""
    if not commit.must_be_compared:
        yield from ((DELETE, t) for t in commit.gone)
        yield from ((INSERT, t) for t in commit.come)


def _without_repeats(files: Iterable[LabelledFile]) -> list[list[LabelledFile]]:
    """The files in lists, none of which has a file twice: a file may be added, removed, and added again."""
    seen, out = Counter[str](), list[list[LabelledFile]]()
    for label, task in files:
        place = seen[task.file.file_path]
        seen[task.file.file_path] += 1
        if place == len(out):
            out.append([])
        out[place].append((label, task))
    return out


@frozen
class _WholeFiles:
    """Files that commits added or removed as a whole, read in one frame: Spark is slow to unite one for each commit."""

    rows: CommitRows
    metadata: TableMetadata
    filter: Expression
    files: list[LabelledFile]

    def frame(self, session: SparkSession) -> DataFrame:
        selected, labels = self.rows.selected, {label for label, _ in self.files}
        if len(labels) == 1:
            told = zip(CHANGELOG, labels.pop(), strict=True)
            named = [F.lit(v).cast(shown_type(f.field_type)).alias(f.name) for f, v in told]
            return self._read(session, selected).select("*", *named)
        path = next((f.name for f in selected.fields if f.field_id == FILE.field_id), _PATH)
        frame = self._read(session, selected if path != _PATH else with_columns(selected, evolve(FILE, name=_PATH)))
        columns = zip(*((t.file.file_path, *label) for label, t in self.files), strict=True)
        types = (pa.string(), pa.string(), pa.int32(), pa.int64())
        arrays = [pa.array(values, t) for values, t in zip(columns, types, strict=True)]
        of_files = arrow_frame(session, pa.table(arrays, names=[_OF_PATH, *(f.name for f in CHANGELOG)]))
        return frame.join(F.broadcast(of_files), F.col(path) == F.col(_OF_PATH)).drop(_PATH, _OF_PATH)

    def _read(self, session: SparkSession, projection: Schema) -> DataFrame:
        return read_tasks(
            session,
            [t for _, t in self.files],
            projection=projection,
            metadata=self.metadata,
            storage=self.rows.reader.storage,
            filter=self.filter,
        )


def _pieces(commit: CommitFiles) -> _Pieces:
    """The files one by one, each as it was before the commit and as it is after it."""
    pairs: list[tuple[FileScanTask | None, FileScanTask | None]]
    slim = commit.slim()
    pairs = [*slim.changed, *((t, None) for t in slim.gone), *((None, t) for t in slim.come)]
    return [(commit.ordinal, commit.snapshot_id, *pair) for pair in pairs]


@frozen
class _Comparison:
    rows: CommitRows

    @property
    def fields(self) -> tuple[NestedField, ...]:
        """All columns of the table, the row id, and what else is asked for."""
        own = {f.field_id: f for f in (*self.rows.reader.schema.fields, ROW_ID)}
        extra = [f for f in self.rows.selected.fields if f.field_id not in own]
        return (*own.values(), *extra)

    @property
    def columns(self) -> tuple[ReadColumn, ...]:
        """The columns that files hold, in stored form."""
        return tuple(c for c in aliased_columns(self.fields) if c.is_read)

    def frame(self, session: SparkSession, pieces: _Pieces) -> DataFrame:
        columns = self.columns
        struct = T.StructType([*(c.spark_field(with_ids=False) for c in columns), *_LABELS])
        made = mapped(session, chunked(session, pieces, per_chunk=1), _reading(self.rows.reader, columns), struct)
        rows = sum(t.file.record_count for p in pieces for t in p[2:] if t is not None)
        tasks = max(1, min(_MOST_TASKS, -(-rows // _ROWS_PER_TASK)))
        names = tuple(c.field.name for c in columns)
        values = tuple(f.name for f in self.rows.reader.schema.fields if f.name in names)

        def changes(batches: Batches) -> Batches:
            return _compared(batches, names, lambda diff: _as_labelled(diff.without_carried_over(values)))

        def updates(batches: Batches) -> Batches:
            return _compared(batches, names, lambda diff: _as_labelled(diff.with_updates(identifiers)))

        identifiers = self.rows.identifier_columns
        made = made_in_tasks(made.repartition(tasks, *self.keys(columns)), changes, struct)
        if self.rows.compute_updates:
            told_by = [c for c in columns if c.field.name in (identifiers or (ROW_ID.name,))]
            keys = [F.col(quote(c.name or "")) for c in told_by]
            made = made_in_tasks(made.repartition(tasks, F.col(_ORDINAL), *keys), updates, struct)
        return made.select(*self.shown_columns())

    def keys(self, columns: Sequence[ReadColumn]) -> list[Column]:
        """The columns whose equal values have equal hashes in Spark: no floats, whose zeros and NaNs have several."""
        own = [c for c in columns if self.rows.reader.schema.get_field(c.field.field_id) is not None]
        unsure = (*FLOATING_TYPES, MapType, VariantType)
        sure = [c for c in own if not any(isinstance(f.field_type, unsure) for f in walk((c.field,)))]
        return [F.col(_ORDINAL), *(F.col(quote(c.name or "")) for c in sure)]

    def shown_columns(self) -> list[Column]:
        by_id = {c.field.field_id: c for c in aliased_columns(self.fields)}
        out = []
        for f in self.rows.selected.fields:
            column = by_id[f.field_id]
            made = F.expr(shown_sql(column, quote(column.name or ""), f))
            out.append(made.alias(f.name, metadata={"comment": f.doc} if f.doc else {}))
        labels = zip(_LABELS, (CHANGE_TYPE, CHANGE_ORDINAL, COMMIT_SNAPSHOT_ID), strict=True)
        return [*out, *(F.col(label.name).alias(f.name) for label, f in labels)]


def _reading(reader: ChangedRowsReader, columns: tuple[ReadColumn, ...]) -> Callable[[_Pieces], Batches]:
    """The function of a task that reads files: their rows in stored form, as deleted or inserted ones."""
    fields = tuple(c.field for c in columns)
    projection = Schema(fields if POS in fields else (*fields, POS), reader.schema.schema_id)
    names = [*(c.name for c in columns), *(f.name for f in _LABELS)]

    def read(chunk: _Pieces) -> Batches:
        deletes = DeleteCache()
        for ordinal, snapshot_id, old, new in chunk:
            for change_type, rows in _sides(reader, old, new, deletes):
                for batch in reader.batches(rows, projection, deletes):
                    stored = stored_batch(batch.select(list(range(len(columns)))), columns)
                    labels = (
                        pa.scalar(change_type),
                        pa.scalar(ordinal, pa.int32()),
                        pa.scalar(snapshot_id, pa.int64()),
                    )
                    arrays = [*stored.columns, *(pa.repeat(label, batch.num_rows) for label in labels)]
                    yield pa.RecordBatch.from_arrays(arrays, names=names)

    return read


def _sides(
    reader: ChangedRowsReader, old: FileScanTask | None, new: FileScanTask | None, deletes: DeleteCache
) -> Iterator[tuple[str, FileRows]]:
    if old is not None and new is not None:
        sides = zip((DELETE, INSERT), reader.parted(old, new, deletes), strict=True)
        yield from ((change_type, rows) for change_type, rows in sides if rows.has_any)
    elif old is not None:
        yield DELETE, FileRows(old)
    elif new is not None:
        yield INSERT, FileRows(new)


def _compared(batches: Batches, names: tuple[str, ...], compare: Callable[[RowDiff], pa.Table]) -> Batches:
    """The batches of a task, each commit's removed rows compared with its added ones."""
    found = list(batches)
    if not found:
        return
    table = pa.Table.from_batches(found)
    read_names = table.schema.names
    table = table.rename_columns([*names, *(f.name for f in _LABELS)])
    ordinals = table[_ORDINAL].to_numpy()
    types = np.asarray(table[_TYPE].to_numpy(zero_copy_only=False) == DELETE)
    for ordinal in np.unique(ordinals):
        of_commit = ordinals == ordinal
        deleted, inserted = (table.filter(pa.array(of_commit & side)) for side in (types, ~types))
        yield from compare(RowDiff(deleted, inserted)).rename_columns(read_names).to_batches()


def _as_labelled(diff: RowDiff) -> pa.Table:
    before, after = diff.updates
    sides = (_updated(diff.deleted, before, UPDATE_BEFORE), _updated(diff.inserted, after, UPDATE_AFTER))
    return pa.concat_tables(sides)


def _updated(rows: pa.Table, places: Longs, change_type: str) -> pa.Table:
    """The rows, with another type of change for those at the places."""
    if not len(places):
        return rows
    types = rows[_TYPE].to_numpy(zero_copy_only=False).copy()
    types[places] = change_type
    at = rows.schema.get_field_index(_TYPE)
    return rows.set_column(at, rows.schema.field(at), pa.array(types, rows.schema.field(at).type))
