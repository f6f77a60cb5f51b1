"""Incremental append scans: the rows that appends added between two snapshots.

The rules are those of Java's IncrementalAppendScan and of PyIceberg's: only snapshots of the operation `append` count,
their new files are read whole, and what other snapshots did before or after, deletes too, is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define

from icecore.engine.common.text import short_repr
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.bind import bind
from icecore.engine.expression.sql.parse import FilterLike, parse_filter
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.snapshot_range import SnapshotRange
from icecore.engine.repository.repository import Repository
from icecore.engine.scan.data_scan import DataScan
from icecore.engine.scan.refine_scan import checked_limit, remaking
from icecore.engine.spec.content_file import ManifestContent, ManifestEntryStatus
from icecore.engine.spec.snapshot import Operation, Snapshot
from icecore.projections.plan.planner import Planner

_INT64_MAX = 2**63 - 1


@define(slots=False)
class IncrementalAppendScan(DataScan):
    """A scan of the data files that append snapshots added. It is read, planned and explained as any scan.

    `snapshots` are the appends of the range, oldest first. Rows have the table's current schema.
    """

    __repr__ = short_repr

    snapshots: tuple[Snapshot, ...] = ()

    @classmethod
    def between(
        cls,
        planner: Planner,
        state: TableState,
        snapshots: SnapshotRange,
        row_filter: FilterLike,
        *,
        selected_fields: tuple[str, ...],
        case_sensitive: bool,
        limit: int | None,
        parameters: Mapping[str, Any] | Sequence[Any] | None,
    ) -> IncrementalAppendScan:
        """The scan of a range of snapshots. Raises ExpressionError, ValidationError."""
        limit = checked_limit(limit)
        schema = state.metadata.schema()
        unbound = parse_filter(row_filter, parameters)
        bound = bind(unbound, schema, case_sensitive)
        again = remaking(
            partial(cls.between, planner, state, snapshots),
            row_filter=unbound,
            selected_fields=selected_fields,
            case_sensitive=case_sensitive,
            limit=limit,
        )
        appends = tuple(s for s in snapshots.snapshots if s.operation == Operation.APPEND)
        last = snapshots.snapshots[-1] if snapshots.snapshots else None
        scan = cls(planner, state, last, schema, bound, selected_fields, case_sensitive, limit, appends, again=again)
        scan.projection  # noqa: B018 - an unknown column is an error now, not when rows are read
        return scan

    def _manifests(self) -> tuple[tuple[ListedManifest, ...], str]:
        return added_by(self._planner.repository, self._state, self.snapshots)


def added_by(
    repository: Repository, state: TableState, snapshots: Iterable[Snapshot]
) -> tuple[tuple[ListedManifest, ...], str]:
    """The data manifests with files that the snapshots added, and an SQL condition on entries `e` to select those."""
    wanted = {s.snapshot_id: s for s in snapshots}
    found: dict[str, ListedManifest] = {}
    for snapshot in wanted.values():
        for listed in repository.list_manifests(state, snapshot):
            manifest = listed.manifest
            # Each snapshot's new files are in manifests of its own; later lists may have merged these manifests away,
            # or given them row ids after an upgrade (RL7), so the last listing counts.
            if manifest.content is ManifestContent.DATA and manifest.added_snapshot_id in wanted:
                found[manifest.manifest_path] = listed
    # Entries hold snapshot ids as int64, so a larger id is in none.
    ids = ", ".join(str(i) for i in sorted(wanted) if i <= _INT64_MAX)
    entries = f"e.status = {int(ManifestEntryStatus.ADDED)} AND e.snapshot_id IN ({ids})" if ids else "FALSE"
    return tuple(found.values()), entries
