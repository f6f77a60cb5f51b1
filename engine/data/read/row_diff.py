"""The difference between the rows that a commit removed and those that it added.

A commit that rewrites files removes rows and adds them again: such rows are carried over, and are no change. Where both
sides have row ids (Spec: Row Lineage), a row is the same if its id is; elsewhere, if the values of all columns are, as
in Spark's `create_changelog_view`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from attrs import frozen

from icecore.engine.data.arrow.row_codes import occurrences, row_codes
from icecore.engine.errors import ValidationError
from icecore.engine.formats.arrays import Longs, Mask
from icecore.engine.spec.reserved import ROW_ID


@frozen(eq=False)
class RowDiff:
    """Removed rows and added rows. `updates` are the numbers, in both, of rows that are the old and new form of one."""

    deleted: pa.Table
    inserted: pa.Table
    updates: tuple[Longs, Longs] = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def without_carried_over(self, columns: Sequence[str]) -> RowDiff:
        """The difference without rows that both sides have, by `columns` and row id; each cancels one of the others."""
        if not self.deleted.num_rows or not self.inserted.num_rows:
            return self
        codes_d, codes_i = self._codes([self._both(n) for n in columns])
        ids = self._both(ROW_ID.name)
        has_id = np.asarray(ids.is_valid().combine_chunks())
        has_d, has_i = has_id[: len(codes_d)], has_id[len(codes_d) :]
        with_id_d, with_id_i = self._codes([pa.array(np.concatenate([codes_d, codes_i])), ids])
        kept_d, kept_i = np.ones(len(codes_d), bool), np.ones(len(codes_i), bool)
        _cancel(with_id_d, with_id_i, kept_d, kept_i, has_d, has_i)
        # A row from before the table had row ids gets one when it is rewritten, so it is matched by its values alone.
        _cancel(codes_d, codes_i, kept_d, kept_i, ~has_d, np.ones(len(codes_i), bool))
        return RowDiff(self.deleted.filter(pa.array(kept_d)), self.inserted.filter(pa.array(kept_i)))

    def with_updates(self, identifiers: Sequence[str]) -> RowDiff:
        """The difference with rows paired by equal identifier columns or, if there are no identifiers, by row id.

        Raises ValidationError where several rows on a side have the identifier of one on the other.
        """
        names = list(identifiers) or [ROW_ID.name]
        codes_d, codes_i = self._codes([self._both(n) for n in names])
        if not identifiers:
            ids = np.asarray(self._both(ROW_ID.name).is_valid().combine_chunks())
            # Rows without an id are paired with none: the codes -1 and -2 are never equal.
            codes_d = np.where(ids[: len(codes_d)], codes_d, -1)
            codes_i = np.where(ids[len(codes_d) :], codes_i, -2)
        shared, at_d, at_i = np.intersect1d(codes_d, codes_i, return_indices=True)
        for side, codes in (("deleted", codes_d), ("inserted", codes_i)):
            found = np.isin(codes, shared)
            if int(found.sum()) > len(shared):
                raise ValidationError(
                    f"updates can't be told: several {side} rows have the same value of {', '.join(names)}"
                )
        return RowDiff(self.deleted, self.inserted, (at_d.astype(np.int64), at_i.astype(np.int64)))

    def _both(self, name: str) -> pa.ChunkedArray:
        d, i = self.deleted[name], self.inserted[name]
        return pa.chunked_array([*d.chunks, *i.chunks], d.type)

    def _codes(self, columns: Sequence[pa.ChunkedArray | pa.Array]) -> tuple[Longs, Longs]:
        codes = row_codes(columns, self.deleted.num_rows + self.inserted.num_rows)
        return codes[: self.deleted.num_rows], codes[self.deleted.num_rows :]


def _cancel(d: Longs, i: Longs, kept_d: Mask, kept_i: Mask, of_d: Mask, of_i: Mask) -> None:
    """Takes rows of equal codes out of both sides, one for one, among those that are kept and eligible."""
    at_d, at_i = np.flatnonzero(kept_d & of_d), np.flatnonzero(kept_i & of_i)
    if not len(at_d) or not len(at_i):
        return
    codes_d, codes_i = d[at_d], i[at_i]
    width = len(at_d) + len(at_i)
    numbered_d, numbered_i = codes_d * width + occurrences(codes_d), codes_i * width + occurrences(codes_i)
    kept_d[at_d[np.isin(numbered_d, numbered_i)]] = False
    kept_i[at_i[np.isin(numbered_i, numbered_d)]] = False
