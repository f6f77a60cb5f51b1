"""Rows as codes, which are equal for equal rows; made of whole columns at a time, nested ones too."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.arrow.arrow_partitions import comparable
from icecore.engine.formats.arrays import Longs


def row_codes(columns: Iterable[pa.ChunkedArray | pa.Array], rows: int) -> Longs:
    """A code for each of `rows` rows, equal for rows that are equal in all columns.

    Null equals null, floats are equal by their bits and all NaN are one (SP5).
    """
    codes = np.zeros(rows, dtype=np.int64)
    for column in columns:
        codes = _paired(codes, _codes(_whole(column)))
    return codes


def occurrences(codes: Longs) -> Longs:
    """The number of equal codes before each code."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(codes) else np.zeros(0, np.int64)
    lengths = np.diff(np.r_[starts, len(codes)])
    out = np.empty(len(codes), dtype=np.int64)
    out[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return out


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    combined = column.combine_chunks()
    # What is too large for one array stays in chunks.
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _paired(a: Longs, b: Longs) -> Longs:
    """A number for each pair; both are below the number of rows, so their product fits."""
    if not len(a):
        return a
    _, codes = np.unique(a * (int(b.max()) + 1) + b, return_inverse=True)
    return np.asarray(codes, dtype=np.int64)


def _codes(array: pa.Array) -> Longs:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _codes(array.storage)
    if pa.types.is_struct(kind):
        there = np.asarray(array.is_valid()).astype(np.int64)
        children = (pc.struct_field(array, [i]) for i in range(kind.num_fields))
        return _paired(there, row_codes(children, len(array)))
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_codes(array)
    if pa.types.is_dictionary(kind):
        return _codes(array.dictionary_decode())
    encoded = comparable(array).dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices).astype(np.int64)


def _list_codes(array: pa.Array) -> Longs:
    """Lists are equal where their lengths and all their elements are; a map is the list of its entries."""
    if pa.types.is_map(array.type):
        elements = _paired(_codes(array.keys), _codes(array.items))
    else:
        elements = _codes(array.values)
    offsets = np.asarray(array.offsets)
    there = np.asarray(array.is_valid())
    texts = [
        elements[offsets[i] : offsets[i + 1]].tobytes() if valid else None for i, valid in enumerate(there.tolist())
    ]
    return _codes(pa.array(texts, pa.large_binary()))
