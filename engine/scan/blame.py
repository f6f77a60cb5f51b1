"""Blame: the commit that brought each row, however often the row was written again since.

With row lineage, a row itself says which commit changed it last (Spec: Row Lineage). Other rows are followed back: from
their data file to the commit that added the file, and on to an older file if that commit removed an equal row from it,
as a compaction or an update of a neighbouring row does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from icecore.engine.common.ids import signed
from icecore.engine.common.lazy_property import lazy_property
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.narrow import narrow
from icecore.engine.data.arrow.nested import no_rows
from icecore.engine.data.arrow.row_codes import occurrences, row_codes
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.changed_file_rows import ChangedRowsReader, FileRows
from icecore.engine.errors import MissingFileError, ValidationError
from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import snapshots_of
from icecore.engine.events.manifest_changes import ListedManifest, changes_of
from icecore.engine.formats.arrays import Longs
from icecore.engine.metadata.fold import TableState
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.scan.changelog import manifests_around
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.scan.relation.missing_files import telling_expiry
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.spec.reserved import DELETED, LAST_UPDATED_SEQUENCE_NUMBER, LINEAGE, POS, ROW_ID, with_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.projections.entries.manifest_entries import rows_beside
from icecore.projections.plan.planner import PlannedFiles, Planner
from icecore.projections.stored_plans.plan_difference import plan_difference

COMMIT = pa.schema(
    [
        ("_position", pa.int64()),
        ("_recorded_at", pa.timestamp("ms", "UTC")),
        ("_actor", pa.string()),
        ("_message", pa.string()),
        ("_operation", pa.string()),
        ("_snapshot_id", pa.int64()),
        ("_is_exact", pa.bool_()),
    ]
)
"""The columns that tell the commit of a row, ahead of the row's own. Unless `_is_exact` it may be an earlier one."""
_ADDED_BY, _PATH, _NUMBER = _INTERNAL = ("__icecore_added_by", "__icecore_path", "__icecore_number")


@frozen
class Origin:
    """The commit that brought rows: its event, None where the log has none, and its snapshot.

    It is not exact where an earlier commit, whose snapshot or event is gone, may have brought them.
    """

    event: Event | None
    snapshot: Snapshot | None
    is_exact: bool

    def row(self) -> dict[str, Any]:
        """The values of COMMIT."""
        event, snapshot = self.event, self.snapshot
        who = None if event is None else event.provenance
        recorded_at = event.recorded_at_ms if event else snapshot.timestamp_ms if snapshot else None
        return {
            "_position": None if event is None else event.position,
            "_recorded_at": recorded_at,
            "_actor": who and who.actor,
            "_message": who and who.message,
            "_operation": None if snapshot is None else snapshot.operation,
            "_snapshot_id": None if snapshot is None else signed(snapshot.snapshot_id),
            "_is_exact": self.is_exact,
        }


@define(slots=False)
class Blame:
    """The rows of a scan with their origins."""

    planner: Planner
    state: TableState
    scan: DataScan
    _brought: dict[int, tuple[Event, Snapshot]] = field(factory=dict, init=False)
    _reverts: set[int] = field(factory=set, init=False)
    _deletes: DeleteCache = field(factory=DeleteCache, init=False)

    def to_arrow(self) -> pa.Table:
        """A row for each of the scan's, with COMMIT and then the selected columns, in the order of the files.

        Raises MissingArchiveError, CorruptLogError, ValidationError as `_check_columns` does.
        """
        self._check_columns()
        self._read_log()
        snapshot = self.scan.snapshot
        listed = () if snapshot is None else self.planner.list_manifests(self.state, snapshot)
        with telling_expiry(self.planner.repository, self.state, filter(None, (snapshot,))):
            rows = self._rows(*self._plan(listed))
            origins = self._origins(rows)
        told = pa.Table.from_pylist([o.row() for o in origins], schema=COMMIT)
        wanted = schema_to_arrow(self.scan.projection, with_ids=False)
        selected = pa.Table.from_batches((narrow(b, wanted) for b in rows.to_batches()), wanted)
        for f, column in zip(wanted, selected.columns, strict=True):
            told = told.append_column(f, column)
        return told

    def _check_columns(self) -> None:
        """Raises ValidationError for columns with the names of COMMIT or internal ones, and for `_deleted`."""
        taken = set(COMMIT.names) & {f.name for f in self.scan.projection.fields}
        taken |= set(_INTERNAL) & {f.name for f in self.scan.schema.fields}
        if taken:
            raise ValidationError(f"blame needs the names of the table's columns {sorted(taken)} for its own")
        if DELETED in self.scan.projection.fields:
            raise ValidationError(f"blame has no {DELETED.name!r}: it is of the rows that are there")

    def _read_log(self) -> None:
        store, state = self.planner.repository.store, self.state
        for event in store.stream_events(state.stream, 0, state.position):
            for snapshot in snapshots_of(event)[0]:
                known = self._brought.setdefault(signed(snapshot.snapshot_id), (event, snapshot))
                if known[0] is event and event.provenance.causation_id is not None:
                    self._reverts.add(signed(snapshot.snapshot_id))

    # Rows

    @property
    def _read_schema(self) -> Schema:
        """The columns of the table, those that rows are followed by, and selected metadata columns."""
        own, always = self.scan.schema.field_ids, (*LINEAGE, POS)
        more = (f for f in self.scan.projection.fields if f.field_id not in own and f not in always)
        return with_columns(self.scan.schema, *always, *more)

    @property
    def _reader(self) -> ChangedRowsReader:
        state = self.state
        storage, metadata = self.planner.repository.storage_of(state), state.metadata
        mapping = NAME_MAPPING.find(metadata.properties)
        return ChangedRowsReader(self.scan.schema, metadata.specs, storage, mapping, metadata.schemas)

    def _plan(self, listed: Sequence[ListedManifest]) -> tuple[PlannedFiles, dict[str, int]]:
        """The plan over manifests, and the snapshot that added each planned file by path."""
        scan = self.scan
        planned, columns = self.planner.plan_with_columns(
            self.state, listed, scan.row_filter, scan.schema, ["snapshot_id"]
        )
        if not planned.files.num_rows:
            return planned, {}
        paths = planned.files["file_path"].to_pylist()
        return planned, dict(zip(paths, columns["snapshot_id"].to_pylist(), strict=True))

    def _rows(self, planned: PlannedFiles, added_by: Mapping[str, int]) -> pa.Table:
        """The planned rows, each with the snapshot that added its file, up to the limit."""
        found, left = [], self.scan.limit
        for task in planned.tasks():
            rows = self._read(FileRows(task), added_by)
            found.append(rows if left is None else rows.slice(0, left))
            left = None if left is None else left - found[-1].num_rows
            if left == 0:
                break
        return pa.concat_tables([self._empty, *found])

    def _read(self, rows: FileRows, added_by: Mapping[str, int]) -> pa.Table:
        table = self._reader.table(rows, self._read_schema, self._deletes)
        snapshot_id = pa.scalar(added_by[rows.task.file.file_path], pa.int64())
        table = table.append_column(_ADDED_BY, pa.repeat(snapshot_id, table.num_rows))
        return table.append_column(_PATH, pa.repeat(pa.scalar(rows.task.file.file_path), table.num_rows))

    @property
    def _empty(self) -> pa.Table:
        schema = schema_to_arrow(self._read_schema, with_ids=False)
        return no_rows(schema.append(pa.field(_ADDED_BY, pa.int64())).append(pa.field(_PATH, pa.string())))

    # Origins

    def _origins(self, rows: pa.Table) -> list[Origin]:
        origins: list[Origin | None] = [None] * rows.num_rows
        numbered = rows.append_column(_NUMBER, pa.array(np.arange(rows.num_rows)))
        waiting: dict[int, list[pa.Table]] = {}
        self._put(numbered, origins, waiting)
        while waiting:
            latest = max(waiting, key=self._age)
            left = pa.concat_tables(waiting.pop(latest))
            self._follow(latest, left, origins, waiting)
        return [o for o in origins if o is not None]

    def _put(self, rows: pa.Table, origins: list[Origin | None], waiting: dict[int, list[pa.Table]]) -> None:
        """Notes the origins of rows whose lineage tells them; others wait under the snapshot that added their file."""
        by_number = self._by_sequence_number
        numbers = rows[LAST_UPDATED_SEQUENCE_NUMBER.name]
        told = pc.fill_null(pc.is_in(numbers, pa.array(list(by_number), pa.int64())), False)
        for row, number in zip(rows.filter(told)[_NUMBER].to_pylist(), numbers.filter(told).to_pylist(), strict=True):
            origins[row] = Origin(*by_number[number], is_exact=True)
        rest = rows.filter(pc.invert(told))
        for snapshot_id in pc.unique(rest[_ADDED_BY]).to_pylist():
            waiting.setdefault(snapshot_id, []).append(rest.filter(pc.equal(rest[_ADDED_BY], snapshot_id)))

    @lazy_property
    def _by_sequence_number(self) -> dict[int, tuple[Event, Snapshot]]:
        """The commits that a row's last updated sequence number can be trusted to name.

        A row from before the table had row ids gets its number when it is written again: that of the rewriting commit.
        So in a table that was upgraded only the numbers of appends are trusted.
        """
        known = [(e, s) for e, s in self._brought.values() if s.operation != Operation.REPLACE]
        is_upgraded = any(s.first_row_id is None for _, s in self._brought.values())
        return {
            s.sequence_number: (e, s)
            for e, s in known
            if s.first_row_id is not None and (s.operation == Operation.APPEND or not is_upgraded)
        }

    def _age(self, snapshot_id: int) -> tuple[int, int]:
        known = self._snapshot(snapshot_id)
        return (0, 0) if known is None else (known.sequence_number, known.timestamp_ms)

    def _snapshot(self, snapshot_id: int) -> Snapshot | None:
        brought = self._brought.get(snapshot_id)
        return self.state.metadata.snapshot_by_id(snapshot_id % 2**64) if brought is None else brought[1]

    def _follow(
        self, snapshot_id: int, rows: pa.Table, origins: list[Origin | None], waiting: dict[int, list[pa.Table]]
    ) -> None:
        """Notes the origins of rows in files that a snapshot added, or follows the rows to files that it removed."""
        snapshot = self._snapshot(snapshot_id)
        event = self._brought.get(snapshot_id, (None, None))[0]
        if event is not None and snapshot_id in self._reverts:
            rows = self._not_brought_back(event, rows, waiting)
        # A revert brings back files: an earlier commit, not found above, may have added the files of the rows left.
        is_exact = snapshot is not None and snapshot_id not in self._reverts
        if rows.num_rows and snapshot is not None and snapshot.operation != Operation.APPEND:
            before = self._rows_gone(snapshot)
            is_exact = is_exact and before is not None
            if before is not None:
                rows = self._matched(rows, before, origins, waiting)
        for number in rows[_NUMBER].to_pylist():
            origins[number] = Origin(event, snapshot, is_exact)

    def _rows_gone(self, snapshot: Snapshot) -> pa.Table | None:
        """The rows that a snapshot removed, with files or by deletes; None where it or its parent has expired."""
        metadata = self.state.metadata
        parent = snapshot.parent_snapshot_id
        there = {snapshot.snapshot_id} if parent is None else {snapshot.snapshot_id, parent}
        if not there <= metadata.snapshots_by_id.keys():
            return None
        before, after = manifests_around(self.planner.repository, self.state, snapshot)
        (gone, added_by), (come, _) = self._plan(before), self._plan(after)
        difference = plan_difference(gone, come)
        parts = [FileRows(task) for task in difference.gone]
        parts += [self._reader.parted(*pair, self._deletes)[0] for pair in difference.changed]
        return pa.concat_tables([self._empty, *(self._read(p, added_by) for p in parts if p.has_any)])

    def _matched(
        self, rows: pa.Table, before: pa.Table, origins: list[Origin | None], waiting: dict[int, list[pa.Table]]
    ) -> pa.Table:
        """The rows that equal none in `before`; the others are followed on from the row that they equal."""
        at_rows, at_before = _same_rows(rows, before, [f.name for f in self.scan.schema.fields])
        carried = before.take(pa.array(at_before)).append_column(_NUMBER, rows[_NUMBER].take(pa.array(at_rows)))
        if carried.num_rows:
            self._put(carried, origins, waiting)
        new = np.ones(rows.num_rows, bool)
        new[at_rows] = False
        return rows.filter(pa.array(new))

    def _not_brought_back(self, revert: Event, rows: pa.Table, waiting: dict[int, list[pa.Table]]) -> pa.Table:
        """The rows in files that a revert did not bring back; others wait under the commit that first added them."""
        first = self._first_added(revert, set(pc.unique(rows[_PATH]).to_pylist()))
        for path, snapshot_id in first.items():
            of_file = rows.filter(pc.equal(rows[_PATH], path))
            place = of_file.schema.get_field_index(_ADDED_BY)
            added_by = pa.repeat(pa.scalar(snapshot_id, pa.int64()), of_file.num_rows)
            waiting.setdefault(snapshot_id, []).append(of_file.set_column(place, _ADDED_BY, added_by))
        return rows.filter(pc.invert(pc.is_in(rows[_PATH], pa.array(list(first), pa.string()))))

    def _first_added(self, before: Event, paths: set[str]) -> dict[str, int]:
        """The snapshot that first added each file, for the files that were added before an event."""
        found: dict[str, int] = {}
        for event, snapshot in self._brought.values():
            if event.position < before.position and not paths <= found.keys():
                for path in paths.difference(found).intersection(self._added(event, snapshot)):
                    found[path] = signed(snapshot.snapshot_id)
        return found

    def _added(self, event: Event, snapshot: Snapshot) -> Iterator[str]:
        """The paths that a snapshot added, by the log or, where another engine made it, by manifests still there."""
        repository, storage = self.planner.repository, self.planner.repository.storage_of(self.state)
        change = changes_of(event.payload, event.position).get(snapshot.snapshot_id)
        if change is None:
            with contextlib.suppress(MissingFileError):
                for listed in repository.list_manifests(self.state, snapshot):
                    if listed.manifest.added_snapshot_id == snapshot.snapshot_id:
                        yield from _added_paths(repository.entries.inherited(self.state.stream, listed, storage))
            return
        for entries in rows_beside(event.position, change, repository.entries.beside(event.position)):
            yield from _added_paths(entries)


def _added_paths(entries: pa.Table) -> list[str]:
    added = entries.filter(pc.equal(entries["status"], int(ManifestEntryStatus.ADDED)))
    paths: list[str] = added["file_path"].to_pylist()
    return paths


def _same_rows(rows: pa.Table, before: pa.Table, columns: Iterable[str]) -> tuple[Longs, Longs]:
    """The indexes of rows that are the same on both sides: in all values, and in row id where the older row has one."""
    both = {n: pa.chunked_array([*rows[n].chunks, *before[n].chunks], rows[n].type) for n in (*columns, ROW_ID.name)}
    split, total = rows.num_rows, rows.num_rows + before.num_rows
    ids = both.pop(ROW_ID.name)
    values = row_codes(both.values(), total)
    with_ids = row_codes([pa.array(values), ids], total)
    has_id = np.asarray(ids.is_valid().combine_chunks())
    found: list[tuple[Longs, Longs]] = []
    free_rows, free_before = np.ones(split, bool), np.ones(total - split, bool)
    for codes, old in ((with_ids, has_id[split:]), (values, ~has_id[split:])):
        at_rows, at_before = np.flatnonzero(free_rows), np.flatnonzero(free_before & old)
        pair = _paired(codes[:split][at_rows], codes[split:][at_before], total)
        found.append((at_rows[pair[0]], at_before[pair[1]]))
        free_rows[found[-1][0]] = False
        free_before[found[-1][1]] = False
    return tuple(np.concatenate(side).astype(np.int64) for side in zip(*found, strict=True))  # type: ignore[return-value]


def _paired(one: Longs, other: Longs, total: int) -> tuple[Longs, Longs]:
    """The indexes of equal codes on both sides, each used in one pair at most."""
    width = total + 1
    _, at_one, at_other = np.intersect1d(
        one * width + occurrences(one), other * width + occurrences(other), return_indices=True
    )
    return at_one, at_other
