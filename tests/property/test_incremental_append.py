"""An incremental append scan gives exactly the rows that the appends of its range brought."""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

import pytest
from budgets import examples
from histories import LAYOUTS, SPECS, apply, arrow, canonical, conditions, make_table, rows, steps
from hypothesis import given
from hypothesis import strategies as st

import icecore


@pytest.mark.parametrize(("format_version", "mode"), LAYOUTS)
@examples(2, new=42)
@given(
    first=rows,
    history=steps,
    spec=st.sampled_from(SPECS),
    condition=conditions,
    ends=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)
def test_appends_between_two_snapshots(
    format_version: int,
    mode: str,
    first: list[dict[str, Any]],
    history: list[tuple[str, Any]],
    spec: list[str],
    condition: str,
    ends: tuple[int, int],
) -> None:
    """Overwrites, deletes and rewritten manifests in between add nothing and take nothing away."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        table = make_table(catalog, spec, format_version, mode)
        appended: list[tuple[int, Counter[str]]] = []
        for action, argument in [("append", first), *history]:
            before, there = table.current_snapshot(), canonical(table.scan().to_arrow())
            apply(table, action, argument)
            after = table.current_snapshot()
            if after is not None and after != before:
                brought: Counter[str] = Counter()
                if after.operation == "append":
                    brought = canonical(arrow(argument[1] if action == "overwrite" else argument))
                if action == "upsert":
                    # Rows that are there as they are given are not written again.
                    brought -= there
                appended.append((after.snapshot_id, brought))
        start, end = sorted(e % len(appended) for e in ends)
        scan = table.incremental_append_scan(
            from_snapshot_id_exclusive=appended[start][0], to_snapshot_id_inclusive=appended[end][0]
        )
        expected = sum((found for _, found in appended[start + 1 : end + 1]), Counter())
        assert canonical(scan.to_arrow()) == expected
        assert scan.count() == expected.total()
        whole = table.incremental_append_scan(to_snapshot_id_inclusive=appended[end][0])
        assert canonical(whole.to_arrow()) == sum((found for _, found in appended[: end + 1]), Counter())
        filtered = table.incremental_append_scan(condition, to_snapshot_id_inclusive=appended[end][0])
        kept = whole.to_duckdb("appended").sql(f"SELECT * FROM appended WHERE {condition}").to_arrow_table()
        assert canonical(filtered.to_arrow()) == canonical(kept)
        counts = filtered.plan().counts
        left_out = counts.pruned_by_manifest + counts.pruned_by_partition + counts.pruned_by_metrics
        assert counts.files_total == left_out + counts.files_planned == len(whole.plan_files())
