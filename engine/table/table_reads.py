"""The reads that a table offers: scans, named plans, changes between snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from icecore.engine.common.identifiers import names_of
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.sql.parse import parse_filter
from icecore.engine.expression.timestamps import TimestampLike
from icecore.engine.table.loaded_table import TableHandle

if TYPE_CHECKING:
    from icecore.engine.scan.changelog import IncrementalChangelogScan
    from icecore.engine.scan.data_scan import DataScan
    from icecore.engine.scan.incremental_append import IncrementalAppendScan
    from icecore.engine.scan.named_plan import NamedPlan

Filter = str | Expression | None


class TableReads(TableHandle):
    """The reads of a table."""

    def scan(
        self,
        row_filter: Filter = None,
        *,
        selected_fields: Sequence[str] = ("*",),
        snapshot_id: int | None = None,
        ref: str | None = None,
        as_of: TimestampLike | None = None,
        case_sensitive: bool = True,
        limit: int | None = None,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> DataScan:
        """A scan of the current snapshot, of one by id, a branch or tag, or a time (`as_of`, see `timestamps`).

        Raises ExpressionError, NoSuchSnapshotError, ValidationError.
        """
        from icecore.engine.scan.data_scan import DataScan

        return DataScan.of(
            self._planner,
            self._state,
            row_filter,
            selected_fields=names_of(selected_fields, "selected_fields"),
            snapshot_id=snapshot_id,
            ref=ref,
            as_of=as_of,
            case_sensitive=case_sensitive,
            limit=limit,
            parameters=parameters,
        )

    def incremental_append_scan(
        self,
        row_filter: Filter = None,
        *,
        from_snapshot_id_exclusive: int | None = None,
        from_snapshot_id_inclusive: int | None = None,
        to_snapshot_id_inclusive: int | None = None,
        branch: str | None = None,
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool = True,
        limit: int | None = None,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> IncrementalAppendScan:
        """A scan of the rows that appends added after one snapshot, up to another, by the table's current schema.

        Overwrites, deletes and compactions are passed over. Without a start it begins at the oldest snapshot, without
        an end it ends at the head of the branch. Raises what `SnapshotRange.of` and `scan` raise.
        """

        from icecore.engine.metadata.snapshot_range import SnapshotRange
        from icecore.engine.scan.incremental_append import IncrementalAppendScan

        snapshots = SnapshotRange.of(
            self.metadata,
            from_exclusive=from_snapshot_id_exclusive,
            from_inclusive=from_snapshot_id_inclusive,
            to_inclusive=to_snapshot_id_inclusive,
            branch=branch,
        )
        return IncrementalAppendScan.between(
            self._planner,
            self._state,
            snapshots,
            row_filter,
            selected_fields=names_of(selected_fields, "selected_fields"),
            case_sensitive=case_sensitive,
            limit=limit,
            parameters=parameters,
        )

    def incremental_changelog_scan(
        self,
        row_filter: Filter = None,
        *,
        from_snapshot_id_exclusive: int | None = None,
        from_snapshot_id_inclusive: int | None = None,
        to_snapshot_id_inclusive: int | None = None,
        branch: str | None = None,
        selected_fields: Sequence[str] = ("*",),
        case_sensitive: bool = True,
        compute_updates: bool = False,
        identifier_columns: Sequence[str] | None = None,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> IncrementalChangelogScan:
        """The rows that commits deleted and inserted after one snapshot, up to another, without rewritten ones.

        `_row_id` can be selected too. With `compute_updates` a row that a commit changed comes as UPDATE_BEFORE and
        UPDATE_AFTER: the row of the same `identifier_columns`, by default the identifier fields, else of the same row
        id. Raises what `SnapshotRange.of` and `scan` raise; reading raises ValidationError where an identifier is not
        unique, or a snapshot's parent was expired.
        """

        from icecore.engine.metadata.snapshot_range import SnapshotRange
        from icecore.engine.scan.changelog import IncrementalChangelogScan

        snapshots = SnapshotRange.of(
            self.metadata,
            from_exclusive=from_snapshot_id_exclusive,
            from_inclusive=from_snapshot_id_inclusive,
            to_inclusive=to_snapshot_id_inclusive,
            branch=branch,
        )
        return IncrementalChangelogScan.between(
            self._planner,
            self._state,
            snapshots,
            row_filter,
            selected_fields=names_of(selected_fields, "selected_fields"),
            case_sensitive=case_sensitive,
            compute_updates=compute_updates,
            identifier_columns=identifier_columns,
            parameters=parameters,
        )

    def partitions(self, row_filter: Filter = None, *, snapshot_id: int | None = None) -> pa.Table:
        """The partitions of a snapshot, by default the current one, with their files, rows and deletes, from metadata.

        The columns are those of PyIceberg's `inspect.partitions`. With a filter only partitions of which a scan by it
        would read a file. Raises ExpressionError, NoSuchSnapshotError.
        """
        from icecore.projections.inspect.partitions import partitions

        scan = self.scan(row_filter, snapshot_id=snapshot_id)
        return partitions(self._planner, self._state, scan.snapshot, scan.row_filter, scan.schema)

    def prefetch(
        self,
        row_filter: Filter = None,
        *,
        name: str,
        selected_fields: Sequence[str] = ("*",),
        ref: str | None = None,
        case_sensitive: bool = True,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    ) -> NamedPlan:
        """Plans a scan and stores the plan under a name, in place of one that had it.

        `named_plan` gives it again, in any process, brought up to date at the cost of what was committed since. It is
        the plan of the same columns, whatever they are called by then, and `*` of all that there are. With a `ref` it
        is of that branch or tag. Raises ExpressionError, NoSuchSnapshotError, ValidationError, StorageError
        where it can't be kept.
        """
        from icecore.engine.scan.named_plan import prefetch

        unbound = parse_filter(row_filter, parameters)
        scan = self.scan(unbound, selected_fields=selected_fields, ref=ref, case_sensitive=case_sensitive)
        return prefetch(self._planner, self._state, scan, unbound, name, ref)

    def named_plan(self, name: str) -> NamedPlan:
        """The plan of that name, for the table as it is loaded here; only later changes are looked into.

        Raises NoSuchPlanError, ValidationError where a column of it is gone, NoSuchSnapshotError where its branch is.
        """
        from icecore.engine.scan.named_plan import load

        return load(self._planner, self._state, name, lambda **options: self.scan(**options))

    def named_plans(self) -> list[str]:
        """The names of the plans that are kept, sorted."""
        from icecore.engine.scan.named_plan import store_of

        return store_of(self._planner, self._state).names()

    def drop_named_plan(self, name: str) -> None:
        """Drops a plan. Raises NoSuchPlanError."""
        from icecore.engine.scan.named_plan import drop

        drop(self._planner, self._state, name)

    def manifests(self) -> tuple[ListedManifest, ...]:
        """The manifests of the current snapshot, in the order of its list."""
        snapshot = self.current_snapshot()
        return () if snapshot is None else self._repository.list_manifests(self._state, snapshot)

    def files(self, *, snapshot_id: int | None = None) -> pa.Table:
        """The live data and delete files of a snapshot, by default the current one, in the order of its manifests.

        For the columns see `projections.live_files.LIVE_FILES`. Raises NoSuchSnapshotError.
        """
        from icecore.projections.inspect.live_files import live_files

        return live_files(self._planner, self._state, self.scan(snapshot_id=snapshot_id).snapshot)

    def live_entries(self) -> Iterator[pa.Table]:
        """The live entries of each manifest of the current snapshot, canonical, with all that they inherit."""
        storage = self._repository.storage_of(self._state)
        for listed in self.manifests():
            if listed.manifest.has_live_files:
                yield self._repository.entries.live(self._state.stream, listed, storage)
