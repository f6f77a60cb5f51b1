"""What a commit costs must not grow with the history behind it: counted in function calls, not in seconds."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path

import pyarrow as pa
import pytest

import icecore

ROW = pa.table({"id": pa.array([1], pa.int64())})
MERGE_AT = 10


def calls(profile: cProfile.Profile) -> int:
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]  # typeshed leaves it out


@pytest.mark.parametrize("materialize", ["manual", "commit"])
def test_a_commit_after_many_costs_what_it_cost_after_few(tmp_path: Path, materialize: str) -> None:
    """Function calls of as many commits, a merge of manifests among them, early and much later."""
    properties = {"icecore.materialize": materialize, "commit.manifest.min-count-to-merge": str(MERGE_AT)}
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", ROW.schema, properties=properties)

        def batch() -> int:
            with cProfile.Profile() as profile:
                for _ in range(MERGE_AT):
                    table.append(ROW)
            return calls(profile)

        batch()
        early = batch()
        for _ in range(4 * MERGE_AT):
            table.append(ROW)
        late = batch()
        assert len(table.snapshots()) == 7 * MERGE_AT
        assert table.scan().count() == 7 * MERGE_AT
    assert late < 1.2 * early, (early, late)
