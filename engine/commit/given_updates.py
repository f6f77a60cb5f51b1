"""The checks of updates that a client wrote by itself: what they name must be there.

Replay applies the same updates without these checks: what the log once accepted stays readable, as do metadata files of
others. Spec: Snapshots, Partition Evolution, Sorting.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, assert_never

from icecore.engine.common.json_reader import get_ints, get_strs
from icecore.engine.common.location import given_location
from icecore.engine.errors import ValidationError
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.promotion import can_promote, promotion_keeps_partitions
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.spec.transform import VoidTransform
from icecore.engine.spec.types import BinaryType, FixedType, StringType, Type, UUIDType, walk
from icecore.engine.spec.updates.metadata_update import (
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
from icecore.engine.spec.updates.view_update import AddViewVersion, SetCurrentViewVersion, ViewUpdate

U = TypeVar("U", TableUpdate, ViewUpdate)


def with_checked_values(updates: Iterable[U]) -> list[U]:
    """The updates. Raises ValidationError where a list of ids or names holds something else, or a location is none."""
    found = list(updates)
    for update in found:
        match update:
            case RemoveProperties():
                get_strs(update.to_dict(), "removals", update.action)
            case SetLocation(location=location):
                given_location(location)
            case RemoveSchemas():
                get_ints(update.to_dict(), "schema-ids", update.action)
            case RemovePartitionSpecs():
                get_ints(update.to_dict(), "spec-ids", update.action)
            case SetStatistics(statistics=file):
                for blob in file.blob_metadata:
                    get_ints(blob.to_dict(), "fields", "blob-metadata")
            case AddViewVersion(view_version=version):
                get_strs(version.to_dict(), "default-namespace", "view version")
            case (
                AddSchema()
                | SetCurrentSchema()
                | AddPartitionSpec()
                | SetDefaultSpec()
                | AddSortOrder()
                | SetDefaultSortOrder()
                | AddSnapshot()
                | RemoveSnapshots()
                | SetSnapshotRef()
                | RemoveSnapshotRef()
                | AssignUuid()
                | UpgradeFormatVersion()
                | SetProperties()
                | SetCurrentViewVersion()
                | RemoveStatistics()
                | SetPartitionStatistics()
                | RemovePartitionStatistics()
                | AddEncryptionKey()
                | RemoveEncryptionKey()
            ):
                pass
            case _:
                assert_never(update)
    return found


def check_given_updates(before: TableMetadata | None, after: TableMetadata, updates: Sequence[TableUpdate]) -> None:
    """Raises ValidationError for unknown parents and schemas of snapshots, and for specs and orders of unknown columns.

    So it does for columns of one name, and for partition fields that the updates make misnamed. The default spec and
    sort order must fit the current schema. `before` is the metadata that the updates were applied to, None for a new
    table, and `after` is the result.
    """
    snapshots: Mapping[int, Snapshot] = {} if before is None else before.snapshots_by_id
    added = set[int]()
    specs = () if before is None else before.partition_specs
    orders = () if before is None else before.sort_orders
    schemas = () if before is None else before.schemas
    for update in updates:
        match update:
            case AddSnapshot(snapshot=snapshot):
                parent = snapshot.parent_snapshot_id
                if parent is not None and parent not in snapshots and parent not in added:
                    raise ValidationError(
                        f"snapshot {snapshot.snapshot_id}: there is no snapshot {parent}, which it names as its parent"
                    )
                _check_schema(snapshot, before, after)
                added.add(snapshot.snapshot_id)
            case AddSchema(schema=schema):
                if not any(schema.same_fields(s) for s in schemas):
                    schema.check_unambiguous()
            case AddPartitionSpec(spec=spec):
                if not any(spec.same_as(s) for s in specs):
                    spec.check(after.schema())
                    _check_names(before, after)
            case AddSortOrder(sort_order=order):
                if order.fields not in [o.fields for o in orders]:
                    order.check(after.schema())
            case SetCurrentSchema() | SetDefaultSpec() | SetDefaultSortOrder():
                after.spec().check(after.schema())
                after.sort_order().check(after.schema())
                _check_names(before, after)
            case (
                RemoveSchemas()
                | RemovePartitionSpecs()
                | RemoveSnapshots()
                | SetSnapshotRef()
                | RemoveSnapshotRef()
                | AssignUuid()
                | UpgradeFormatVersion()
                | SetLocation()
                | SetProperties()
                | RemoveProperties()
                | SetStatistics()
                | RemoveStatistics()
                | SetPartitionStatistics()
                | RemovePartitionStatistics()
                | AddEncryptionKey()
                | RemoveEncryptionKey()
            ):
                pass
            case _:
                assert_never(update)


def check_types(before: TableMetadata, after: TableMetadata) -> None:
    """Raises ValidationError for types that the columns of a snapshot, which stays current, can't be promoted to.

    A type that the commit does not change is not checked: a registered or rolled back table may have such a one, and
    partition fields may have come after a promotion. Neither are types where the snapshot has no data files, nor the
    changes beyond T7 that PyIceberg's `update_column` makes, if no partition field is over them: such rows can be read.
    """
    head, version = before.current_snapshot(), after.format_version
    is_current = head is not None and head.snapshot_id == after.current_snapshot_id
    if head is None or not is_current or before.schema().same_fields(after.schema()):
        return
    if head.summary is not None and head.summary.get("total-data-files") == "0":
        return
    of_head = next((s for s in before.schemas if s.schema_id == head.schema_id), before.schema())
    written = {f.field_id: f.field_type for f in walk(of_head.fields)}
    had = {f.field_id: f.field_type for f in walk(before.schema().fields)}
    fields = [(p.transform, i) for s in after.partition_specs for p in s.fields for i in p.source_ids]
    schema = after.schema()
    for f in walk(schema.fields):
        one, other = written.get(f.field_id, f.field_type), f.field_type
        of_field = [t for t, i in fields if i == f.field_id]
        is_same = not (one.is_primitive or other.is_primitive) and type(one) is type(other)
        if (
            is_same
            or other == had.get(f.field_id)
            or (can_promote(one, other, version) and all(promotion_keeps_partitions(one, other, t) for t in of_field))
            or (_is_read_as(one, other) and all(isinstance(t, VoidTransform) for t in of_field))
        ):
            continue
        raise ValidationError(
            f"column {schema.name_of(f.field_id)!r} can't be {other}: snapshot {head.snapshot_id}, which stays the "
            f"current one, has it as {one} (T7)"
        )


def _is_read_as(one: Type, other: Type) -> bool:
    match one, other:
        case (StringType(), BinaryType()) | (BinaryType(), StringType()) | (FixedType(length=16), UUIDType()):
            return True
        case _:
            return False


def _check_names(before: TableMetadata | None, after: TableMetadata) -> None:
    known = [] if before is None else [f for s in before.partition_specs for f in s.misnamed(before.schema())]
    for spec in after.partition_specs:
        spec.check_names(after.schema(), known)


def _check_schema(snapshot: Snapshot, before: TableMetadata | None, after: TableMetadata) -> None:
    schemas = {s.schema_id for m in (before, after) if m is not None for s in m.schemas}
    if snapshot.schema_id is not None and snapshot.schema_id not in schemas:
        raise ValidationError(
            f"snapshot {snapshot.snapshot_id}: there is no schema {snapshot.schema_id}; there are {sorted(schemas)}"
        )
