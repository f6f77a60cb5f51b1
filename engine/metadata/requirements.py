"""The requirements of a commit: derived from its updates, and checked against a state.

Spec: the REST catalog's TableRequirement; derived as the Java library does (C4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from icecore.engine.errors import CommitFailedError
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, SnapshotRefType
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


def check(metadata: TableMetadata | None, requirements: Iterable[TableRequirement]) -> None:
    """Raises CommitFailedError for the first requirement that is not met."""
    for _, failure in failures(metadata, requirements):
        raise CommitFailedError(failure)


def failures(
    metadata: TableMetadata | None, requirements: Iterable[TableRequirement]
) -> Iterator[tuple[TableRequirement, str]]:
    """Each requirement that is not met, with the reason."""
    for requirement in requirements:
        match requirement:
            case AssertCreate():
                if metadata is not None:
                    yield requirement, "the table exists already"
            case _ if metadata is None:
                yield requirement, "the table does not exist"
            case _:
                expected, found, what = _compare(metadata, requirement)
                if expected != found:
                    yield requirement, f"{what} was expected to be {expected}, but is {found}"


_Compared = (
    AssertTableUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)
_Value = int | str | None


def _compare(metadata: TableMetadata, requirement: _Compared) -> tuple[_Value, _Value, str]:
    """(expected, found, what it is) of a requirement of a table that is there."""
    match requirement:
        case AssertTableUuid():
            return requirement.uuid, metadata.table_uuid, "the table's UUID"
        case AssertRefSnapshotId(ref=name):
            ref = metadata.refs.get(name)
            return requirement.snapshot_id, ref.snapshot_id if ref else None, f"the snapshot of ref {name!r}"
        case AssertLastAssignedFieldId():
            return requirement.last_assigned_field_id, metadata.last_column_id, "the last field id"
        case AssertCurrentSchemaId():
            return requirement.current_schema_id, metadata.current_schema_id, "the current schema id"
        case AssertLastAssignedPartitionId():
            return requirement.last_assigned_partition_id, metadata.last_partition_id, "the last partition id"
        case AssertDefaultSpecId():
            return requirement.default_spec_id, metadata.default_spec_id, "the default spec id"
        case AssertDefaultSortOrderId():
            return requirement.default_sort_order_id, metadata.default_sort_order_id, "the default sort order id"
        case _:
            assert_never(requirement)
