"""What a process loads that opens a warehouse and plans: the less, the sooner its first plan is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from core_tables import make_table, rows

import icecore
from icecore.projections import segment_merging

PLAN = """
import sys
import icecore
with icecore.open(sys.argv[1]) as catalog:
    found = [catalog.load_table("ns.t").scan(f).plan().to_arrow().num_rows for f in (None, "id = 3", "name >= 'n5'")]
print(found, *sorted(m for m in sys.modules if m.partition(".")[0] in ("icecore", "pandas", "polars", "fastavro")))
"""
ROWS = ("icecore.engine.data.read", "icecore.engine.data.write", "icecore.engine.data.orc_file")
COMMITS = ("icecore.engine.transaction", "icecore.engine.catalog_transaction", "icecore.engine.row_changes")
VIEWS = ("icecore.engine.view", "icecore.engine.view_duckdb")


@pytest.mark.parametrize("version", [2, 3])
def test_a_plan_from_segments_loads_nothing_that_reads_rows_or_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Nor what reads manifests, nor pandas, which Arrow likes to import where it is installed."""
    monkeypatch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", 0)
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog, partition_spec=["bucket(4, id)"], format_version=version)
        for start in range(0, 9, 3):
            table.append(rows(start, start + 1, start + 2))
        table.delete("id = 4")
        planned = table.scan().plan().to_arrow().num_rows
    done = subprocess.run([sys.executable, "-c", PLAN, str(tmp_path)], capture_output=True, text=True, check=True)
    found, *loaded = done.stdout.replace(", ", ",").split()
    assert found.startswith(f"[{planned},")
    assert "icecore.projections.planner" in loaded
    assert sorted({"pandas", "polars", *ROWS, *COMMITS, *VIEWS} & set(loaded)) == []
