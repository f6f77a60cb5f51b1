"""The updates of events as values, and the snapshots, schemas and partition specs that events brought.

Spec: the REST catalog's TableUpdate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotRefType
from icecore.engine.spec.updates.metadata_update import AddSchema
from icecore.engine.spec.updates.table_update import (
    AddPartitionSpec,
    AddSnapshot,
    SetSnapshotRef,
    TableUpdate,
    read_table_updates,
)

_OF_SNAPSHOTS = (AddSnapshot.action, SetSnapshotRef.action)


def table_updates(event: Event) -> tuple[TableUpdate, ...]:
    """The updates of a table's event; none of one that has none. Raises ValidationError, CorruptLogError."""
    return tuple(read_table_updates(event.payload.get("updates", ())))


def schemas_and_specs(event: Event) -> tuple[list[Schema], list[PartitionSpec]]:
    """The schemas and partition specs that a table's event brought. Raises ValidationError, CorruptLogError."""
    updates = table_updates(event)
    schemas = [u.schema for u in updates if isinstance(u, AddSchema)]
    specs = [u.spec for u in updates if isinstance(u, AddPartitionSpec)]
    if (whole := event.payload.get("metadata")) is not None:
        metadata = TableMetadata.from_dict(whole)
        schemas += metadata.schemas
        specs += metadata.partition_specs
    return schemas, specs


def snapshots_of(event: Event) -> tuple[list[Snapshot], Mapping[int, str]]:
    """The snapshots that an event brought, and the branches that it put them on. Raises CorruptLogError.

    Of several snapshots that came together, each is on the branch whose head it is, or whose head descends from it.
    """
    if event.kind == ev.TABLE_REGISTERED:
        metadata = event.payload["metadata"]
        registered = [Snapshot.from_dict(s) for s in metadata.get("snapshots") or ()]
        refs = (metadata.get("refs") or {}).items()
        ends = [(name, r["snapshot-id"]) for name, r in refs if r.get("type") == SnapshotRefType.BRANCH]
        if (current := metadata.get("current-snapshot-id")) is not None:
            ends.append((MAIN_BRANCH, current))
        return registered, branches_of(_parents(registered), ends)
    if event.kind not in (ev.TABLE_CREATED, ev.TABLE_COMMITTED, ev.TABLE_ADOPTED):
        return [], {}
    found, ends = [], list[tuple[str, int]]()
    for update in read_table_updates(u for u in event.payload.get("updates", ()) if u.get("action") in _OF_SNAPSHOTS):
        if isinstance(update, AddSnapshot):
            found.append(update.snapshot)
        elif isinstance(update, SetSnapshotRef) and update.ref.type is SnapshotRefType.BRANCH:
            ends.append((update.ref_name, update.ref.snapshot_id))
    return found, branches_of(_parents(found), ends)


def _parents(snapshots: Iterable[Snapshot]) -> dict[int, int | None]:
    return {s.snapshot_id: s.parent_snapshot_id for s in snapshots}


def branches_of(parents: Mapping[int, int | None], heads: Iterable[tuple[str, int]]) -> dict[int, str]:
    """The branch of each snapshot that is the head of one or an ancestor of the head; main goes before others.

    `parents` are those of the snapshots, `heads` the branches with their heads.
    """
    found: dict[int, str] = {}
    for name, head in sorted(heads, key=lambda each: each[0] != MAIN_BRANCH):
        at: int | None = head
        while at is not None and at in parents and at not in found:
            found[at] = name
            at = parents[at]
    return found
