"""Changes of table metadata: `TableUpdate` is the closed union of the REST catalog's 23.

Spec: the REST catalog's TableUpdate. A commit is some of them in order: `MetadataBuilder` applies them, events hold
their JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

from attrs import frozen

from icecore.engine.common.json_reader import get, get_list
from icecore.engine.errors import ValidationError
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.snapshot import EncryptedKey, PartitionStatisticsFile, Snapshot, SnapshotRef, StatisticsFile
from icecore.engine.spec.sort import UNSORTED_ORDER_ID, SortOrder
from icecore.engine.spec.updates.metadata_update import (
    UNASSIGNED,
    AddSchema,
    AssignUuid,
    MetadataUpdate,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
    read_updates,
)


@frozen
class SetCurrentSchema(MetadataUpdate):
    """Makes a schema the current one; LAST_ADDED is the one that this commit added."""

    action = "set-current-schema"
    schema_id: int


@frozen
class AddPartitionSpec(MetadataUpdate):
    """Adds a partition spec; it is not the default yet. It and its fields may have UNASSIGNED for an id (PT1)."""

    action = "add-spec"
    spec: PartitionSpec

    @classmethod
    def from_dict(cls, obj: Any) -> AddPartitionSpec:
        spec = {"spec-id": UNASSIGNED, **get(obj, "spec", dict, cls.action)}
        fields = [_with_field_id(f) for f in get_list(spec, "fields", cls.action)]
        return cls(PartitionSpec.from_dict({**spec, "fields": fields}))


def _with_field_id(obj: Any) -> Any:
    return {**obj, "field-id": UNASSIGNED} if isinstance(obj, dict) and obj.get("field-id") is None else obj


@frozen
class SetDefaultSpec(MetadataUpdate):
    """Makes a partition spec the default one; LAST_ADDED is the one that this commit added."""

    action = "set-default-spec"
    spec_id: int


@frozen
class AddSortOrder(MetadataUpdate):
    """Adds a sort order; it is not the default yet. Its id may be UNASSIGNED."""

    action = "add-sort-order"
    sort_order: SortOrder

    @classmethod
    def from_dict(cls, obj: Any) -> AddSortOrder:
        order = get(obj, "sort-order", dict, cls.action)
        unassigned = UNASSIGNED if order.get("fields") else UNSORTED_ORDER_ID
        return cls(SortOrder.from_dict({"order-id": unassigned, **order}))


@frozen
class SetDefaultSortOrder(MetadataUpdate):
    """Makes a sort order the default one; LAST_ADDED is the one that this commit added."""

    action = "set-default-sort-order"
    sort_order_id: int


@frozen
class AddSnapshot(MetadataUpdate):
    """Adds a snapshot; no branch is at it yet. Tables of format version 1 have no sequence numbers (M3)."""

    action = "add-snapshot"
    snapshot: Snapshot
    has_sequence_number: bool = True

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "snapshot": self.snapshot.to_dict(2 if self.has_sequence_number else 1)}

    @classmethod
    def from_dict(cls, obj: Any) -> AddSnapshot:
        snapshot = get(obj, "snapshot", dict, cls.action)
        return cls(Snapshot.from_dict(snapshot), "sequence-number" in snapshot)


@frozen
class SetSnapshotRef(MetadataUpdate):
    """Points a branch or tag at a snapshot; creates it if there is none of that name."""

    action = "set-snapshot-ref"
    ref_name: str
    ref: SnapshotRef

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "ref-name": self.ref_name, **self.ref.to_dict()}

    @classmethod
    def from_dict(cls, obj: Any) -> SetSnapshotRef:
        name = get(obj, "ref-name", str, cls.action)
        return cls(name, SnapshotRef.from_dict(obj, name))


@frozen
class RemoveSnapshots(MetadataUpdate):
    """Removes snapshots, their statistics, and the refs that point at them."""

    action = "remove-snapshots"
    snapshot_ids: tuple[int, ...]

    @classmethod
    def from_dict(cls, obj: Any) -> RemoveSnapshots:
        """The update of its JSON. Raises ValidationError."""
        ids = get_list(obj, "snapshot-ids", cls.action)
        for i in ids:
            if type(i) is not int:
                raise ValidationError(f"{cls.action}: 'snapshot-ids' must hold whole numbers, found {str(i)[:60]!r}")
        return cls(tuple(ids))


@frozen
class RemoveSnapshotRef(MetadataUpdate):
    """Removes a branch or tag; its snapshots stay."""

    action = "remove-snapshot-ref"
    ref_name: str


@frozen
class SetStatistics(MetadataUpdate):
    """Gives a snapshot its statistics file, in place of the one before (MD4)."""

    action = "set-statistics"
    statistics: StatisticsFile

    def to_dict(self) -> dict[str, Any]:
        """The JSON object; it repeats the snapshot's id beside the file, where clients of the first REST API look."""
        file = self.statistics
        return {"action": self.action, "snapshot-id": file.snapshot_id, "statistics": file.to_dict()}


@frozen
class RemoveStatistics(MetadataUpdate):
    """Takes a snapshot's statistics file out of the metadata."""

    action = "remove-statistics"
    snapshot_id: int


@frozen
class SetPartitionStatistics(MetadataUpdate):
    """Gives a snapshot its file of statistics by partition, in place of the one before (MD4)."""

    action = "set-partition-statistics"
    partition_statistics: PartitionStatisticsFile


@frozen
class RemovePartitionStatistics(MetadataUpdate):
    """Takes a snapshot's file of statistics by partition out of the metadata."""

    action = "remove-partition-statistics"
    snapshot_id: int


@frozen
class RemovePartitionSpecs(MetadataUpdate):
    """Removes partition specs; the default one can't go."""

    action = "remove-partition-specs"
    spec_ids: tuple[int, ...]


@frozen
class RemoveSchemas(MetadataUpdate):
    """Removes schemas; the current one can't go."""

    action = "remove-schemas"
    schema_ids: tuple[int, ...]


@frozen
class AddEncryptionKey(MetadataUpdate):
    """Adds a key of an encrypted table (MD6)."""

    action = "add-encryption-key"
    encryption_key: EncryptedKey


@frozen
class RemoveEncryptionKey(MetadataUpdate):
    """Removes a key of an encrypted table (MD6)."""

    action = "remove-encryption-key"
    key_id: str


TableUpdate = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddPartitionSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
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

_READERS: dict[str, Callable[[Any], TableUpdate]] = {kind.action: kind.from_dict for kind in get_args(TableUpdate)}


def read_table_updates(objects: Iterable[Any]) -> Iterator[TableUpdate]:
    """The updates that JSON objects stand for. Raises ValidationError for one that is no update of a table."""
    return read_updates(objects, _READERS, "update")
