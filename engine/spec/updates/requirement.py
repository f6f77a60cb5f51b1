"""The requirements of a commit: `TableRequirement` and `ViewRequirement` are the closed unions of the REST catalog's.

Spec: the REST catalog's TableRequirement and ViewRequirement. Each class is one type; `to_dict` gives its JSON in the
REST catalog's words, as events hold it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen


class Requirement:
    """A requirement of one type: its JSON has a key for each field."""

    __slots__ = ()
    __attrs_attrs__: ClassVar[tuple[Any, ...]]

    type: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type} | {f.name.replace("_", "-"): getattr(self, f.name) for f in self.__attrs_attrs__}


@frozen
class AssertCreate(Requirement):
    """There is no table or view of that name yet."""

    type = "assert-create"


@frozen
class AssertTableUuid(Requirement):
    """The table is the same one."""

    type = "assert-table-uuid"
    uuid: str | None


@frozen
class AssertRefSnapshotId(Requirement):
    """A branch or tag is at that snapshot; None where there is no such ref."""

    type = "assert-ref-snapshot-id"
    ref: str
    snapshot_id: int | None


@frozen
class AssertLastAssignedFieldId(Requirement):
    """No column was added."""

    type = "assert-last-assigned-field-id"
    last_assigned_field_id: int


@frozen
class AssertCurrentSchemaId(Requirement):
    """The current schema is the same one."""

    type = "assert-current-schema-id"
    current_schema_id: int


@frozen
class AssertLastAssignedPartitionId(Requirement):
    """No partition field was added."""

    type = "assert-last-assigned-partition-id"
    last_assigned_partition_id: int


@frozen
class AssertDefaultSpecId(Requirement):
    """The default partition spec is the same one."""

    type = "assert-default-spec-id"
    default_spec_id: int


@frozen
class AssertDefaultSortOrderId(Requirement):
    """The default sort order is the same one."""

    type = "assert-default-sort-order-id"
    default_sort_order_id: int


@frozen
class AssertViewUuid(Requirement):
    """The view is the same one."""

    type = "assert-view-uuid"
    uuid: str | None


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
