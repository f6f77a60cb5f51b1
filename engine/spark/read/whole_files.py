"""Scan tasks merged for one reader: whole files where they are covered, else their ranges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from attrs import evolve, frozen

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import ValidationError
from icecore.engine.storage.file_io import Storage

# The magic at the head of Parquet, ORC ("ORC") and Avro files: no rows start before it ends.
_HEAD = 4
_NO_END = 2**62


@frozen
class FileTask:
    """A task for a file, of some range; `is_whole` where all the file's rows are wanted."""

    task: FileScanTask
    is_whole: bool

    def of_rows(self) -> FileScanTask:
        """The task with the range of the rows that are wanted."""
        # Up to any end, so that a wrong size in the manifest costs no rows.
        return evolve(self.task, start=0, length=_NO_END) if self.is_whole else self.task


def whole_files(tasks: Sequence[FileScanTask], storage: Storage) -> list[FileTask]:
    """One task for each file whose ranges cover it, in the order that files first come, else its ranges one by one.

    Raises ValidationError where ranges of a file overlap, however its location is written.
    """
    by_file: dict[str, list[FileScanTask]] = {}
    for t in tasks:
        by_file.setdefault(storage.key(t.file.file_path), []).append(t)
    return [made for ranges in by_file.values() for made in _merged(ranges)]


def _merged(ranges: list[FileScanTask]) -> list[FileTask]:
    if len(ranges) > 1:
        ranges.sort(key=lambda t: t.start)
    first, last, file = ranges[0], ranges[-1], ranges[0].file
    head = min(file.split_offsets) if file.split_offsets else _HEAD
    is_whole = first.start <= head and last.start + last.length >= file.file_size_in_bytes
    for before, after in pairwise(ranges):
        if after.start < before.start + before.length:
            raise ValidationError(f"{file.file_path} is planned twice from byte {after.start} on")
        is_next = after.start == before.start + before.length
        is_whole = is_whole and is_next and delete_keys(after) == delete_keys(first)
    return [FileTask(first, is_whole=True)] if is_whole else [FileTask(t, is_whole=False) for t in ranges]


def delete_keys(task: FileScanTask) -> frozenset[tuple[str, int | None]]:
    """Keys of the delete files of a task: two deletion vectors may lie in one file."""
    return frozenset((d.file_path, d.content_offset) for d in task.delete_files)
