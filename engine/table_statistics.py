"""The statistics files of a table: computed, committed, read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from icecore.engine.spec.snapshot import (
    PartitionStatisticsFile,
    StatisticsFile,
)
from icecore.engine.state import metadata_folder
from icecore.engine.table_reads import TableReads

if TYPE_CHECKING:
    from icecore.engine.update_statistics import UpdateStatistics


class TableStatistics(TableReads):
    """Statistics of a table's columns and partitions."""

    def update_statistics(
        self, *, message: str | None = None, author: str | None = None, dry_run: bool = False
    ) -> UpdateStatistics:
        """Sets and removes the statistics files of snapshots."""

        from icecore.engine.update_statistics import UpdateStatistics

        return UpdateStatistics(
            lambda ops: self._commit_with(message, author, lambda t: t.change_statistics(ops), dry_run)
        )

    def compute_statistics(
        self,
        columns: Iterable[str] | None = None,
        *,
        snapshot_id: int | None = None,
        message: str | None = None,
        author: str | None = None,
    ) -> StatisticsFile | None:
        """Computes and commits how many distinct values columns have, by default all primitive top-level ones.

        Reads the rows of the snapshot, by default the current one; None where there is none. The file takes the place
        of an earlier one of the snapshot. Raises ValidationError for columns without statistics, NoSuchSnapshotError,
        and MissingDependencyError without the extra `stats`.
        """

        from icecore.engine.statistics import sketched_columns, write_statistics

        self._repository.check_writable()
        snapshot = self.current_snapshot() if snapshot_id is None else self.metadata.find_snapshot(snapshot_id)
        if snapshot is None:
            return None
        names = sketched_columns(self.scan(snapshot_id=snapshot.snapshot_id).schema, columns)
        scan = self.scan(snapshot_id=snapshot.snapshot_id, selected_fields=names)
        folder = metadata_folder(self.location(), self.properties)
        file = write_statistics(scan, names, self._repository.storage_of(self._state), folder)
        self.update_statistics(message=message, author=author).set_statistics(file).commit()
        return file

    def statistics(self, snapshot_id: int | None = None) -> dict[str, int]:
        """The estimated number of distinct values by column, of a snapshot, by default the current one.

        Empty where nobody computed any. Raises NoSuchSnapshotError, and what reading a Puffin file raises where table
        metadata does not tell the numbers.
        """

        from icecore.engine.statistics import distinct_values

        return distinct_values(self.metadata, self._repository.storage_of(self._state), snapshot_id)

    def compute_partition_statistics(
        self, *, snapshot_id: int | None = None, message: str | None = None, author: str | None = None
    ) -> PartitionStatisticsFile | None:
        """Computes and commits what each partition of a snapshot holds, by default of the current one.

        Reads metadata only; None where there is no snapshot or it never had a file. Raises ValidationError where the
        table was never partitioned, NoSuchSnapshotError.
        """
        from icecore.projections.partition_stats import write_partition_stats

        self._repository.check_writable()
        snapshot = self.current_snapshot() if snapshot_id is None else self.metadata.find_snapshot(snapshot_id)
        file = None if snapshot is None else write_partition_stats(self._planner, self._state, snapshot)
        if file is not None:
            self.update_statistics(message=message, author=author).set_partition_statistics(file).commit()
        return file

    def partition_statistics(self, snapshot_id: int | None = None) -> pa.Table | None:
        """The rows of a snapshot's partition statistics file, by default the current one's; None without a file."""
        from icecore.projections.partition_stats import read_partition_stats

        wanted = self.metadata.current_snapshot_id if snapshot_id is None else snapshot_id
        for file in self.metadata.partition_statistics:
            if file.snapshot_id == wanted:
                return read_partition_stats(file, self.metadata, self._repository.storage_of(self._state))
        return None
