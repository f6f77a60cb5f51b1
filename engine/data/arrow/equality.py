"""The keys of equality deletes, matched against rows, whole columns at a time.

Spec: Equality Delete Files (D4): a row is deleted where all its key columns equal those of a delete row; null is null.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.data.arrow.arrow_partitions import comparable
from icecore.engine.formats.arrays import Longs


@frozen
class _Step:
    """One key column: its distinct values among the deletes, and the distinct numbers of the key up to here."""

    values: pa.Array
    keys: Longs


@frozen(eq=False)
class EqualityKeys:
    """The distinct keys of delete rows, indexed by column."""

    steps: tuple[_Step, ...]

    @classmethod
    def of(cls, columns: Sequence[pa.Array]) -> EqualityKeys:
        """The keys of delete rows, given as key columns of one length."""
        steps = []
        numbers = np.zeros(len(columns[0]), dtype=np.int64)
        for column in map(comparable, columns):
            values = column.unique()
            codes = _codes(column, values)
            keys, numbers = np.unique(numbers * len(values) + codes, return_inverse=True)
            numbers = numbers.astype(np.int64)
            steps.append(_Step(values, keys))
        return cls(tuple(steps))

    def matches(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """A mask of the rows, given as key columns of the same types, whose keys are among the deletes'."""
        return np.asarray(self.find(columns) >= 0)

    def find(self, columns: Sequence[pa.Array]) -> Longs:
        """The number of each row's key, -1 where it is not among these; rows are key columns of the same types."""
        numbers = np.zeros(len(columns[0]), dtype=np.int64)
        for step, column in zip(self.steps, map(comparable, columns), strict=True):
            codes = _codes(column, step.values)
            wanted = numbers * len(step.values) + codes
            at = np.minimum(np.searchsorted(step.keys, wanted), max(0, len(step.keys) - 1))
            found = (numbers >= 0) & (codes >= 0)
            found &= (step.keys[at] == wanted) if len(step.keys) else False
            numbers = np.where(found, at, -1)
        return numbers


def _codes(column: pa.Array, values: pa.Array) -> Longs:
    """The place of each value among `values`, -1 where it isn't there; null has a place like any other."""
    return np.asarray(pc.fill_null(pc.index_in(column, value_set=values), -1)).astype(np.int64)
