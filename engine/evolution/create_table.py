"""The updates that create a table. Pure; every id is assigned here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import evolve

from icecore.engine.common.identifiers import Identifier
from icecore.engine.data.arrow.arrow_schema import assign_fresh_ids
from icecore.engine.data.given_schema import (
    PartitionSpecLike,
    SchemaLike,
    SortOrderLike,
    given_order,
    given_schema,
    given_spec,
)
from icecore.engine.errors import UnsupportedFormatVersionError, ValidationError
from icecore.engine.evolution.terms import parse_partition_terms, parse_sort_terms
from icecore.engine.metadata.assigned_ids import with_own_ids
from icecore.engine.metadata.fold import check_properties
from icecore.engine.properties.string_properties import table_properties
from icecore.engine.spec.metadata import DEFAULT_FORMAT_VERSION
from icecore.engine.spec.metadata_json import SUPPORTED_FORMAT_VERSIONS
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema, check_format_version
from icecore.engine.spec.sort import SortField, SortOrder
from icecore.engine.spec.updates.metadata_update import (
    AddSchema,
    AssignUuid,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icecore.engine.spec.updates.requirement import AssertCreate
from icecore.engine.spec.updates.table_update import (
    AddPartitionSpec,
    AddSortOrder,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    TableUpdate,
)


def creation_updates(
    table_uuid: str,
    location: str,
    schema: SchemaLike,
    partition_spec: PartitionSpecLike | None,
    sort_order: SortOrderLike | None,
    properties: Mapping[str, str],
    format_version: int,
    *,
    of_client: bool = False,
) -> list[TableUpdate]:
    """The updates of a new table, in the order in which they must be applied.

    The property `format-version` wins over the default version. With `of_client` values of known properties are not
    checked, since a client may read them otherwise than this engine. Raises ValidationError,
    UnsupportedFormatVersionError.
    """
    properties, named = table_properties(properties, is_new=not of_client)
    if named is not None and format_version not in (named, DEFAULT_FORMAT_VERSION):
        raise ValidationError(f"format_version is {format_version}, but the property format-version is {named}")
    format_version = format_version if named is None else named
    if format_version not in SUPPORTED_FORMAT_VERSIONS:
        raise UnsupportedFormatVersionError(f"format version must be 1, 2 or 3, found {format_version}")
    fresh, spec, order = fresh_parts(schema, partition_spec, sort_order, format_version)
    check_format_version(fresh, format_version)
    check_properties(properties)
    spec.check(fresh)
    spec.check_names(fresh)
    order.check(fresh)
    if spec.has_unknown_values:
        raise ValidationError(f"a partition spec with an unknown transform can't be committed (G3): {spec}")
    return [
        AssignUuid(table_uuid),
        UpgradeFormatVersion(format_version),
        SetLocation(location),
        AddSchema(fresh),
        SetCurrentSchema(fresh.schema_id),
        AddPartitionSpec(spec),
        SetDefaultSpec(spec.spec_id),
        AddSortOrder(order),
        SetDefaultSortOrder(order.order_id),
        SetProperties(dict(properties)),
    ]


def creation_payload(identifier: Identifier, updates: Iterable[TableUpdate]) -> dict[str, Any]:
    """The payload of the event that makes a table. Raises ValidationError where the updates don't fit each other."""
    return {
        "identifier": list(identifier),
        "updates": [u.to_dict() for u in with_own_ids(None, updates)],
        "requirements": [AssertCreate().to_dict()],
    }


def fresh_parts(
    schema: SchemaLike,
    partition_spec: PartitionSpecLike | None,
    sort_order: SortOrderLike | None,
    format_version: int,
) -> tuple[Schema, PartitionSpec, SortOrder]:
    """Schema, spec and order with new field ids; the source ids of a given spec or order follow their columns by name.

    Raises ValidationError where they don't fit.
    """
    given = given_schema(schema, format_version=format_version)
    partition_spec, sort_order = given_spec(partition_spec), given_order(sort_order)
    fresh = evolve(assign_fresh_ids(given), schema_id=0)
    fresh.check_unambiguous()
    if isinstance(partition_spec, PartitionSpec):
        spec = _follow_spec(partition_spec, given, fresh)
    else:
        spec = parse_partition_terms(partition_spec, fresh)
    if isinstance(sort_order, SortOrder):
        order = _follow_order(sort_order, given, fresh)
    else:
        order = parse_sort_terms(sort_order, fresh)
    return fresh, spec, order


def _follow(source_ids: tuple[int, ...], given: Schema, fresh: Schema) -> tuple[int, ...]:
    for i in source_ids:
        if given.get_field(i) is None:
            raise ValidationError(f"no column with id {i} in the schema")
    return tuple(fresh.find_field(given.name_of(i)).field_id for i in source_ids)


def _follow_spec(spec: PartitionSpec, given: Schema, fresh: Schema) -> PartitionSpec:
    fields = (
        PartitionField(_follow(f.source_ids, given, fresh), 1000 + i, f.transform, f.name)
        for i, f in enumerate(spec.fields)
    )
    return PartitionSpec(tuple(fields), 0)


def _follow_order(order: SortOrder, given: Schema, fresh: Schema) -> SortOrder:
    fields = tuple(
        SortField(_follow(f.source_ids, given, fresh), f.transform, f.direction, f.null_order) for f in order.fields
    )
    return SortOrder(fields, 1 if fields else 0)
