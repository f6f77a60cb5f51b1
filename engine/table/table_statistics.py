"""The statistics files of a table: computed, committed, read.

With `dry_run` no file is written and nothing stored, and the result says what the commit would be.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, Unpack, overload

from icecore.engine.common.keyword_options import takes_options
from icecore.engine.errors import IcecoreError
from icecore.engine.metadata.fold import metadata_folder
from icecore.engine.spec.snapshot import PartitionStatisticsFile, StatisticsFile
from icecore.engine.table import table_commits
from icecore.engine.table.commit_options import CommitOptions, ComputeStatistics, MetadataOptions
from icecore.engine.table.table_handle import TableHandle
from icecore.engine.table.table_reads import scan

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.statistics.update_statistics import UpdateStatistics


@takes_options(CommitOptions)
def update_statistics(table: TableHandle, **options: Unpack[CommitOptions]) -> UpdateStatistics:
    """An update of the statistics files of snapshots, committed by its `commit()` or a `with` block."""

    from icecore.engine.statistics.update_statistics import UpdateStatistics

    return UpdateStatistics(
        lambda ops: table_commits.commit_with(table, lambda t: t.change_statistics(ops), **options),
        table._state.identifier,
    )


@overload
def compute_statistics(
    table: TableHandle,
    columns: Iterable[str] | None = None,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[ComputeStatistics],
) -> StatisticsFile | None: ...


@overload
def compute_statistics(
    table: TableHandle, columns: Iterable[str] | None = None, *, dry_run: bool, **options: Unpack[ComputeStatistics]
) -> StatisticsFile | DryRun | None: ...


@takes_options(MetadataOptions)
def compute_statistics(
    table: TableHandle,
    columns: Iterable[str] | None = None,
    *,
    snapshot_id: int | None = None,
    **options: Unpack[MetadataOptions],
) -> StatisticsFile | DryRun | None:
    """Computes and commits the number of distinct values of columns, by default all primitive top-level ones.

    Reads the rows of the snapshot, by default the current one; None where there is none. The file takes the place
    of an earlier one of the snapshot. Raises ValidationError for columns without statistics, NoSuchSnapshotError,
    and MissingDependencyError without the extra `stats`.
    """

    from icecore.engine.statistics.statistics import computed_statistics, sketched_columns

    table._repository.check_writable()
    snapshot = table.metadata.snapshot_or_current(snapshot_id)
    dry_run, change = options.get("dry_run", False), update_statistics(table, **options)
    if snapshot is None:
        return change.commit() if dry_run else None
    names = sketched_columns(scan(table, snapshot_id=snapshot.snapshot_id).schema, columns)
    of_columns = scan(table, snapshot_id=snapshot.snapshot_id, selected_fields=names)
    folder = metadata_folder(table.metadata.location, table.metadata.properties)
    file, data = computed_statistics(of_columns, names, folder)
    with _writing(table, file.statistics_path, data, dry_run):
        return change.set_statistics(file).commit() or file


def statistics(table: TableHandle, snapshot_id: int | None = None) -> dict[str, int]:
    """The estimated number of distinct values by column, of a snapshot, by default the current one.

    Empty where nobody computed any. Raises NoSuchSnapshotError, and what reading a Puffin file raises where table
    metadata does not tell the numbers.
    """

    from icecore.engine.statistics.statistics import distinct_values

    return distinct_values(table.metadata, table._repository.storage_of(table._state), snapshot_id)


@overload
def compute_partition_statistics(
    table: TableHandle, *, dry_run: Literal[False] = False, **options: Unpack[ComputeStatistics]
) -> PartitionStatisticsFile | None: ...


@overload
def compute_partition_statistics(
    table: TableHandle, *, dry_run: bool, **options: Unpack[ComputeStatistics]
) -> PartitionStatisticsFile | DryRun | None: ...


@takes_options(MetadataOptions)
def compute_partition_statistics(
    table: TableHandle, *, snapshot_id: int | None = None, **options: Unpack[MetadataOptions]
) -> PartitionStatisticsFile | DryRun | None:
    """Computes and commits the statistics of each partition of a snapshot, by default the current one.

    Reads metadata only; None where there is no snapshot or it never had a file. Raises ValidationError where the
    table was never partitioned, NoSuchSnapshotError.
    """
    from icecore.projections.inspect.partition_statistics import computed_partition_stats

    table._repository.check_writable()
    snapshot = table.metadata.snapshot_or_current(snapshot_id)
    computed = None if snapshot is None else computed_partition_stats(table._planner, table._state, snapshot)
    dry_run, change = options.get("dry_run", False), update_statistics(table, **options)
    if computed is None:
        return change.commit() if dry_run else None
    file, data = computed
    with _writing(table, file.statistics_path, data, dry_run):
        return change.set_partition_statistics(file).commit() or file


def partition_statistics(table: TableHandle, snapshot_id: int | None = None) -> pa.Table | None:
    """The rows of a snapshot's partition statistics file, by default the current one's; None without a file."""
    from icecore.projections.inspect.partition_statistics import read_partition_stats

    wanted = table.metadata.current_snapshot_id if snapshot_id is None else snapshot_id
    for file in table.metadata.partition_statistics:
        if file.snapshot_id == wanted:
            return read_partition_stats(file, table.metadata, table._repository.storage_of(table._state))
    return None


@contextlib.contextmanager
def _writing(table: TableHandle, location: str, data: bytes, dry_run: bool) -> Iterator[None]:
    """A context with a file for the commit that is made inside; it is deleted where that is refused."""
    if dry_run:
        yield
        return
    from icecore.engine.errors import REFUSED

    storage = table._repository.storage_of(table._state)
    storage.create(location, data)
    try:
        yield
    except REFUSED:
        with contextlib.suppress(IcecoreError):
            storage.delete(location)
        raise
