"""The values of Arrow as Python has them, to be printed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from icecore.engine.display.cells import cell

if TYPE_CHECKING:
    import pyarrow as pa


def python_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table, whose columns may have one name."""
    columns = [python_values(c) for c in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column: maps as dicts; times that Python has no value for as text, and so are all nanoseconds."""
    return [value for chunk in column.chunks for value in _values(chunk)]


def _values(array: pa.Array) -> list[Any]:
    import pyarrow as pa

    kind = array.type
    if pa.types.is_map(kind):
        return _maps(array)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(array)
    if pa.types.is_struct(kind):
        return _structs(array)
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return list(array.cast(pa.string()).to_pylist())
    return _leaves(array)


def _maps(array: pa.MapArray) -> list[Any]:
    from icecore.engine.data.arrow.nested import map_parts

    offsets, keys, items = map_parts(array)
    pairs = list(zip(map(_key, _values(keys)), _values(items), strict=True))
    return _where_valid(array, [dict(pairs[i:j]) for i, j in pairwise(offsets.to_pylist())])


def _lists(array: pa.Array) -> list[Any]:
    from icecore.engine.data.arrow.nested import list_parts

    offsets, elements = list_parts(array)
    values = _values(elements)
    return _where_valid(array, [values[i:j] for i, j in pairwise(offsets.to_pylist())])


def _structs(array: pa.StructArray) -> list[Any]:
    from icecore.engine.data.arrow.nested import struct_children

    names, children = [f.name for f in array.type], map(_values, struct_children(array))
    rows = zip(*children, strict=True) if names else [()] * len(array)
    return _where_valid(array, [dict(zip(names, row, strict=True)) for row in rows])


def _where_valid(array: pa.Array, values: list[Any]) -> list[Any]:
    if not array.null_count:
        return values
    return [v if is_valid else None for v, is_valid in zip(values, array.is_valid().to_pylist(), strict=True)]


def _leaves(array: pa.Array) -> list[Any]:
    try:
        return list(array.to_pylist())
    except (ValueError, OverflowError):
        return [_leaf(scalar) for scalar in array]


def _leaf(scalar: pa.Scalar) -> Any:
    import pyarrow as pa

    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return scalar.cast(pa.string()).as_py()


def _key(key: Any) -> Any:
    """A key that a dict can have."""
    return cell(key, "null") if isinstance(key, dict | list) else key
