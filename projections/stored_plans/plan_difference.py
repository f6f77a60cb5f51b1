"""The difference of two plans: files that are only in one, and files whose deletes differ."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from attrs import frozen

from icecore.engine.data.scan_task import FileScanTask
from icecore.projections.plan.planner import PlannedFiles

_Row = tuple[frozenset[Any], int]


@frozen
class PlanDifference:
    """Tasks of files that only the first plan has, that only the second has, and pairs whose deletes differ."""

    gone: tuple[FileScanTask, ...]
    come: tuple[FileScanTask, ...]
    changed: tuple[tuple[FileScanTask, FileScanTask], ...]


def plan_difference(before: PlannedFiles, after: PlannedFiles) -> PlanDifference:
    """The difference of the second plan from the first. A file that a table has twice counts twice."""
    rows_before, rows_after = _by_path(before), _by_path(after)
    gone: list[int] = []
    come: list[int] = []
    pairs: list[tuple[int, int]] = []
    for path in dict.fromkeys((*rows_before, *rows_after)):
        old, new = _without_equal(rows_before.get(path, []), rows_after.get(path, []))
        pairs += zip(old, new, strict=False)
        gone += old[len(new) :]
        come += new[len(old) :]
    old_tasks = _tasks(before, [*gone, *(o for o, _ in pairs)])
    new_tasks = _tasks(after, [*come, *(n for _, n in pairs)])
    changed = zip(old_tasks[len(gone) :], new_tasks[len(come) :], strict=True)
    return PlanDifference(tuple(old_tasks[: len(gone)]), tuple(new_tasks[: len(come)]), tuple(changed))


def _by_path(planned: PlannedFiles) -> dict[str, list[_Row]]:
    """The rows of a plan by path, each with the identities of its delete files."""
    found = defaultdict(list)
    identities: list[Any] = []
    if planned.deletes.num_rows:
        columns = (planned.deletes[n].to_pylist() for n in ("file_path", "content_offset"))
        identities = list(zip(*columns, strict=True))
    offsets, deletes = (a.to_pylist() for a in planned.deletes_by_file())
    paths = planned.files["file_path"].to_pylist()
    for row, (path, start, end) in enumerate(zip(paths, offsets[:-1], offsets[1:], strict=True)):
        found[path].append((frozenset(identities[d] for d in deletes[start:end]), row))
    return found


def _without_equal(old: list[_Row], new: list[_Row]) -> tuple[list[int], list[int]]:
    """The rows of both sides that have no partner with the same deletes."""
    left = list(new)
    kept = []
    for deletes, row in old:
        partner = next((n for n in left if n[0] == deletes), None)
        if partner is None:
            kept.append(row)
        else:
            left.remove(partner)
    return kept, [row for _, row in left]


def _tasks(planned: PlannedFiles, rows: list[int]) -> list[FileScanTask]:
    """The tasks of some rows of a plan, in their order."""
    return planned.of_rows(np.array(rows, np.int64)).tasks()
