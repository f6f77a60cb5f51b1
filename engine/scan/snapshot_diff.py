"""The difference of two snapshots of one table, on whatever branches: files, and rows as they are now."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from icecore.engine.common.text import short_repr
from icecore.engine.metadata.fold import TableState
from icecore.engine.scan.changelog import IncrementalChangelogScan
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.inspect.live_files import live_files
from icecore.projections.plan.planner import Planner


@frozen(eq=False)
class SnapshotDiff:
    """The changes from one snapshot to another; None stands for a table without rows.

    What commits between them did and undid is no difference.
    """

    before: Snapshot | None
    after: Snapshot | None
    _planner: Planner = field(repr=False)
    _state: TableState = field(repr=False)
    _changelog: IncrementalChangelogScan = field(repr=False)

    __repr__ = short_repr

    def files(self) -> pa.Table:
        """The live data and delete files of only one of both: `change` is `added` or `removed`, the rest as in `files`.

        Raises StorageError, CorruptFileError.
        """
        before, after = (live_files(self._planner, self._state, s) for s in (self.before, self.after))
        parts = [_only(after, before, "added"), _only(before, after, "removed")]
        return pa.concat_tables(parts)

    def rows(self) -> pa.Table:
        """The rows of only one of both, with `_change_type` DELETE and INSERT.

        Rows of the same values are the same, unless row ids tell them apart: where format version 3 overwrote a row.
        Raises StorageError, CorruptFileError.
        """
        return self._changelog.changes_between(self.before, self.after)


def _only(files: pa.Table, others: pa.Table, change: str) -> pa.Table:
    keys, known = _keys(files), _keys(others)
    found = files.filter(pc.invert(pc.is_in(keys, known)))
    return found.add_column(0, "change", pa.repeat(change, found.num_rows))


def _keys(files: pa.Table) -> pa.Array:
    """The path and, for deletion vectors, the data file that each is about."""
    named = pc.fill_null(files["referenced_data_file"], "")
    return pc.binary_join_element_wise(files["file_path"], named, "\x00").combine_chunks()
