"""Times of day, which Spark holds as integers of microseconds since midnight."""

from __future__ import annotations

import pyarrow as pa

from icecore.engine.data.arrow.nested import list_parts, map_parts, null_mask, struct_children
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import ListType, MapType, StructType, TimeType, Type, children

_US_PER_DAY = 86_400_000_000


def times_from_longs(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The batch with integers under columns of type time, at any depth, as Arrow times.

    Columns are matched by name; those that don't fit the schema stay as they are. Raises ValidationError where an
    integer is no time of day.
    """
    fields = {f.name: f for f in schema.fields}
    columns = [
        _times(column, fields[name].field_type, name)
        if name in fields and _has_time(fields[name].field_type)
        else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _has_time(t: Type) -> bool:
    return isinstance(t, TimeType) or any(_has_time(c.field_type) for c in children(t))


def _times(array: pa.Array, t: Type, path: str) -> pa.Array:
    mask = null_mask(array)
    match t:
        case TimeType() if pa.types.is_integer(array.type):
            return _checked(array.cast(pa.int64()), path)
        case StructType(fields=fields) if pa.types.is_struct(array.type):
            wanted = {f.name: f.field_type for f in fields}
            parts = [
                _times(child, wanted[f.name], f"{path}.{f.name}") if f.name in wanted else child
                for f, child in zip(array.type, struct_children(array), strict=True)
            ]
            return pa.StructArray.from_arrays(parts, names=[f.name for f in array.type], mask=mask)
        case ListType(element=element) if pa.types.is_list(array.type):
            offsets, values = list_parts(array)
            return pa.ListArray.from_arrays(offsets, _times(values, element, f"{path}.element"), mask=mask)
        case MapType(key=key, value=value) if pa.types.is_map(array.type):
            offsets, keys, items = map_parts(array)
            keys, items = _times(keys, key, f"{path}.key"), _times(items, value, f"{path}.value")
            return pa.MapArray.from_arrays(offsets, keys, items, type=pa.map_(keys.type, items.type), mask=mask)
        case _:
            return array


def _checked(array: pa.Array, path: str) -> pa.Array:
    for value in (v.as_py() for v in _extremes(array)):
        if value is not None and not 0 <= value < _US_PER_DAY:
            raise ValidationError(f"column {path!r}: {value} is no time of day in microseconds since midnight")
    return array.cast(pa.time64("us"))


def _extremes(array: pa.Array) -> tuple[pa.Scalar, pa.Scalar]:
    import pyarrow.compute as pc

    found = pc.min_max(array)
    return found["min"], found["max"]
