"""Commits in words: what their snapshots added and removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from icecore.engine.common.text import counted

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import DryRun

TOTAL_RECORDS = "total-records"
_ADDED, _DELETED = "added-records", "deleted-records"
_SUMS = (
    (_ADDED, "+", "row"),
    (_DELETED, "-", "row"),
    ("added-position-deletes", "+", "position delete"),
    ("added-equality-deletes", "+", "equality delete"),
    ("removed-position-deletes", "-", "position delete"),
    ("added-data-files", "+", "data file"),
    ("deleted-data-files", "-", "data file"),
    ("added-delete-files", "+", "delete file"),
    ("removed-delete-files", "-", "delete file"),
)


def sums(summaries: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """The numbers of rows and files that snapshots added and removed, by their names in summaries; no zeros."""
    totals = {key: 0 for key, _, _ in _SUMS}
    for summary in summaries:
        for key in totals:
            totals[key] += int(summary.get(key, 0))
    return {key: n for key, n in totals.items() if n}


def sums_text(totals: Mapping[str, int]) -> str:
    """Such numbers in words: `+ 3 rows, - 1 data file`; `no rows and no files` where there are none.

    Rows are the difference of added and deleted ones: rows that stay in a file which is written again are not counted.
    """
    more = totals.get(_ADDED, 0) - totals.get(_DELETED, 0)
    rows = [f"{'+' if more > 0 else '-'} {counted(abs(more), 'row')}"] if more else []
    if not more and _ADDED in totals:
        rows = ["as many rows as before"]
    files = [f"{sign} {counted(totals[key], what)}" for key, sign, what in _SUMS[2:] if key in totals]
    return ", ".join([*rows, *files]) or "no rows and no files"


def rows_in_all(totals: Mapping[str, int | str]) -> str:
    """The rows of all data files in words, by the totals of a summary: more than a scan has where some are deleted."""
    deletes = int(totals.get("total-delete-files", 0))
    return counted(int(totals.get(TOTAL_RECORDS, 0)), "row") + (" before deletes" if deletes else "")


def dry_run_lines(what: str, found: DryRun) -> list[str]:
    """The outcome of a dry run in words: its sums, the totals after it, and what is in its way."""
    totals = found.totals
    after = f"; {rows_in_all(totals)} after it" if TOTAL_RECORDS in totals else ""
    lines = [f"would {what}: {sums_text(sums(found.summaries))}{after}"]
    if found.is_done:
        lines = [f"there is nothing left to do: a commit has that key, so to {what} is done"]
    elif found.is_empty:
        lines = [f"would {what}: nothing to change"]
    return [*lines, *(f"in its way: {text}" for text in found.conflicts)]


def dry_run_record(found: DryRun) -> dict[str, Any]:
    """The outcome of a dry run for programs."""
    return {
        "dry_run": True,
        "changes": sums(found.summaries),
        "totals": found.totals,
        "conflicts": list(found.conflicts),
        "added_files": list(found.added_files),
        "removed_files": list(found.removed_files),
    }
