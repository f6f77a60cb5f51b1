"""Files of many tables at once, in the uniform columns: a table with a few files costs more by itself than its rows.

What `UniformColumns` makes of one table's entries is made here of the entries of many, in one go over all of them
however much their schemas differ: a bound is made text together with all others of its type, whatever field it is of.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import define, field

from icecore.engine.formats import arrays
from icecore.engine.formats.binary_columns import Ints, Places, list_positions, select
from icecore.engine.spec.types import PrimitiveType
from icecore.projections.entries.partition_words import PartitionWords
from icecore.projections.inspect.shown_values import shown_at
from icecore.projections.inspect.uniform_rows import (
    COUNT_NAMES,
    METRICS,
    TEXTS,
    UNIFORM_FILES,
    UniformColumns,
    as_text,
    content_names,
    format_names,
)

_BOUNDS = ("lower_bound", "upper_bound")
_KEY_BITS = 32


def uniform_file_rows(tables: Sequence[UniformColumns], counts: Sequence[int], entries: pa.Table) -> pa.Table:
    """The rows of UNIFORM_FILES for canonical entries in one piece, so many of each table one after another.

    They are those of `UniformColumns.file_rows`. What can't be read raises something, as there.
    """
    of_table = np.repeat(np.arange(len(tables)), counts)
    paths, values = _partitions(tables, of_table, entries)
    made = {
        "content": content_names(entries["content"]),
        "file_format": format_names(entries["file_format"]),
        "partition": paths,
        "partition_values": values,
        "readable_metrics": _Metrics.of(tables, of_table).column(entries),
    }
    columns = [made[f.name] if f.name in made else entries[f.name].cast(f.type) for f in UNIFORM_FILES]
    return pa.table(columns, schema=UNIFORM_FILES)


def _partitions(tables: Sequence[UniformColumns], of_table: Ints, entries: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The partition of each entry as a path, and its fields as text; each partition is put into words once."""
    words = [PartitionWords(t.metadata) for t in tables]
    known: dict[Hashable, int] = {}
    paths, texts, place = list[str](), list[list[tuple[str, str | None]]](), np.zeros(len(of_table), np.int64)
    rows = zip(of_table.tolist(), entries["spec_id"].to_pylist(), entries["partition"].to_pylist(), strict=True)
    for row, (number, spec_id, partition) in enumerate(rows):
        key = (number, spec_id, tuple(partition or ()))
        if key not in known:
            known[key] = len(paths)
            paths.append(words[number].path(spec_id, partition))
            texts.append(words[number].texts(spec_id, partition))
        place[row] = known[key]
    index = arrays.numbers(place)
    return pa.array(paths, pa.string()).take(index), pa.array(texts, TEXTS).take(index)


@define
class _Metrics:
    """The cells of readable metrics: for each entry one of each field of its table.

    `rows` has the entry of a cell, `ids` its field, and `kinds` the place of the field's type in `types`.
    """

    offsets: npt.NDArray[np.int32]
    rows: Ints
    ids: Ints
    kinds: Ints
    names: pa.Array
    types: list[PrimitiveType] = field(factory=list)

    @classmethod
    def of(cls, tables: Sequence[UniformColumns], of_table: Ints) -> _Metrics:
        measured = [t.columns.measured for t in tables]
        widths = np.array([len(m) for m in measured], np.int64)
        starts = np.cumsum(widths) - widths
        places: dict[PrimitiveType, int] = {}
        kinds = np.array([places.setdefault(kind, len(places)) for m in measured for _, _, kind in m], np.int64)
        ids = np.array([field_id for m in measured for _, field_id, _ in m], np.int64)
        offsets = np.zeros(len(of_table) + 1, np.int32)
        np.cumsum(widths[of_table], out=offsets[1:])
        rows = np.repeat(np.arange(len(of_table)), widths[of_table])
        fields = starts[of_table][rows] + np.arange(len(rows)) - offsets[:-1][rows]
        names = pa.array([name for m in measured for name, _, _ in m], pa.string()).take(arrays.numbers(fields))
        return cls(offsets, rows, ids[fields], kinds[fields], names, list(places))

    def column(self, entries: pa.Table) -> pa.Array:
        """The column `readable_metrics` of the entries."""
        children = [self._found(entries, f"{name}s")[1] for name in COUNT_NAMES]
        children += [self._texts(entries, f"{name}s") for name in _BOUNDS]
        items = pa.StructArray.from_arrays(children, fields=list(METRICS.item_type))
        return pa.MapArray.from_arrays(arrays.numbers(self.offsets, np.int32), self.names, items).cast(METRICS)

    def _found(self, entries: pa.Table, name: str) -> tuple[Ints, pa.Array]:
        """The cells that have a value of a map column, as places in its items, -1 for none; and the values."""
        column = entries[name].combine_chunks() if isinstance(entries[name], pa.ChunkedArray) else entries[name]
        counts, positions = list_positions(column)
        places = np.full(len(self.rows), -1, np.int64)
        if len(positions):
            keys = arrays.to_numbers(select(column.keys, positions)).astype(np.int64)
            codes = _code(np.repeat(np.arange(len(counts)), counts), keys)
            order = np.argsort(codes, kind="stable")
            wanted, known = _code(self.rows, self.ids), codes[order]
            # Of a key that is there twice the last one counts.
            at = np.searchsorted(known, wanted, side="right") - 1
            there = (at >= 0) & (known[at] == wanted)
            places[there] = positions[order[at[there]]]
        return places, column.items.take(arrays.numbers(np.maximum(places, 0), missing=places < 0))

    def _texts(self, entries: pa.Table, name: str) -> pa.Array:
        """The bounds as text, those of each type together."""
        places, values = self._found(entries, name)
        parts, index = [pa.nulls(1, pa.string())], np.zeros(len(places), np.int64)
        count = 1
        for number, kind in enumerate(self.types):
            chosen = np.flatnonzero((places >= 0) & (self.kinds == number))
            if len(chosen):
                parts.append(as_text(shown_at(kind, values, Places(chosen, None, len(chosen)))))
                index[chosen] = np.arange(count, count + len(chosen))
                count += len(chosen)
        return pa.concat_arrays(parts).take(arrays.numbers(index))


def _code(rows: Ints, keys: Ints) -> Ints:
    """A number for each pair of a row and a key of 32 bits."""
    found: Ints = (rows << _KEY_BITS) | (keys & (2**_KEY_BITS - 1))
    return found
