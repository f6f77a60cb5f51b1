"""The difference of two metadata of one table, as the updates that would lead from one to the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from icecore.engine.spec.metadata import TableMetadata


def metadata_difference(before: TableMetadata, after: TableMetadata) -> list[dict[str, Any]]:
    """The updates, for people and queries; they are never applied."""
    return [*_table(before, after), *_shapes(before, after), *_properties(before, after), *_snapshots(before, after)]


def _table(before: TableMetadata, after: TableMetadata) -> Iterator[dict[str, Any]]:
    if after.format_version != before.format_version:
        yield {"action": "upgrade-format-version", "format-version": after.format_version}
    if after.location != before.location:
        yield {"action": "set-location", "location": after.location}


def _shapes(before: TableMetadata, after: TableMetadata) -> Iterator[dict[str, Any]]:
    known = {s.schema_id for s in before.schemas}
    for schema in after.schemas:
        if schema.schema_id not in known:
            yield {"action": "add-schema", "schema": schema.to_dict()}
    if after.current_schema_id != before.current_schema_id:
        yield {"action": "set-current-schema", "schema-id": after.current_schema_id}
    known = {s.spec_id for s in before.partition_specs}
    for spec in after.partition_specs:
        if spec.spec_id not in known:
            yield {"action": "add-spec", "spec": spec.to_dict()}
    if after.default_spec_id != before.default_spec_id:
        yield {"action": "set-default-spec", "spec-id": after.default_spec_id}
    known = {o.order_id for o in before.sort_orders}
    for order in after.sort_orders:
        if order.order_id not in known:
            yield {"action": "add-sort-order", "sort-order": order.to_dict()}
    if after.default_sort_order_id != before.default_sort_order_id:
        yield {"action": "set-default-sort-order", "sort-order-id": after.default_sort_order_id}


def _properties(before: TableMetadata, after: TableMetadata) -> Iterator[dict[str, Any]]:
    changed = {k: v for k, v in after.properties.items() if before.properties.get(k) != v}
    if changed:
        yield {"action": "set-properties", "updates": changed}
    if removed := sorted(before.properties.keys() - after.properties.keys()):
        yield {"action": "remove-properties", "removals": removed}


def _snapshots(before: TableMetadata, after: TableMetadata) -> Iterator[dict[str, Any]]:
    old, new = ({s.snapshot_id for s in m.snapshots} for m in (before, after))
    for snapshot in after.snapshots:
        if snapshot.snapshot_id not in old:
            yield {"action": "add-snapshot", "snapshot": snapshot.to_dict(after.format_version)}
    for name, ref in after.refs.items():
        if before.refs.get(name) != ref:
            yield {"action": "set-snapshot-ref", "ref-name": name, **ref.to_dict()}
    for name in before.refs.keys() - after.refs.keys():
        yield {"action": "remove-snapshot-ref", "ref-name": name}
    if gone := sorted(old - new):
        yield {"action": "remove-snapshots", "snapshot-ids": gone}
