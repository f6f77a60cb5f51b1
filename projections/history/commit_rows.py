"""The snapshots that each event of a table brought, and the files that each added or removed, from the log alone.

Of snapshots that another engine made the log knows what their summary says, and their files only as far as their
manifests are still listed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.common.ids import signed
from icecore.engine.common.text import number_in
from icecore.engine.errors import MissingFileError
from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import snapshots_of
from icecore.engine.events.manifest_changes import ManifestChanges, changes_of
from icecore.engine.formats import arrays
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.entries.manifest_entries import rows_beside
from icecore.projections.history.logged_tables import OF_EVENT, LoggedTable, LoggedTables, of_event
from icecore.projections.history.past_metadata import PastMetadata
from icecore.projections.inspect.entry_batches import ROWS_OF_A_BATCH, TableEntries, faults_told
from icecore.projections.inspect.file_rows_of_entries import EntryColumns
from icecore.projections.inspect.uniform_batch import uniform_file_rows
from icecore.projections.inspect.uniform_rows import METRICS, UNIFORM_FILES, UniformColumns

_OF_SNAPSHOT = (
    pa.field("snapshot_id", pa.int64()),
    pa.field("parent_id", pa.int64()),
    pa.field("branch", pa.string()),
    pa.field("operation", pa.string()),
)
_COUNTS = ("data_files", "delete_files", "records")
_PATHS = ("added_file_paths", "removed_file_paths")
COUNTED = (*(f"{verb}_{what}" for verb in ("added", "removed") for what in _COUNTS), *_PATHS)
"""The columns of `commits` for which the files of each commit are read."""
COMMITS = pa.schema(
    [
        *OF_EVENT,
        *_OF_SNAPSHOT,
        ("committed_at", pa.timestamp("ms", "UTC")),
        *((name, pa.list_(pa.string()) if name in _PATHS else pa.int64()) for name in COUNTED),
        ("summary", pa.map_(pa.string(), pa.string())),
    ]
)
_OF_FILE = [
    UNIFORM_FILES.field(name)
    for name in ("content", "file_path", "file_format", "spec_id", "partition", "partition_values", "record_count")
]
FILE_HISTORY = pa.schema(
    [
        *OF_EVENT,
        *_OF_SNAPSHOT,
        ("change", pa.string()),
        *_OF_FILE,
        *(UNIFORM_FILES.field(name) for name in ("file_size_in_bytes", "readable_metrics")),
    ]
)
_Of = TypeVar("_Of")
_What = TypeVar("_What")
_Files = tuple[pa.Table, Mapping[str, Any]]
"""Entries of one snapshot, and the values of OF_EVENT and of the snapshot."""
_SUMMARY = {
    "added_data_files": "added-data-files",
    "added_delete_files": "added-delete-files",
    "added_records": "added-records",
    "removed_data_files": "deleted-data-files",
    "removed_delete_files": "removed-delete-files",
    "removed_records": "deleted-records",
}
_TELLING = {*_SUMMARY.values(), "total-records", "total-data-files"}


@frozen(eq=False)
class Brought:
    """A snapshot that an event brought, and the entries that it added or deleted; None where the log has none."""

    event: Event
    snapshot: Snapshot
    branch: str | None
    entries: pa.Table | None

    def values(self, table: LoggedTable) -> dict[str, Any]:
        """The values of OF_EVENT and of the snapshot."""
        return {
            **of_event(table, self.event),
            "snapshot_id": signed(self.snapshot.snapshot_id),
            "parent_id": signed(self.snapshot.parent_snapshot_id),
            "branch": self.branch,
            "operation": self.snapshot.operation,
        }


def brought(
    log: LoggedTables, table: LoggedTable, *, with_entries: bool = True, past: PastMetadata | None = None
) -> Iterator[Brought]:
    """The snapshots of a table's events, in their order, each when it came first. Raises CorruptLogError.

    `past` has taken the events up to that of the snapshot.
    """
    known: set[int] = set()
    for event in log.events(table):
        if past is not None:
            past.take(event)
        changes = changes_of(event.payload, event.position) if with_entries else {}
        snapshots, branches = snapshots_of(event)
        content = log.repository.entries.beside(event.position) if changes else None
        for snapshot in snapshots:
            if snapshot.snapshot_id not in known:
                known.add(snapshot.snapshot_id)
                change = changes.get(snapshot.snapshot_id)
                entries = None if change is None else _changed(event, change, content)
                yield Brought(event, snapshot, branches.get(snapshot.snapshot_id), entries)


def _changed(event: Event, change: ManifestChanges, content: pa.Table | None) -> pa.Table | None:
    """The entries of an event's content that a snapshot added or deleted."""
    parts = rows_beside(event.position, change, content)
    if not parts:
        return None if content is None else content.slice(0, 0)
    entries = pa.concat_tables(parts)
    changed = arrays.to_numbers(entries["status"]) != int(ManifestEntryStatus.EXISTING)
    return entries if changed.all() else entries.filter(arrays.booleans(changed))


def commits(log: LoggedTables, table: LoggedTable, *, with_files: bool = True) -> list[pa.Table]:
    """The rows of `commits`; without files COUNTED are only what summaries tell."""
    rows = []
    for each in brought(log, table, with_entries=with_files):
        summary = each.snapshot.summary or {}
        row = {
            **each.values(table),
            "committed_at": each.snapshot.timestamp_ms,
            "summary": list(summary.items()),
            **_told(summary),
        }
        rows.append(row if each.entries is None else row | _counted(each.entries))
    return [pa.Table.from_pylist(rows, schema=COMMITS)]


def _counted(entries: pa.Table) -> dict[str, Any]:
    """The files that entries add and remove."""
    # Not by Arrow, whose calls take longer than the few entries that most commits have.
    found: dict[str, Any] = {}
    paths = entries["file_path"].to_pylist()
    statuses, contents, records = (arrays.to_numbers(entries[n]) for n in ("status", "content", "record_count"))
    for verb, status in (("added", ManifestEntryStatus.ADDED), ("removed", ManifestEntryStatus.DELETED)):
        data = np.flatnonzero((statuses == int(status)) & (contents == 0))
        deletes = np.flatnonzero((statuses == int(status)) & (contents != 0))
        found[f"{verb}_data_files"], found[f"{verb}_delete_files"] = len(data), len(deletes)
        found[f"{verb}_records"] = int(records[data].sum())
        found[f"{verb}_file_paths"] = [paths[i] for i in (*data, *deletes)]
    return found


def _told(summary: Mapping[str, str]) -> dict[str, int | None]:
    """The numbers that a summary tells. Writers leave out what is 0, so where one is there the others are 0."""
    missing = "0" if _TELLING & summary.keys() else None
    return {name: told_number(summary.get(key, missing)) for name, key in _SUMMARY.items()}


def told_number(text: str | None) -> int | None:
    """The number that a summary tells as text; None where it is none."""
    return None if text is None else number_in(text)


@frozen(eq=False)
class ChangedFiles:
    """The files that snapshots of a table added or removed in one of the eras of its partition specs.

    `columns` are those of the table, `found` the entries by their snapshots.
    """

    columns: UniformColumns
    found: Sequence[_Files]

    @classmethod
    def of(cls, log: LoggedTables, table: LoggedTable) -> list[ChangedFiles]:
        """The files of a table, by era. Raises ValidationError, CorruptLogError, StorageError."""
        loaded, past = log.load(table.stream), PastMetadata()
        outside: dict[int, tuple[int, Brought]] = {}
        found: list[tuple[int, _Files]] = []
        with faults_told(loaded.state):
            for each in brought(log, table, past=past):
                if each.entries is None:
                    outside[each.snapshot.snapshot_id] = past.era, each
                elif each.entries.num_rows:
                    found.append((past.era, (each.entries, each.values(table))))
            for snapshot_id, entries in _from_manifests(loaded, outside.keys()):
                era, of = outside[snapshot_id]
                found.append((era, (entries, of.values(table))))
        return [
            cls(UniformColumns(m, EntryColumns.of_history(m)), [files for of, files in found if of == era])
            for era, m in enumerate(past.of_eras(loaded.state.metadata))
        ]

    @property
    def count(self) -> int:
        """The number of files."""
        return sum(entries.num_rows for entries, _ in self.found)


def file_history(log: LoggedTables, table: LoggedTable, metrics: bool = True) -> list[pa.Table]:
    """The rows of `file_history`; without `metrics` these are null."""
    eras = ChangedFiles.of(log, table)
    with faults_told(log.load(table.stream).state):
        return [_of_files(era.columns, batch, metrics) for era in eras for batch in _batches(era.found)]


def files_of_many(tables: Sequence[ChangedFiles]) -> list[pa.Table]:
    """The rows of `file_history` of tables with a few files; entries at fault raise an error of any kind."""
    found = [files for t in tables for files in t.found]
    if not found:
        return []
    entries = pa.concat_tables([e for e, _ in found]).combine_chunks()
    files = uniform_file_rows([t.columns for t in tables], [t.count for t in tables], entries)
    return [_told_of(files, entries, found)]


def _batches(found: Iterable[_Files]) -> Iterator[list[_Files]]:
    """The files of snapshots in batches, few of which are small: each batch costs some milliseconds."""
    held, rows = list[_Files](), 0
    for entries, values in found:
        held.append((entries, values))
        rows += entries.num_rows
        if rows >= ROWS_OF_A_BATCH:
            yield held
            held, rows = [], 0
    if held:
        yield held


def _from_manifests(table: TableEntries, outside: Collection[int]) -> Iterator[tuple[int, pa.Table]]:
    """The entries that snapshots of other engines added or deleted, in manifests of theirs that are still listed."""
    if not outside:
        return
    is_purged, snapshots = table.state.purged_at is not None, table.state.metadata.snapshots
    every = _there(lambda s: table.listed(s.snapshot_id), snapshots) if is_purged else table.all_listed()
    listed = {m.manifest.manifest_path: m for m in every if m.is_foreign}
    wanted = [m for m in listed.values() if m.manifest.added_snapshot_id in outside]
    for batch in _there(lambda m: table.every([m]), wanted) if is_purged else table.every(wanted):
        changed = batch.filter(pc.not_equal(batch["status"], int(ManifestEntryStatus.EXISTING)))
        for snapshot_id in pc.unique(changed["snapshot_id"]).to_pylist():
            if snapshot_id in outside:
                yield snapshot_id, changed.filter(pc.equal(changed["snapshot_id"], snapshot_id))


def _there(read: Callable[[_Of], Iterable[_What]], of: Iterable[_Of]) -> Iterator[_What]:
    """The results of reading some things, except those whose files are missing, as others' of a purged table may be."""
    for each in of:
        with contextlib.suppress(MissingFileError):
            yield from list(read(each))


def _of_files(columns: UniformColumns, found: Sequence[_Files], metrics: bool) -> pa.Table:
    """The rows of the files of snapshots."""
    entries = pa.concat_tables([e for e, _ in found]).combine_chunks()
    files = columns.file_rows(entries) if metrics else columns.plain_rows(entries)
    return _told_of(files, entries, found)


def _told_of(files: pa.Table, entries: pa.Table, found: Sequence[_Files]) -> pa.Table:
    """The rows of files with the snapshots that changed them."""
    place = pa.array(np.repeat(np.arange(len(found)), [len(e) for e, _ in found]))
    made = {
        name: pa.array([values[name] for _, values in found], FILE_HISTORY.field(name).type).take(place)
        for name in found[0][1]
    }
    made["change"] = pa.array(["", "added", "removed"]).take(entries["status"])
    if "readable_metrics" not in files.column_names:
        made["readable_metrics"] = pa.nulls(len(entries), METRICS)
    return pa.table([made[n] if n in made else files[n] for n in FILE_HISTORY.names], schema=FILE_HISTORY)
