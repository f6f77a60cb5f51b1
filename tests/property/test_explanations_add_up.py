"""An explanation says of every file of a snapshot why it is planned or not, and adds up to the plan's counts."""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any

import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from test_scan_rows import SCHEMA, SPECS, Model, apply, filters, rows, steps

import icecore


@pytest.mark.parametrize("format_version", [1, 2, 3])
@examples(3, new=56)
@given(first=rows, history=steps, wanted=st.lists(filters, min_size=2, max_size=4), spec=st.sampled_from(SPECS))
def test_SP1_SP8_explanations_add_up(
    format_version: int, first: list[dict[str, Any]], history: list[tuple[str, Any]], wanted: list[str], spec: list[str]
) -> None:
    """Every file has one reason; the planned ones are those of the plan, and each reason's count is the plan's."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", SCHEMA, partition_spec=spec, format_version=format_version)
        model = Model()
        for action, argument in [("append", first), *history]:
            apply(table, model, action, argument)
        everything = Counter(t.file.file_path for t in table.scan().plan_files())
        for condition in wanted:
            scan = table.scan(condition)
            found, counts = scan.explain(), scan.plan().counts
            files = found.files.to_pylist()
            assert Counter(f["file_path"] for f in files) == everything
            reasons = Counter(f["reason"] for f in files)
            assert reasons["manifest"] == counts.pruned_by_manifest, condition
            assert reasons["partition"] == counts.pruned_by_partition, condition
            assert reasons["metrics"] == counts.pruned_by_metrics, condition
            assert reasons["planned"] == counts.files_planned, condition
            assert sum(f["record_count"] for f in files) == counts.records_total
            planned = {f["file_path"]: f["delete_files"] for f in files if f["reason"] == "planned"}
            assert planned == {t.file.file_path: len(t.delete_files) for t in scan.plan_files()}
            assert all((f["predicate"] is None) == (f["reason"] == "planned") for f in files)
            summary = found.summary.to_pylist()
            assert sum(r["files"] for r in summary) == counts.files_total
            assert sum(r["records"] for r in summary) == counts.records_total
            str(found)
