"""The changes of one batch to a schema: recorded against the schema as it was, then applied together.

The rules are those of Java's SchemaUpdate, so that a batch means the same to both: names are those before the change,
new ids are taken in the order of the calls, additions come at the end of their struct and moves run last.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import assert_never

from attrs import evolve

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.field_edits import FieldEdits, FieldMove
from icecore.engine.evolution.schema_ops import (
    UNSET,
    AddColumn,
    DeleteColumn,
    MoveColumn,
    MovePosition,
    RenameColumn,
    SchemaOp,
    SetIdentifierFields,
    UnionByName,
    UpdateColumn,
)
from icecore.engine.evolution.schema_union import union_ops
from icecore.engine.spec.default_value import check_struct_default, default_value
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.promotion import can_promote, promote_value, promotion_keeps_partitions
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    GeographyType,
    GeometryType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    UnknownType,
    VariantType,
    walk,
)

DEFAULTS_SINCE_VERSION = 3
_NULL_DEFAULT_ONLY = (UnknownType, VariantType, GeometryType, GeographyType)


class SchemaChanges:
    """The operations of one batch; `fields` gives the result. Methods raise ValidationError.

    `last_column_id` is the highest id given out so far. `identifier_names` is None until identifier fields are set.
    """

    def __init__(
        self,
        schema: Schema,
        last_column_id: int,
        *,
        format_version: int,
        specs: tuple[PartitionSpec, ...],
        allow_incompatible_changes: bool,
        case_sensitive: bool,
    ) -> None:
        self.last_column_id = last_column_id
        self.identifier_names: tuple[str, ...] | None = None
        self.case_sensitive = case_sensitive
        self._schema = schema
        self._format_version = format_version
        self._specs = specs
        self._allow_incompatible = allow_incompatible_changes
        self._edits = FieldEdits()
        self._added_parents: dict[int, int | None] = {}
        self._added_names: dict[str, int] = {}

    def record(self, op: SchemaOp) -> None:
        """Records one operation. Raises ValidationError where it is not allowed, by itself or after earlier ones."""
        match op:
            case AddColumn():
                self._add_column(op)
            case DeleteColumn(path=path):
                self._delete(path)
            case RenameColumn(path=path, new_name=new_name):
                self._rename(path, new_name)
            case UpdateColumn():
                self._update(self._current(op.path), op.path, op)
            case MoveColumn():
                self._move(op)
            case SetIdentifierFields(names=names):
                self.identifier_names = names
            case UnionByName(schema=schema):
                for inner in union_ops(
                    self._schema,
                    schema,
                    format_version=self._format_version,
                    case_sensitive=self.case_sensitive,
                    deleted=frozenset(self._edits.deletes),
                ):
                    self.record(inner)
            case _:
                assert_never(op)

    def fields(self) -> tuple[NestedField, ...]:
        """The top-level fields after all that was recorded."""
        return self._edits.applied(self._schema.fields)

    # Finding columns

    def _existing(self, path: str) -> NestedField | None:
        if not self._schema.has_name(path, self.case_sensitive):
            return None
        return self._schema.find_field(path, self.case_sensitive)

    def _current(self, path: str) -> NestedField:
        """The column as the batch has changed it so far; an added one of that name if the old one is deleted."""
        existing = self._existing(path)
        added = self._added_names.get(self._key(path))
        if added is not None and (existing is None or existing.field_id in self._edits.deletes):
            return self._edits.updates[added]
        found = existing or self._schema.find_field(path, self.case_sensitive)
        return self._edits.updates.get(found.field_id, found)

    def _key(self, path: str) -> str:
        return path if self.case_sensitive else path.lower()

    def _parent_id(self, field_id: int) -> int | None:
        if field_id in self._added_parents:
            return self._added_parents[field_id]
        return self._schema.parent_id(field_id)

    def _lineage(self, field_id: int) -> Iterator[int]:
        """A field and those that hold it, from the inside out."""
        current: int | None = field_id
        while current is not None:
            yield current
            current = self._parent_id(current)

    def _check_changeable(self, field_id: int, path: str, verb: str) -> None:
        for step in self._lineage(field_id):
            if step in self._edits.deletes:
                raise ValidationError(f"column {path!r} can't be {verb}: the same change deletes it")
            parent = self._parent_id(step)
            holder = None if parent is None else self._schema.find_field(parent).field_type
            if isinstance(holder, MapType) and step == holder.key_id:
                raise ValidationError(f"column {path!r} can't be {verb}: the keys of a map can't change")

    def _is_struct_field(self, field_id: int) -> bool:
        parent = self._parent_id(field_id)
        return parent is None or isinstance(self._schema.find_field(parent).field_type, StructType)

    def _check_struct_field(self, field_id: int, path: str, verb: str) -> None:
        if not self._is_struct_field(field_id):
            raise ValidationError(f"column {path!r} can't be {verb}: it is part of a list or map")

    # Recording

    def _add_column(self, op: AddColumn) -> None:
        if not op.parent:
            self._add(None, op)
            return
        path = ".".join(op.parent)
        parent = self._existing(path)
        if parent is None:
            raise ValidationError(f"column {op.name!r} can't be added: there is no column {path!r} to hold it")
        match parent.field_type:
            case ListType() as t:
                parent = t.element_field
            case MapType() as t:
                parent = t.value_field
            case _:
                pass
        if not isinstance(parent.field_type, StructType):
            raise ValidationError(
                f"column {op.name!r} can't be added to {path!r}, which is no struct but {parent.field_type}"
            )
        self._check_changeable(parent.field_id, path, "added to")
        self._add(parent.field_id, op)

    def _add(self, parent_id: int | None, op: AddColumn) -> None:
        if not op.name:
            raise ValidationError("a column needs a name")
        prefix = "" if parent_id is None else self._schema.name_of(parent_id) + "."
        path = prefix + op.name
        existing = self._existing(path)
        if existing is not None and existing.field_id not in self._edits.deletes:
            raise ValidationError(f"column {path!r} can't be added: there is one already")
        if self._key(path) in self._added_names:
            raise ValidationError(f"column {path!r} is added twice")
        default = self._checked_default(op.field_type, op.default, path)
        if op.required and default is None and not self._allow_incompatible:
            raise ValidationError(
                f"column {path!r} can't be added as required without a default: "
                "rows that are there already have no value for it (T9)"
            )
        field_id = self._next_id()
        field_type = self._fresh(op.field_type)
        field = NestedField(field_id, op.name, field_type, op.required, op.doc, default, default)
        self._check_added(field, path)
        self._edits.updates[field_id] = field
        self._edits.adds.setdefault(parent_id, []).append(field_id)
        self._added_parents[field_id] = parent_id
        for name in {path, ".".join((*op.parent, op.name))}:
            self._added_names[self._key(name)] = field_id

    def _checked_default(self, field_type: Type, value: object, path: str) -> object:
        try:
            default = default_value(field_type, value)
        except ValidationError as e:
            raise ValidationError(f"column {path!r}: {e}") from e
        if default is not None and self._format_version < DEFAULTS_SINCE_VERSION:
            raise ValidationError(
                f"column {path!r} can't have a default: that needs format version {DEFAULTS_SINCE_VERSION}, "
                f"the table has {self._format_version} (T9)"
            )
        return default

    def _check_added(self, field: NestedField, path: str) -> None:
        """Raises ValidationError where a new column breaks the rules about unknown, defaults and versions (T2, T9)."""
        for f in walk((field,)):
            where = path if f is field else f"{path}: field {f.name}"
            if isinstance(f.field_type, UnknownType) and f.required:
                raise ValidationError(f"column {where!r} of type unknown must be optional (T2)")
            if f.initial_default is None and f.write_default is None:
                continue
            if isinstance(f.field_type, _NULL_DEFAULT_ONLY):
                raise ValidationError(f"column {where!r} of type {f.field_type} must default to null (T2)")
            if self._format_version < DEFAULTS_SINCE_VERSION:
                raise ValidationError(
                    f"column {where!r} has a default, which needs format version {DEFAULTS_SINCE_VERSION}; "
                    f"the table has {self._format_version} (T9)"
                )
        check_struct_default(field)

    def _next_id(self) -> int:
        self.last_column_id += 1
        return self.last_column_id

    def _fresh(self, field_type: Type) -> Type:
        """The type with new ids inside: a struct's fields first, then what each of them holds (Java's order)."""
        match field_type:
            case StructType(fields=fields):
                ids = [self._next_id() for _ in fields]
                numbered = zip(ids, fields, strict=True)
                return StructType(
                    tuple(evolve(f, field_id=i, field_type=self._fresh(f.field_type)) for i, f in numbered)
                )
            case ListType() as t:
                element_id = self._next_id()
                return evolve(t, element_id=element_id, element=self._fresh(t.element))
            case MapType() as t:
                key_id, value_id = self._next_id(), self._next_id()
                key = self._fresh(t.key)
                return evolve(t, key_id=key_id, key=key, value_id=value_id, value=self._fresh(t.value))
            case _:
                return field_type

    def _delete(self, path: str) -> None:
        field = self._existing(path)
        if field is None:
            if self._key(path) in self._added_names:
                raise ValidationError(f"column {path!r} can't be deleted: the same change adds it")
            field = self._schema.find_field(path, self.case_sensitive)
        field_id = field.field_id
        self._check_struct_field(field_id, path, "deleted")
        moved = (i for moves in self._edits.moves.values() for m in moves for i in (m.field_id, m.reference_id))
        for changed in itertools.chain(self._edits.updates, moved):
            if changed is not None and field_id in self._lineage(changed):
                raise ValidationError(f"column {path!r} can't be deleted: the same change adds to, updates or moves it")
        if field_id not in self._edits.deletes:
            self._check_changeable(field_id, path, "deleted")
        self._edits.deletes.add(field_id)

    def _rename(self, path: str, new_name: str) -> None:
        field = self._current(path)
        self._check_struct_field(field.field_id, path, "renamed")
        self._check_changeable(field.field_id, path, "renamed")
        if not new_name:
            raise ValidationError(f"column {path!r} can't be renamed: the new name is empty")
        self._edits.updates[field.field_id] = evolve(field, name=new_name)

    def _update(self, field: NestedField, path: str, op: UpdateColumn) -> None:
        changed = field
        if op.required is not None and op.required != field.required:
            changed = self._with_required(changed, path, op.required)
        if op.field_type is not None and op.field_type != field.field_type:
            changed = self._with_type(changed, path, op.field_type)
        if op.doc is not None and op.doc != field.doc:
            changed = evolve(changed, doc=op.doc)
        if op.write_default is not UNSET:
            changed = self._with_write_default(changed, path, op.write_default)
        if changed == field:
            return
        self._check_changeable(field.field_id, path, "updated")
        if (changed.doc, changed.write_default) != (field.doc, field.write_default):
            self._check_struct_field(field.field_id, path, "given a doc or default")
        self._edits.updates[field.field_id] = changed

    def _with_required(self, field: NestedField, path: str, required: bool) -> NestedField:
        added_with_default = field.field_id in self._added_parents and field.initial_default is not None
        if required and not added_with_default and not self._allow_incompatible:
            raise ValidationError(
                f"column {path!r} can't become required: rows that are there already may have no value for it"
            )
        if required and isinstance(field.field_type, UnknownType):
            raise ValidationError(f"column {path!r} of type unknown must be optional (T2)")
        return evolve(field, required=required)

    def _with_type(self, field: NestedField, path: str, target: Type) -> NestedField:
        source = field.field_type
        if not source.is_primitive or not can_promote(source, target, self._format_version):
            raise ValidationError(
                f"column {path!r} can't change from {source} to {target} in format version {self._format_version} (T7)"
            )
        for spec in self._specs:
            for p in spec.fields:
                if field.field_id in p.source_ids and not promotion_keeps_partitions(source, target, p.transform):
                    raise ValidationError(
                        f"column {path!r} can't change from {source} to {target}: partition field {p.name!r} "
                        f"({p.transform}) of spec {spec.spec_id} would have other values (T7)"
                    )
        changed = evolve(
            field,
            field_type=self._fresh(target),
            initial_default=promote_value(source, target, field.initial_default),
            write_default=promote_value(source, target, field.write_default),
        )
        self._check_added(changed, path)
        return changed

    def _with_write_default(self, field: NestedField, path: str, value: object) -> NestedField:
        default = self._checked_default(field.field_type, value, path)
        if default is None and field.required and field.write_default is not None and not self._allow_incompatible:
            raise ValidationError(f"column {path!r} is required, so its default can't be taken away")
        return evolve(field, write_default=default)

    def _move(self, op: MoveColumn) -> None:
        field_id = self._current(op.path).field_id
        self._check_struct_field(field_id, op.path, "moved")
        self._check_changeable(field_id, op.path, "moved")
        parent_id = self._parent_id(field_id)
        reference_id = None
        if op.position is not MovePosition.FIRST:
            if op.reference is None:
                raise ValidationError(f"column {op.path!r} can't be moved {op.position} nothing")
            reference_id = self._current(op.reference).field_id
            self._check_changeable(reference_id, op.reference, "moved around")
            if reference_id == field_id:
                raise ValidationError(f"column {op.path!r} can't be moved {op.position} itself")
            if self._parent_id(reference_id) != parent_id:
                raise ValidationError(
                    f"column {op.path!r} can't be moved {op.position} {op.reference!r}: they are in different structs"
                )
        self._edits.moves.setdefault(parent_id, []).append(FieldMove(field_id, op.position, reference_id))
