"""The resolution of expected columns in a data file by field id.

Spec: Column Projection (P1), Schema Evolution (T7), Row Lineage (RL5). A column that the file lacks is the identity
partition value, else the initial default, else null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve, frozen

from icecore.engine.data.arrow.arrow_schema import type_to_arrow
from icecore.engine.data.arrow.arrow_values import constant_array
from icecore.engine.data.arrow.nested import list_parts, map_parts, null_mask, struct_children
from icecore.engine.data.file.file_field import FileField
from icecore.engine.data.read.promote import check_readable, promoted
from icecore.engine.data.variant.variant_shredding import check_variant, read_variants
from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.spec.content_file import ContentFile, FileFormat
from icecore.engine.spec.reserved import (
    DELETED,
    FILE,
    LAST_UPDATED_SEQUENCE_NUMBER,
    PARTITION_ID,
    POS,
    ROW_ID,
    SPEC_ID,
)
from icecore.engine.spec.types import ListType, MapType, NestedField, PrimitiveType, StructType, Type, VariantType

FILE_ID, POS_ID, DELETED_ID, SPEC_ID_ID = (f.field_id for f in (FILE, POS, DELETED, SPEC_ID))
ROW_ID_ID, LAST_UPDATED_ID = ROW_ID.field_id, LAST_UPDATED_SEQUENCE_NUMBER.field_id
FIRST_RESERVED_ID = 2147483448


@frozen
class Constant:
    """The same value in every row."""

    type: Type
    value: Any


@frozen
class Position:
    """The row's position in the file."""


@frozen
class Inherited:
    """A lineage column: as stored where not null, else `first` (plus the row's position, if `by_position`).

    `Resolver` makes it a null `Constant` instead if the file has no first row id.
    """

    stored: Leaf | None
    first: int | None
    by_position: bool


@frozen
class Leaf:
    """A primitive column as it lies in the file."""

    name: str
    leaf: int
    type: PrimitiveType
    where: str


@frozen
class Variant:
    """A variant, made of all columns that its metadata and value are stored in."""

    name: str
    first_leaf: int
    leaves: int
    where: str


@frozen
class Struct:
    """A struct, put together from its fields."""

    name: str
    nodes: tuple[Node, ...]
    type: StructType
    first_leaf: int


@frozen
class List:
    """A list, put together from its resolved elements."""

    name: str
    element: Node
    type: ListType
    first_leaf: int


@frozen
class Map:
    """A map, put together from its resolved keys and values."""

    name: str
    key: Node
    value: Node
    type: MapType
    first_leaf: int


Node: TypeAlias = Constant | Position | Inherited | Leaf | Variant | Struct | List | Map


@frozen
class Resolver:
    """The resolver of the columns of one file.

    `identity` has its identity partition values by source column id, `partition` the value of `_partition` if wanted.
    """

    file: ContentFile
    data_sequence_number: int | None
    identity: Mapping[int, Any]
    partition: Mapping[int, Any] | None = None

    def column(self, field: NestedField, found: tuple[FileField, ...]) -> Node:
        """The node that makes an expected top-level column of those `found`. Raises ValidationError where none can."""
        if field.field_id >= FIRST_RESERVED_ID:
            return self._reserved(field, found)
        return self._field(field, found, field.name)

    def _reserved(self, field: NestedField, found: tuple[FileField, ...]) -> Node:
        match field.field_id:
            case FILE.field_id:
                return Constant(field.field_type, self.file.file_path)
            case POS.field_id:
                return Position()
            case DELETED.field_id:
                # For deleted rows it is set to true afterwards.
                return Constant(field.field_type, False)
            case i if i == PARTITION_ID:
                return Constant(field.field_type, self.partition)
            case SPEC_ID.field_id:
                return Constant(field.field_type, self.file.spec_id)
            case ROW_ID.field_id | LAST_UPDATED_SEQUENCE_NUMBER.field_id if self.file.first_row_id is None:
                # Rows of a file without a first row id have no lineage yet, whatever the file stores.
                return Constant(field.field_type, None)
            case ROW_ID.field_id:
                return Inherited(self._stored(field, found), self.file.first_row_id, by_position=True)
            case LAST_UPDATED_SEQUENCE_NUMBER.field_id:
                return Inherited(self._stored(field, found), self.data_sequence_number, by_position=False)
            case _:
                raise ValidationError(f"metadata column {field.name!r} (id {field.field_id}) can't be read")

    def _stored(self, field: NestedField, found: tuple[FileField, ...]) -> Leaf | None:
        node = self._field(field, found, field.name) if _by_id(found, field.field_id) else None
        return node if isinstance(node, Leaf) else None

    def _field(self, field: NestedField, found: tuple[FileField, ...], path: str) -> Node:
        source = _by_id(found, field.field_id)
        if source is None:
            return self._missing(field, path)
        if pa.types.is_null(source.type):
            # Writers who saw only nulls know no type; Java's Avro files have columns of type unknown as such.
            return Constant(field.field_type, None)
        match field.field_type:
            case StructType(fields=fields):
                self._expect(pa.types.is_struct(source.type), field, source, path)
                nodes = tuple(self._field(f, source.children, f"{path}.{f.name}") for f in fields)
                return Struct(source.name, nodes, field.field_type, source.first_leaf)
            case ListType() as t:
                self._expect(len(source.children) == 1 and not pa.types.is_struct(source.type), field, source, path)
                element = self._inside(t.element_field, source.children[0], f"{path}.element")
                return List(source.name, element, t, source.first_leaf)
            case MapType() as t:
                self._expect(pa.types.is_map(source.type), field, source, path)
                key, value = (
                    self._inside(f, inner, f"{path}.{f.name}")
                    for f, inner in zip((t.key_field, t.value_field), source.children, strict=True)
                )
                return Map(source.name, key, value, t, source.first_leaf)
            case VariantType():
                where = f"{self.file.file_path}: column {path!r}"
                check_variant(source.type, where, may_be_shredded=self.file.file_format is FileFormat.PARQUET)
                return Variant(source.name, source.first_leaf, source.leaves, where)
            case _:
                self._expect(check_readable(source.type, field.field_type), field, source, path)
                where = f"{self.file.file_path}: column {path!r}"
                return Leaf(source.name, source.first_leaf, field.field_type, where)

    def _inside(self, field: NestedField, source: FileField, path: str) -> Node:
        """An element, key or value; without an id its place tells it, as in Java: Spark's own writer gives it none."""
        known = source if source.field_id is not None else evolve(source, field_id=field.field_id)
        return self._field(field, (known,), path)

    def _missing(self, field: NestedField, path: str) -> Constant:
        if field.field_id in self.identity:
            return Constant(field.field_type, self.identity[field.field_id])
        if field.initial_default is None and field.required:
            raise ValidationError(
                f"{self.file.file_path}: the required column {path!r} (id {field.field_id}) is not in the file "
                "and has no default"
            )
        return Constant(field.field_type, field.initial_default)

    def _expect(self, condition: bool, field: NestedField, source: FileField, path: str) -> None:
        if not condition:
            raise CorruptFileError(
                f"{self.file.file_path}: column {path!r} (id {field.field_id}) should be {field.field_type}, "
                f"the file has {source.type}"
            )


def _by_id(found: tuple[FileField, ...], field_id: int) -> FileField | None:
    return next((f for f in found if f.field_id == field_id), None)


def needed_leaves(nodes: tuple[Node, ...]) -> frozenset[int]:
    """The numbers of the file's primitive columns that have to be read."""
    return frozenset(leaf for n in nodes for leaf in _leaves(n))


def _leaves(node: Node) -> Iterator[int]:
    match node:
        case Constant() | Position():
            return
        case Inherited(stored=stored):
            if stored is not None:
                yield stored.leaf
        case Leaf(leaf=leaf):
            yield leaf
        case Variant(first_leaf=first, leaves=count):
            yield from range(first, first + count)
        case Struct(nodes=nodes, first_leaf=first):
            inner = [leaf for n in nodes for leaf in _leaves(n)]
            # Where nothing inside is wanted, one column must still tell which structs are null.
            yield from inner or [first]
        case List(element=element, first_leaf=first):
            yield from list(_leaves(element)) or [first]
        case Map(key=key, value=value, first_leaf=first):
            yield first
            yield from _leaves(key)
            yield from _leaves(value)
        case _:
            assert_never(node)


def make(node: Node, columns: Mapping[str, pa.Array], first_position: int, length: int) -> pa.Array:
    """One expected column of consecutive rows, from the file's columns by name.

    The result has the Arrow form of the expected type, without ids. Raises CorruptFileError where a value can't be
    promoted.
    """
    match node:
        case Constant(type=t, value=value):
            return constant_array(t, value, length, with_ids=False)
        case Position():
            return pa.array(np.arange(first_position, first_position + length, dtype=np.int64))
        case Inherited(stored=stored, first=first, by_position=by_position):
            numbers = np.arange(length, dtype=np.int64) + first_position if by_position else np.zeros(length, np.int64)
            inherited = pa.nulls(length, pa.int64()) if first is None else pa.array(numbers + first)
            return inherited if stored is None else pc.coalesce(make(stored, columns, 0, length), inherited)
        case Leaf(name=name, type=t, where=where):
            return promoted(columns[name], t, where)
        case Variant(name=name, where=where):
            return read_variants(columns[name], where)
        case Struct() | List() | Map():
            return _make_nested(node, columns[node.name])
        case _:
            assert_never(node)


def _make_nested(node: Struct | List | Map, array: pa.Array) -> pa.Array:
    target = type_to_arrow(node.type, with_ids=False)
    mask = null_mask(array)
    match node:
        case Struct(nodes=nodes):
            children = dict(zip((f.name for f in array.type), struct_children(array), strict=True))
            parts = [make(n, children, 0, len(array)) for n in nodes]
            if not parts:
                return pa.array([{} if valid else None for valid in array.is_valid().to_pylist()], target)
            return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
        case List(element=element):
            offsets, values = list_parts(array)
            values = make(element, {"element": values}, 0, len(values))
            return pa.ListArray.from_arrays(offsets, values, type=target, mask=mask)
        case Map(key=key, value=value):
            offsets, keys, values = map_parts(array)
            keys = make(key, {"key": keys}, 0, len(keys))
            values = make(value, {"value": values}, 0, len(values))
            return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=mask)
        case _:
            assert_never(node)
