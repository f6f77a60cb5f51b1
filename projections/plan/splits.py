"""Splits: large files cut into ranges, small ones packed together, so that the parts of a read are of one size.

Spec: Table Properties `read.split.*`. The rules are Java's (TableScanUtil, BinPacking): a file with split offsets is
cut at each of them, any other at the target size; the parts are packed into bins by their size and that of their delete
files, with a look back at the bins that are open; neighbours in a bin are one range again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve, frozen

from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.properties.table_properties import OPEN_FILE_COST, SPLIT_LOOKBACK, SPLIT_SIZE
from icecore.engine.spec.content_file import ContentFile, FileFormat


@frozen
class Splitting:
    """The options of splitting: sizes in bytes, and `lookback`, the number of bins kept open."""

    target_size: int = SPLIT_SIZE.of({})
    open_file_cost: int = OPEN_FILE_COST.of({})
    lookback: int = SPLIT_LOOKBACK.of({})


@frozen
class CombinedTask:
    """Tasks that are read together."""

    tasks: tuple[FileScanTask, ...]

    @property
    def size_in_bytes(self) -> int:
        """The bytes of the tasks' ranges."""
        return sum(t.length for t in self.tasks)


def splitting_of(properties: Mapping[str, str]) -> Splitting:
    """The splitting that a table's properties ask for.

    Raises ValidationError where one is no number, or not above 0; the cost of opening a file may be 0.
    """
    return Splitting(SPLIT_SIZE.of(properties), OPEN_FILE_COST.of(properties), SPLIT_LOOKBACK.of(properties))


def split_tasks(tasks: Iterable[FileScanTask], splitting: Splitting) -> Iterator[FileScanTask]:
    """The tasks cut into ranges that together have all rows of each file, once."""
    for task in tasks:
        if task.file.file_format is FileFormat.PUFFIN or task.length == 0:
            # No format that can be read from an offset. An empty range is kept: sizes in manifests may be wrong.
            yield task
            continue
        offsets = _usable_offsets(task)
        if len(offsets) == 1 or (not offsets and task.length <= splitting.target_size):
            yield task
        else:
            yield from _at_offsets(task, offsets) if offsets else _evenly(task, splitting)


def _usable_offsets(task: FileScanTask) -> tuple[int, ...]:
    """The split offsets, if they are ascending and inside of the file, and the task is whole; else none can be used."""
    whole = task.start == 0 and task.length == task.file.file_size_in_bytes
    return _sound_offsets(task.file) if whole else ()


def _sound_offsets(file: ContentFile) -> tuple[int, ...]:
    offsets = file.split_offsets or ()
    ascending = all(a < b for a, b in itertools.pairwise(offsets))
    inside = bool(offsets) and offsets[0] >= 0 and offsets[-1] < file.file_size_in_bytes
    return offsets if ascending and inside else ()


def _at_offsets(task: FileScanTask, offsets: Sequence[int]) -> Iterator[FileScanTask]:
    """A range from each offset to the next; the first also has what is before it, which Java leaves out."""
    for start, end in itertools.pairwise((0, *offsets[1:], task.length)):
        yield evolve(task, start=start, length=end - start)


def _evenly(task: FileScanTask, splitting: Splitting) -> Iterator[FileScanTask]:
    end = task.start + task.length
    for start in range(task.start, end, splitting.target_size):
        yield evolve(task, start=start, length=min(splitting.target_size, end - start))


def weight(task: FileScanTask, splitting: Splitting) -> int:
    """The weight of a task in a bin: its bytes and those of its deletes, at least the cost of opening these files.

    Bytes before the first split offset, such as the magic bytes of Parquet, don't count, nor do they in Java.
    """
    offsets = () if task.start else _sound_offsets(task.file)
    counted = task.length - min(offsets[0], task.length) if offsets else task.length
    if not task.delete_files:
        return max(counted, splitting.open_file_cost)
    deletes = sum(
        d.file_size_in_bytes if d.content_size_in_bytes is None else d.content_size_in_bytes for d in task.delete_files
    )
    return max(counted + deletes, (1 + len(task.delete_files)) * splitting.open_file_cost)


def combine(tasks: Iterable[FileScanTask], splitting: Splitting) -> list[CombinedTask]:
    """Packs tasks into bins: each goes into the first of the open bins that has room.

    Where more than `lookback` bins are open, the fullest one is closed. The last bins come in the order they were
    opened.
    """
    done: list[CombinedTask] = []
    bins: list[tuple[int, list[FileScanTask]]] = []
    for task in tasks:
        added = weight(task, splitting)
        for i, (filled, content) in enumerate(bins):
            if filled + added <= splitting.target_size:
                content.append(task)
                bins[i] = (filled + added, content)
                break
        else:
            bins.append((added, [task]))
            if len(bins) > splitting.lookback:
                fullest = max(range(len(bins)), key=lambda i: bins[i][0])
                done.append(CombinedTask(_merged(bins.pop(fullest)[1])))
    return [*done, *(CombinedTask(_merged(content)) for _, content in bins)]


def _merged(tasks: Sequence[FileScanTask]) -> tuple[FileScanTask, ...]:
    """The tasks of a bin, with consecutive ranges of one file made one."""
    out: list[FileScanTask] = []
    for task in tasks:
        last = out[-1] if out else None
        if (
            last is not None
            and last.start + last.length == task.start
            and evolve(last, start=0, length=0) == evolve(task, start=0, length=0)
        ):
            out[-1] = evolve(last, length=last.length + task.length)
        else:
            out.append(task)
    return tuple(out)
