"""Schemas: an ordered set of fields with ids, and their JSON.

Spec: Schemas and Data Types, Appendix C Schemas (T4 to T9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import orjson
from attrs import define, evolve, field

from icecore.engine.common.json_reader import get, get_ints, get_list, unknown
from icecore.engine.common.text import abbreviated, short_repr
from icecore.engine.errors import ValidationError
from icecore.engine.spec import single_value
from icecore.engine.spec.types import (
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    UnknownType,
    VariantType,
    children,
    parse_primitive,
    walk,
)

INITIAL_SCHEMA_ID = 0
MAX_FIELD_ID = 2147483447


def _sorted_ids(ids: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(ids)))


@define(frozen=True, slots=False)
class Schema:
    """A table schema. Equality includes the schema id; `same_fields` compares without it.

    Raises ValidationError where field ids repeat, a name repeats in one struct, or an identifier field breaks T5.
    """

    fields: tuple[NestedField, ...]
    schema_id: int = INITIAL_SCHEMA_ID
    identifier_field_ids: tuple[int, ...] = field(converter=_sorted_ids, default=())
    extra: Mapping[str, Any] = field(factory=dict, hash=False)
    __repr__ = short_repr

    def __attrs_post_init__(self) -> None:
        seen: dict[int, str] = {}
        for f in walk(self.fields):
            if f.field_id in seen:
                raise ValidationError(f"field id {f.field_id} is used by {seen[f.field_id]!r} and {f.name!r}")
            seen[f.field_id] = f.name
        _check_names(self.fields, "")
        for field_id in self.identifier_field_ids:
            _check_identifier_field(self, field_id)

    def as_struct(self) -> StructType:
        """The struct type of a row."""
        return StructType(self.fields)

    def same_fields(self, other: Schema) -> bool:
        """Whether two schemas are equal but for their id."""
        return self.fields == other.fields and self.identifier_field_ids == other.identifier_field_ids

    @cached_property
    def _by_id(self) -> dict[int, NestedField]:
        return {f.field_id: f for f in walk(self.fields)}

    @cached_property
    def _paths(self) -> dict[int, tuple[str, ...]]:
        return {f.field_id: path for f, path in _walk_paths(self.fields, ())}

    @cached_property
    def _parents(self) -> dict[int, int | None]:
        roots = dict.fromkeys(f.field_id for f in self.fields)
        return roots | {c.field_id: f.field_id for f in walk(self.fields) for c in children(f.field_type)}

    @cached_property
    def _by_name(self) -> dict[str, int]:
        names: dict[str, int] = {}
        # A name with dots is a column's own before it is the path to another.
        for field_id, path in sorted(self._paths.items(), key=lambda item: len(item[1])):
            names.setdefault(".".join(path), field_id)
        for field_id, path in self._paths.items():
            # Java's short names: a list's element and a map's value may be left out before a struct's field.
            if len(path) > 2:
                short = ".".join(p for p, skip in zip(path, _skippable(self, field_id), strict=True) if not skip)
                names.setdefault(short, field_id)
        return names

    @cached_property
    def _by_lower_name(self) -> dict[str, int]:
        # The first of names that differ in case alone counts.
        return {name.lower(): field_id for name, field_id in reversed(self._by_name.items())}

    def check_unambiguous(self) -> None:
        """Raises ValidationError for a column `a.b` beside a struct `a` with a field `b`, as readers go by names."""
        names = [".".join(path) for path in self._paths.values()]
        if len(set(names)) < len(names):
            raise ValidationError(f"two columns would have the name {max(names, key=names.count)!r}")

    @property
    def highest_field_id(self) -> int:
        """The highest field id at any depth; 0 for a schema without fields."""
        return max(self._by_id, default=0)

    @property
    def field_ids(self) -> frozenset[int]:
        """The ids of all fields at any depth."""
        return frozenset(self._by_id)

    def find_field(self, name_or_id: str | int, case_sensitive: bool = True) -> NestedField:
        """The field of that id or dotted name; where case doesn't count, the field of exactly that name comes first.

        Raises ValidationError naming the fields there are.
        """
        field_id = name_or_id if isinstance(name_or_id, int) else self._by_name.get(name_or_id)
        if field_id is None and not case_sensitive:
            field_id = self._by_lower_name.get(str(name_or_id).lower())
        found = None if field_id is None else self._by_id.get(field_id)
        if found is None:
            known = abbreviated(f.name for f in self.fields)
            raise ValidationError(f"no column {name_or_id!r} in the schema; there are: {known}")
        return found

    def identifier_field_names(self) -> tuple[str, ...]:
        """The full names of the identifier fields."""
        return tuple(self.name_of(i) for i in self.identifier_field_ids)

    def get_field(self, field_id: int) -> NestedField | None:
        """The field of that id at any depth, or None."""
        return self._by_id.get(field_id)

    def has_name(self, name: str, case_sensitive: bool = True) -> bool:
        """Whether a field, at any depth, has that dotted name."""
        return name in self._by_name if case_sensitive else name.lower() in self._by_lower_name

    def path(self, field_id: int) -> tuple[str, ...]:
        """The names from the root to the field, list and map steps included."""
        return self._paths[field_id]

    def name_of(self, field_id: int) -> str:
        """The dotted name of a field."""
        return ".".join(self._paths[field_id])

    def parent_id(self, field_id: int) -> int | None:
        """The id of the field that holds this one; None at the root."""
        return self._parents[field_id]

    def id_path(self, field_id: int) -> tuple[int, ...]:
        """The ids from the root to the field, list and map steps included."""
        parent = self._parents[field_id]
        return (field_id,) if parent is None else (*self.id_path(parent), field_id)

    def is_in_list_or_map(self, field_id: int) -> bool:
        """Whether a list or map lies on the path to a field."""
        return any(isinstance(self._by_id[i].field_type, (ListType, MapType)) for i in self.id_path(field_id)[:-1])

    def select(self, names: Iterable[str], case_sensitive: bool = True) -> Schema:
        """The schema of the named columns, nested ones too, in that order; `*` selects all. Raises ValidationError."""
        names = tuple(names)
        if "*" in names:
            return self
        wanted = [self.find_field(n, case_sensitive).field_id for n in names]
        if len(set(wanted)) != len(wanted):
            raise ValidationError(f"a column is selected twice: {list(names)}")
        roots = dict.fromkeys(self.id_path(field_id)[0] for field_id in wanted)
        keep = frozenset(wanted)
        fields = [_prune(self._by_id[root], keep) for root in roots]
        return Schema(tuple(f for f in fields if f is not None), self.schema_id)

    def to_dict(self) -> dict[str, Any]:
        """The schema's JSON object (Spec: Appendix C Schemas)."""
        out: dict[str, Any] = {"type": "struct", "schema-id": self.schema_id}
        out["fields"] = [_field_to_dict(f) for f in self.fields]
        if self.identifier_field_ids:
            out["identifier-field-ids"] = list(self.identifier_field_ids)
        return out | dict(self.extra)

    @cached_property
    def json(self) -> bytes:
        """The bytes of its JSON, made once, since each metadata file of the table repeats them."""
        return orjson.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, obj: Any, default_id: int = INITIAL_SCHEMA_ID) -> Schema:
        """The schema of a JSON object. Raises ValidationError where it is none."""
        if get(obj, "type", str, "schema") != "struct":
            raise ValidationError(f"a schema must be of type struct, found {obj['type']!r}")
        struct = type_from_json(obj)
        assert isinstance(struct, StructType)
        return cls(
            struct.fields,
            get(obj, "schema-id", int, "schema", default_id),
            get_ints(obj, "identifier-field-ids", "schema", default=[]),
            unknown(obj, _SCHEMA_KEYS),
        )

    def __str__(self) -> str:
        lines = [
            f"  {f.field_id}: {f.name}: {'required' if f.required else 'optional'} {f.field_type}" for f in self.fields
        ]
        return "table {\n" + "\n".join(lines) + "\n}"


_SCHEMA_KEYS = frozenset({"type", "schema-id", "fields", "identifier-field-ids"})
_FIELD_KEYS = frozenset({"id", "name", "required", "type", "doc", "initial-default", "write-default"})
_LIST_KEYS = frozenset({"type", "element-id", "element", "element-required"})
_MAP_KEYS = frozenset({"type", "key-id", "key", "value-id", "value", "value-required"})


def _walk_paths(fields: Iterable[NestedField], at: tuple[str, ...]) -> Iterator[tuple[NestedField, tuple[str, ...]]]:
    for f in fields:
        path = (*at, f.name)
        yield f, path
        yield from _walk_paths(children(f.field_type), path)


def _skippable(schema: Schema, field_id: int) -> list[bool]:
    """A flag for each step of a field's path: whether it is a list element or map value that holds a struct."""
    steps: list[bool] = []
    path = schema.id_path(field_id)
    for parent, current in zip((None, *path), path, strict=False):
        container = None if parent is None else schema._by_id[parent].field_type
        is_step = isinstance(container, ListType) or (isinstance(container, MapType) and current == container.value_id)
        steps.append(is_step and isinstance(schema._by_id[current].field_type, StructType) and current != field_id)
    return steps


def _check_names(fields: tuple[NestedField, ...], where: str) -> None:
    names: set[str] = set()
    for f in fields:
        if f.name in names:
            raise ValidationError(f"column name {where + f.name!r} is used twice")
        names.add(f.name)
        _check_names(children(f.field_type), f"{where}{f.name}.")


def _check_identifier_field(schema: Schema, field_id: int) -> None:
    f = schema.get_field(field_id)
    if f is None:
        raise ValidationError(f"identifier field id {field_id} is not in the schema")
    name = schema.name_of(field_id)
    if not f.field_type.is_primitive:
        raise ValidationError(f"identifier field {name!r} must be primitive, found {f.field_type}")
    if not f.required:
        raise ValidationError(f"identifier field {name!r} must be required")
    if isinstance(f.field_type, (FloatType, DoubleType)):
        raise ValidationError(f"identifier field {name!r} must not be {f.field_type}")
    for parent in reversed(schema.id_path(field_id)[:-1]):
        p = schema.find_field(parent)
        if not isinstance(p.field_type, StructType):
            raise ValidationError(f"identifier field {name!r} must not be inside a list or map")
        if not p.required:
            raise ValidationError(f"identifier field {name!r} must not be inside the optional struct {p.name!r}")


def _prune(f: NestedField, keep: frozenset[int]) -> NestedField | None:
    """The field cut down to the parts that are kept, or None where nothing of it is."""
    if f.field_id in keep:
        return f
    match f.field_type:
        case StructType(fields=fields):
            kept = tuple(p for p in (_prune(c, keep) for c in fields) if p is not None)
            return evolve(f, field_type=StructType(kept)) if kept else None
        case ListType() as t:
            element = _prune(t.element_field, keep)
            return None if element is None else evolve(f, field_type=evolve(t, element=element.field_type))
        case MapType() as t:
            key, value = _prune(t.key_field, keep), _prune(t.value_field, keep)
            if key is None and value is None:
                return None
            return evolve(f, field_type=evolve(t, value=t.value if value is None else value.field_type))
        case _:
            return None


def type_to_json(iceberg_type: Type) -> Any:
    """The JSON form of a type: a string for primitives, an object for nested types."""
    match iceberg_type:
        case StructType(fields=fields):
            return {"type": "struct", "fields": [_field_to_dict(f) for f in fields]}
        case ListType():
            return {
                "type": "list",
                "element-id": iceberg_type.element_id,
                "element": type_to_json(iceberg_type.element),
                "element-required": iceberg_type.element_required,
                **iceberg_type.extra,
            }
        case MapType():
            return {
                "type": "map",
                "key-id": iceberg_type.key_id,
                "key": type_to_json(iceberg_type.key),
                "value-id": iceberg_type.value_id,
                "value": type_to_json(iceberg_type.value),
                "value-required": iceberg_type.value_required,
                **iceberg_type.extra,
            }
        case _:
            return str(iceberg_type)


def _field_to_dict(f: NestedField) -> dict[str, Any]:
    kind = type_to_json(f.field_type)
    out: dict[str, Any] = {"id": f.field_id, "name": f.name, "required": f.required, "type": kind}
    if f.doc is not None:
        out["doc"] = f.doc
    if f.initial_default is not None:
        out["initial-default"] = single_value.to_json(f.field_type, f.initial_default)
    if f.write_default is not None:
        out["write-default"] = single_value.to_json(f.field_type, f.write_default)
    return out | dict(f.extra)


def type_from_json(obj: Any) -> Type:
    """The type of a JSON string or object. Raises ValidationError."""
    if isinstance(obj, str):
        return parse_primitive(obj)
    kind = get(obj, "type", str, "type")
    match kind:
        case "struct":
            return StructType(tuple(_field_from_dict(f) for f in get_list(obj, "fields", "struct")))
        case "list":
            return ListType(
                get(obj, "element-id", int, "list"),
                type_from_json(obj.get("element")),
                get(obj, "element-required", bool, "list"),
                unknown(obj, _LIST_KEYS),
            )
        case "map":
            return MapType(
                get(obj, "key-id", int, "map"),
                type_from_json(obj.get("key")),
                get(obj, "value-id", int, "map"),
                type_from_json(obj.get("value")),
                get(obj, "value-required", bool, "map"),
                unknown(obj, _MAP_KEYS),
            )
        case _:
            raise ValidationError(f"unknown nested type {kind!r}")


def _field_from_dict(obj: Any) -> NestedField:
    where = f"field {obj.get('name')!r}" if isinstance(obj, dict) else "field"
    field_type = type_from_json(get(obj, "type", (str, dict), where))
    return NestedField(
        get(obj, "id", int, where),
        get(obj, "name", str, where),
        field_type,
        get(obj, "required", bool, where),
        get(obj, "doc", str, where, None),
        _default(field_type, obj.get("initial-default"), where),
        _default(field_type, obj.get("write-default"), where),
        unknown(obj, _FIELD_KEYS),
    )


def _default(field_type: Type, value: Any, where: str) -> Any:
    if value is not None and isinstance(field_type, (UnknownType, VariantType, GeometryType, GeographyType)):
        raise ValidationError(f"{where}: a default of type {field_type} must be null (T2)")
    return single_value.from_json(field_type, value)


def check_format_version(schema: Schema, format_version: int) -> None:
    """Raises ValidationError for a type or default that the format version lacks (T1, T9).

    It is raised as well for a required column of type unknown (T2), and for a reserved field id (T4).
    """
    for f in walk(schema.fields):
        t: IcebergType = f.field_type
        if f.field_id > MAX_FIELD_ID:
            raise ValidationError(
                f"column {schema.name_of(f.field_id)!r} has id {f.field_id}; ids above {MAX_FIELD_ID} are reserved"
            )
        if t.min_format_version > format_version:
            raise ValidationError(
                f"Invalid type for {schema.name_of(f.field_id)}: {t} is not supported until "
                f"v{t.min_format_version}; the table is v{format_version}"
            )
        if f.required and isinstance(t, UnknownType):
            raise ValidationError(f"column {schema.name_of(f.field_id)!r} of type unknown must be optional (T2)")
        if format_version < 3 and f.initial_default is not None:
            raise ValidationError(
                f"Invalid initial default for {schema.name_of(f.field_id)}: non-null default "
                f"({f.initial_default}) is not supported until v3; the table is v{format_version}"
            )
