"""The parts of nested Arrow arrays, with slices and null parents resolved, so that they can be put together anew."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Columns = TypeVar("Columns", pa.Table, pa.RecordBatch)


def no_rows(schema: pa.Schema) -> pa.Table:
    """A table without rows; Arrow's own `empty_table` fails on nested extension types."""
    return pa.Table.from_batches([], schema)


def with_offsets(data: Columns) -> Columns:
    """The data, with an offsets buffer in empty lists and maps too.

    Arrow's format lets these have none, and its Java library sent such inside of nulls; but Arrow crashes when it
    concatenates them or asks for their size.
    """
    for i, column in enumerate(data.columns):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        whole = [_with_offsets(c) for c in chunks]
        if any(new is not old for new, old in zip(whole, chunks, strict=True)):
            made = pa.chunked_array(whole, column.type) if isinstance(column, pa.ChunkedArray) else whole[0]
            data = data.set_column(i, data.schema.field(i), made)
    return data


def struct_children(array: pa.StructArray) -> list[pa.Array]:
    """The children of a struct array, as long as it is; null where the struct is null."""
    return list(array.flatten())


def list_parts(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Offsets from zero (int32, one more than lists) and the elements; null lists have no elements.

    Takes every kind of list.
    """
    if array.null_count == len(array):
        # Arrow can't flatten lists without values if their elements are of an extension type.
        return _offsets(pa.array(np.zeros(len(array)))), pa.nulls(0, array.type.value_type)
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    return _offsets(lengths), pc.list_flatten(array)


def map_parts(array: pa.MapArray | pa.ListArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Offsets from zero, the keys and the values; null maps have no entries.

    Also takes a list of structs with only a key, as Arrow reads a Parquet map whose values are not asked for.
    """
    if not isinstance(array, pa.MapArray):
        offsets, entries = list_parts(array)
        [keys] = struct_children(entries)
        return offsets, keys, pa.nulls(len(keys))
    ends = np.asarray(array.offsets)
    lengths = np.diff(ends)
    keys, values = array.keys, array.items
    if array.null_count:
        kept = np.where(np.asarray(array.is_valid()), lengths, 0)
        if kept.sum() != lengths.sum():
            inside = np.repeat(ends[:-1] - np.concatenate(([0], np.cumsum(kept)[:-1])), kept) + np.arange(kept.sum())
            return _offsets(pa.array(kept)), keys.take(pa.array(inside)), values.take(pa.array(inside))
    start, count = int(ends[0]), int(ends[-1] - ends[0])
    return _offsets(pa.array(lengths)), keys.slice(start, count), values.slice(start, count)


def null_mask(array: pa.Array) -> pa.BooleanArray | None:
    """The mask of an array's nulls, as the makers of nested arrays take it; None where there are none."""
    return array.is_null() if array.null_count else None


def _with_offsets(array: pa.Array) -> pa.Array:
    t = array.type
    if isinstance(array, pa.StructArray):
        parts = [array.field(i) for i in range(t.num_fields)]
        new = [_with_offsets(p) for p in parts]
        if all(a is b for a, b in zip(new, parts, strict=True)):
            return array
        return pa.StructArray.from_arrays(new, fields=list(t), mask=null_mask(array))
    if not isinstance(array, (pa.ListArray, pa.MapArray)):
        return array
    if not array.buffers()[1]:
        return pa.nulls(0, t)
    inner = [array.keys, array.items] if isinstance(array, pa.MapArray) else [array.values]
    new = [_with_offsets(a) for a in inner]
    if all(a is b for a, b in zip(new, inner, strict=True)):
        return array
    ends = np.asarray(array.offsets)
    start, end = int(ends[0]), int(ends[-1])
    kept = [a.slice(start, end - start) for a in new]
    return type(array).from_arrays(pa.array(ends - start), *kept, t, mask=null_mask(array))


def _offsets(lengths: pa.Array) -> pa.Array:
    sums = np.concatenate(([0], np.cumsum(np.asarray(lengths, dtype=np.int64))))
    return pa.array(sums.astype(np.int32))
