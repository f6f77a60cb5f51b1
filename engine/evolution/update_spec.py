"""Changes of a partition spec, and the update that people build: `with table.update_spec() as update: ...`.

Spec: Partition Evolution, Partitioning (PT1 to PT3). The rules are those of Java's UpdatePartitionSpec.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, assert_never

from attrs import evolve, frozen

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.recorded_update import RecordedUpdate
from icecore.engine.evolution.terms import (
    TIME_TRANSFORMS,
    Term,
    check_partition_name,
    default_partition_name,
    parse_term,
)
from icecore.engine.spec.partition import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform, Transform, UnknownTransform, VoidTransform, parse_transform

_Key: TypeAlias = tuple[tuple[int, ...], Transform]


@frozen
class AddField:
    """Adds a field at the end. `term` is text such as `day(ts)`, or a column's name where `transform` is given."""

    term: str
    transform: Transform | None = None
    name: str | None = None


@frozen
class RemoveField:
    """Removes the field of that name, or of that term."""

    name_or_term: str


@frozen
class RenameField:
    """Gives a field another name."""

    name: str
    new_name: str


SpecOp: TypeAlias = AddField | RemoveField | RenameField


def evolve_spec(
    current: PartitionSpec,
    ops: Sequence[SpecOp],
    *,
    schema: Schema,
    all_specs: Iterable[PartitionSpec],
    last_partition_id: int,
    format_version: int,
    case_sensitive: bool = True,
) -> PartitionSpec:
    """The spec after `ops`: one of `all_specs` where that is equivalent, else a new one with the next spec id (PT2).

    From v2 on, a field with the source and transform of a field in any spec gets that one's name if none is given, and
    its id if the names are equal. In v1 field ids count from 1000 in each spec and removed fields stay as void, so that
    later ones keep their place. Removing a field and adding it again in one change leaves it where it was. Raises
    ValidationError naming the field and the rule.
    """
    specs = {s.spec_id: s for s in (current, *all_specs)}
    changes = _SpecChanges(current, tuple(specs.values()), schema, last_partition_id, format_version, case_sensitive)
    for op in ops:
        changes.record(op)
    spec = PartitionSpec(changes.fields(), max(specs) + 1)
    if spec.has_unknown_values:
        raise ValidationError(f"{spec} has a transform that is unknown here, so it can't be written with (G3)")
    spec.check(schema)
    return next((s for s in specs.values() if s.same_as(spec)), spec)


class UpdateSpec(RecordedUpdate[SpecOp]):
    """The update of the partition spec that people build, under PyIceberg's names; the commit checks and applies it."""

    def add_field(
        self,
        source_column_name: str,
        transform: Transform | str | None = None,
        partition_field_name: str | None = None,
    ) -> UpdateSpec:
        """Adds a field by a term, `add_field("day(ts)")`, or by a column and a transform, `add_field("ts", "day")`.

        Raises ValidationError where the transform is not known.
        """
        parsed = None if transform is None else parse_transform(str(transform))
        if isinstance(parsed, UnknownTransform):
            raise ValidationError(f"unknown transform {parsed.text!r}; write it like 'day' or 'bucket[8]'")
        return self._record(AddField(source_column_name, parsed, partition_field_name))

    def add_identity(self, source_column_name: str) -> UpdateSpec:
        """Adds a field of the column's values as they are."""
        return self._record(AddField(source_column_name, IdentityTransform()))

    def remove_field(self, name: str) -> UpdateSpec:
        """Removes the field of that name, or of that term such as `day(ts)`."""
        return self._record(RemoveField(name))

    def rename_field(self, name: str, new_name: str) -> UpdateSpec:
        """Gives a field another name."""
        return self._record(RenameField(name, new_name))


class _SpecChanges:
    """Collects the operations of one change; `fields` gives the result."""

    def __init__(
        self,
        current: PartitionSpec,
        known: tuple[PartitionSpec, ...],
        schema: Schema,
        last_partition_id: int,
        format_version: int,
        case_sensitive: bool,
    ) -> None:
        self._current = current
        self._history = tuple(f for s in known for f in s.fields) if format_version >= 2 else ()
        self._schema = schema
        self._format_version = format_version
        self._case_sensitive = case_sensitive
        highest = max((s.last_assigned_field_id for s in known), default=PARTITION_FIELD_ID_START - 1)
        self._last_id = max(last_partition_id, highest) if format_version >= 2 else current.last_assigned_field_id
        self._by_name = {f.name: f for f in current.fields}
        self._by_key: dict[_Key, PartitionField] = {(f.source_ids, f.transform): f for f in current.fields}
        self._deletes: set[int] = set()
        self._renames: dict[int, str] = {}
        self._added: dict[str, _Key] = {}

    def record(self, op: SpecOp) -> None:
        match op:
            case AddField():
                self._add(op)
            case RemoveField(name_or_term=text):
                self._remove(text)
            case RenameField(name=name, new_name=new_name):
                self._rename(name, new_name)
            case _:
                assert_never(op)

    def fields(self) -> tuple[PartitionField, ...]:
        """The fields that stay, in their order, then the new ones."""
        kept = [self._kept(f) for f in self._current.fields]
        used = {f.field_id for f in kept if f is not None and not isinstance(f.transform, VoidTransform)}
        added: list[PartitionField] = []
        for name, (source_ids, transform) in self._added.items():
            field_id = self._field_id((source_ids, transform), name, used)
            used.add(field_id)
            added.append(PartitionField(source_ids, field_id, transform, name))
        # A void field gives way: it is left out if an added field has its id, and renamed if another has its name.
        names = {f.name for f in kept if f is not None and not isinstance(f.transform, VoidTransform)} | set(
            self._added
        )
        out: list[PartitionField] = []
        for f in kept:
            if f is None or (isinstance(f.transform, VoidTransform) and f.field_id in used):
                continue
            if isinstance(f.transform, VoidTransform) and f.name in names:
                f = evolve(f, name=f"{f.name}_{f.field_id}")
            out.append(f)
        return (*out, *added)

    def _kept(self, field: PartitionField) -> PartitionField | None:
        field = evolve(field, name=self._renames.get(field.field_id, field.name))
        if field.field_id not in self._deletes:
            return field
        return evolve(field, transform=VoidTransform()) if self._format_version < 2 else None

    def _field_id(self, key: _Key, name: str, used: set[int]) -> int:
        for f in self._history:
            if (f.source_ids, f.transform) == key and f.name == name and f.field_id not in used:
                return f.field_id
        self._last_id += 1
        return self._last_id

    def _add(self, op: AddField) -> None:
        term = self._term(op)
        key: _Key = ((term.source_id,), term.transform)
        existing = self._by_key.get(key)
        if existing is not None and existing.field_id in self._deletes:
            self._deletes.discard(existing.field_id)
            if term.name is not None and term.name != existing.name:
                self._rename(existing.name, term.name)
            return
        if existing is not None:
            raise ValidationError(f"partition term {op.term!r} is the field {existing.name!r} already")
        name = term.name or self._historical_name(key)
        name = name or default_partition_name(self._schema, term.source_id, term.transform)
        self._check_addition(op, key, name)
        self._added[name] = key

    def _term(self, op: AddField) -> Term:
        if op.transform is None:
            term = parse_term(op.term, self._schema, case_sensitive=self._case_sensitive)
        else:
            term = Term(self._schema.find_field(op.term, self._case_sensitive).field_id, op.transform)
        if term.name is not None and op.name is not None and term.name != op.name:
            raise ValidationError(f"partition term {op.term!r} is given a second name, {op.name!r}")
        return evolve(term, name=op.name if op.name is not None else term.name)

    def _historical_name(self, key: _Key) -> str | None:
        return next((f.name for f in self._history if (f.source_ids, f.transform) == key), None)

    def _check_addition(self, op: AddField, key: _Key, name: str) -> None:
        source_ids, transform = key
        if name in self._added or key in self._added.values():
            raise ValidationError(f"partition field {name!r} ({op.term!r}) is added twice")
        for other, (other_ids, other_transform) in self._added.items():
            both = isinstance(transform, TIME_TRANSFORMS) and isinstance(other_transform, TIME_TRANSFORMS)
            if both and other_ids == source_ids:
                raise ValidationError(f"partition term {op.term!r} is redundant beside {other!r}, added by this change")
        check_partition_name(self._schema, name, source_ids[0], transform, case_sensitive=self._case_sensitive)
        existing = self._by_name.get(name)
        if existing is not None and not isinstance(existing.transform, VoidTransform):
            stays = existing.field_id not in self._deletes and existing.field_id not in self._renames
            if stays:
                raise ValidationError(f"partition field {name!r} can't be added: there is one of that name")

    def _remove(self, text: str) -> None:
        field = self._by_name.get(text)
        if field is None:
            if text in self._added:
                raise ValidationError(f"partition field {text!r} can't be removed: the same change adds it")
            field = self._by_term(text)
        if field.field_id in self._renames:
            raise ValidationError(f"partition field {field.name!r} can't be removed: the same change renames it")
        self._deletes.add(field.field_id)

    def _by_term(self, text: str) -> PartitionField:
        fields = ", ".join(f"{f.name} ({f.transform})" for f in self._current.fields) or "none"
        missing = f"no partition field {text!r} to remove; there are: {fields}"
        try:
            term = parse_term(text, self._schema, case_sensitive=self._case_sensitive)
        except ValidationError as e:
            raise ValidationError(missing) from e
        key: _Key = ((term.source_id,), term.transform)
        if key in self._added.values():
            raise ValidationError(f"partition field {text!r} can't be removed: the same change adds it")
        field = self._by_key.get(key)
        if field is None:
            raise ValidationError(missing)
        return field

    def _rename(self, name: str, new_name: str) -> None:
        if name in self._added:
            raise ValidationError(f"partition field {name!r} can't be renamed: the same change adds it")
        field = self._by_name.get(name)
        if field is None:
            names = ", ".join(f.name for f in self._current.fields) or "none"
            raise ValidationError(f"no partition field {name!r} to rename; there are: {names}")
        if field.field_id in self._deletes:
            raise ValidationError(f"partition field {name!r} can't be renamed: the same change removes it")
        check_partition_name(
            self._schema, new_name, field.source_id, field.transform, case_sensitive=self._case_sensitive
        )
        self._renames[field.field_id] = new_name
