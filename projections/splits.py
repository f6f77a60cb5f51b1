"""Splits: large files cut into ranges, small ones packed together, so that the parts of a read are of one size.

Spec: Table Properties `read.split.*`. Ranges begin at the file's split offsets where it has them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from icecore.engine.errors import ValidationError
from icecore.engine.scan_task import FileScanTask
from icecore.engine.spec.content_file import FileFormat

TARGET_SIZE = "read.split.target-size"
LOOKBACK = "read.split.planning-lookback"
OPEN_FILE_COST = "read.split.open-file-cost"


@frozen
class Splitting:
    """How to split: sizes in bytes, `lookback` is how many bins are kept open."""

    target_size: int = 128 * 1024 * 1024
    open_file_cost: int = 4 * 1024 * 1024
    lookback: int = 10


@frozen
class CombinedTask:
    """Tasks that are read together."""

    tasks: tuple[FileScanTask, ...]

    @property
    def size_in_bytes(self) -> int:
        return sum(t.length for t in self.tasks)


def splitting_of(properties: Mapping[str, str]) -> Splitting:
    """The splitting that a table's properties ask for. Raises ValidationError where one is no positive number."""
    default = Splitting()
    return Splitting(
        _positive(properties, TARGET_SIZE, default.target_size),
        _positive(properties, OPEN_FILE_COST, default.open_file_cost),
        _positive(properties, LOOKBACK, default.lookback),
    )


def _positive(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    if text is None:
        return default
    if not text.isdecimal() or int(text) == 0:
        raise ValidationError(f"{key} must be a positive number, found {text!r}")
    return int(text)


def split_tasks(tasks: Iterable[FileScanTask], splitting: Splitting) -> Iterator[FileScanTask]:
    """The tasks, those of files larger than the target cut into ranges that cover them exactly."""
    for task in tasks:
        # An Avro file's blocks can be found from any offset; formats that are not known are left whole.
        if task.length <= splitting.target_size or task.file.file_format is FileFormat.PUFFIN:
            yield task
            continue
        offsets = _usable_offsets(task)
        yield from _at_offsets(task, offsets, splitting) if offsets else _evenly(task, splitting)


def _usable_offsets(task: FileScanTask) -> tuple[int, ...]:
    """The split offsets, if they are ascending and inside of the file; else none can be trusted."""
    offsets = task.file.split_offsets or ()
    ascending = all(a < b for a, b in itertools.pairwise(offsets))
    inside = bool(offsets) and offsets[0] >= 0 and offsets[-1] < task.file.file_size_in_bytes
    return offsets if ascending and inside else ()


def _at_offsets(task: FileScanTask, offsets: Sequence[int], splitting: Splitting) -> Iterator[FileScanTask]:
    end = task.start + task.length
    start = task.start
    for i, offset in enumerate(offsets):
        following = offsets[i + 1] if i + 1 < len(offsets) else end
        if following - start > splitting.target_size and offset > start:
            yield evolve(task, start=start, length=offset - start)
            start = offset
    if start < end:
        yield evolve(task, start=start, length=end - start)


def _evenly(task: FileScanTask, splitting: Splitting) -> Iterator[FileScanTask]:
    end = task.start + task.length
    for start in range(task.start, end, splitting.target_size):
        yield evolve(task, start=start, length=min(splitting.target_size, end - start))


def combine(tasks: Iterable[FileScanTask], splitting: Splitting) -> list[CombinedTask]:
    """Packs tasks into bins: each goes into the first of the open bins that has room, the fullest bin is closed."""
    done: list[CombinedTask] = []
    bins: list[tuple[int, list[FileScanTask]]] = []
    for task in tasks:
        weight = max(task.length, splitting.open_file_cost) + splitting.open_file_cost * len(task.delete_files)
        for i, (filled, content) in enumerate(bins):
            if filled + weight <= splitting.target_size:
                content.append(task)
                bins[i] = (filled + weight, content)
                break
        else:
            bins.append((weight, [task]))
            if len(bins) > splitting.lookback:
                fullest = max(range(len(bins)), key=lambda i: bins[i][0])
                done.append(CombinedTask(tuple(bins.pop(fullest)[1])))
    return [*done, *(CombinedTask(tuple(content)) for _, content in bins)]
