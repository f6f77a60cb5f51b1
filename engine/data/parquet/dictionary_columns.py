"""The choice of columns that a Parquet file stores with a dictionary.

Arrow's writer builds a dictionary for every column, up to a size limit. For a column of mostly distinct values that
costs time, and more bytes than the plain values.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from icecore.engine.data.arrow.nested import list_parts, map_parts, struct_children

_FEW_ROWS = 1000
_MANY_BYTES = 2**30
"""More may not fit into one array of strings."""
_WINDOWS, _ROWS_OF_A_WINDOW = 10, 500
# Shares of distinct values in a sample: no dictionary from the first on, one below the second, else all rows decide.
_DIFFERENT, _REPEATED = 0.99, 0.25


def dictionary_columns(rows: pa.Table) -> bool | list[str]:
    """The Parquet paths of the columns that are smaller with a dictionary than without; True for all columns.

    A sample of the rows is looked at first, and all rows only where it does not decide. For few rows, or very many,
    nothing is looked at and the answer is True.
    """
    if rows.num_rows < _FEW_ROWS or rows.nbytes > _MANY_BYTES:
        return True
    looked_at = _part_of(rows)
    paths: list[str] = []
    for i, name in enumerate(rows.column_names):
        found = {path: _repeats(values) for path, values in _leaves(name, looked_at.column(i).combine_chunks())}
        if None in found.values() or looked_at is rows:
            found = {path: _is_less(values) for path, values in _leaves(name, rows.column(i).combine_chunks())}
        paths.extend(path for path, chosen in found.items() if chosen)
    return paths


def _part_of(rows: pa.Table) -> pa.Table:
    """Runs of rows spread over a table, since a value may be repeated only in the next row or only far away."""
    if rows.num_rows <= _WINDOWS * _ROWS_OF_A_WINDOW:
        return rows
    last = rows.num_rows - _ROWS_OF_A_WINDOW
    starts = [last * i // (_WINDOWS - 1) for i in range(_WINDOWS)]
    return pa.concat_tables([rows.slice(start, _ROWS_OF_A_WINDOW) for start in starts])


def _leaves(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The primitive columns inside of a column, by their paths in Parquet, with their values that are not null."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_struct(array.type):
        for f, child in zip(array.type, struct_children(array), strict=True):
            yield from _leaves(f"{path}.{f.name}", child)
    elif pa.types.is_map(array.type):
        _, keys, values = map_parts(array)
        yield from _leaves(f"{path}.key_value.key", keys)
        yield from _leaves(f"{path}.key_value.value", values)
    elif pa.types.is_list(array.type):
        yield from _leaves(f"{path}.list.element", list_parts(array)[1])
    else:
        yield path, array.drop_null()


def _repeats(values: pa.Array) -> bool | None:
    """Whether sampled values are repeated enough for a dictionary; None where the sample does not decide."""
    different = _different(values)
    if different is None:
        return True
    if len(different) >= _DIFFERENT * len(values):
        return False
    return True if len(different) < _REPEATED * len(values) else None


def _is_less(values: pa.Array) -> bool:
    dictionary = _different(values)
    return dictionary is None or bool(
        dictionary.nbytes + len(values) * len(dictionary).bit_length() / 8 < values.nbytes
    )


def _different(values: pa.Array) -> pa.Array | None:
    """The distinct values; None where Arrow can't compare values of their type."""
    try:
        return values.unique()
    except pa.ArrowNotImplementedError:
        return None
