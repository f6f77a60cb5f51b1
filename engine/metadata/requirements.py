"""The requirements of a commit: derived from its updates, and checked against a state.

Spec: the REST catalog's TableRequirement; derived as the Java library does (C4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from icecore.engine.spec.updates.metadata_update import (
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
)
from icecore.engine.spec.updates.requirement import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
    TableRequirement,
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

_REPLACED = (AssertRefSnapshotId, AssertCurrentSchemaId, AssertDefaultSpecId, AssertDefaultSortOrderId)


def requirements_for(
    base: TableMetadata, updates: Iterable[TableUpdate], *, is_replace: bool = False
) -> list[TableRequirement]:
    """The requirements under which the updates were decided on `base`; each appears once.

    A replacement of the table relies on the ids that were given out, and on nothing that it replaces. As in Java the
    removal of a ref relies on nothing, and schemas and specs are removed as long as no other branch than main moves:
    main's writers have the current schema and the default spec, which are relied on anyway.
    """
    found: list[TableRequirement] = [AssertTableUuid(base.table_uuid)]
    for update in updates:
        for requirement in _of_update(base, update):
            if requirement not in found and not (is_replace and isinstance(requirement, _REPLACED)):
                found.append(requirement)
    return found


def _of_update(base: TableMetadata, update: TableUpdate) -> list[TableRequirement]:  # noqa: C901  # one case an update
    match update:
        case SetSnapshotRef(ref_name=name):
            ref = base.refs.get(name)
            return [AssertRefSnapshotId(name, ref.snapshot_id if ref else None)]
        case AddSchema():
            return [AssertLastAssignedFieldId(base.last_column_id)]
        case SetCurrentSchema():
            return [AssertCurrentSchemaId(base.current_schema_id)]
        case AddPartitionSpec():
            return [AssertLastAssignedPartitionId(base.last_partition_id)]
        case SetDefaultSpec():
            return [AssertDefaultSpecId(base.default_spec_id)]
        case SetDefaultSortOrder():
            return [AssertDefaultSortOrderId(base.default_sort_order_id)]
        case RemovePartitionSpecs():
            return [AssertDefaultSpecId(base.default_spec_id), *_branches(base)]
        case RemoveSchemas():
            return [AssertCurrentSchemaId(base.current_schema_id), *_branches(base)]
        case AddSnapshot() | RemoveSnapshots() | RemoveSnapshotRef() | AddSortOrder():
            return []
        case AssignUuid() | UpgradeFormatVersion() | SetLocation() | SetProperties() | RemoveProperties():
            return []
        case SetStatistics() | RemoveStatistics() | SetPartitionStatistics() | RemovePartitionStatistics():
            return []
        case AddEncryptionKey() | RemoveEncryptionKey():
            return []
        case _:
            assert_never(update)


def _branches(base: TableMetadata) -> list[TableRequirement]:
    return [
        AssertRefSnapshotId(name, ref.snapshot_id)
        for name, ref in base.refs.items()
        if ref.type is SnapshotRefType.BRANCH and name != MAIN_BRANCH
    ]


def failures(
    metadata: TableMetadata | None, requirements: Iterable[TableRequirement]
) -> Iterator[tuple[TableRequirement, str]]:
    """Each requirement that is not met, with the reason, in the words of Java's UpdateRequirement."""
    for requirement in requirements:
        reason = _failure(metadata, requirement)
        if reason is not None:
            yield requirement, f"Requirement failed: {reason}"


def _failure(metadata: TableMetadata | None, requirement: TableRequirement) -> str | None:
    match requirement:
        case AssertCreate():
            return None if metadata is None else "table already exists"
        case _ if metadata is None:
            return "table does not exist"
        case AssertTableUuid(uuid=uuid):
            same = (uuid or "").lower() == (metadata.table_uuid or "").lower()
            return None if same else f"UUID does not match: expected {metadata.table_uuid} != {uuid}"
        case AssertRefSnapshotId():
            return _ref_failure(metadata.refs.get(requirement.ref), requirement)
        case _:
            expected, found, what = _compared(metadata, requirement)
            return None if expected == found else f"{what} changed: expected id {expected} != {found}"


def _ref_failure(ref: SnapshotRef | None, asserted: AssertRefSnapshotId) -> str | None:
    name, expected = asserted.ref, asserted.snapshot_id
    if ref is None:
        return None if expected is None else f"branch or tag {name} is missing, expected {expected}"
    if expected is None:
        return f"{ref.type} {name} was created concurrently"
    same = ref.snapshot_id == expected
    return None if same else f"{ref.type} {name} has changed: expected id {expected} != {ref.snapshot_id}"


_OfId = (
    AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)


def _compared(metadata: TableMetadata, requirement: _OfId) -> tuple[int, int, str]:
    """(expected, found, what it is) of a requirement about an id of a table that is there."""
    match requirement:
        case AssertLastAssignedFieldId():
            return requirement.last_assigned_field_id, metadata.last_column_id, "last assigned field id"
        case AssertCurrentSchemaId():
            return requirement.current_schema_id, metadata.current_schema_id, "current schema"
        case AssertLastAssignedPartitionId():
            return requirement.last_assigned_partition_id, metadata.last_partition_id, "last assigned partition id"
        case AssertDefaultSpecId():
            return requirement.default_spec_id, metadata.default_spec_id, "default partition spec"
        case AssertDefaultSortOrderId():
            return requirement.default_sort_order_id, metadata.default_sort_order_id, "default sort order"
        case _:
            assert_never(requirement)
