"""Batches cut down to a schema that has fewer columns or fewer parts of nested ones."""

from __future__ import annotations

import pyarrow as pa

from icecore.engine.data.arrow.nested import list_parts, map_parts, struct_children


def narrow(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema` by name, in its order; structs lose the fields that it doesn't have."""
    columns = [_narrow(batch.column(f.name), f.type) for f in schema]
    if not columns:
        return batch.select([])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _narrow(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type.equals(wanted):
        return array
    if pa.types.is_struct(wanted):
        by_name = {array.type.field(i).name: c for i, c in enumerate(struct_children(array))}
        children = [_narrow(by_name[f.name], f.type) for f in wanted]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=array.is_null())
    if pa.types.is_list(wanted):
        offsets, elements = list_parts(array)
        return pa.ListArray.from_arrays(offsets, _narrow(elements, wanted.value_type), wanted, mask=array.is_null())
    if pa.types.is_map(wanted):
        offsets, keys, values = map_parts(array)
        items = _narrow(values, wanted.item_type)
        return pa.MapArray.from_arrays(offsets, _narrow(keys, wanted.key_type), items, wanted, mask=array.is_null())
    return array.cast(wanted)
