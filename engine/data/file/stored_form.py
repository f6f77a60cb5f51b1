"""Columns in the Arrow form that a file format's writer wants: other types, names and metadata, the same rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from icecore.engine.data.arrow.nested import list_parts, map_parts, null_mask, struct_children
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import ListType, MapType, NestedField, PrimitiveType, StructType, Type


class Form(Protocol):
    """The form in which a format stores each primitive. `primitive` and `array` must agree on the type."""

    def primitive(self, t: PrimitiveType) -> pa.DataType:
        """The Arrow type of a primitive."""
        ...

    def array(self, t: PrimitiveType, array: pa.Array, path: str) -> pa.Array:
        """The values as the type that `primitive` gives; `path` names the column in errors."""
        ...

    def field(self, f: NestedField, arrow_type: pa.DataType) -> pa.Field:
        """The Arrow field of a field at any depth."""
        ...

    def map_type(self, key: pa.Field, value: pa.Field) -> pa.DataType:
        """The Arrow type of a map: a map, or a list of structs of the two fields."""
        ...


def form_schema(form: Form, fields: Iterable[NestedField]) -> pa.Schema:
    """The Arrow schema of the fields in a form."""
    return pa.schema([_field(form, f) for f in fields])


def form_table(form: Form, table: pa.Table, schema: Schema) -> pa.Table:
    """The rows of a table of `schema` in a form; nested arrays are built anew, without offsets of their own."""
    target = form_schema(form, schema.fields)
    columns = [
        pa.chunked_array([_array(form, f.field_type, c, f.name) for c in column.chunks], arrow.type)
        for f, arrow, column in zip(schema.fields, target, table.columns, strict=True)
    ]
    return pa.table(columns, schema=target)


def _field(form: Form, f: NestedField) -> pa.Field:
    return form.field(f, _type(form, f.field_type))


def _type(form: Form, t: Type) -> pa.DataType:
    match t:
        case StructType(fields=fields):
            return pa.struct([_field(form, f) for f in fields])
        case ListType():
            return pa.list_(_field(form, t.element_field))
        case MapType():
            return form.map_type(_field(form, t.key_field), _field(form, t.value_field))
        case _:
            return form.primitive(t)


def _array(form: Form, t: Type, array: pa.Array, path: str) -> pa.Array:
    match t:
        case StructType(fields=fields):
            children = zip(fields, struct_children(array), strict=True)
            parts = [_array(form, f.field_type, c, f"{path}.{f.name}") for f, c in children]
            return pa.StructArray.from_arrays(parts, fields=list(_type(form, t)), mask=null_mask(array))
        case ListType(element=element):
            offsets, values = list_parts(array)
            values = _array(form, element, values, f"{path}.element")
            return pa.ListArray.from_arrays(offsets, values, type=_type(form, t), mask=null_mask(array))
        case MapType(key=key, value=value):
            offsets, keys, values = map_parts(array)
            keys, values = _array(form, key, keys, f"{path}.key"), _array(form, value, values, f"{path}.value")
            target = _type(form, t)
            if pa.types.is_map(target):
                return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=null_mask(array))
            pairs = pa.StructArray.from_arrays([keys, values], fields=list(target.value_type))
            return pa.ListArray.from_arrays(offsets, pairs, type=target, mask=null_mask(array))
        case _:
            return form.array(t, array, path)
