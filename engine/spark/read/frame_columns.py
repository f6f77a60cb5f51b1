"""Columns as Spark reads them from files, and the SQL that turns them into a DataFrame's.

Spec: Column Projection (P1), Default Values (T9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from attrs import evolve, frozen

from icecore.engine.data.file.file_field import FileField
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.read.frame_names import Path, ReadNames, alias
from icecore.engine.spark.spark_sql_text import list_of, literal, map_of, quote, struct_of
from icecore.engine.spark.spark_types import shown_type, stored_type
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    Type,
    UnknownType,
    UUIDType,
    children,
    walk,
)

FIELD_ID = "parquet.field.id"
EXISTS_DEFAULT = "EXISTS_DEFAULT"
EMPTY_STRUCT = "named_struct()"
_UUID_PARTS = "'^(.{8})(.{4})(.{4})(.{4})(.{12})$', '$1-$2-$3-$4-$5'"
_US_PER_DAY = 86_400_000_000

NameOf: TypeAlias = Callable[[NestedField, Path], str | None]


@frozen
class ReadColumn:
    """A column, or a part of a nested one, under the name it is read by; without a name the file lacks it.

    `parts` are the fields of a struct, the element of a list, the key and value of a map.
    """

    field: NestedField
    name: str | None
    parts: tuple[ReadColumn, ...] = ()

    @property
    def is_read(self) -> bool:
        """Whether the file has it, so that it is read."""
        return self.name is not None and not isinstance(self.field.field_type, UnknownType)

    def _type(self, *, with_ids: bool) -> T.DataType:
        match self.field.field_type:
            case StructType():
                return T.StructType([p.spark_field(with_ids=with_ids) for p in self.parts if p.is_read])
            case ListType():
                return T.ArrayType(self.parts[0]._type(with_ids=with_ids))
            case MapType():
                return T.MapType(self.parts[0]._type(with_ids=with_ids), self.parts[1]._type(with_ids=with_ids))
            case _:
                return stored_type(self.field.field_type)

    def spark_field(self, *, with_ids: bool, default: bool = False) -> T.StructField:
        """The field of a read schema; `default` lets Spark give files without the column its initial default."""
        metadata: dict[str, Any] = {FIELD_ID: self.field.field_id} if with_ids else {}
        read_type = self._type(with_ids=with_ids)
        value = self.field.initial_default
        if default and value is not None:
            metadata[EXISTS_DEFAULT] = literal(self.field.field_type, value)
            if isinstance(self.field.field_type, BinaryType):
                # Spark's reader can't fill in a binary default, but it reads binary as a string.
                read_type = T.StringType()
                metadata[EXISTS_DEFAULT] = f"CAST({metadata[EXISTS_DEFAULT]} AS STRING)"
        return T.StructField(self.name, read_type, True, metadata)

    def part(self, field_id: int) -> ReadColumn:
        """The part with that field id."""
        return next(p for p in self.parts if p.field.field_id == field_id)


def columns_by_id(
    schema: Schema, fields: Iterable[NestedField], names: ReadNames, *, hides_whole: bool = False
) -> tuple[ReadColumn, ...]:
    """The columns to read by field id, under names that lose no row. `schema` is the one that the fields are from.

    With `hides_whole` a column has a name that no file has also where one of its parts has, or where it has structs in
    a list or map, whose fields keep their names.
    """

    def column(root: NestedField) -> ReadColumn:
        is_hidden = names.name(root, (root.name,)) != root.name

        def name_of(field: NestedField, path: Path) -> str:
            inside = schema.get_field(field.field_id) is not None and schema.is_in_list_or_map(field.field_id)
            # A filter on a part of a struct looks up the whole path, so one name on it that no file has is enough.
            return field.name if inside or (is_hidden and len(path) > 1) else names.name(field, path)

        made = _column(root, (), name_of)
        if hides_whole and (any(map(_is_hidden, made.parts)) or has_struct_below(root.field_type)):
            return evolve(made, name=alias(root.field_id))
        return made

    return tuple(column(f) for f in fields)


def _is_hidden(column: ReadColumn) -> bool:
    """Whether a column, or a part of it, is read under a name that no file has."""
    return column.name == alias(column.field.field_id) or any(map(_is_hidden, column.parts))


def has_struct(t: Type) -> bool:
    """Whether a type is a struct, or has one in a list or map at any depth."""
    return isinstance(t, StructType) or has_struct_below(t)


def has_struct_below(t: Type) -> bool:
    """Whether a list or a map, at any depth, has structs in it."""
    inside = has_struct_below if isinstance(t, StructType) else has_struct
    return any(inside(c.field_type) for c in children(t))


def aliased_columns(fields: Iterable[NestedField]) -> tuple[ReadColumn, ...]:
    """Columns and their parts under names made of their ids, which no column of a table has."""
    return tuple(_column(f, (), lambda each, _: alias(each.field_id)) for f in fields)


def columns_by_name(fields: Iterable[NestedField], found: tuple[FileField, ...]) -> tuple[ReadColumn, ...]:
    """The columns to read by the names that they have in a file whose own columns have been identified."""
    return tuple(_found_column(f, found) for f in fields)


def _column(field: NestedField, parent: Path, name_of: NameOf) -> ReadColumn:
    path = (*parent, field.name)
    parts = tuple(_column(c, path, name_of) for c in children(field.field_type))
    if len({p.name.lower() for p in parts if p.name is not None}) < len(parts):
        # Spark takes names that differ in case alone for one.
        parts = tuple(ReadColumn(p.field, alias(p.field.field_id), p.parts) for p in parts)
    return ReadColumn(field, name_of(field, path), parts)


def _found_column(field: NestedField, found: tuple[FileField, ...]) -> ReadColumn:
    source = next((f for f in found if f.field_id == field.field_id), None)
    inner = source.children if source is not None else ()
    parts = tuple(_found_column(c, inner) for c in children(field.field_type))
    return ReadColumn(field, source.name if source is not None else None, parts)


def native_default(field: NestedField) -> bool:
    """Whether Spark's Parquet reader can give files that lack a column its initial default, if it has any."""
    if any(f.initial_default is not None for f in walk(children(field.field_type))):
        return False
    t = field.field_type
    return field.initial_default is None or (t.is_primitive and (not _is_bytes(t) or isinstance(t, BinaryType)))


def _is_bytes(t: Type) -> bool:
    return isinstance(stored_type(t), T.BinaryType)


def stored_sql(column: ReadColumn, value: str, *, default: bool = False) -> str:
    """SQL of a read column in its stored form; `default` as in `spark_field`."""
    if default and isinstance(column.field.field_type, BinaryType) and column.field.initial_default is not None:
        return f"CAST({value} AS BINARY)"
    return value


def shown_sql(column: ReadColumn, value: str, wanted: NestedField) -> str:
    """SQL that turns a read value into the DataFrame's value of `wanted`: the same field, maybe with fewer parts."""
    t = wanted.field_type
    if not column.is_read:
        return missing_sql(wanted)
    if _is_shown_as_read(column, wanted):
        return value
    match t:
        case StructType(fields=fields):
            parts = [(f, column.part(f.field_id)) for f in fields]
            return struct_of(value, [(f.name, shown_sql(p, _inside(value, p), f)) for f, p in parts])
        case ListType():
            element = column.parts[0]
            return list_of(value, lambda x: shown_sql(element, x, t.element_field))
        case MapType():
            key, item = column.parts
            return map_of(
                value,
                None if _is_shown_as_read(key, t.key_field) else lambda x: shown_sql(key, x, t.key_field),
                None if _is_shown_as_read(item, t.value_field) else lambda x: shown_sql(item, x, t.value_field),
            )
        case _:
            return shown_primitive_sql(t, value)


def shown_primitive_sql(t: Type, value: str) -> str:
    """SQL that turns a stored value into the shown one."""
    match t:
        case UUIDType():
            return f"regexp_replace(lower(hex({value})), {_UUID_PARTS})"
        case TimestamptzNanoType():
            return f"timestamp_micros({_micros(value)})"
        case TimestampNanoType():
            # Made by a sum, because every conversion to a timestamp without zone goes through the session's zone.
            us = _micros(value)
            seconds = f"CAST(({us}) % {_US_PER_DAY} AS DECIMAL(18, 6)) / 1000000"
            interval = f"make_dt_interval(CAST(({us}) DIV {_US_PER_DAY} AS INT), 0, 0, {seconds})"
            return f"(TIMESTAMP_NTZ '1970-01-01 00:00:00' + {interval})"
        case _:
            return value


def missing_sql(field: NestedField) -> str:
    """SQL of a field in files that lack it: its initial default, else null."""
    target = ddl(shown_type(field.field_type))
    if field.initial_default is None or not field.field_type.is_primitive:
        return "NULL" if target == "VOID" else f"CAST(NULL AS {target})"
    return shown_primitive_sql(field.field_type, literal(field.field_type, field.initial_default))


def missing_stored_sql(field: NestedField) -> str:
    """SQL of a field in files that lack it, as `missing_sql`, in the stored form."""
    if field.initial_default is not None and field.field_type.is_primitive:
        return literal(field.field_type, field.initial_default)
    return f"CAST(NULL AS {ddl(stored_type(field.field_type))})"


def path_sql(columns: Mapping[int, ReadColumn], root_sql: Mapping[int, str], id_path: tuple[int, ...]) -> str:
    """SQL of a column that may lie inside structs, by the ids on the way, in its stored form."""
    column, sql = columns[id_path[0]], root_sql[id_path[0]]
    is_read = len(id_path) == 1 or column.is_read
    for field_id in id_path[1:]:
        column = column.part(field_id)
        is_read = is_read and column.is_read
        sql = _inside(sql, column)
    return sql if is_read else f"CAST(NULL AS {ddl(stored_type(column.field.field_type))})"


def ddl(t: T.DataType) -> str:
    """A Spark type as SQL, with names quoted."""
    if isinstance(t, T.StructType):
        return "STRUCT<" + ", ".join(f"{quote(f.name)}: {ddl(f.dataType)}" for f in t.fields) + ">"
    if isinstance(t, T.ArrayType):
        return f"ARRAY<{ddl(t.elementType)}>"
    if isinstance(t, T.MapType):
        return f"MAP<{ddl(t.keyType)}, {ddl(t.valueType)}>"
    # What TIMESTAMP alone means is a setting.
    return "TIMESTAMP_LTZ" if isinstance(t, T.TimestampType) else str(t.simpleString()).upper()


def _inside(value: str, part: ReadColumn) -> str:
    return f"{value}.{quote(part.name)}" if part.name is not None else value


def _is_shown_as_read(column: ReadColumn, wanted: NestedField) -> bool:
    t = wanted.field_type
    if t.is_primitive:
        return column.is_read and not isinstance(t, (UUIDType, TimestampNanoType, TimestamptzNanoType, UnknownType))
    parts = children(t)
    return (
        column.is_read
        and [f.field_id for f in parts] == [p.field.field_id for p in column.parts]
        and all(p.name == f.name or not isinstance(t, StructType) for f, p in zip(parts, column.parts, strict=True))
        and all(_is_shown_as_read(p, f) for f, p in zip(parts, column.parts, strict=True))
    )


def _micros(nanos: str) -> str:
    return f"({nanos} DIV 1000 - IF({nanos} % 1000 < 0, 1, 0))"
