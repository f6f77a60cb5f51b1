"""A scan that a client asked for, planned over its table as it is: in one piece, or by parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.errors import ExpressionError, NoSuchSnapshotError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.bind import bind
from icecore.engine.expression.json.expression_json import from_json
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.formats.arrays import to_numbers
from icecore.engine.metadata.snapshot_range import SnapshotRange
from icecore.engine.scan.incremental_append import added_by
from icecore.engine.server.planning.deep_json import any_depth
from icecore.engine.server.planning.scan_parts import PlanTask, ScanPart, parts_of
from icecore.engine.server.planning.scan_request import ScanRequest
from icecore.engine.server.planning.task_texts import TaskWriter, metric_columns
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation, Snapshot
from icecore.projections.plan.planned_files import PlannedFiles
from icecore.projections.segments.entry_typing import METRIC_PREFIXES

if TYPE_CHECKING:
    from icecore.engine.metadata.fold import TableState
    from icecore.engine.table.table import Table
    from icecore.projections.plan.planner import Planner

WHOLE = "TRUE"


@frozen(eq=False)
class ServedScan:
    """A scan over the manifests `listed`, whose entries `e` satisfy `entries`; `request` says its snapshots by id."""

    planner: Planner
    state: TableState
    request: ScanRequest
    schema: Schema
    listed: Sequence[ListedManifest]
    entries: str
    bound: Expression

    @classmethod
    def of(cls, table: Table, asked: ScanRequest, schema_id: int | None = None) -> ServedScan:
        """The scan of a table. For a scan that was planned before, `schema_id` is the schema that its names are of.

        Such a scan without a snapshot is of a table that had none. Raises ValidationError, ExpressionError, and
        NoSuchSnapshotError.
        """
        state, planner = table._state, table._planner
        metadata = state.metadata
        snapshot = _last_snapshot(metadata, asked, is_new=schema_id is None)
        schema = _schema(metadata, snapshot, asked) if schema_id is None else metadata.schema_by_id(schema_id)
        asked.check_names(schema, metadata.schemas)
        listed: Sequence[ListedManifest] = ()
        entries = WHOLE
        if asked.start_snapshot_id is not None:
            listed, entries = added_by(planner.repository, state, _appends(metadata, asked))
        elif snapshot is not None:
            asked = evolve(asked, snapshot_id=snapshot.snapshot_id)
            listed = planner.list_manifests(state, snapshot)
        schema, bound = _bound(asked, schema, metadata.schema())
        return cls(planner, state, asked, schema, listed, entries, bound)

    def plan(self, writer: TaskWriter, most: int, head: bytes) -> Iterator[bytes]:
        """The JSON object of the plan, which begins with `head`: all files if they are at most `most`, or a first part.

        The other parts are then `plan-tasks`. Raises what `Planner.plan` raises.
        """
        planned, metrics = self._planned(None, most)
        if not planned.is_beyond(most):
            return self._texts(writer, *self._with_enough_rows(planned, metrics), head, ())
        counts = self.planner.count_by_manifest(self.state, self.listed, self.bound, self.schema, self.entries)
        first, *others = parts_of(counts, self.listed, most)
        planned, metrics = self._planned(first, None)
        enough, metrics = self._with_enough_rows(planned, metrics)
        if enough is not planned:
            others = []
        return self._texts(writer, enough, metrics, head, [self._task(part).token() for part in others])

    def plan_part(self, writer: TaskWriter, part: ScanPart) -> Iterator[bytes]:
        """The JSON object of one part of the plan. Raises what `Planner.plan` raises."""
        return self._texts(writer, *self._planned(part, None), b"", ())

    def _task(self, part: ScanPart) -> PlanTask:
        return PlanTask(self.state.stream, evolve(self.request, select=()), self.schema.schema_id, part)

    def _planned(self, part: ScanPart | None, most: int | None) -> tuple[PlannedFiles, pa.Table]:
        ids = self.request.stats_ids(self.schema)
        columns = [f"{prefix}_{i}" for i in ids for prefix in METRIC_PREFIXES]
        entries = self.entries if part is None else part.condition(self.entries)
        only = None if part is None else part.places
        return self.planner.plan_with_columns(
            self.state, self.listed, self.bound, self.schema, columns, entries, only=only, most=most
        )

    def _with_enough_rows(self, planned: PlannedFiles, metrics: pa.Table) -> tuple[PlannedFiles, pa.Table]:
        """The first files that are sure to have the rows that are asked for; the plan itself where all are needed."""
        wanted, count = self.request.min_rows_requested, planned.files.num_rows
        if not wanted or not count:
            return planned, metrics
        rows = np.maximum(to_numbers(planned.files["record_count"]), 0)
        known = np.cumsum(np.where(planned.are_wholly_wanted, rows, 0))
        needed = int(np.searchsorted(known, wanted)) + 1
        return (planned, metrics) if needed >= count else (planned.of_rows(np.arange(needed)), metrics.slice(0, needed))

    def _texts(
        self, writer: TaskWriter, planned: PlannedFiles, metrics: pa.Table, head: bytes, tokens: Sequence[str]
    ) -> Iterator[bytes]:
        row_filter = None if self.request.filter is None else any_depth(self.request.filter)
        deletes = writer.delete_files(planned)
        tasks = writer.tasks(planned, metric_columns(metrics), row_filter)
        return _object(head, deletes, tasks, orjson.dumps(tokens) if tokens else b"")


def _object(head: bytes, deletes: bytes, tasks: Iterator[bytes], tokens: bytes) -> Iterator[bytes]:
    yield b"".join((b"{", head, b'"delete-files":[' + deletes + b"]," if deletes else b"", b'"file-scan-tasks":['))
    yield from tasks
    yield b"".join((b"]", b',"plan-tasks":' + tokens if tokens else b"", b"}"))


def _last_snapshot(metadata: TableMetadata, asked: ScanRequest, *, is_new: bool) -> Snapshot | None:
    """The snapshot that is read, or with which a range ends; None for a table without one."""
    named = asked.snapshot_id if asked.snapshot_id is not None else asked.end_snapshot_id
    if named is None:
        return metadata.snapshot_by_ref(MAIN_BRANCH) if is_new else None
    found = metadata.snapshot_by_id(named)
    if found is None:
        raise NoSuchSnapshotError(f"there is no snapshot {named} to scan")
    return found


def _schema(metadata: TableMetadata, snapshot: Snapshot | None, asked: ScanRequest) -> Schema:
    if asked.use_snapshot_schema and snapshot is not None and snapshot.schema_id is not None:
        return metadata.schema_by_id(snapshot.schema_id)
    return metadata.schema()


def _bound(asked: ScanRequest, schema: Schema, latest: Schema) -> tuple[Schema, Expression]:
    """The schema of the filter's names, which is the table's own where the snapshot's lacks them, and the bound filter.

    Clients ask for the snapshot's schema and yet name columns that were added later, which are null there. Raises
    ExpressionError.
    """
    try:
        unbound = TRUE if asked.filter is None else from_json(asked.filter, schema, asked.case_sensitive)
        return schema, bind(unbound, schema, asked.case_sensitive)
    except ExpressionError:
        if not asked.use_snapshot_schema or schema.schema_id == latest.schema_id:
            raise
        unbound = from_json(asked.filter, latest, asked.case_sensitive)
        return latest, bind(unbound, latest, asked.case_sensitive)


def _appends(metadata: TableMetadata, asked: ScanRequest) -> list[Snapshot]:
    """The appends after the start of a range, up to its end."""
    found = SnapshotRange.of(
        metadata,
        from_exclusive=asked.start_snapshot_id,
        from_inclusive=None,
        to_inclusive=asked.end_snapshot_id,
        branch=None,
    )
    return [s for s in found.snapshots if s.operation == Operation.APPEND]
