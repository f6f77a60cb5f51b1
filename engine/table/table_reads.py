"""The reads of a table: scans, named plans, changes between snapshots."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from icecore.engine.common.identifiers import names_of, whole_number
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.sql.parse import FilterLike, parse_filter
from icecore.engine.expression.timestamps import TimestampLike
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot
from icecore.engine.table.table_handle import TableHandle

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from icecore.engine.scan.changelog import IncrementalChangelogScan
    from icecore.engine.scan.data_scan import DataScan
    from icecore.engine.scan.incremental_append import IncrementalAppendScan
    from icecore.engine.scan.named_plan import NamedPlan
    from icecore.engine.scan.snapshot_diff import SnapshotDiff


def scan(
    table: TableHandle,
    row_filter: FilterLike = None,
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
        table._planner,
        table._state,
        row_filter,
        selected_fields=names_of(selected_fields, "selected_fields"),
        snapshot_id=snapshot_id,
        ref=ref,
        as_of=as_of,
        case_sensitive=case_sensitive,
        limit=limit,
        parameters=parameters,
    )


def to_daft(table: TableHandle) -> Any:
    """The rows as a Daft DataFrame. Raises MissingDependencyError where Daft is not installed."""
    return scan(table).to_daft()


def to_polars(table: TableHandle) -> pl.LazyFrame:
    """The rows of the current snapshot as a lazy frame of Polars: see `DataScan.to_polars`."""
    return scan(table).to_polars()


def incremental_append_scan(
    table: TableHandle,
    row_filter: FilterLike = None,
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
        table.metadata,
        from_exclusive=from_snapshot_id_exclusive,
        from_inclusive=from_snapshot_id_inclusive,
        to_inclusive=to_snapshot_id_inclusive,
        branch=branch,
    )
    return IncrementalAppendScan.between(
        table._planner,
        table._state,
        snapshots,
        row_filter,
        selected_fields=names_of(selected_fields, "selected_fields"),
        case_sensitive=case_sensitive,
        limit=limit,
        parameters=parameters,
    )


def incremental_changelog_scan(
    table: TableHandle,
    row_filter: FilterLike = None,
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
        table.metadata,
        from_exclusive=from_snapshot_id_exclusive,
        from_inclusive=from_snapshot_id_inclusive,
        to_inclusive=to_snapshot_id_inclusive,
        branch=branch,
    )
    return IncrementalChangelogScan.between(
        table._planner,
        table._state,
        snapshots,
        row_filter,
        selected_fields=names_of(selected_fields, "selected_fields"),
        case_sensitive=case_sensitive,
        compute_updates=compute_updates,
        identifier_columns=identifier_columns,
        parameters=parameters,
    )


def diff(
    table: TableHandle,
    before: int | str | dt.datetime | None,
    after: int | str | dt.datetime | None = MAIN_BRANCH,
    *,
    row_filter: FilterLike = None,
    selected_fields: Sequence[str] = ("*",),
    case_sensitive: bool = True,
    parameters: Mapping[str, Any] | Sequence[Any] | None = None,
) -> SnapshotDiff:
    """The difference of files and rows between two snapshots, on one branch or several: see `SnapshotDiff`.

    Each is a snapshot id, a branch or tag, a time, or None for the table without rows. The filter and the columns are
    for its `rows()`, by the table's current schema. For positions see `Catalog.diff_table`. Raises
    NoSuchSnapshotError, ExpressionError, ValidationError.
    """
    from icecore.engine.metadata.snapshot_range import SnapshotRange
    from icecore.engine.scan.changelog import IncrementalChangelogScan
    from icecore.engine.scan.snapshot_diff import SnapshotDiff

    def found(which: int | str | dt.datetime | None) -> Snapshot | None:
        if which is None:
            return None
        if isinstance(which, str):
            return scan(table, ref=which).snapshot
        number = whole_number(which)
        return (scan(table, as_of=which) if number is None else scan(table, snapshot_id=number)).snapshot

    changelog = IncrementalChangelogScan.between(
        table._planner,
        table._state,
        SnapshotRange(()),
        row_filter,
        selected_fields=names_of(selected_fields, "selected_fields"),
        case_sensitive=case_sensitive,
        compute_updates=False,
        identifier_columns=None,
        parameters=parameters,
    )
    return SnapshotDiff(found(before), found(after), table._planner, table._state, changelog)


def blame(
    table: TableHandle,
    row_filter: FilterLike = None,
    *,
    selected_fields: Sequence[str] = ("*",),
    ref: str | None = None,
    case_sensitive: bool = True,
    limit: int | None = None,
    parameters: Mapping[str, Any] | Sequence[Any] | None = None,
) -> pa.Table:
    """The rows of a scan with the commit that brought each as it is, through compactions and updates of its neighbours.

    `_position`, `_recorded_at`, `_actor`, `_message`, `_operation` and `_snapshot_id` tell the commit. Where
    `_is_exact` is false the row came with it or with an earlier one that has expired. A row that a commit removed and
    added again with equal values counts as the old one. Raises ExpressionError, NoSuchSnapshotError, ValidationError,
    MissingArchiveError.
    """
    from icecore.engine.scan.blame import Blame

    of_rows = scan(
        table,
        row_filter,
        selected_fields=selected_fields,
        ref=ref,
        case_sensitive=case_sensitive,
        limit=limit,
        parameters=parameters,
    )
    return Blame(table._planner, table._state, of_rows).to_arrow()


def partitions(
    table: TableHandle, row_filter: FilterLike = None, *, snapshot_id: int | None = None, case_sensitive: bool = True
) -> pa.Table:
    """The partitions of a snapshot, by default the current one, with their files, rows and deletes, from metadata.

    The columns are those of PyIceberg's `inspect.partitions`. With a filter, only partitions in which a scan by it
    would read a file. Raises ExpressionError, NoSuchSnapshotError.
    """
    from icecore.projections.inspect import partitions

    of_snapshot = scan(table, row_filter, snapshot_id=snapshot_id, case_sensitive=case_sensitive)
    return partitions.partitions(
        table._planner, table._state, of_snapshot.snapshot, of_snapshot.row_filter, of_snapshot.schema
    )


def prefetch(
    table: TableHandle,
    row_filter: FilterLike = None,
    *,
    name: str,
    selected_fields: Sequence[str] = ("*",),
    ref: str | None = None,
    case_sensitive: bool = True,
    parameters: Mapping[str, Any] | Sequence[Any] | None = None,
) -> NamedPlan:
    """Plans a scan and stores the plan under a name, in place of one that had it.

    `named_plan` gives it again, in any process, brought up to date at the cost of what was committed since. It has
    the same columns even if they were renamed, and with `*` all that the table has by then. With a `ref` it
    is of that branch or tag. Raises ExpressionError, NoSuchSnapshotError, ValidationError, StorageError
    where it can't be kept.
    """
    from icecore.engine.scan import named_plan

    unbound = parse_filter(row_filter, parameters)
    planned = scan(table, unbound, selected_fields=selected_fields, ref=ref, case_sensitive=case_sensitive)
    return named_plan.prefetch(table._planner, table._state, planned, unbound, name, ref)


def named_plan(table: TableHandle, name: str) -> NamedPlan:
    """The plan of that name, for the table as it is loaded here; only later changes are looked into.

    Raises NoSuchPlanError, ValidationError where a column of it is gone, NoSuchSnapshotError where its branch is.
    """
    from icecore.engine.scan.named_plan import load

    return load(table._planner, table._state, name, lambda **options: scan(table, **options))


def named_plans(table: TableHandle) -> list[str]:
    """The names of the plans that are kept, sorted."""
    from icecore.engine.scan.named_plan import store_of

    return store_of(table._planner, table._state).names()


def drop_named_plan(table: TableHandle, name: str) -> None:
    """Drops a plan. Raises NoSuchPlanError."""
    from icecore.engine.scan.named_plan import drop

    drop(table._planner, table._state, name)


def manifests(table: TableHandle) -> tuple[ListedManifest, ...]:
    """The manifests of the current snapshot, in the order of its list."""
    snapshot = table.metadata.current_snapshot()
    return () if snapshot is None else table._repository.list_manifests(table._state, snapshot)


def files(table: TableHandle, *, snapshot_id: int | None = None) -> pa.Table:
    """The live data and delete files of a snapshot, by default the current one, in the order of its manifests.

    For the columns see `projections.inspect.live_files.LIVE_FILES`. Raises NoSuchSnapshotError.
    """
    from icecore.projections.inspect.live_files import live_files

    return live_files(table._planner, table._state, scan(table, snapshot_id=snapshot_id).snapshot)


def live_entries(table: TableHandle) -> Iterator[pa.Table]:
    """The live entries of each manifest of the current snapshot, canonical, with all that they inherit."""
    for listed in manifests(table):
        if listed.manifest.has_live_files:
            yield table._repository.lists.live_entries(table._state, listed)
