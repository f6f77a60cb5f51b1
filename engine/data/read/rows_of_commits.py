"""The rows that commits deleted and inserted, read from their files, in one process.

A commit's changes are the difference between the live rows before and after it, so a deleted row comes once, whether
position deletes, a deletion vector or equality deletes delete it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.narrow import narrow
from icecore.engine.data.arrow.nested import no_rows
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.changed_file_rows import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    ChangedRowsReader,
    FileRows,
)
from icecore.engine.data.read.column_resolution import FIRST_RESERVED_ID
from icecore.engine.data.read.read_ahead import read_ahead
from icecore.engine.data.read.row_buckets import net_rows
from icecore.engine.data.read.row_diff import RowDiff
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.formats.arrays import Longs
from icecore.engine.spec.reserved import CHANGELOG, POS, ROW_ID, with_columns
from icecore.engine.spec.schema import Schema

FilePair = tuple[FileScanTask, FileScanTask]


@frozen
class CommitFiles:
    """The files of a commit: removed ones, added ones, and those whose deletes changed, before and after.

    `ordinal` and `snapshot_id` go into the changelog columns of its rows.
    """

    ordinal: int
    snapshot_id: int
    gone: tuple[FileScanTask, ...] = ()
    come: tuple[FileScanTask, ...] = ()
    changed: tuple[FilePair, ...] = ()

    @property
    def must_be_compared(self) -> bool:
        """Whether rows may have been carried over, or live on in the same file."""
        return bool(self.changed) or bool(self.gone and self.come)

    @property
    def tasks(self) -> tuple[FileScanTask, ...]:
        """The tasks of all its files; of a file whose deletes changed, the later task."""
        return (*self.gone, *self.come, *(new for _, new in self.changed))

    def pieces(self) -> list[CommitFiles]:
        """The commit cut into single files, or left whole if rows must be compared; nothing if it has no file."""
        if self.must_be_compared:
            return [self]
        one_by_one = [evolve(self, gone=(t,), come=()) for t in self.gone]
        return one_by_one + [evolve(self, gone=(), come=(t,)) for t in self.come]

    def slim(self) -> CommitFiles:
        """The same without the metrics of files: see `FileScanTask.slim`."""
        changed = tuple((old.slim(), new.slim()) for old, new in self.changed)
        gone, come = (tuple(t.slim() for t in tasks) for tasks in (self.gone, self.come))
        return evolve(self, gone=gone, come=come, changed=changed)


@frozen
class CommitRows:
    """A reader of commits, which can be pickled: the `selected` columns of rows, then those of the changelog.

    With `compute_updates`, a deleted and an inserted row with equal `identifier_columns` (without any, with the same
    row id) are an update.
    """

    reader: ChangedRowsReader
    selected: Schema
    compute_updates: bool = False
    identifier_columns: tuple[str, ...] = ()

    @property
    def projection(self) -> Schema:
        """The columns of `batches`."""
        return with_columns(self.selected, *CHANGELOG)

    def batches(self, commits: Iterable[CommitFiles]) -> Iterator[pa.RecordBatch]:
        """The changes, commit by commit; within a commit deleted rows come before inserted ones.

        Raises ValidationError where rows can't be told apart by their identifiers, and what reading raises.
        """
        wanted = schema_to_arrow(self.projection, with_ids=False)
        for commit in commits:
            for change_type, rows in self.changes(commit.gone, commit.come, commit.changed):
                if rows.num_rows:
                    for batch in _labelled(rows, change_type, commit).to_batches():
                        yield narrow(batch, wanted)

    def changes(
        self, gone: Iterable[FileScanTask], come: Iterable[FileScanTask], changed: Iterable[FilePair]
    ) -> Iterator[tuple[str | pa.Array, pa.Table]]:
        """Tables of changed rows, each after its change type, or after an array with the type of each row."""
        deletes = DeleteCache()
        before, after = ([FileRows(t) for t in tasks] for tasks in (gone, come))
        for old, new in read_ahead(lambda pair: self.reader.parted(*pair, deletes), changed):
            before += [old] if old.has_any else []
            after += [new] if new.has_any else []
        if not before or not after:
            # Most commits only append or only delete: nothing is to be compared, so nothing is to be held.
            for change_type, parts in ((DELETE, before), (INSERT, after)):
                for rows in self._each(parts, deletes):
                    yield change_type, rows
            return
        found = net_rows(
            self._each(before, deletes),
            self._each(after, deletes),
            no_rows(schema_to_arrow(self._read_schema, with_ids=False)),
            columns=[f.name for f in self.reader.schema.fields],
            size=sum(rows.task.file.file_size_in_bytes for rows in (*before, *after) if rows.positions is None),
        )
        if self.compute_updates:
            found = found.with_updates(self.identifier_columns)
        before_places, after_places = found.updates
        yield DELETE, _without(found.deleted, before_places)
        if len(before_places):
            yield _interleaved(found)
        yield INSERT, _without(found.inserted, after_places)

    def _each(self, parts: Iterable[FileRows], deletes: DeleteCache) -> Iterator[pa.Table]:
        read_schema = self._read_schema
        return read_ahead(lambda rows: self.reader.table(rows, read_schema, deletes), parts)

    @property
    def _read_schema(self) -> Schema:
        """All columns, since a carried-over row has changed in none of them, and the reserved columns needed."""
        reserved = [f for f in self.selected.fields if f.field_id >= FIRST_RESERVED_ID]
        return with_columns(self.reader.schema, *{f.field_id: f for f in (*reserved, ROW_ID, POS)}.values())


def _labelled(rows: pa.Table, change_type: str | pa.Array, commit: CommitFiles) -> pa.Table:
    labels = (change_type, pa.scalar(commit.ordinal, pa.int32()), pa.scalar(commit.snapshot_id, pa.int64()))
    for column, value in zip(CHANGELOG, labels, strict=True):
        array = value if isinstance(value, pa.Array) else pa.repeat(value, rows.num_rows)
        rows = rows.append_column(column.name, array)
    return rows


def _without(rows: pa.Table, places: Longs) -> pa.Table:
    if not len(places):
        return rows
    kept = np.ones(rows.num_rows, dtype=bool)
    kept[places] = False
    return rows.filter(pa.array(kept))


def _interleaved(changes: RowDiff) -> tuple[pa.Array, pa.Table]:
    """Updated rows with their change types: the old form of each row, right after it the new form."""
    before, after = changes.updates
    both = pa.concat_tables([changes.deleted.take(pa.array(before)), changes.inserted.take(pa.array(after))])
    order = np.arange(both.num_rows).reshape(2, -1).T.ravel()
    return pa.array([UPDATE_BEFORE, UPDATE_AFTER] * len(before), pa.string()), both.take(pa.array(order))
