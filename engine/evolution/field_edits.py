"""Checked edits of a schema's fields, by field id, and the fields that result."""

from __future__ import annotations

from typing import assert_never

from attrs import define, evolve, field, frozen

from icecore.engine.evolution.schema_ops import MovePosition
from icecore.engine.spec.types import ListType, MapType, NestedField, StructType, Type


@frozen
class FieldMove:
    """Moves a field within its struct; `reference_id` is the field before or after which it goes, if any."""

    field_id: int
    position: MovePosition
    reference_id: int | None


@define
class FieldEdits:
    """The edits: `updates` has changed and added fields as they will be, `adds` and `moves` go by their struct's id.

    The root struct's id is None. Added fields come at the end of their struct, and moves run last, in order.
    """

    deletes: set[int] = field(factory=set)
    updates: dict[int, NestedField] = field(factory=dict)
    adds: dict[int | None, list[int]] = field(factory=dict)
    moves: dict[int | None, list[FieldMove]] = field(factory=dict)

    def applied(self, fields: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
        """The top-level fields after all edits."""
        return self._apply_struct(fields, None)

    def _apply_struct(self, fields: tuple[NestedField, ...], parent_id: int | None) -> tuple[NestedField, ...]:
        kept = [self._apply_field(f) for f in fields if f.field_id not in self.deletes]
        kept += [self.updates[i] for i in self.adds.get(parent_id, ())]
        for move in self.moves.get(parent_id, ()):
            _apply_move(kept, move)
        return tuple(kept)

    def _apply_field(self, each: NestedField) -> NestedField:
        changed = self.updates.get(each.field_id, each)
        if changed.field_type != each.field_type:
            return changed
        return evolve(changed, field_type=self._apply_type(each.field_type, each.field_id))

    def _apply_type(self, field_type: Type, field_id: int) -> Type:
        match field_type:
            case StructType(fields=fields):
                return StructType(self._apply_struct(fields, field_id))
            case ListType() as t:
                element = self._apply_field(t.element_field)
                return evolve(t, element=element.field_type, element_required=element.required)
            case MapType() as t:
                value = self._apply_field(t.value_field)
                return evolve(t, value=value.field_type, value_required=value.required)
            case _:
                return field_type


def _apply_move(fields: list[NestedField], move: FieldMove) -> None:
    ids = [f.field_id for f in fields]
    moved = fields.pop(ids.index(move.field_id))
    ids.remove(move.field_id)
    match move.position:
        case MovePosition.FIRST:
            fields.insert(0, moved)
        case MovePosition.BEFORE:
            fields.insert(ids.index(move.reference_id), moved)  # type: ignore[arg-type]  # checked when recorded
        case MovePosition.AFTER:
            fields.insert(ids.index(move.reference_id) + 1, moved)  # type: ignore[arg-type]  # checked when recorded
        case _:
            assert_never(move.position)
