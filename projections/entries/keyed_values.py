"""Maps from field id, as bounds, counts and partition tuples are, as one column for each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from attrs import field, frozen

from icecore.engine.formats import arrays
from icecore.engine.formats.binary_columns import Ints, Places, list_positions, select


@frozen
class KeyedValues:
    """The entries of a map column: its values, the places of each key, and the number of keys of each row."""

    items: pa.Array
    by_key: Mapping[int, Places]
    widths: Ints
    _nulls: dict[pa.DataType, pa.Array] = field(factory=dict, repr=False)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.widths)

    def column(self, key: int) -> pa.Array:
        """The values of one key, null in rows that lack it."""
        if key not in self.by_key:
            return self.nulls(self.items.type)
        return self.by_key[key].take(self.items)

    def nulls(self, kind: pa.DataType) -> pa.Array:
        """The column of nulls of a type, for keys that no row has. They share one: wide tables have many such keys."""
        if kind not in self._nulls:
            self._nulls[kind] = pa.nulls(self.count, kind)
        return self._nulls[kind]


def keyed_values(column: pa.MapArray) -> KeyedValues:
    """The entries of a map from field id, by their keys."""
    counts, positions = list_positions(column)
    keys = arrays.to_numbers(select(column.keys, positions))
    return KeyedValues(column.items, _by_key(keys, counts, positions), counts)


def _by_key(keys: Ints, counts: Ints, positions: Ints) -> dict[int, Places]:
    """The places of each key, where rows have so many of the `keys` in turn; the last if a row repeats a key."""
    if not len(keys):
        return {}
    count, width = len(counts), len(keys) // len(counts)
    if (counts == width).all() and (keys.reshape(count, width) == keys[:width]).all():
        return {int(keys[i]): Places.of_each(positions[i::width], width) for i in range(width)}
    rows, starts = _alike(keys, counts)
    of_others = dict(_sorted_by_key(keys, counts, rows))
    found = {}
    for i in range(counts[rows[0]] if len(rows) else 0):
        place = np.full(count, -1, np.int64)
        place[rows] = positions[starts + i]
        key = int(keys[starts[0] + i])
        if key in of_others:
            places, having = of_others[key]
            place[having] = positions[places]
        has = place >= 0
        found[key] = Places(place, None, count) if has.all() else Places(place[has], np.flatnonzero(has), count)
    others = ((key, Places(positions[at], having, count)) for key, (at, having) in of_others.items())
    return {**dict(others), **found}


def _alike(keys: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """The rows with the same keys in the same order as the first row of the most frequent width, and their starts.

    These are nearly all rows if files lack the bounds only of columns without values.
    """
    width = int(np.bincount(counts).argmax())
    rows = np.flatnonzero(counts == width)
    starts = (np.cumsum(counts) - counts)[rows]
    for i in range(width):
        same = keys[starts + i] == keys[starts[0] + i]
        if not same.all():
            rows, starts = rows[same], starts[same]
    return rows, starts


def _sorted_by_key(keys: Ints, counts: Ints, left_out: Ints) -> Iterator[tuple[int, tuple[Ints, Ints]]]:
    """Each key with its places among `keys` and the rows of these, without the rows that are left out."""
    kept = np.ones(len(counts), np.bool_)
    kept[left_out] = False
    rows = np.repeat(np.arange(len(counts)), counts)
    inside = np.flatnonzero(kept[rows])
    if not len(inside):
        return
    # Numbers of 16 bits are sorted by radix, so in linear time.
    small = keys.min() >= 0 and keys.max() < 2**15
    order = inside[np.argsort(keys[inside].astype(np.int16) if small else keys[inside], kind="stable")]
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    for start, end in zip(starts, np.r_[starts[1:], len(ordered)], strict=True):
        chosen = order[start:end]
        yield int(ordered[start]), (chosen, rows[chosen])
