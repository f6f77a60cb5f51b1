"""What of one plan is not in another: the files that went, that came, and that have other deletes now."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.scan_task import FileScanTask
from icecore.projections.planner import PlannedFiles

_Row = tuple[frozenset[Any], int]


@frozen
class PlanDifference:
    """Tasks of files that only the first plan has, that only the second has, and pairs whose deletes differ."""

    gone: tuple[FileScanTask, ...]
    come: tuple[FileScanTask, ...]
    changed: tuple[tuple[FileScanTask, FileScanTask], ...]


def plan_difference(before: PlannedFiles, after: PlannedFiles) -> PlanDifference:
    """How the second plan differs from the first. A file that a table has twice counts twice."""
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
    files, found = planned.files, defaultdict(list)
    deletes = _deletes(planned)
    names = ("m", "ordinal", "file_path")
    for row, (m, ordinal, path) in enumerate(zip(*(files[n].to_pylist() for n in names), strict=True)):
        found[path].append((frozenset(deletes.get((m, ordinal), ())), row))
    return found


def _deletes(planned: PlannedFiles) -> dict[tuple[int, int], list[Any]]:
    found: dict[tuple[int, int], list[Any]] = defaultdict(list)
    if planned.pairs.num_rows:
        names = ("m", "ordinal", "file_path", "content_offset")
        columns = (planned.deletes[n].to_pylist() for n in names)
        identities = {(m, ordinal): (path, offset) for m, ordinal, path, offset in zip(*columns, strict=True)}
        for pair in planned.pairs.to_pylist():
            found[pair["m"], pair["ordinal"]].append(identities[pair["dm"], pair["dordinal"]])
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
    if not rows:
        return []
    files = planned.files.take(pa.array(rows, pa.int64()))
    wanted = set(zip(files["m"].to_pylist(), files["ordinal"].to_pylist(), strict=True))
    pairs = planned.pairs
    if pairs.num_rows:
        keys = zip(pairs["m"].to_pylist(), pairs["ordinal"].to_pylist(), strict=True)
        pairs = pairs.filter(pa.array([k in wanted for k in keys], pa.bool_()))
    return evolve(planned, files=files, pairs=pairs).tasks()
