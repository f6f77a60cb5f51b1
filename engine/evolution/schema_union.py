"""The changes after which a schema also holds the data of another schema. Spec: Schema Evolution (T7)."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from icecore.engine.evolution.schema_ops import UNSET, AddColumn, UpdateColumn
from icecore.engine.spec.promotion import can_promote
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import ListType, MapType, NestedField, StructType, Type, UnknownType


def union_ops(
    schema: Schema, new: Schema, *, format_version: int, case_sensitive: bool, deleted: frozenset[int]
) -> Iterator[AddColumn | UpdateColumn]:
    """The additions and updates that make `schema` a union by name with `new`, in Java's order.

    New columns are optional, whatever they are in `new`: existing rows have no value for them. A column whose type is
    narrower in `new` keeps its wider one. `deleted` are the ids of columns that count as gone.
    """
    union = _Union(schema, format_version, case_sensitive, deleted)
    return union.struct(new.as_struct(), schema.as_struct(), None)


@frozen
class _Union:
    schema: Schema
    format_version: int
    case_sensitive: bool
    deleted: frozenset[int]

    def struct(self, new: StructType, old: StructType, parent_id: int | None) -> Iterator[AddColumn | UpdateColumn]:
        """The changes inside columns that both have, then those of this struct, so that inner columns get ids first."""
        partners = [(f, self._partner(old, f.name)) for f in new.fields]
        for f, partner in partners:
            if partner is not None:
                yield from self._inside(f.field_type, partner)
        for f, partner in partners:
            if partner is not None:
                yield self._widened(f, partner)
            else:
                yield from self._added(f, parent_id)

    def _partner(self, struct: StructType, name: str) -> NestedField | None:
        for f in struct.fields:
            same = f.name == name if self.case_sensitive else f.name.lower() == name.lower()
            if same and f.field_id not in self.deleted:
                return f
        return None

    def _inside(self, new: Type, partner: NestedField) -> Iterator[AddColumn | UpdateColumn]:
        match new, partner.field_type:
            case StructType(), StructType() as old:
                yield from self.struct(new, old, partner.field_id)
            case ListType(), ListType() as old_list:
                yield from self._item(new.element_field, old_list.element_field)
            case MapType(), MapType() as old_map:
                yield from self._item(new.key_field, old_map.key_field)
                yield from self._item(new.value_field, old_map.value_field)
            case _:
                pass

    def _item(self, new: NestedField, partner: NestedField) -> Iterator[AddColumn | UpdateColumn]:
        yield from self._inside(new.field_type, partner)
        yield self._widened(new, partner)

    def _added(self, new: NestedField, parent_id: int | None) -> Iterator[AddColumn | UpdateColumn]:
        parent = () if parent_id is None else self.schema.path(parent_id)
        yield AddColumn(parent, new.name, new.field_type, doc=new.doc, default=new.initial_default)
        if new.write_default != new.initial_default:
            yield UpdateColumn(".".join((*parent, new.name)), write_default=new.write_default)

    def _widened(self, new: NestedField, old: NestedField) -> UpdateColumn:
        return UpdateColumn(
            self.schema.name_of(old.field_id),
            field_type=None if self._is_covered(new.field_type, old.field_type) else new.field_type,
            required=False if new.optional else None,
            doc=new.doc,
            write_default=UNSET if new.write_default is None else new.write_default,
        )

    def _is_covered(self, new: Type, old: Type) -> bool:
        """Whether a column of type `old` takes values of type `new` as it is."""
        if isinstance(new, UnknownType):
            return True
        if old.is_primitive or new.is_primitive:
            return can_promote(new, old, self.format_version)
        return type(new) is type(old)
