"""The difference of two metadata of one table, as the updates that would lead from one to the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.metadata_update import (
    AddSchema,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icecore.engine.spec.updates.table_update import (
    AddPartitionSpec,
    AddSnapshot,
    AddSortOrder,
    RemovePartitionSpecs,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetSnapshotRef,
    TableUpdate,
)


def metadata_difference(before: TableMetadata, after: TableMetadata) -> list[TableUpdate]:
    """The updates, for people and queries; they are never applied."""
    return [
        *_table(before, after),
        *_shapes(before, after),
        *property_updates(before.properties, after.properties),
        *_snapshots(before, after),
    ]


def _table(before: TableMetadata, after: TableMetadata) -> Iterator[TableUpdate]:
    if after.format_version != before.format_version:
        yield UpgradeFormatVersion(after.format_version)
    if after.location != before.location:
        yield SetLocation(after.location)


def _shapes(before: TableMetadata, after: TableMetadata) -> Iterator[TableUpdate]:
    old_schemas, old_specs = {s.schema_id: s for s in before.schemas}, before.specs
    # The id of a part that was removed may be that of another one by now.
    schemas = {i for s in after.schemas if (i := s.schema_id) in old_schemas and s.same_fields(old_schemas[i])}
    specs = {i for s in after.partition_specs if (i := s.spec_id) in old_specs and s.same_as(old_specs[i])}
    if gone := sorted(old_schemas.keys() - schemas):
        yield RemoveSchemas(tuple(gone))
    if gone := sorted(old_specs.keys() - specs):
        yield RemovePartitionSpecs(tuple(gone))
    for schema in after.schemas:
        if schema.schema_id not in schemas:
            yield AddSchema(schema)
    if after.current_schema_id != before.current_schema_id:
        yield SetCurrentSchema(after.current_schema_id)
    for spec in after.partition_specs:
        if spec.spec_id not in specs:
            yield AddPartitionSpec(spec)
    if after.default_spec_id != before.default_spec_id:
        yield SetDefaultSpec(after.default_spec_id)
    known = {o.order_id for o in before.sort_orders}
    for order in after.sort_orders:
        if order.order_id not in known:
            yield AddSortOrder(order)
    if after.default_sort_order_id != before.default_sort_order_id:
        yield SetDefaultSortOrder(after.default_sort_order_id)


def property_updates(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[SetProperties | RemoveProperties]:
    """The updates from some properties to others."""
    if changed := {k: v for k, v in after.items() if before.get(k) != v}:
        yield SetProperties(changed)
    if removed := sorted(before.keys() - after.keys()):
        yield RemoveProperties(tuple(removed))


def _snapshots(before: TableMetadata, after: TableMetadata) -> Iterator[TableUpdate]:
    old, new = ({s.snapshot_id for s in m.snapshots} for m in (before, after))
    for snapshot in after.snapshots:
        if snapshot.snapshot_id not in old:
            yield AddSnapshot(snapshot, after.format_version > 1)
    for name, ref in after.refs.items():
        if before.refs.get(name) != ref:
            yield SetSnapshotRef(name, ref)
    for name in before.refs.keys() - after.refs.keys():
        yield RemoveSnapshotRef(name)
    if gone := sorted(old - new):
        yield RemoveSnapshots(tuple(gone))
