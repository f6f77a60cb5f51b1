"""The ids of schemas, partition specs and sort orders that a commit adds: the table gives them out, not the client.

A client that decided on an older state may name an id that another commit took meanwhile. As in Java's
TableMetadata.Builder such a part gets the next free id, and one that is equal to a part of the table stands for that.
Where the same commit names the client's id, it means the part that the client added. Spec: the REST catalog's
TableUpdate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from attrs import define, evolve, field

from icecore.engine.errors import CommitFailedError, ValidationError
from icecore.engine.metadata.metadata_builder import RETRY
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import INITIAL_SPEC_ID, PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from icecore.engine.spec.schema import INITIAL_SCHEMA_ID, Schema
from icecore.engine.spec.sort import INITIAL_SORT_ORDER_ID, UNSORTED_ORDER_ID, SortOrder
from icecore.engine.spec.transform import VoidTransform
from icecore.engine.spec.updates.metadata_update import (
    LAST_ADDED,
    UNASSIGNED,
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icecore.engine.spec.updates.table_update import (
    AddEncryptionKey,
    AddPartitionSpec,
    AddSnapshot,
    AddSortOrder,
    RemoveEncryptionKey,
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetPartitionStatistics,
    SetSnapshotRef,
    SetStatistics,
    TableUpdate,
)

# A new kind of update belongs here, or is given its ids by `numbered`.
_WithoutIds = (
    AssignUuid
    | UpgradeFormatVersion
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
)
_WITH_IDS = (AddSchema, AddPartitionSpec, AddSortOrder, SetCurrentSchema, SetDefaultSpec, SetDefaultSortOrder)


def with_own_ids(base: TableMetadata | None, updates: Iterable[TableUpdate]) -> list[TableUpdate]:
    """The updates with the ids that the table gives; those that would change nothing are left out.

    Raises ValidationError where a commit names the last part that it added and added none, CommitFailedError where
    files were written under the id of a spec that another commit took meanwhile, or of a partition field that stands
    for another one.
    """
    given = list(updates)
    if not any(isinstance(u, _WITH_IDS) for u in given):
        return given
    numbering = _Numbering(base)
    numbered = [n for u in given if (n := numbering.numbered(u)) is not None]
    numbering.check_files(numbered)
    return numbered


def moved_orders(base: TableMetadata, updates: Iterable[TableUpdate]) -> dict[int, int]:
    """The ids that files of a commit may name for a sort order that it adds, with those that the order gets instead.

    Raises as `with_own_ids`.
    """
    given = list(updates)
    if not all(any(isinstance(u, kind) for u in given) for kind in (AddSortOrder, AddSnapshot)):
        return {}
    numbering = _Numbering(base)
    for update in given:
        numbering.numbered(update)
    return numbering.orders.moved()


P = TypeVar("P", Schema, PartitionSpec, SortOrder)


@define
class _Parts(Generic[P]):
    """The parts of one kind: those that are there by id, the one in use, and what became of the ids of this commit."""

    what: str
    parts: dict[int, P]
    in_use: int | None
    first_id: int
    last_added: int | None = None
    became: dict[int, int] = field(factory=dict)

    def add(self, given_id: int, part: P, own_id: int | None = None) -> int | None:
        """The id of a part that is added, `own_id` where it has to be that; None where it is there already."""
        part_id = self._free(given_id) if own_id is None else own_id
        if given_id != UNASSIGNED:
            self.became.setdefault(given_id, part_id)
        self.last_added = part_id
        if part_id in self.parts:
            return None
        self.parts[part_id] = part
        return part_id

    def remove(self, gone: Iterable[int]) -> None:
        """Forgets parts."""
        for part_id in gone:
            self.parts.pop(part_id, None)

    def use(self, named: int) -> int | None:
        """The id that is to be in use; None where it is already. Raises ValidationError."""
        if named == LAST_ADDED:
            if self.last_added is None:
                raise ValidationError(
                    f"Cannot set last added {self.what}: no {self.what} has been added in this commit, so the id "
                    f"can't be {LAST_ADDED}"
                )
            used = self.last_added
        else:
            used = self.became.get(named, named)
        if used == self.in_use:
            return None
        self.in_use = used
        return used

    def moved(self) -> dict[int, int]:
        """The ids that the client gave and that changed, with those that its parts have."""
        return {given: part_id for given, part_id in self.became.items() if given != part_id}

    def _free(self, given_id: int) -> int:
        is_free = given_id >= self.first_id and given_id not in self.parts
        return given_id if is_free else max(self.parts, default=self.first_id - 1) + 1


class _Numbering:
    """The numbering of one commit's updates, one after another."""

    def __init__(self, base: TableMetadata | None) -> None:
        self._format_version = base.format_version if base else 0
        self._last_partition_id = base.last_partition_id if base else PARTITION_FIELD_ID_START - 1
        schemas = {s.schema_id: s for s in base.schemas} if base else {}
        specs = {s.spec_id: s for s in base.partition_specs} if base else {}
        orders = {o.order_id: o for o in base.sort_orders} if base else {}
        self._schemas = _Parts("schema", schemas, base.current_schema_id if base else None, INITIAL_SCHEMA_ID)
        self._specs = _Parts("spec", specs, base.default_spec_id if base else None, INITIAL_SPEC_ID)
        self._moved_fields: dict[int, int] = {}
        in_use = base.default_sort_order_id if base else None
        self.orders = _Parts("sort order", orders, in_use, INITIAL_SORT_ORDER_ID)

    def numbered(self, update: TableUpdate) -> TableUpdate | None:
        """The update with the table's ids; None for one that changes nothing. Raises ValidationError."""
        match update:
            case AddSchema(schema=schema):
                return self._add_schema(schema)
            case SetCurrentSchema(schema_id=schema_id):
                used = self._schemas.use(schema_id)
                return None if used is None else SetCurrentSchema(used)
            case AddPartitionSpec(spec=spec):
                return self._add_spec(spec)
            case SetDefaultSpec(spec_id=spec_id):
                used = self._specs.use(spec_id)
                return None if used is None else SetDefaultSpec(used)
            case AddSortOrder(sort_order=order):
                return self._add_order(order)
            case SetDefaultSortOrder(sort_order_id=order_id):
                used = self.orders.use(order_id)
                return None if used is None else SetDefaultSortOrder(used)
            case AddSnapshot(snapshot=snapshot):
                moved = self._schemas.moved()
                if snapshot.schema_id is None or snapshot.schema_id not in moved:
                    return update
                return evolve(update, snapshot=evolve(snapshot, schema_id=moved[snapshot.schema_id]))
            case _:
                self._note(update)
                return update

    def check_files(self, updates: Iterable[TableUpdate]) -> None:
        """Raises CommitFailedError where a snapshot's manifests name a spec by an id that means another one by now."""
        moved = self._specs.moved()
        if moved and any(isinstance(u, AddSnapshot) for u in updates):
            given, own = next(iter(moved.items()))
            raise CommitFailedError(
                f"{RETRY}: files were written for the partition spec that this commit adds "
                f"under id {given}, which would be {own} by now"
            )
        if self._moved_fields and any(isinstance(u, AddSnapshot) for u in updates):
            given, own = next(iter(self._moved_fields.items()))
            raise CommitFailedError(
                f"{RETRY}: files were written for the partition field that this commit adds under id {given}, which "
                f"stands for another one and would be {own}"
            )

    def _note(self, update: _WithoutIds) -> None:
        match update:
            case UpgradeFormatVersion(format_version=version):
                self._format_version = version
            case RemoveSchemas(schema_ids=gone):
                self._schemas.remove(gone)
            case RemovePartitionSpecs(spec_ids=gone):
                self._specs.remove(gone)
            case _:
                pass

    def _add_schema(self, schema: Schema) -> AddSchema | None:
        equal = next((i for i, s in self._schemas.parts.items() if s.same_fields(schema)), None)
        schema_id = self._schemas.add(schema.schema_id, schema, equal)
        return None if schema_id is None else AddSchema(_renumbered_schema(schema, schema_id))

    def _add_spec(self, given: PartitionSpec) -> AddPartitionSpec | None:
        equal = next((i for i, s in self._specs.parts.items() if s.same_as(given)), None)
        spec = given if equal is not None else self._with_field_ids(given)
        spec_id = self._specs.add(given.spec_id, spec, equal)
        return None if spec_id is None else AddPartitionSpec(evolve(spec, spec_id=spec_id))

    def _with_field_ids(self, spec: PartitionSpec) -> PartitionSpec:
        """The spec with an id for each field that has none of its own: that of an equal field, or a free one (PT1)."""
        spec = evolve(spec, fields=tuple(self._field_ids(spec)))
        self._last_partition_id = max(self._last_partition_id, spec.last_assigned_field_id)
        return spec

    def _field_ids(self, spec: PartitionSpec) -> Iterable[PartitionField]:
        fields = [f for s in self._specs.parts.values() for f in s.fields]
        known = {_key(f): f.field_id for f in fields}
        next_id = max(self._last_partition_id, spec.last_assigned_field_id) + 1
        others = [f for f in spec.fields if self._format_version > 1 and _stands_for_another(f, fields)]
        taken = {f.field_id for f in spec.fields if f not in others}
        for place, f in enumerate(spec.fields):
            if f.field_id != UNASSIGNED and f not in others:
                yield f
                continue
            # In v1 the ids of each spec count from the first.
            field_id = PARTITION_FIELD_ID_START + place if self._format_version == 1 else known.get(_key(f), next_id)
            if field_id in taken:
                field_id = next_id
            taken.add(field_id)
            next_id = max(next_id, field_id + 1)
            if f in others:
                self._moved_fields[f.field_id] = field_id
            yield evolve(f, field_id=field_id)

    def _add_order(self, order: SortOrder) -> AddSortOrder | None:
        equal = next((i for i, o in self.orders.parts.items() if o.fields == order.fields), None)
        own_id = UNSORTED_ORDER_ID if order.is_unsorted else equal
        order_id = self.orders.add(order.order_id, order, own_id)
        return None if order_id is None else AddSortOrder(evolve(order, order_id=order_id))


def _key(f: PartitionField) -> tuple[object, ...]:
    return f.source_ids, f.transform, f.name


def _stands_for_another(f: PartitionField, known: Iterable[PartitionField]) -> bool:
    """Whether a field's id is that of other fields alone: of other columns, or of another transform that has values."""
    same = [k for k in known if k.field_id == f.field_id]
    void = VoidTransform()
    return bool(same) and not any(
        k.source_ids == f.source_ids and (k.transform == f.transform or void in (k.transform, f.transform))
        for k in same
    )


def _renumbered_schema(schema: Schema, schema_id: int) -> Schema:
    return schema if schema.schema_id == schema_id else evolve(schema, schema_id=schema_id)
