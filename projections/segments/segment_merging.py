"""The merging of a table's segments: when entries are worth a file, which files become one, what is left behind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from attrs import evolve

from icecore.engine.queries.named_queries import query
from icecore.projections.segments.entry_table import EntryTable
from icecore.projections.segments.segment_files import FILE, Growing, Segment

MANIFESTS_IN_MEMORY = 16
CELLS_IN_MEMORY = 2_000_000
MERGED_AT_ONCE = 4
MOST_FILES = 8
MOST_IDLE_MERGES = 1


def worth_a_file(manifests: int, cells: int) -> bool:
    """Whether that many manifests, or values in their entries, are too much to stay in memory."""
    return manifests >= MANIFESTS_IN_MEMORY or cells >= CELLS_IN_MEMORY


def outgrown(table: EntryTable) -> Segment | None:
    """The segment in memory, if it is to move to disk; else None."""
    memory = table.in_memory()
    if memory is None:
        return None
    info = memory.info
    return memory if worth_a_file(len(info.manifests), info.rows * len(info.columns)) else None


def files_to_merge(table: EntryTable) -> Sequence[Segment]:
    """The files that are to become one: those of like size once they are several, or the smallest of too many."""
    files = sorted((s for s in table.segments if s.path is not None), key=lambda s: s.info.rows)
    like = _alike(files)
    if len(like) >= MERGED_AT_ONCE:
        return like
    return files[: len(files) - MOST_FILES + MERGED_AT_ONCE] if len(files) > MOST_FILES else ()


def copy_all(growing: Growing, table: EntryTable, segments: Sequence[Segment]) -> None:
    """Copies the entries of segments, each manifest once, without those that nobody has looked for in a while."""
    taken: set[str] = set()
    for segment in segments:
        _copy(growing, table, segment, taken)


def _copy(growing: Growing, table: EntryTable, segment: Segment, taken: set[str]) -> None:
    keys, idles, olds = [], [], []
    for number, (key, idle) in enumerate(zip(segment.info.manifests, segment.info.idle, strict=True)):
        idle = 0 if number in segment.looked_for or key in table.kept else idle + 1
        if key not in taken and idle <= MOST_IDLE_MERGES:
            keys.append(key)
            idles.append(idle)
            olds.append(number)
    taken.update(keys)
    if not keys:
        return
    first = len(growing.info.manifests)
    numbers = np.arange(first, first + len(keys), dtype=np.int32)
    renumbering = pa.table({"old": pa.array(olds, pa.int32()), "new": pa.array(numbers)})
    columns = [n for n in segment.usable_columns(table.typing) if n != "m"]
    growing.connection.register("renumbering", renumbering)
    try:
        source = query(
            FILE,
            "renumbered",
            entries=segment.entries,
            columns=", ".join(segment.column(n, table.typing) for n in columns),
        )
        types = {n: t for n in columns if n in segment.info.typed.types and (t := table.typing.type_of(n))}
        had = segment.info.typed
        typed = evolve(had, types=types, unreadable=had.unreadable & types.keys())
        growing.add_query(source, typed, keys, idles)
    finally:
        growing.connection.unregister("renumbering")


def _alike(files: Sequence[Segment]) -> list[Segment]:
    """The longest run of files, by their rows, in which the largest is not much larger than the smallest."""
    best: list[Segment] = []
    for i, smallest in enumerate(files):
        run = [s for s in files[i:] if s.info.rows <= MERGED_AT_ONCE * max(smallest.info.rows, 1)]
        best = max(best, run, key=len)
    return best
