"""The part of a schema that data files store: all but columns of type unknown (Spec: T2)."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from attrs import evolve

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow, type_to_arrow
from icecore.engine.data.arrow.nested import list_parts, map_parts, null_mask, struct_children
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    UnknownType,
    VariantType,
    children,
    walk,
)


def stored_schema(schema: Schema) -> Schema:
    """The schema without columns of type unknown, at any depth.

    Raises ValidationError where the table, a struct, a list or a map would have no column left to store.
    """
    if not any(_stores_nothing(f.field_type) for f in walk(schema.fields)) and schema.fields:
        return schema
    return Schema(_stored_fields(schema.fields, "the table"), schema.schema_id, schema.identifier_field_ids)


def stored_table(table: pa.Table, schema: Schema, stored: Schema) -> pa.Table:
    """A table of `schema` cut down to `stored`, which is its `stored_schema`."""
    if stored is schema:
        return table
    arrow = schema_to_arrow(stored)
    by_id = {f.field_id: (f, table.column(i)) for i, f in enumerate(schema.fields)}
    columns = []
    for f, target in zip(stored.fields, arrow, strict=True):
        whole, column = by_id[f.field_id]
        chunks = [_cut(whole.field_type, f.field_type, c) for c in column.chunks]
        columns.append(pa.chunked_array(chunks, target.type))
    return pa.table(columns, schema=arrow)


def without_hidden_nulls(table: pa.Table, schema: Schema) -> pa.Table:
    """A table whose required fields inside null structs hold a value of no meaning instead of a null.

    Arrow's Parquet writer refuses a null in a required field even where the struct around it is null. The rows must
    have been checked for other nulls in required fields.
    """
    for i, f in enumerate(schema.fields):
        if _may_hide_nulls(f.field_type):
            chunks = [_filled(f.field_type, c, nullable=True) for c in table.column(i).chunks]
            table = table.set_column(i, table.schema.field(i), pa.chunked_array(chunks, table.schema.field(i).type))
    return table


def _may_hide_nulls(t: Type) -> bool:
    hides = isinstance(t, VariantType) or (isinstance(t, StructType) and any(f.required for f in t.fields))
    return hides or any(_may_hide_nulls(c.field_type) for c in children(t))


def _filled(t: Type, array: pa.Array, *, nullable: bool) -> pa.Array:
    mask = null_mask(array) if nullable else None
    target = type_to_arrow(t)
    match t:
        case StructType(fields=fields):
            parts = [
                _filled(f.field_type, c, nullable=f.optional)
                for f, c in zip(fields, struct_children(array), strict=True)
            ]
            return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
        case ListType():
            offsets, values = list_parts(array)
            values = _filled(t.element, values, nullable=True)
            return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)
        case MapType():
            offsets, keys, values = map_parts(array)
            keys, values = _filled(t.key, keys, nullable=True), _filled(t.value, values, nullable=True)
            return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=mask)
        case VariantType():
            parts = [c if not c.null_count else _without_validity(c) for c in struct_children(array)]
            return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
        case _:
            return array if nullable or not array.null_count else _without_validity(array)


def _without_validity(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(array.type, _without_validity(array.storage))
    buffers = [None, *array.buffers()[1:]]
    return pa.Array.from_buffers(array.type, len(array), buffers, 0, array.offset)


def _stores_nothing(t: Type) -> bool:
    return isinstance(t, UnknownType) or (isinstance(t, StructType) and not t.fields)


def _stored_fields(fields: Iterable[NestedField], where: str) -> tuple[NestedField, ...]:
    kept = [f for f in fields if not isinstance(f.field_type, UnknownType)]
    if not kept:
        raise ValidationError(f"{where} has no column that a data file can store")
    return tuple(evolve(f, field_type=_stored_type(f.field_type, repr(f.name))) for f in kept)


def _stored_type(t: Type, where: str) -> Type:
    if any(isinstance(c.field_type, UnknownType) for c in children(t)) and not isinstance(t, StructType):
        raise ValidationError(f"{where}: a data file can't store {t}")
    match t:
        case StructType(fields=fields):
            return StructType(_stored_fields(fields, where))
        case ListType():
            return evolve(t, element=_stored_type(t.element, where))
        case MapType():
            return evolve(t, key=_stored_type(t.key, where), value=_stored_type(t.value, where))
        case _:
            return t


def _cut(whole: Type, stored: Type, array: pa.Array) -> pa.Array:
    if whole == stored:
        return array
    target = type_to_arrow(stored)
    mask = null_mask(array)
    match whole, stored:
        case StructType(fields=fields), StructType(fields=kept):
            children_ = {f.field_id: (f, c) for f, c in zip(fields, struct_children(array), strict=True)}
            parts = [_cut(children_[f.field_id][0].field_type, f.field_type, children_[f.field_id][1]) for f in kept]
            return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
        case ListType() as a, ListType() as b:
            offsets, values = list_parts(array)
            return pa.ListArray.from_arrays(offsets, _cut(a.element, b.element, values), type=target, mask=mask)
        case MapType() as a, MapType() as b:
            offsets, keys, values = map_parts(array)
            keys, values = _cut(a.key, b.key, keys), _cut(a.value, b.value, values)
            return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=mask)
        case _:
            return array
