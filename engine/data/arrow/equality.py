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

_SORTED_FROM = 10_000
"""From so many distinct values on, they are sorted once: Arrow would hash all of them for each batch of rows."""


@frozen(eq=False)
class _Values:
    """The distinct values of a key column; if many, `ordered` has them as sorted integers, and their places."""

    values: pa.Array
    ordered: tuple[Longs, Longs] | None

    @classmethod
    def of(cls, values: pa.Array) -> _Values:
        numbers = None if len(values) < _SORTED_FROM or values.null_count else _numbers(values)
        if numbers is None:
            return cls(values, None)
        places = np.argsort(numbers)
        return cls(values, (numbers[places], places))

    def __len__(self) -> int:
        return len(self.values)

    def places(self, column: pa.Array) -> Longs:
        """The place of each value of a column in `values`, -1 where it isn't there; null is a value like any other."""
        if self.ordered is None:
            return np.asarray(pc.fill_null(pc.index_in(column, value_set=self.values), -1)).astype(np.int64)
        numbers, places = self.ordered
        wanted = _numbers(column.fill_null(self.values[0]) if column.null_count else column)
        assert wanted is not None, "columns have the types of the values"
        at = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
        found = numbers[at] == wanted
        if column.null_count:
            found &= np.asarray(column.is_valid())
        return np.where(found, places[at], -1)


def _numbers(array: pa.Array) -> Longs | None:
    """The values of an integer or temporal array as integers; None for other types, and for uint64."""
    if not (pa.types.is_integer(array.type) or pa.types.is_temporal(array.type)) or pa.types.is_uint64(array.type):
        return None
    width = array.type.bit_width
    signed = array if pa.types.is_integer(array.type) else array.view(pa.int64() if width == 64 else pa.int32())
    return np.asarray(signed).astype(np.int64)


@frozen(eq=False)
class _Step:
    """One key column: its distinct values in the deletes, and the distinct codes of the key columns up to this one."""

    values: _Values
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
            values = _Values.of(column.unique())
            codes = values.places(column)
            keys, numbers = np.unique(numbers * len(values) + codes, return_inverse=True)
            numbers = numbers.astype(np.int64)
            steps.append(_Step(values, keys))
        return cls(tuple(steps))

    def matches(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """A mask of the rows, given as key columns of the same types, whose keys are among the deletes'."""
        return np.asarray(self.find(columns) >= 0)

    def find(self, columns: Sequence[pa.Array]) -> Longs:
        """The number of each row's key, -1 for a key that is not in here; `columns` are the rows' key columns."""
        numbers = np.zeros(len(columns[0]), dtype=np.int64)
        for step, column in zip(self.steps, map(comparable, columns), strict=True):
            codes = step.values.places(column)
            wanted = numbers * len(step.values) + codes
            at = np.minimum(np.searchsorted(step.keys, wanted), max(0, len(step.keys) - 1))
            found = (numbers >= 0) & (codes >= 0)
            found &= (step.keys[at] == wanted) if len(step.keys) else False
            numbers = np.where(found, at, -1)
        return numbers
