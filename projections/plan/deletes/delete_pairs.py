"""Pairs of delete files and the data files that they apply to, by their rows in two tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from icecore.engine.formats import arrays

Rows = npt.NDArray[np.integer[Any]]


@frozen(eq=False)
class DeletePairs:
    """Row `deletes[i]` of the delete files applies to row `files[i]` of the data files; each pair is there once."""

    files: Rows
    deletes: Rows

    @classmethod
    def none(cls) -> DeletePairs:
        """No pairs."""
        return cls(np.zeros(0, np.int32), np.zeros(0, np.int32))

    @classmethod
    def from_arrow(cls, table: pa.Table) -> DeletePairs:
        """The pairs in the columns `file` and `delete`."""
        return cls(arrays.to_numbers(table["file"]), arrays.to_numbers(table["delete"]))

    @classmethod
    def concatenated(cls, parts: Sequence[DeletePairs]) -> DeletePairs:
        """The pairs of all parts, one after another."""
        parts = [cls.none(), *parts]
        return cls(np.concatenate([p.files for p in parts]), np.concatenate([p.deletes for p in parts]))

    def to_arrow(self) -> pa.Table:
        """The pairs as columns `file` and `delete`."""
        return pa.table({"file": arrays.numbers(self.files), "delete": arrays.numbers(self.deletes)})

    def __len__(self) -> int:
        return len(self.files)

    def of_files(self, rows: Rows) -> DeletePairs:
        """The pairs of some of the data files, each given once: the first of these is row 0."""
        return DeletePairs(*_renumbered(self.files, rows, self.deletes))

    def of_deletes(self, rows: Rows) -> DeletePairs:
        """The pairs of some of the delete files, each given once: the first of these is row 0."""
        deletes, files = _renumbered(self.deletes, rows, self.files)
        return DeletePairs(files, deletes)

    def shifted(self, files: int, deletes: int) -> DeletePairs:
        """The pairs where so many other data and delete files come before theirs."""
        return DeletePairs(self.files + files, self.deletes + deletes)

    def used_deletes(self) -> Rows:
        """The delete files that apply to any file, ascending."""
        return np.unique(self.deletes)

    def counts(self, files: int) -> Rows:
        """The number of delete files of each of so many data files."""
        return np.bincount(self.files, minlength=files)

    def by_file(self, files: int) -> tuple[Rows, Rows]:
        """The delete files of each of so many data files, ascending: offsets into the second array."""
        offsets = np.zeros(files + 1, np.int64)
        np.cumsum(self.counts(files), out=offsets[1:])
        # Sorted as one number, which is much faster than sorting places by two.
        bits = int(self.deletes.max(initial=0)).bit_length()
        keys = self.files.astype(np.int64)
        keys <<= bits
        keys |= self.deletes
        keys.sort()
        keys &= (1 << bits) - 1
        return offsets, keys


def numbered(table: pa.Table) -> pa.Table:
    """The table with a column `number`, by which pairs name its rows."""
    return table.append_column("number", arrays.numbers(np.arange(table.num_rows), np.int32))


def _renumbered(of: Rows, rows: Rows, other: Rows) -> tuple[Rows, Rows]:
    places = np.full(max(int(of.max(initial=-1)), int(rows.max(initial=-1))) + 1, -1, np.int64)
    places[rows] = np.arange(len(rows))
    found = places[of]
    kept = found >= 0
    return found[kept], other[kept]
