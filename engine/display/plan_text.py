"""A plan in words and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from icecore.engine.display.output import row_lines
from icecore.engine.expression.json.expression_json import to_json

if TYPE_CHECKING:
    from icecore.projections.explain.explain import Explanation
    from icecore.projections.plan.planned_files import PlanCounts
    from icecore.projections.plan.scan_plan import ScanPlan

FILE_COLUMNS = ("rows", "bytes", "deletes", "file")
EXPLAINED_COLUMNS = ("reason", "rows", "filter", "known", "file")


def plan_steps(counts: PlanCounts) -> list[tuple[str, int]]:
    """The number of files left out by each step of a plan."""
    return [
        ("in the snapshot", counts.files_total),
        ("left out by manifest summaries", counts.pruned_by_manifest),
        ("left out by partition", counts.pruned_by_partition),
        ("left out by column metrics", counts.pruned_by_metrics),
        ("planned", counts.files_planned),
    ]


def plan_files_rows(plan: ScanPlan, location: str) -> list[tuple[int, int, int, str]]:
    """Rows, bytes, number of delete files and path of each planned file; paths start below the table's location."""
    return [
        (
            t.file.record_count,
            t.file.file_size_in_bytes,
            len(t.delete_files),
            t.file.file_path.removeprefix(f"{location}/"),
        )
        for t in plan.tasks
    ]


def plan_dict(plan: ScanPlan) -> dict[str, Any]:
    """The counts of a plan, and its files with the residual of each, as an Iceberg expression."""
    files = [
        {
            "file_path": t.file.file_path,
            "file_format": str(t.file.file_format),
            "spec_id": t.file.spec_id,
            "record_count": t.file.record_count,
            "file_size_in_bytes": t.file.file_size_in_bytes,
            "data_sequence_number": t.data_sequence_number,
            "delete_files": [d.file_path for d in t.delete_files],
            "residual": to_json(t.residual, inclusive=True),
        }
        for t in plan.tasks
    ]
    return {"counts": attrs.asdict(plan.counts), "files": files}


def plan_lines(counts: PlanCounts) -> list[str]:
    """The sums of a plan as text, before its files."""
    return [*row_lines(("", "files"), plan_steps(counts)), "", f"planned in {counts.seconds * 1000:.1f} ms", ""]


def explanation_dict(explanation: Explanation) -> dict[str, Any]:
    """The sums by reason, each file with its reason, and the SQL that ran."""
    return {
        "counts": attrs.asdict(explanation.counts),
        "summary": explanation.summary.to_pylist(),
        "files": explanation.files.to_pylist(),
        "sql": [{"sql": s.sql, "parameters": dict(s.parameters)} for s in explanation.statements],
    }


def explanation_lines(explanation: Explanation, *, with_sql: bool) -> list[str]:
    """The sums by reason as text, before the files; the SQL that ran where that is wanted."""
    sql = [*explanation.sql.split("\n"), ""] if with_sql else []
    return [*str(explanation).split("\n"), "", *sql]


def explained_rows(explanation: Explanation, location: str) -> list[tuple[Any, ...]]:
    """Reason, rows, filter, what is known and path of each file; paths start below the location."""
    return [
        (
            r["reason"],
            r["record_count"],
            r["residual"] if r["predicate"] is None else r["predicate"],
            r["known"],
            r["file_path"].removeprefix(f"{location}/"),
        )
        for r in explanation.files.to_pylist()
    ]
