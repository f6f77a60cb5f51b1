"""Commits in words, for the messages of conflicts: which one, by whom, why, and what it touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import assert_never

import pyarrow as pa

from icecore.engine.commit.dry_run import paths_of
from icecore.engine.events.event import TABLE_ADOPTED, TABLE_COMMITTED, Event
from icecore.engine.events.event_updates import table_updates
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.spec.updates.metadata_update import AddSchema, AssignUuid
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
    AddPartitionSpec,
    AddSnapshot,
    RemoveSnapshotRef,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetSnapshotRef,
    TableUpdate,
)

NAMED_FILES = 3


def describe(event: Event, content: pa.Table | None) -> str:
    """One line on a commit; `content` are its content files, where it has any."""
    parts = [f"position {event.position} by {event.provenance.told}: {_operation(event)}"]
    for verb, status in (("added", ManifestEntryStatus.ADDED), ("removed", ManifestEntryStatus.DELETED)):
        if paths := paths_of(content, status):
            parts.append(f"{verb} {names(paths)}")
    return "; ".join(parts)


def changes(event: Event, requirement: TableRequirement) -> bool:
    """Whether a commit changed what a requirement is about."""
    if event.kind not in (TABLE_COMMITTED, TABLE_ADOPTED):
        return False
    return any(_changes(update, requirement) for update in table_updates(event))


def _changes(update: TableUpdate, requirement: TableRequirement) -> bool:
    match requirement:
        case AssertCreate():
            return False
        case AssertTableUuid():
            return isinstance(update, AssignUuid)
        case AssertRefSnapshotId(ref=name):
            return isinstance(update, SetSnapshotRef | RemoveSnapshotRef) and update.ref_name == name
        case AssertLastAssignedFieldId():
            return isinstance(update, AddSchema)
        case AssertCurrentSchemaId():
            return isinstance(update, SetCurrentSchema)
        case AssertLastAssignedPartitionId():
            return isinstance(update, AddPartitionSpec)
        case AssertDefaultSpecId():
            return isinstance(update, SetDefaultSpec)
        case AssertDefaultSortOrderId():
            return isinstance(update, SetDefaultSortOrder)
        case _:
            assert_never(requirement)


def commits_of(events: Iterable[Event], snapshot_ids: Iterable[int]) -> dict[int, str]:
    """The commits that made snapshots: their position, time, author, reason and changes."""
    texts = {i: f"snapshot {i}, which another engine made" for i in snapshot_ids}
    for event in events:
        made = texts.keys() & _snapshots(event)
        if made:
            at = datetime.fromtimestamp(event.recorded_at_ms / 1000, UTC).isoformat(" ", "milliseconds")
            at = at.replace("+00:00", "Z")
            text = f"position {event.position} at {at} by {event.provenance.told}: {_operation(event)}"
            texts |= dict.fromkeys(made, text)
    return texts


def names(paths: Sequence[str]) -> str:
    """The names of some of the files, and the number of the others."""
    named = ", ".join(p.rsplit("/", 1)[-1] for p in paths[:NAMED_FILES])
    left = len(paths) - NAMED_FILES
    return f"{named} and {left} more files" if left > 0 else named


def _snapshots(event: Event) -> set[int]:
    return {u.snapshot.snapshot_id for u in table_updates(event) if isinstance(u, AddSnapshot)}


def _operation(event: Event) -> str:
    if event.kind not in (TABLE_COMMITTED, TABLE_ADOPTED):
        return event.kind
    updates = table_updates(event)
    made = [u.snapshot.operation for u in updates if isinstance(u, AddSnapshot)]
    return ", ".join(dict.fromkeys(o or "a snapshot" for o in made) or dict.fromkeys(u.action for u in updates))
