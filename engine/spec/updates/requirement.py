"""The requirements of a commit: `TableRequirement` and `ViewRequirement` are the closed unions of the REST catalog's.

Spec: the REST catalog's TableRequirement and ViewRequirement. Each class is one type; `to_dict` gives its JSON in the
REST catalog's words, as events hold it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen


@frozen
class AssertCreate:
    """There is no table or view of that name yet."""

    type: ClassVar = "assert-create"

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type}


@frozen
class AssertTableUuid:
    """The table is the same one."""

    type: ClassVar = "assert-table-uuid"
    uuid: str | None

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "uuid": self.uuid}


@frozen
class AssertRefSnapshotId:
    """A branch or tag is at that snapshot; None where there is no such ref."""

    type: ClassVar = "assert-ref-snapshot-id"
    ref: str
    snapshot_id: int | None

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "ref": self.ref, "snapshot-id": self.snapshot_id}


@frozen
class AssertLastAssignedFieldId:
    """No column was added."""

    type: ClassVar = "assert-last-assigned-field-id"
    last_assigned_field_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "last-assigned-field-id": self.last_assigned_field_id}


@frozen
class AssertCurrentSchemaId:
    """The current schema is the same one."""

    type: ClassVar = "assert-current-schema-id"
    current_schema_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "current-schema-id": self.current_schema_id}


@frozen
class AssertLastAssignedPartitionId:
    """No partition field was added."""

    type: ClassVar = "assert-last-assigned-partition-id"
    last_assigned_partition_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "last-assigned-partition-id": self.last_assigned_partition_id}


@frozen
class AssertDefaultSpecId:
    """The default partition spec is the same one."""

    type: ClassVar = "assert-default-spec-id"
    default_spec_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "default-spec-id": self.default_spec_id}


@frozen
class AssertDefaultSortOrderId:
    """The default sort order is the same one."""

    type: ClassVar = "assert-default-sort-order-id"
    default_sort_order_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "default-sort-order-id": self.default_sort_order_id}


@frozen
class AssertViewUuid:
    """The view is the same one."""

    type: ClassVar = "assert-view-uuid"
    uuid: str | None

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, "uuid": self.uuid}


TableRequirement = (
    AssertCreate
    | AssertTableUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)
ViewRequirement = AssertCreate | AssertViewUuid
