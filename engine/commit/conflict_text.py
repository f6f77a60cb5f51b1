"""Commits in words, for the messages of conflicts: which one, by whom, why, and what it touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from icecore.engine.commit.dry_run import paths_of
from icecore.engine.events.event import TABLE_ADOPTED, TABLE_COMMITTED, Event
from icecore.engine.spec.content_file import ManifestEntryStatus

NAMED_FILES = 3
_CHANGED_BY = {
    "assert-ref-snapshot-id": {"set-snapshot-ref", "remove-snapshot-ref"},
    "assert-last-assigned-field-id": {"add-schema"},
    "assert-current-schema-id": {"set-current-schema"},
    "assert-last-assigned-partition-id": {"add-spec"},
    "assert-default-spec-id": {"set-default-spec"},
    "assert-default-sort-order-id": {"set-default-sort-order"},
    "assert-table-uuid": {"assign-uuid"},
}


def describe(event: Event, content: pa.Table | None) -> str:
    """One line on a commit; `content` are its content files, where it has any."""
    who = event.provenance
    reason = f" ({who.message!r})" if who.message else ""
    parts = [f"position {event.position} by {who.actor or 'unknown'}{reason}: {_operation(event)}"]
    for verb, status in (("added", ManifestEntryStatus.ADDED), ("removed", ManifestEntryStatus.DELETED)):
        if paths := paths_of(content, status):
            parts.append(f"{verb} {names(paths)}")
    return "; ".join(parts)


def changes(event: Event, requirement: Mapping[str, Any]) -> bool:
    """Whether a commit changed what a requirement is about."""
    if event.kind not in (TABLE_COMMITTED, TABLE_ADOPTED):
        return False
    actions = _CHANGED_BY.get(requirement["type"], set())
    return any(
        u["action"] in actions and u.get("ref-name") == requirement.get("ref") for u in event.payload.get("updates", ())
    )


def commits_of(events: Iterable[Event], snapshot_ids: Iterable[int]) -> dict[int, str]:
    """The commits that made snapshots: their position, time, author, reason and changes."""
    found = {i: f"snapshot {i}, which another engine made" for i in snapshot_ids}
    for event in events:
        made = found.keys() & _snapshots(event)
        if made:
            who = event.provenance
            at = datetime.fromtimestamp(event.recorded_at_ms / 1000, UTC).isoformat(" ", "milliseconds")
            at = at.replace("+00:00", "Z")
            reason = f" ({who.message!r})" if who.message else ""
            text = f"position {event.position} at {at} by {who.actor or 'unknown'}{reason}: {_operation(event)}"
            found |= dict.fromkeys(made, text)
    return found


def names(paths: Sequence[str]) -> str:
    """The names of some of the files, and the number of the others."""
    named = ", ".join(p.rsplit("/", 1)[-1] for p in paths[:NAMED_FILES])
    left = len(paths) - NAMED_FILES
    return f"{named} and {left} more files" if left > 0 else named


def _snapshots(event: Event) -> set[int]:
    updates = event.payload.get("updates", ())
    return {u["snapshot"]["snapshot-id"] for u in updates if u.get("action") == "add-snapshot"}


def _operation(event: Event) -> str:
    if event.kind not in (TABLE_COMMITTED, TABLE_ADOPTED):
        return event.kind
    updates = event.payload.get("updates", ())
    made = [u["snapshot"].get("summary", {}).get("operation") for u in updates if u["action"] == "add-snapshot"]
    return ", ".join(dict.fromkeys(o or "a snapshot" for o in made) or dict.fromkeys(u["action"] for u in updates))
