"""Compaction by Spark: the division of all groups of a commit among Spark's tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from attrs import frozen

from icecore.engine.data.arrow.sorting import RowOrder
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.group_rewrite import GroupRewrite
from icecore.engine.errors import IcecoreError
from icecore.engine.maintenance.compaction_groups import CompactionOptions
from icecore.engine.properties.table_properties import MIB
from icecore.engine.spark.progress import ProgressCallback
from icecore.engine.spark.pyspark_api import SparkSession
from icecore.engine.spark.rewrite.chunk_rewrite import RewriteChunk, WrittenGroups, write_chunks
from icecore.engine.spark.rewrite.range_rewrite import RangedGroup, RangeRewrite
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage
from icecore.projections.plan.splits import Splitting, combine, split_tasks

SORTED_BYTES = 64 * MIB
"""The bytes of data files that a task sorts at a time."""


@frozen
class SparkGroupWriter:
    """The writer of groups by Spark's tasks; `on_progress` is called as `reporting` says."""

    session: SparkSession
    on_progress: ProgressCallback | None = None

    def __call__(
        self,
        groups: Sequence[Sequence[FileScanTask]],
        metadata: TableMetadata,
        storage: Storage,
        options: CompactionOptions,
        order: RowOrder | None,
        /,
    ) -> Iterable[tuple[ContentFile, ...]]:
        """The new files of each group. Raises ValidationError, MissingFileError, CorruptFileError, StorageError."""
        rewrite = GroupRewrite.of(metadata, storage, options.output_spec_id, order)
        chunks: list[RewriteChunk] = []
        # By the orders that the rows of a group are brought into.
        ranged: dict[tuple[RowOrder, ...], list[RangedGroup]] = {}
        for number, tasks in enumerate(groups):
            slim = [t.slim() for t in tasks]
            orders = rewrite.orders(slim)
            size = sum(t.file.file_size_in_bytes for t in slim)
            if not orders:
                chunks += _chunks(number, slim, options.output_file_size(size), options.write_max_file_size)
            elif size <= SORTED_BYTES:
                chunks.append(RewriteChunk(number, tuple(slim), options.output_file_size(size)))
            else:
                ranged.setdefault(orders, []).append(_ranged(number, slim, size, options))
        written: WrittenGroups = []
        try:
            written += write_chunks(self.session, rewrite, chunks, self.on_progress)
            for of_rows, some in ranged.items():
                written += RangeRewrite(self.session, rewrite, of_rows, self.on_progress).write(some)
        except BaseException:
            for f in (f for _, files in written for f in files):
                with contextlib.suppress(IcecoreError):
                    storage.delete(f.file_path)
            raise
        of_group: list[list[ContentFile]] = [[] for _ in groups]
        for number, files in written:
            of_group[number] += files
        return [tuple(files) for files in of_group]


def _chunks(number: int, tasks: Sequence[FileScanTask], file_size: int, most: int) -> list[RewriteChunk]:
    """The parts of a group that are to be one file each; a file that is too large is cut."""
    splitting = Splitting(file_size, 0)
    return [RewriteChunk(number, c.tasks, most) for c in combine(split_tasks(tasks, splitting), splitting)]


def _ranged(number: int, tasks: Sequence[FileScanTask], size: int, options: CompactionOptions) -> RangedGroup:
    files = options.output_files(size)
    read = _chunks(number, tasks, SORTED_BYTES, 0)
    return RangedGroup(number, tuple(read), files, -(-size // files // SORTED_BYTES) or 1, options.write_max_file_size)
