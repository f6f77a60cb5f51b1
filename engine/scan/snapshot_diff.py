"""The difference of two snapshots of one table, on whatever branches: metadata, files, and rows as they are now."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from icecore.engine.common.text import short_repr
from icecore.engine.metadata.fold import TableState
from icecore.engine.scan.changelog import IncrementalChangelogScan
from icecore.engine.spec.content_file import DataFileContent
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.history.facts import snapshot_facts
from icecore.projections.history.object_diff import (
    CONTENT_NAMES,
    DIFF_SCHEMA,
    FileChanges,
    ObjectDiff,
    changes_of_facts,
    rows_of_object,
)
from icecore.projections.inspect.live_files import live_files
from icecore.projections.plan.planner import Planner


@frozen(eq=False)
class SnapshotDiff:
    """The changes from one snapshot to another; None stands for a table without rows.

    Changes that commits between them made and undid are no difference.
    """

    before: Snapshot | None
    after: Snapshot | None
    _planner: Planner = field(repr=False)
    _state: TableState = field(repr=False)
    _changelog: IncrementalChangelogScan = field(repr=False)

    __repr__ = short_repr

    def metadata(self) -> pa.Table:
        """The facts that differ, and counts of files, in the columns of `CatalogDiff.to_arrow`.

        The facts are the operation and id, the schema that a snapshot was written by and its columns, the specs of its
        live files, and its totals. Properties, refs and the sort order are the table's: `Catalog.diff` tells of them.
        Raises StorageError, CorruptFileError.
        """
        name, live = self._state.identifier, self._live_files()
        facts = [
            snapshot_facts(self._state.metadata, snapshot, files["spec_id"].unique().to_pylist())
            for snapshot, files in zip((self.before, self.after), live, strict=True)
        ]
        counts = tuple(_counted(_of_one_only(*live)))
        each = ObjectDiff("table", self._state.stream, name, name, changes_of_facts(*facts), counts)
        return pa.Table.from_pylist(list(rows_of_object(each)), schema=DIFF_SCHEMA)

    def files(self) -> pa.Table:
        """The live data and delete files that only one snapshot has.

        `change` is `added` or `removed`, the other columns are as in `files`.

        Raises StorageError, CorruptFileError.
        """
        return _of_one_only(*self._live_files())

    def rows(self) -> pa.Table:
        """The rows that only one snapshot has, with `_change_type` DELETE or INSERT.

        Rows with the same values are the same, unless their row ids differ, as after an overwrite in format version 3.
        Raises StorageError, CorruptFileError.
        """
        return self._changelog.changes_between(self.before, self.after)

    def _live_files(self) -> tuple[pa.Table, pa.Table]:
        before, after = (live_files(self._planner, self._state, s) for s in (self.before, self.after))
        return before, after


def _counted(files: pa.Table) -> Iterator[FileChanges]:
    for content in sorted(DataFileContent):
        of_content = files.filter(pc.equal(files["content"], content.name.lower()))
        sums = list[int]()
        for change in ("added", "removed"):
            some = of_content.filter(pc.equal(of_content["change"], change))
            sums += [some.num_rows, pc.sum(some["record_count"], min_count=0).as_py()]
        if of_content.num_rows:
            yield FileChanges(None, CONTENT_NAMES[content], *sums)


def _of_one_only(before: pa.Table, after: pa.Table) -> pa.Table:
    return pa.concat_tables([_only(after, before, "added"), _only(before, after, "removed")])


def _only(files: pa.Table, others: pa.Table, change: str) -> pa.Table:
    keys, known = _keys(files), _keys(others)
    found = files.filter(pc.invert(pc.is_in(keys, known)))
    return found.add_column(0, "change", pa.repeat(change, found.num_rows))


def _keys(files: pa.Table) -> pa.Array:
    """The path and, for deletion vectors, the data file that each is about."""
    named = pc.fill_null(files["referenced_data_file"], "")
    return pc.binary_join_element_wise(files["file_path"], named, "\x00").combine_chunks()
