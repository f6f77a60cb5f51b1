"""Files and rows that a range of a table's events added and removed, branch by branch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import astuple, define

from icecore.engine.common.text import number_in
from icecore.engine.events.event import TABLE_REGISTERED, Event
from icecore.engine.events.event_updates import snapshots_of
from icecore.engine.events.manifest_changes import changes_of
from icecore.engine.log.store import EventStore
from icecore.engine.spec.content_file import DataFileContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot
from icecore.projections.entries.manifest_entries import rows_beside
from icecore.projections.history.object_diff import CONTENT_NAMES, FileChanges

_COLUMNS = ["status", "content", "file_path", "content_offset", "record_count"]
_SUMMARY = (
    ("data-files", "added-data-files", "added-records", "deleted-data-files", "deleted-records"),
    (
        "position-delete-files",
        "added-position-delete-files",
        "added-position-deletes",
        "removed-position-delete-files",
        "removed-position-deletes",
    ),
    (
        "equality-delete-files",
        "added-equality-delete-files",
        "added-equality-deletes",
        "removed-equality-delete-files",
        "removed-equality-deletes",
    ),
)


@define
class _Seen:
    """The first and last mention of a file."""

    first: int
    last: int
    rows: int


def file_changes(store: EventStore, events: Iterable[Event], before: TableMetadata | None) -> tuple[FileChanges, ...]:
    """The files that the events added and removed, in the order of branches. Raises CorruptLogError."""
    seen: dict[tuple[str | None, int], dict[tuple[str, int | None], _Seen]] = {}
    branches: dict[int, str] = {}
    told = {s.snapshot_id for s in before.snapshots} if before else set()
    brought: dict[int, Snapshot] = {}
    for event in events:
        snapshots, put_on = snapshots_of(event)
        branches |= put_on
        if event.kind == TABLE_REGISTERED:
            told |= {s.snapshot_id for s in snapshots}
        brought |= {s.snapshot_id: s for s in snapshots}
        for snapshot_id, rows in _rows(store, event):
            told.add(snapshot_id)
            for row in rows:
                _note(seen.setdefault((branches.get(snapshot_id), row["content"]), {}), row)
    counted = [_count(branch, content, files) for (branch, content), files in seen.items()]
    outside = ((branches.get(i), s) for i, s in brought.items() if i not in told)
    found = _summed([*counted, *_from_summaries(outside)])
    return tuple(sorted(found, key=lambda c: (c.branch != MAIN_BRANCH, c.branch or "", c.content)))


def _summed(changes: Iterable[FileChanges]) -> Iterator[FileChanges]:
    """The changes, one for each branch and content, without empty ones."""
    found: dict[tuple[str | None, str], FileChanges] = {}
    for each in changes:
        key = each.branch, each.content
        if (known := found.get(key)) is not None:
            sums = (a + b for a, b in zip(astuple(known)[2:], astuple(each)[2:], strict=True))
            each = FileChanges(*key, *sums)
        found[key] = each
    return (c for c in found.values() if c.added_files or c.removed_files)


def _rows(store: EventStore, event: Event) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The id of each snapshot that an event made, and the files that it added or removed."""
    changes = changes_of(event.payload, event.position)
    if not changes:
        return
    found = store.entries(event.position)
    content = None if found is None else found.select(_COLUMNS)
    for snapshot_id, change in changes.items():
        yield snapshot_id, [r for part in rows_beside(event.position, change, content) for r in part.to_pylist()]


def _note(files: dict[tuple[str, int | None], _Seen], row: Mapping[str, Any]) -> None:
    if row["status"] == ManifestEntryStatus.EXISTING:
        return
    known = files.setdefault(
        (row["file_path"], row["content_offset"]), _Seen(row["status"], row["status"], row["record_count"])
    )
    known.last = row["status"]


def _count(branch: str | None, content: int, files: Mapping[tuple[str, int | None], _Seen]) -> FileChanges:
    kept = [f for f in files.values() if f.first == f.last]
    added = [f.rows for f in kept if f.last == ManifestEntryStatus.ADDED]
    removed = [f.rows for f in kept if f.last == ManifestEntryStatus.DELETED]
    return FileChanges(
        branch, CONTENT_NAMES[DataFileContent(content)], len(added), sum(added), len(removed), sum(removed)
    )


def _from_summaries(snapshots: Iterable[tuple[str | None, Snapshot]]) -> Iterator[FileChanges]:
    """The changes of snapshots whose files the log does not hold, as other engines make them, by their summaries."""
    for branch, snapshot in snapshots:
        summary = snapshot.summary or {}
        for content, *keys in _SUMMARY:
            counts = [number_in(summary.get(k, "0")) or 0 for k in keys]
            yield FileChanges(branch, content, *counts)
