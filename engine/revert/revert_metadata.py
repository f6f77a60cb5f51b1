"""The way back of a change of metadata: each part is set back that is still as the change left it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, assert_never

from icecore.engine.errors import ValidationError
from icecore.engine.spec.metadata import TableMetadata
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

Updates = list[TableUpdate]
Kinds = tuple[type[TableUpdate], ...]
Refuse = Callable[[str, Kinds], Exception]
"""Makes the error of a part that was changed again: what it is, and the updates that change it."""
K = TypeVar("K")
V = TypeVar("V")


def check_undoable(updates: Iterable[TableUpdate], position: int) -> None:
    """Raises ValidationError for updates that have no way back."""
    for update in updates:
        if (what := _lasting(update)) is not None:
            raise ValidationError(f"position {position} can't be reverted: {what} has no way back")


def _lasting(update: TableUpdate) -> str | None:
    """An update that has no way back, in words; None of one that has."""
    match update:
        case UpgradeFormatVersion():
            return "an upgrade of the format version"
        case RemoveSnapshots():
            return "the expiry of snapshots"
        case RemoveSchemas():
            return "the removal of schemas"
        case RemovePartitionSpecs():
            return "the removal of partition specs"
        case AddEncryptionKey() | RemoveEncryptionKey():
            return "a change of encryption keys"
        case AssignUuid():
            return "a change of the table's UUID"
        case AddSchema() | SetCurrentSchema() | AddPartitionSpec() | SetDefaultSpec() | AddSortOrder():
            return None
        case SetDefaultSortOrder() | AddSnapshot() | SetSnapshotRef() | RemoveSnapshotRef():
            return None
        case SetLocation() | SetProperties() | RemoveProperties():
            return None
        case SetStatistics() | RemoveStatistics() | SetPartitionStatistics() | RemovePartitionStatistics():
            return None
        case _:
            assert_never(update)


def undone_properties(
    before: Mapping[str, str], after: Mapping[str, str], now: Mapping[str, str]
) -> tuple[dict[str, str], list[str], list[str]]:
    """(updates, removals, conflicts) that take the properties back: conflicts are keys that were changed again."""
    updates, removals, conflicts = {}, [], []
    for key in sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k)):
        if now.get(key) == before.get(key):
            continue
        if now.get(key) != after.get(key):
            conflicts.append(key)
        elif key in before:
            updates[key] = before[key]
        else:
            removals.append(key)
    return updates, removals, conflicts


def undone_metadata(
    before: TableMetadata, after: TableMetadata, now: TableMetadata, branches: frozenset[str], refuse: Refuse
) -> Updates:
    """The updates that take everything back but rows. `branches` are those whose rows are taken back by a snapshot.

    Raises the error that `refuse` makes where a part was changed again.
    """
    out: Updates = []
    singles: tuple[tuple[object, object, object, TableUpdate, str], ...] = (
        (
            before.current_schema_id,
            after.current_schema_id,
            now.current_schema_id,
            SetCurrentSchema(before.current_schema_id),
            "current schema",
        ),
        (
            before.default_spec_id,
            after.default_spec_id,
            now.default_spec_id,
            SetDefaultSpec(before.default_spec_id),
            "spec",
        ),
        (
            before.default_sort_order_id,
            after.default_sort_order_id,
            now.default_sort_order_id,
            SetDefaultSortOrder(before.default_sort_order_id),
            "sort order",
        ),
        (before.location, after.location, now.location, SetLocation(before.location), "location"),
    )
    for old, new, current, update, what in singles:
        if old != new and current != old:
            if current != new:
                raise refuse(f"the {what} was changed again", (type(update),))
            out.append(update)
    updates, removals, conflicts = undone_properties(before.properties, after.properties, now.properties)
    if conflicts:
        raise refuse(f"the properties {conflicts} were changed again", (SetProperties, RemoveProperties))
    if updates:
        out.append(SetProperties(updates))
    if removals:
        out.append(RemoveProperties(tuple(removals)))
    return [*out, *_refs(before, after, now, branches, refuse), *_statistics(before, after, now, refuse)]


def _refs(
    before: TableMetadata, after: TableMetadata, now: TableMetadata, branches: frozenset[str], refuse: Refuse
) -> Updates:
    out: Updates = []
    for name, old in _back(before.refs, after.refs, now.refs, branches, "ref", _REF_UPDATES, refuse).items():
        if old is None:
            out.append(RemoveSnapshotRef(name))
        elif now.snapshot_by_id(old.snapshot_id) is None:
            raise refuse(f"the snapshot {old.snapshot_id} of ref {name!r} is gone", (RemoveSnapshots,))
        else:
            out.append(SetSnapshotRef(name, old))
    return out


_REF_UPDATES: Kinds = (SetSnapshotRef, RemoveSnapshotRef)


def _statistics(before: TableMetadata, after: TableMetadata, now: TableMetadata, refuse: Refuse) -> Updates:
    out: Updates = []
    old, new, current = ({f.snapshot_id: f for f in m.statistics} for m in (before, after, now))
    kinds: Kinds = (SetStatistics, RemoveStatistics, RemoveSnapshots)
    for snapshot_id, file in _back(old, new, current, frozenset(), "statistics", kinds, refuse).items():
        if file is None:
            out.append(RemoveStatistics(snapshot_id))
        elif now.snapshot_by_id(snapshot_id) is not None:
            out.append(SetStatistics(file))
    return [*out, *_partition_statistics(before, after, now, refuse)]


def _partition_statistics(before: TableMetadata, after: TableMetadata, now: TableMetadata, refuse: Refuse) -> Updates:
    out: Updates = []
    old, new, current = ({f.snapshot_id: f for f in m.partition_statistics} for m in (before, after, now))
    kinds: Kinds = (SetPartitionStatistics, RemovePartitionStatistics, RemoveSnapshots)
    for snapshot_id, file in _back(old, new, current, frozenset(), "partition-statistics", kinds, refuse).items():
        if file is None:
            out.append(RemovePartitionStatistics(snapshot_id))
        elif now.snapshot_by_id(snapshot_id) is not None:
            out.append(SetPartitionStatistics(file))
    return out


def _back(
    before: Mapping[K, V],
    after: Mapping[K, V],
    now: Mapping[K, V],
    left_alone: frozenset[K],
    what: str,
    kinds: Kinds,
    refuse: Refuse,
) -> dict[K, V | None]:
    """The entries that have to become again what they were, None where they were not there."""
    out: dict[K, V | None] = {}
    for key in dict.fromkeys([*before, *after]):
        old, new, current = before.get(key), after.get(key), now.get(key)
        if key in left_alone or old == new or current == old:
            continue
        if current != new:
            raise refuse(f"the {what} {key!r} was changed again", kinds)
        out[key] = old
    return out
