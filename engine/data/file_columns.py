"""Data files to read, as columns with one row per file: many files are handled without a loop over objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from attrs import field, frozen

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.spec.content_file import ContentFile


@frozen(eq=False)
class FileColumns:
    """Data files as columns of equal length: Arrow arrays, but Python tuples for partitions and delete files.

    `delete_files` has the delete files that apply to each data file; it is empty if no data file has any.
    """

    locations: pa.Array
    sizes: pa.Array
    spec_ids: pa.Array
    first_row_ids: pa.Array
    sequence_numbers: pa.Array
    partitions: Sequence[tuple[Any, ...]] = field(repr=False)
    delete_files: Sequence[tuple[ContentFile, ...]] = field(default=(), repr=False)

    @classmethod
    def of_tasks(cls, tasks: Sequence[FileScanTask]) -> FileColumns:
        """The files of tasks, each whole."""
        return cls(
            pa.array([t.file.file_path for t in tasks], pa.string()),
            pa.array([t.file.file_size_in_bytes for t in tasks], pa.int64()),
            pa.array([t.file.spec_id for t in tasks], pa.int32()),
            pa.array([t.file.first_row_id for t in tasks], pa.int64()),
            pa.array([t.data_sequence_number for t in tasks], pa.int64()),
            [t.file.partition for t in tasks],
            [t.delete_files for t in tasks] if any(t.delete_files for t in tasks) else (),
        )

    def __len__(self) -> int:
        return len(self.locations)

    def take(self, rows: Sequence[int]) -> FileColumns:
        """Some of the files."""
        indices = pa.array(rows, pa.int64())
        return FileColumns(
            self.locations.take(indices),
            self.sizes.take(indices),
            self.spec_ids.take(indices),
            self.first_row_ids.take(indices),
            self.sequence_numbers.take(indices),
            [self.partitions[i] for i in rows],
            [self.delete_files[i] for i in rows] if self.delete_files else (),
        )

    def with_partitions(self) -> Iterable[tuple[int, tuple[Any, ...]]]:
        """The spec id and the partition of each file."""
        return zip(self.spec_ids.to_pylist(), self.partitions, strict=True)
