"""Distinct rows about files. Only rows whose paths may occur twice are compared: to copy a million takes long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

LEAST_ROWS = 1_000_000
_AT_ONCE = 65_536


@define
class DistinctFiles:
    """The distinct rows of tables with a column `file_path`."""

    _schema: pa.Schema
    _parts: list[pa.Table] = field(factory=list)
    _rows: int = 0
    _limit: int = field(factory=lambda: LEAST_ROWS)

    def add(self, table: pa.Table) -> None:
        """Adds rows. Manifests of a long history hold the same files, so doubles are dropped in between."""
        self._parts.append(distinct(table))
        self._rows += self._parts[-1].num_rows
        if self._rows > self._limit:
            self._parts = [self.table()]
            self._rows = self._parts[0].num_rows
            self._limit = max(LEAST_ROWS, 2 * self._rows)

    def table(self) -> pa.Table:
        """The distinct rows."""
        if len(self._parts) == 1:
            return self._parts[0]
        return distinct(pa.concat_tables([self._schema.empty_table(), *self._parts]))


def distinct(table: pa.Table) -> pa.Table:
    """The distinct rows of a table with a column `file_path`."""
    hashes = _hashes(table["file_path"])
    ordered = np.sort(hashes)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(twice):
        return table
    repeated = pa.array(np.isin(hashes, twice))
    return pa.concat_tables([table.filter(pc.invert(repeated)), _grouped(table.filter(repeated))])


def _grouped(table: pa.Table) -> pa.Table:
    # No threads of Arrow: a forked process has none.
    return table.group_by(table.column_names, use_threads=False).aggregate([])


def _hashes(paths: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A number for each path, the same for the same path; others may share it."""
    parts: Sequence[npt.NDArray[np.int64]] = [
        np.fromiter(map(hash, chunk.slice(at, _AT_ONCE).to_pylist()), np.int64)
        for chunk in paths.chunks
        for at in range(0, len(chunk), _AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
