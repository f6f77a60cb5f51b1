"""Name mappings: field ids for data files that were written without. Spec: Name Mapping (P2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import orjson
from attrs import frozen

from icecore.engine.common.json_reader import get, get_list, get_strs
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import NestedField, children


@frozen
class MappedField:
    """The names under which files may have a field; without a field id, columns of these names belong to no field."""

    names: tuple[str, ...]
    field_id: int | None = None
    fields: NameMapping = attrs.field(factory=lambda: NameMapping())

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if self.field_id is not None:
            out["field-id"] = self.field_id
        out["names"] = list(self.names)
        if self.fields.fields:
            out["fields"] = [f.to_dict() for f in self.fields.fields]
        return out

    @classmethod
    def from_dict(cls, obj: Any) -> MappedField:
        """An entry of a name mapping from its JSON object. Raises ValidationError where it is none."""
        where = "name mapping field"
        return cls(
            get_strs(obj, "names", where),
            get(obj, "field-id", int, where, None),
            NameMapping(tuple(cls.from_dict(f) for f in get_list(obj, "fields", where, default=[]))),
        )


@frozen
class NameMapping:
    """A table's name mapping, or the part of it inside a field. Property `schema.name-mapping.default`."""

    fields: tuple[MappedField, ...] = ()

    def to_json(self) -> str:
        return orjson.dumps([f.to_dict() for f in self.fields]).decode()

    @classmethod
    def from_json(cls, text: str) -> NameMapping:
        """The mapping of a JSON text. Raises ValidationError where it is none."""
        try:
            items = orjson.loads(text)
        except orjson.JSONDecodeError as e:
            raise ValidationError(f"name mapping is not valid JSON: {e}") from e
        if not isinstance(items, list):
            raise ValidationError(f"name mapping must be a JSON array, found {type(items).__name__}")
        return cls(tuple(MappedField.from_dict(i) for i in items))

    @classmethod
    def of_fields(cls, fields: Iterable[NestedField]) -> NameMapping:
        """The mapping of a schema's present names."""
        return cls(_mapped(fields))

    def find(self, name: str) -> MappedField | None:
        """The entry of a name at this level; a dot in a name is a dot (P2)."""
        return next((f for f in self.fields if name in f.names), None)


def _mapped(fields: Iterable[NestedField]) -> tuple[MappedField, ...]:
    return tuple(MappedField((f.name,), f.field_id, NameMapping(_mapped(children(f.field_type)))) for f in fields)


def updated_mapping(mapping: NameMapping, old: Schema, new: Schema) -> NameMapping:
    """The mapping after a change of the schema.

    A renamed field is found under its old and new names, new fields are added, dropped fields stay. A name that is
    mapped to another field already stays with that field, because existing files are those that need the mapping.
    (The Java library gives the name to the new field, and so reads the old files' values as the new column's.)
    """
    return NameMapping(_updated(mapping.fields, new.fields, old))


def _updated(mapped: tuple[MappedField, ...], fields: tuple[NestedField, ...], old: Schema) -> tuple[MappedField, ...]:
    by_id = {f.field_id: f for f in fields}
    taken = {name for m in mapped for name in m.names}
    out = []
    for m in mapped:
        names, inner = m.names, m.fields
        present = None if m.field_id is None else by_id.get(m.field_id)
        if present is not None:
            names = names if present.name in taken else (*names, present.name)
            inner = NameMapping(_updated(m.fields.fields, children(present.field_type), old))
        out.append(MappedField(names, m.field_id, inner))
    known = {m.field_id for m in mapped}
    for m in _mapped(f for f in fields if f.field_id not in known and old.get_field(f.field_id) is None):
        out.append(attrs.evolve(m, names=tuple(n for n in m.names if n not in taken)))
    return tuple(out)
