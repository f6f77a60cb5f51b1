"""Changes of table metadata: `TableUpdate` is the closed union of the REST catalog's 23.

Spec: the REST catalog's TableUpdate. A commit is some of them in order: `MetadataBuilder` applies them, events hold
their JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, get_args

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
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
    read_updates,
)


@frozen
class SetCurrentSchema:
    """Makes a schema the current one; LAST_ADDED is the one that this commit added."""

    action: ClassVar = "set-current-schema"
    schema_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "schema-id": self.schema_id}

    @classmethod
    def from_dict(cls, obj: Any) -> SetCurrentSchema:
        return cls(get(obj, "schema-id", int, cls.action))


@frozen
class AddPartitionSpec:
    """Adds a partition spec; it is not the default yet. It and its fields may have UNASSIGNED for an id (PT1)."""

    action: ClassVar = "add-spec"
    spec: PartitionSpec

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "spec": self.spec.to_dict()}

    @classmethod
    def from_dict(cls, obj: Any) -> AddPartitionSpec:
        spec = {"spec-id": UNASSIGNED, **get(obj, "spec", dict, cls.action)}
        fields = [_with_field_id(f) for f in get_list(spec, "fields", cls.action)]
        return cls(PartitionSpec.from_dict({**spec, "fields": fields}))


def _with_field_id(obj: Any) -> Any:
    return {**obj, "field-id": UNASSIGNED} if isinstance(obj, dict) and obj.get("field-id") is None else obj


@frozen
class SetDefaultSpec:
    """Makes a partition spec the default one; LAST_ADDED is the one that this commit added."""

    action: ClassVar = "set-default-spec"
    spec_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "spec-id": self.spec_id}

    @classmethod
    def from_dict(cls, obj: Any) -> SetDefaultSpec:
        return cls(get(obj, "spec-id", int, cls.action))


@frozen
class AddSortOrder:
    """Adds a sort order; it is not the default yet. Its id may be UNASSIGNED."""

    action: ClassVar = "add-sort-order"
    sort_order: SortOrder

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "sort-order": self.sort_order.to_dict()}

    @classmethod
    def from_dict(cls, obj: Any) -> AddSortOrder:
        order = get(obj, "sort-order", dict, cls.action)
        unassigned = UNASSIGNED if order.get("fields") else UNSORTED_ORDER_ID
        return cls(SortOrder.from_dict({"order-id": unassigned, **order}))


@frozen
class SetDefaultSortOrder:
    """Makes a sort order the default one; LAST_ADDED is the one that this commit added."""

    action: ClassVar = "set-default-sort-order"
    sort_order_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "sort-order-id": self.sort_order_id}

    @classmethod
    def from_dict(cls, obj: Any) -> SetDefaultSortOrder:
        return cls(get(obj, "sort-order-id", int, cls.action))


@frozen
class AddSnapshot:
    """Adds a snapshot; no branch is at it yet. Tables of format version 1 have no sequence numbers (M3)."""

    action: ClassVar = "add-snapshot"
    snapshot: Snapshot
    has_sequence_number: bool = True

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "snapshot": self.snapshot.to_dict(2 if self.has_sequence_number else 1)}

    @classmethod
    def from_dict(cls, obj: Any) -> AddSnapshot:
        snapshot = get(obj, "snapshot", dict, cls.action)
        return cls(Snapshot.from_dict(snapshot), "sequence-number" in snapshot)


@frozen
class SetSnapshotRef:
    """Points a branch or tag at a snapshot, and makes it where there is none."""

    action: ClassVar = "set-snapshot-ref"
    ref_name: str
    ref: SnapshotRef

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "ref-name": self.ref_name, **self.ref.to_dict()}

    @classmethod
    def from_dict(cls, obj: Any) -> SetSnapshotRef:
        name = get(obj, "ref-name", str, cls.action)
        return cls(name, SnapshotRef.from_dict(obj, name))


@frozen
class RemoveSnapshots:
    """Removes snapshots, their statistics, and what refs are at them."""

    action: ClassVar = "remove-snapshots"
    snapshot_ids: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "snapshot-ids": list(self.snapshot_ids)}

    @classmethod
    def from_dict(cls, obj: Any) -> RemoveSnapshots:
        """The update of its JSON. Raises ValidationError."""
        ids = get_list(obj, "snapshot-ids", cls.action)
        for i in ids:
            if type(i) is not int:
                raise ValidationError(f"{cls.action}: 'snapshot-ids' must hold whole numbers, found {str(i)[:60]!r}")
        return cls(tuple(ids))


@frozen
class RemoveSnapshotRef:
    """Removes a branch or tag; its snapshots stay."""

    action: ClassVar = "remove-snapshot-ref"
    ref_name: str

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "ref-name": self.ref_name}

    @classmethod
    def from_dict(cls, obj: Any) -> RemoveSnapshotRef:
        return cls(get(obj, "ref-name", str, cls.action))


@frozen
class SetStatistics:
    """Gives a snapshot its statistics file, in place of the one before (MD4)."""

    action: ClassVar = "set-statistics"
    statistics: StatisticsFile

    def to_dict(self) -> dict[str, Any]:
        """With the snapshot's id beside the file too, where clients of the REST catalog's first version look for it."""
        file = self.statistics
        return {"action": self.action, "snapshot-id": file.snapshot_id, "statistics": file.to_dict()}

    @classmethod
    def from_dict(cls, obj: Any) -> SetStatistics:
        return cls(StatisticsFile.from_dict(get(obj, "statistics", dict, cls.action)))


@frozen
class RemoveStatistics:
    """Takes a snapshot's statistics file out of the metadata."""

    action: ClassVar = "remove-statistics"
    snapshot_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "snapshot-id": self.snapshot_id}

    @classmethod
    def from_dict(cls, obj: Any) -> RemoveStatistics:
        return cls(get(obj, "snapshot-id", int, cls.action))


@frozen
class SetPartitionStatistics:
    """Gives a snapshot its file of statistics by partition, in place of the one before (MD4)."""

    action: ClassVar = "set-partition-statistics"
    partition_statistics: PartitionStatisticsFile

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "partition-statistics": self.partition_statistics.to_dict()}

    @classmethod
    def from_dict(cls, obj: Any) -> SetPartitionStatistics:
        return cls(PartitionStatisticsFile.from_dict(get(obj, "partition-statistics", dict, cls.action)))


@frozen
class RemovePartitionStatistics:
    """Takes a snapshot's file of statistics by partition out of the metadata."""

    action: ClassVar = "remove-partition-statistics"
    snapshot_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "snapshot-id": self.snapshot_id}

    @classmethod
    def from_dict(cls, obj: Any) -> RemovePartitionStatistics:
        return cls(get(obj, "snapshot-id", int, cls.action))


@frozen
class RemovePartitionSpecs:
    """Removes partition specs; the default one can't go."""

    action: ClassVar = "remove-partition-specs"
    spec_ids: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "spec-ids": list(self.spec_ids)}

    @classmethod
    def from_dict(cls, obj: Any) -> RemovePartitionSpecs:
        return cls(tuple(get_list(obj, "spec-ids", cls.action)))


@frozen
class RemoveSchemas:
    """Removes schemas; the current one can't go."""

    action: ClassVar = "remove-schemas"
    schema_ids: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "schema-ids": list(self.schema_ids)}

    @classmethod
    def from_dict(cls, obj: Any) -> RemoveSchemas:
        return cls(tuple(get_list(obj, "schema-ids", cls.action)))


@frozen
class AddEncryptionKey:
    """Adds a key of an encrypted table (MD6)."""

    action: ClassVar = "add-encryption-key"
    encryption_key: EncryptedKey

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "encryption-key": self.encryption_key.to_dict()}

    @classmethod
    def from_dict(cls, obj: Any) -> AddEncryptionKey:
        return cls(EncryptedKey.from_dict(get(obj, "encryption-key", dict, cls.action)))


@frozen
class RemoveEncryptionKey:
    """Removes a key of an encrypted table (MD6)."""

    action: ClassVar = "remove-encryption-key"
    key_id: str

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "key-id": self.key_id}

    @classmethod
    def from_dict(cls, obj: Any) -> RemoveEncryptionKey:
        return cls(get(obj, "key-id", str, cls.action))


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
    """The updates of their JSON, one after another. Raises ValidationError for what is no update of a table."""
    return read_updates(objects, _READERS, "update")
