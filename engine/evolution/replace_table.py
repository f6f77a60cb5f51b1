"""Replacement of a table by another of its name and uuid: a new schema, spec and order over the old history.

The rules are those of Java's TableMetadata.buildReplacement: columns that keep their name keep their id, main is
removed, and snapshots, other refs and properties stay. Unlike there, a column that keeps its name and not its type gets
a new id, because in all snapshots an id must have one type, or types that promote from one to the next (T7).
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.data.arrow.arrow_schema import assign_fresh_ids
from icecore.engine.data.given_schema import PartitionSpecLike, SchemaLike, SortOrderLike
from icecore.engine.errors import ValidationError
from icecore.engine.evolution.create_table import fresh_parts
from icecore.engine.evolution.metadata_commands import changed_properties, new_current_schema, properties_for_schema
from icecore.engine.properties.string_properties import table_properties
from icecore.engine.properties.table_properties import OF_COLUMNS
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema, check_format_version
from icecore.engine.spec.snapshot import MAIN_BRANCH
from icecore.engine.spec.sort import SortField, SortOrder
from icecore.engine.spec.transform import VoidTransform
from icecore.engine.spec.types import ListType, MapType, NestedField, StructType, Type
from icecore.engine.spec.updates.metadata_update import SetLocation, UpgradeFormatVersion
from icecore.engine.spec.updates.table_update import (
    AddPartitionSpec,
    AddSortOrder,
    RemoveSnapshotRef,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    TableUpdate,
)

Updates = list[TableUpdate]


def replaced_table(
    schema: SchemaLike,
    partition_spec: PartitionSpecLike | None,
    sort_order: SortOrderLike | None,
    location: str | None,
    properties: Mapping[str, str],
    format_version: int | None,
) -> ChangeMetadata:
    """The change that replaces a table. Raises ValidationError where the parts don't fit, or the version is lower."""
    properties, named = table_properties(properties)
    if None not in (named, format_version) and named != format_version:
        raise ValidationError(f"format_version is {format_version}, but the property format-version is {named}")
    wanted = format_version if named is None else named

    def updates_for(metadata: TableMetadata) -> Updates:
        version = metadata.format_version if wanted is None else wanted
        if version < metadata.format_version:
            raise ValidationError(f"can't downgrade from format version {metadata.format_version} to {version}")
        given, spec, order = fresh_parts(schema, partition_spec, sort_order, version)
        check_format_version(given, version)
        new, ids = _with_old_ids(given, metadata)
        out: Updates = []
        if version > metadata.format_version:
            out.append(UpgradeFormatVersion(version))
        if MAIN_BRANCH in metadata.refs:
            out.append(RemoveSnapshotRef(MAIN_BRANCH))
        out += _schema_updates(metadata, new)
        out += _spec_updates(metadata, _followed_spec(spec, ids, metadata, version), new)
        out += _order_updates(metadata, _followed_order(order, ids), new)
        if location is not None and location != metadata.location:
            out.append(SetLocation(location))
        followed, gone = properties_for_schema(metadata, new)
        # A column of another type has an id of its own, but what is said of it by its name still holds.
        kept = {*properties, *(prefix + new.name_of(i) for prefix in OF_COLUMNS for i in new.field_ids)}
        change = changed_properties({**followed, **properties}, [k for k in gone if k not in kept])
        return [*out, *change.updates_for(metadata)]

    return ChangeMetadata(updates_for, replaces=True)


def _with_old_ids(given: Schema, metadata: TableMetadata) -> tuple[Schema, dict[int, int]]:
    """The schema with old ids of columns that stay and free ones for others, and its id for each id in `given`."""
    above = assign_fresh_ids(given, metadata.last_column_id + 1)
    old = metadata.schema()
    ids: dict[int, int] = {}
    next_id = metadata.last_column_id
    for fresh_id in sorted(f for f in _ids(above.fields)):
        before = _kept_id(above, fresh_id, old, ids)
        if before is not None:
            ids[fresh_id] = before
        else:
            next_id += 1
            ids[fresh_id] = next_id
    fields = tuple(_renumbered(f, ids) for f in above.fields)
    identifiers = tuple(ids[i] for i in above.identifier_field_ids)
    by_name = {given.name_of(i): i for i in _ids(given.fields)}
    return Schema(fields, 0, identifiers), {by_name[above.name_of(i)]: n for i, n in ids.items()}


def _kept_id(new: Schema, fresh_id: int, old: Schema, ids: Mapping[int, int]) -> int | None:
    """The id of the old column of that name; None if there is none, or its type or parent is another."""
    name, parent = new.name_of(fresh_id), new.parent_id(fresh_id)
    if not old.has_name(name):
        return None
    before, now = old.find_field(name), new.find_field(fresh_id)
    if parent is not None and ids[parent] != old.parent_id(before.field_id):
        return None
    if before.field_type.is_primitive or now.field_type.is_primitive:
        return before.field_id if before.field_type == now.field_type else None
    return before.field_id if type(before.field_type) is type(now.field_type) else None


def _ids(fields: tuple[NestedField, ...]) -> list[int]:
    out = []
    for f in fields:
        out.append(f.field_id)
        out += _inner_ids(f.field_type)
    return out


def _inner_ids(kind: Type) -> list[int]:
    match kind:
        case StructType(fields=fields):
            return _ids(fields)
        case ListType():
            return [kind.element_id, *_inner_ids(kind.element)]
        case MapType():
            return [kind.key_id, kind.value_id, *_inner_ids(kind.key), *_inner_ids(kind.value)]
        case _:
            return []


def _renumbered(f: NestedField, ids: Mapping[int, int]) -> NestedField:
    return evolve(f, field_id=ids[f.field_id], field_type=_renumbered_type(f.field_type, ids))


def _renumbered_type(kind: Type, ids: Mapping[int, int]) -> Type:
    match kind:
        case StructType(fields=fields):
            return StructType(tuple(_renumbered(f, ids) for f in fields))
        case ListType():
            return evolve(kind, element_id=ids[kind.element_id], element=_renumbered_type(kind.element, ids))
        case MapType():
            key, value = _renumbered_type(kind.key, ids), _renumbered_type(kind.value, ids)
            return evolve(kind, key_id=ids[kind.key_id], value_id=ids[kind.value_id], key=key, value=value)
        case _:
            return kind


def _schema_updates(metadata: TableMetadata, new: Schema) -> Updates:
    for known in metadata.schemas:
        if known.same_fields(new):
            return [SetCurrentSchema(known.schema_id)]
    return new_current_schema(metadata, new)


def _followed_spec(
    spec: PartitionSpec, ids: Mapping[int, int], metadata: TableMetadata, format_version: int
) -> PartitionSpec:
    """The spec over the new ids; a field that another spec has keeps its id, in v1 its place too (PT1, PT2)."""
    wanted = [evolve(f, source_ids=tuple(ids[i] for i in f.source_ids)) for f in spec.fields]
    field_ids = {(f.source_ids, f.transform): f.field_id for s in metadata.partition_specs for f in s.fields}
    next_id = metadata.last_partition_id
    fields: list[PartitionField] = []
    if format_version == 1:
        for old in metadata.spec().fields:
            same = next((f for f in wanted if (f.source_ids, f.transform) == (old.source_ids, old.transform)), None)
            if same is not None:
                wanted.remove(same)
                fields.append(evolve(same, field_id=old.field_id))
            else:
                is_free = all(f.name != old.name for f in (*wanted, *fields))
                name = old.name if is_free else f"{old.name}_{old.field_id}"
                fields.append(evolve(old, transform=VoidTransform(), name=name))
        field_ids = {}
    for f in wanted:
        field_id = field_ids.get((f.source_ids, f.transform))
        if field_id is None:
            next_id += 1
            field_id = next_id
        fields.append(evolve(f, field_id=field_id))
    return PartitionSpec(tuple(fields))


def _spec_updates(metadata: TableMetadata, spec: PartitionSpec, schema: Schema) -> Updates:
    spec.check(schema)
    if spec.has_unknown_values:
        raise ValidationError(f"a partition spec with an unknown transform can't be committed (G3): {spec}")
    for known in metadata.partition_specs:
        if known.same_as(spec):
            return [SetDefaultSpec(known.spec_id)]
    spec_id = max(s.spec_id for s in metadata.partition_specs) + 1
    return [
        AddPartitionSpec(evolve(spec, spec_id=spec_id)),
        SetDefaultSpec(spec_id),
    ]


def _followed_order(order: SortOrder, ids: Mapping[int, int]) -> tuple[SortField, ...]:
    return tuple(evolve(f, source_ids=tuple(ids[i] for i in f.source_ids)) for f in order.fields)


def _order_updates(metadata: TableMetadata, fields: tuple[SortField, ...], schema: Schema) -> Updates:
    for known in metadata.sort_orders:
        if known.fields == fields:
            return [SetDefaultSortOrder(known.order_id)]
    order = SortOrder(fields, max(max(o.order_id for o in metadata.sort_orders) + 1, 1) if fields else 0)
    order.check(schema)
    return [
        AddSortOrder(order),
        SetDefaultSortOrder(order.order_id),
    ]
