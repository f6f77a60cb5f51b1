"""Files and rows that a range of a table's events added and removed, branch by branch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import define, frozen

from icecore.engine.errors import CorruptLogError
from icecore.engine.events.event import TABLE_REGISTERED, Event
from icecore.engine.events.event_updates import table_updates
from icecore.engine.events.manifest_changes import changes_of
from icecore.engine.log.store import EventStore
from icecore.engine.spec.content_file import DataFileContent, ManifestEntryStatus
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot
from icecore.engine.spec.updates.table_update import SetSnapshotRef

_COLUMNS = ["status", "content", "file_path", "content_offset", "record_count"]
_NAMES = {
    DataFileContent.DATA: "data-files",
    DataFileContent.POSITION_DELETES: "position-delete-files",
    DataFileContent.EQUALITY_DELETES: "equality-delete-files",
}
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


@frozen
class FileChanges:
    """Files of one kind of content that commits to a branch added and removed, and the rows or deletes in them.

    A file that came and went within the range is not counted, nor one that went and came back. Commits that a rollback
    took back do count: the ref that moved says so. `branch` is None for snapshots on no branch, and where the table
    came with them.
    """

    branch: str | None
    content: str
    added_files: int
    added_rows: int
    removed_files: int
    removed_rows: int


@define
class _Seen:
    """The first and last mention of a file."""

    first: int
    last: int
    rows: int


def file_changes(
    store: EventStore, events: Iterable[Event], before: TableMetadata | None, after: TableMetadata | None
) -> tuple[FileChanges, ...]:
    """The files that the events added and removed, in the order of branches. Raises CorruptLogError."""
    seen: dict[tuple[str | None, int], dict[tuple[str, int | None], _Seen]] = {}
    told: set[int] = set()
    for event in events:
        for snapshot_id, branch, rows in _rows(store, event):
            told.add(snapshot_id)
            for row in rows:
                _note(seen.setdefault((branch, row["content"]), {}), row)
        if event.kind == TABLE_REGISTERED:
            told |= {s["snapshot-id"] for s in event.payload["metadata"].get("snapshots") or ()}
    known = {s.snapshot_id for s in before.snapshots} if before else set()
    outside = [s for s in (after.snapshots if after else ()) if s.snapshot_id not in known | told]
    counted = [_count(branch, content, files) for (branch, content), files in seen.items()]
    found = [c for c in (*counted, *_from_summaries(outside)) if c.added_files or c.removed_files]
    return tuple(sorted(found, key=lambda c: (c.branch != MAIN_BRANCH, c.branch or "", c.content)))


def _rows(store: EventStore, event: Event) -> Iterator[tuple[int, str | None, list[dict[str, Any]]]]:
    """Each snapshot that an event made: its id, its branch, and the files that it added or removed."""
    changes = changes_of(event.payload, event.position)
    if not changes:
        return
    branches: dict[int, str] = {}
    for update in table_updates(event):
        if isinstance(update, SetSnapshotRef):
            branches.setdefault(update.ref.snapshot_id, update.ref_name)
    found = store.entries(event.position)
    content = None if found is None else found.select(_COLUMNS)
    for snapshot_id, change in changes.items():
        rows: list[dict[str, Any]] = []
        for listed in change.added:
            if listed.position != event.position or not listed.row_count:
                continue
            if content is None:
                raise CorruptLogError(f"position {event.position}: its content files are missing")
            rows += content.slice(listed.row_offset, listed.row_count).to_pylist()
        yield snapshot_id, branches.get(snapshot_id), rows


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
    return FileChanges(branch, _NAMES[DataFileContent(content)], len(added), sum(added), len(removed), sum(removed))


def _from_summaries(snapshots: Iterable[Snapshot]) -> Iterator[FileChanges]:
    """The changes of snapshots whose files the log does not hold, as other engines make them, by their summaries."""
    totals: dict[str, list[int]] = {}
    for snapshot in snapshots:
        summary = snapshot.summary or {}
        for content, *keys in _SUMMARY:
            counts = [int(v) if (v := summary.get(k, "0")).isdecimal() else 0 for k in keys]
            known = totals.setdefault(content, [0, 0, 0, 0])
            totals[content] = [a + b for a, b in zip(known, counts, strict=True)]
    for content, (added, added_rows, removed, removed_rows) in totals.items():
        yield FileChanges(None, content, added, added_rows, removed, removed_rows)
