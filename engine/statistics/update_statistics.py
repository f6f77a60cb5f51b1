"""The update of statistics files of snapshots. Spec: Table Statistics, Partition Statistics (MD4)."""

from __future__ import annotations

from collections.abc import Callable

from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.evolution.recorded_update import RecordedUpdate
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import PartitionStatisticsFile, StatisticsFile
from icecore.engine.spec.updates.table_update import (
    RemovePartitionStatistics,
    RemoveStatistics,
    SetPartitionStatistics,
    SetStatistics,
    TableUpdate,
)

Updates = list[TableUpdate]


class UpdateStatistics(RecordedUpdate[ChangeMetadata]):
    """The builder of an update of statistics; `commit()`, or the end of a `with` block, commits it.

    A snapshot has at most one file of each kind: setting another replaces it. No file is read, written or deleted.
    """

    def set_statistics(self, statistics_file: StatisticsFile) -> UpdateStatistics:
        """Sets the statistics file of a snapshot. Raises NoSuchSnapshotError at commit."""

        def updates_for(metadata: TableMetadata) -> Updates:
            metadata.find_snapshot(statistics_file.snapshot_id)
            if statistics_file in metadata.statistics:
                return []
            return [SetStatistics(statistics_file)]

        return self._add(updates_for)

    def remove_statistics(self, snapshot_id: int) -> UpdateStatistics:
        """Removes the statistics file of a snapshot, if it has one."""

        def updates_for(metadata: TableMetadata) -> Updates:
            if all(s.snapshot_id != snapshot_id for s in metadata.statistics):
                return []
            return [RemoveStatistics(snapshot_id)]

        return self._add(updates_for)

    def set_partition_statistics(self, partition_statistics_file: PartitionStatisticsFile) -> UpdateStatistics:
        """Sets the partition statistics file of a snapshot. Raises NoSuchSnapshotError at commit."""

        def updates_for(metadata: TableMetadata) -> Updates:
            metadata.find_snapshot(partition_statistics_file.snapshot_id)
            if partition_statistics_file in metadata.partition_statistics:
                return []
            return [SetPartitionStatistics(partition_statistics_file)]

        return self._add(updates_for)

    def remove_partition_statistics(self, snapshot_id: int) -> UpdateStatistics:
        """Removes the partition statistics file of a snapshot, if it has one."""

        def updates_for(metadata: TableMetadata) -> Updates:
            if all(s.snapshot_id != snapshot_id for s in metadata.partition_statistics):
                return []
            return [RemovePartitionStatistics(snapshot_id)]

        return self._add(updates_for)

    def _add(self, updates_for: Callable[[TableMetadata], Updates]) -> UpdateStatistics:
        return self._record(ChangeMetadata(updates_for))
