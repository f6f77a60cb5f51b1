"""Columns of a table's files by field id: the ids of a file's columns, and readers of columns at any depth.

Spec: Column Projection (P1, P2); Equality Delete Files (D4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen

from icecore.engine.data.arrow.arrow_schema import arrow_to_schema, type_to_arrow
from icecore.engine.data.file.file_field import FileField, has_ids, walk_file, with_mapping
from icecore.engine.data.read.column_resolution import Node, Resolver, make, needed_leaves
from icecore.engine.data.read.promote import check_readable
from icecore.engine.errors import CorruptFileError
from icecore.engine.spec.content_file import ContentFile, FileFormat
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import ListType, MapType, NestedField, StructType, VariantType, children


@frozen
class Identification:
    """The rules by which columns of files without field ids get them, and the schemas that the ids are of.

    `table_schemas` are all that the table ever had: equality deletes outlive the columns that they look at.
    """

    table_schema: Schema
    name_mapping: NameMapping | None
    table_schemas: tuple[Schema, ...] = ()

    def identified(self, fields: tuple[FileField, ...], file: ContentFile) -> tuple[FileField, ...]:
        """The columns with ids: the file's own, else those of the name mapping.

        Without a mapping, Parquet columns get their places as ids, and columns of other formats are found by the
        table's names, as in Java. The table's names also count if the mapping contradicts the schema (Hive's migration
        wrote such), or if the types at those places do (files of Dremio's own tables lack partition columns, which come
        first in the schema).
        """
        if has_ids(fields):
            return fields
        if self.name_mapping is not None:
            fits = _agrees(self.name_mapping, None, self.table_schema)
            return with_mapping(fields, self.name_mapping if fits else NameMapping.of_fields(self.table_schema.fields))
        if file.file_format is FileFormat.PARQUET and all(self._fits(f, i) for i, f in enumerate(fields, start=1)):
            return tuple(self._by_place(f, i) for i, f in enumerate(fields, start=1))
        return with_mapping(fields, NameMapping.of_fields(self.table_schema.fields))

    def reader(self, field_id: int) -> ColumnReader | None:
        """The reader of a column that the table has or had, by its last type and default; None for any other."""
        past = sorted(self.table_schemas, key=lambda s: s.schema_id, reverse=True)
        for schema in (self.table_schema, *past):
            if schema.get_field(field_id) is not None:
                return column_reader(schema, field_id)
        return None

    def _fits(self, f: FileField, field_id: int) -> bool:
        known = self.table_schema.get_field(field_id)
        if known is None or pa.types.is_null(f.type):
            return True
        kind = known.field_type
        if isinstance(kind, (StructType, ListType, MapType, VariantType)):
            return bool(f.children)
        return not f.children and check_readable(f.type, kind)

    def _by_place(self, f: FileField, field_id: int) -> FileField:
        known = self.table_schema.get_field(field_id)
        inner = children(known.field_type) if known is not None else ()
        return evolve(f, field_id=field_id, children=with_mapping(f.children, NameMapping.of_fields(inner)))


def _agrees(mapping: NameMapping, parent_id: int | None, schema: Schema) -> bool:
    """Whether every mapped field that the schema has is under the same parent in both."""
    for f in mapping.fields:
        known = f.field_id is not None and schema.get_field(f.field_id) is not None
        if known and schema.parent_id(f.field_id or 0) != parent_id:
            return False
        if f.field_id is not None and not _agrees(f.fields, f.field_id, schema):
            return False
    return True


@frozen
class ColumnReader:
    """A column that may lie inside structs: the outermost column cut down to it, and the field names below."""

    root: NestedField
    path: tuple[str, ...]
    leaf: NestedField

    def resolved(self, file: ContentFile, fields: tuple[FileField, ...], identity: Mapping[int, Any]) -> ResolvedColumn:
        """The column in one file."""
        return ResolvedColumn(Resolver(file, None, identity).column(self.root, fields), self.path)

    def empty(self) -> pa.Array:
        """The column of no rows."""
        return pa.nulls(0, type_to_arrow(self.leaf.field_type, with_ids=False))


@frozen
class ResolvedColumn:
    """A column of one file."""

    node: Node
    path: tuple[str, ...]

    @property
    def leaves(self) -> frozenset[int]:
        """The numbers of the file's primitive columns that it is read from."""
        return needed_leaves((self.node,))

    def values(self, columns: Mapping[str, pa.Array], first_position: int, length: int) -> pa.Array:
        """The column's values, null where a struct around it is."""
        array = make(self.node, columns, first_position, length)
        for name in self.path:
            array = pc.struct_field(array, [array.type.get_field_index(name)])
        return array


def column_reader(schema: Schema, field_id: int) -> ColumnReader | None:
    """The reader of a schema's column, or None where the schema doesn't have it or it lies in a list or map."""
    leaf = schema.get_field(field_id)
    if leaf is None or schema.is_in_list_or_map(field_id):
        return None
    # Optional, because a file may lack the column: then the key is null.
    root = leaf = evolve(leaf, required=False)
    for parent_id in reversed(schema.id_path(field_id)[:-1]):
        root = evolve(schema.find_field(parent_id), field_type=StructType((root,)), required=False)
    return ColumnReader(root, schema.path(field_id)[1:], leaf)


def column_readers(
    ids: tuple[int, ...], identification: Identification, delete_fields: tuple[FileField, ...], where: str
) -> tuple[ColumnReader, ...]:
    """The readers of the key columns of an equality delete file (D4).

    A dropped column is read as the last schema with it has it, since files that lack it have its default; if no schema
    has it any more, as the delete file has it. Raises CorruptFileError for an id that is no primitive column, or that
    the delete file lacks; `where` names the file.
    """
    out = []
    for field_id in ids:
        reader = identification.reader(field_id) or _dropped_column(field_id, delete_fields)
        if reader is None or not reader.leaf.field_type.is_primitive:
            raise CorruptFileError(f"{where}: there is no primitive column with the equality id {field_id}")
        if all(f.field_id != field_id for f in walk_file(delete_fields)):
            raise CorruptFileError(f"{where}: the file lacks its key column {reader.leaf.name!r} (id {field_id})")
        out.append(reader)
    return tuple(out)


def _dropped_column(field_id: int, fields: tuple[FileField, ...]) -> ColumnReader | None:
    for f in fields:
        if f.field_id == field_id and not f.children:
            known = arrow_to_schema(pa.schema([pa.field(f.name, f.type)]), format_version=3).fields[0]
            leaf = evolve(known, field_id=field_id, required=False)
            return ColumnReader(leaf, (), leaf)
        inner = _dropped_column(field_id, f.children) if pa.types.is_struct(f.type) and f.field_id else None
        if inner is not None and f.field_id is not None:
            root = NestedField(f.field_id, f.name, StructType((inner.root,)))
            return ColumnReader(root, (inner.root.name, *inner.path), inner.leaf)
    return None
