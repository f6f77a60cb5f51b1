"""Commands that change metadata: each derives its updates from the metadata that it is committed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import evolve

from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.common.location import given_location
from icecore.engine.errors import ValidationError
from icecore.engine.evolution.schema_evolution import evolve_schema
from icecore.engine.evolution.schema_ops import SchemaOp
from icecore.engine.evolution.terms import SortTerm
from icecore.engine.evolution.update_sort_order import evolve_sort_order
from icecore.engine.evolution.update_spec import SpecOp, evolve_spec
from icecore.engine.properties.string_properties import table_properties
from icecore.engine.properties.table_properties import NAME_MAPPING, OF_COLUMNS
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.metadata_json import SUPPORTED_FORMAT_VERSIONS
from icecore.engine.spec.name_mapping import NameMapping, updated_mapping
from icecore.engine.spec.schema import Schema, check_format_version
from icecore.engine.spec.updates.metadata_update import (
    AddSchema,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icecore.engine.spec.updates.table_update import (
    AddPartitionSpec,
    AddSortOrder,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    TableUpdate,
)

Updates = list[TableUpdate]


def changed_properties(updates: Mapping[str, str], removals: Iterable[str], *, is_new: bool = True) -> ChangeMetadata:
    """Sets and removes table properties; `format-version` among them is an upgrade.

    Raises ValidationError where a value is no string, a name is reserved or, if the values are new, one is not allowed
    for its property.
    """
    gone = tuple(sorted(set(removals)))
    given, version = table_properties(updates, is_new=is_new)
    if both := sorted(set(gone) & set(given)):
        raise ValidationError(f"the properties {both} are both removed and updated")

    def updates_for(metadata: TableMetadata) -> Updates:
        new = {k: v for k, v in given.items() if metadata.properties.get(k) != v}
        old = [k for k in gone if k in metadata.properties]
        out: Updates = [] if version is None else upgraded(version).updates_for(metadata)
        if new:
            out.append(SetProperties(new))
        if old:
            out.append(RemoveProperties(tuple(old)))
        return out

    return ChangeMetadata(updates_for)


def relocated(location: str) -> ChangeMetadata:
    """Changes the location, where new files go. Raises ValidationError for what is no location."""
    where = given_location(location)
    return ChangeMetadata(lambda metadata: [] if metadata.location == where else [SetLocation(where)])


def upgraded(format_version: int) -> ChangeMetadata:
    """Raises the format version; changes nothing where it is that one.

    Raises ValidationError for any lower or unknown one.
    """
    if format_version not in SUPPORTED_FORMAT_VERSIONS:
        raise ValidationError(f"format version must be 1, 2 or 3, found {format_version}")

    def updates_for(metadata: TableMetadata) -> Updates:
        if metadata.format_version == format_version:
            return []
        if metadata.format_version > format_version:
            raise ValidationError(f"can't downgrade from format version {metadata.format_version} to {format_version}")
        return [UpgradeFormatVersion(format_version)]

    return ChangeMetadata(updates_for)


def evolved_schema(
    ops: Sequence[SchemaOp], *, allow_incompatible_changes: bool = False, case_sensitive: bool = True
) -> ChangeMetadata:
    """Applies schema operations to the current schema; an equal earlier schema is made current again (T8)."""

    def updates_for(metadata: TableMetadata) -> Updates:
        schema, _ = evolve_schema(
            metadata.schema(),
            ops,
            last_column_id=metadata.last_column_id,
            format_version=metadata.format_version,
            specs=metadata.partition_specs,
            default_spec_id=metadata.default_spec_id,
            sort_order=metadata.sort_order(),
            allow_incompatible_changes=allow_incompatible_changes,
            case_sensitive=case_sensitive,
        )
        check_format_version(schema, metadata.format_version)
        if schema.same_fields(metadata.schema()):
            return []
        follow = changed_properties(*properties_for_schema(metadata, schema), is_new=False).updates_for(metadata)
        for known in metadata.schemas:
            if known.same_fields(schema):
                return [SetCurrentSchema(known.schema_id), *follow]
        return [*new_current_schema(metadata, schema), *follow]

    return ChangeMetadata(updates_for)


def properties_for_schema(metadata: TableMetadata, schema: Schema) -> tuple[dict[str, str], list[str]]:
    """The properties to set and to remove so that they fit a new schema, as in Java.

    The name mapping gets the new names (P2); a column's properties are renamed with it and removed with it.
    """
    old = metadata.schema()
    updates: dict[str, str] = {}
    removals: list[str] = []
    mapping = NAME_MAPPING.find(metadata.properties)
    if mapping is not None:
        updates[NAME_MAPPING.name] = updated_mapping(mapping, old, schema).to_json()
    for key, value in metadata.properties.items():
        prefix = next((p for p in OF_COLUMNS if key.startswith(p)), None)
        name = key.removeprefix(prefix) if prefix else ""
        if prefix is None or not old.has_name(name):
            continue
        field_id = old.find_field(name).field_id
        now = schema.name_of(field_id) if schema.get_field(field_id) else None
        if now != name:
            removals.append(key)
            if now is not None:
                updates[prefix + now] = value
    return updates, [k for k in removals if k not in updates]


def mapped_names(schema: Schema) -> ChangeMetadata:
    """Maps the names of a schema, and those that its fields and new ones have by then, unless some are mapped."""

    def updates_for(metadata: TableMetadata) -> Updates:
        if NAME_MAPPING.name in metadata.properties:
            return []
        mapping = updated_mapping(NameMapping.of_fields(schema.fields), schema, metadata.schema())
        return [SetProperties({NAME_MAPPING.name: mapping.to_json()})]

    return ChangeMetadata(updates_for)


def new_current_schema(metadata: TableMetadata, schema: Schema) -> Updates:
    """The updates that add a schema and make it the current one."""
    schema_id = max(s.schema_id for s in metadata.schemas) + 1
    return [
        AddSchema(evolve(schema, schema_id=schema_id)),
        SetCurrentSchema(schema_id),
    ]


def evolved_spec(ops: Sequence[SpecOp], *, case_sensitive: bool = True) -> ChangeMetadata:
    """Applies spec operations to the default spec; an equivalent spec is used again (PT2). Raises ValidationError."""

    def updates_for(metadata: TableMetadata) -> Updates:
        spec = evolve_spec(
            metadata.spec(),
            ops,
            schema=metadata.schema(),
            all_specs=metadata.partition_specs,
            last_partition_id=metadata.last_partition_id,
            format_version=metadata.format_version,
            case_sensitive=case_sensitive,
        )
        if spec.spec_id == metadata.default_spec_id:
            return []
        out: Updates = []
        if spec.spec_id not in metadata.specs:
            spec.check(metadata.schema())
            if spec.has_unknown_values:
                raise ValidationError(f"a partition spec with an unknown transform can't be committed (G3): {spec}")
            out.append(AddPartitionSpec(spec))
        out.append(SetDefaultSpec(spec.spec_id))
        return out

    return ChangeMetadata(updates_for)


def evolved_sort_order(terms: Sequence[SortTerm | str], *, case_sensitive: bool = True) -> ChangeMetadata:
    """Makes the terms the default sort order; an equal order is used again."""

    def updates_for(metadata: TableMetadata) -> Updates:
        order = evolve_sort_order(metadata.sort_orders, terms, metadata.schema(), case_sensitive=case_sensitive)
        if order.order_id == metadata.default_sort_order_id:
            return []
        out: Updates = []
        if all(o.order_id != order.order_id for o in metadata.sort_orders):
            order.check(metadata.schema())
            out.append(AddSortOrder(order))
        out.append(SetDefaultSortOrder(order.order_id))
        return out

    return ChangeMetadata(updates_for)
