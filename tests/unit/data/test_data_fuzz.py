"""Broken data and delete files are errors of ours that name the file, or what is missing was not needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .fuzzing import CASES

CHANGES = 60
ALLOWED = {"error", "same", "other rows"}


@pytest.mark.parametrize("kinds", [("parquet", "avro", "puffin"), ("orc",)], ids=", ".join)
def test_broken_files_end_in_our_errors(kinds: tuple[str, ...]) -> None:
    """Bytes changed or cut: no other exception, no end of the process.

    Only Parquet and Puffin have checksums over their content, so that rows can't change there unless the change hits
    what the checksums leave out: headers and footers. In ORC and Avro a changed value may look like any other.
    """
    run = subprocess.run(
        [sys.executable, "-m", f"{__package__}.fuzzing", str(CHANGES), "11", *kinds],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    if kinds == ("orc",) and run.returncode < 0:
        pytest.xfail(f"Arrow's ORC reader ended the process: {run.stderr.splitlines()[-1]}")
    assert run.returncode == 0, run.stderr[-2000:]
    found = {tuple(x["case"]): x["outcomes"] for x in map(json.loads, run.stdout.splitlines())}
    assert set(found) == {c for c in CASES if c[1] in kinds}
    for case, outcomes in found.items():
        assert set(outcomes) <= ALLOWED, (case, outcomes)
        assert sum(outcomes.values()) == CHANGES
        assert outcomes["error"] > CHANGES // 10, (case, outcomes)
        if case[1] == "puffin":
            assert "other rows" not in outcomes, (case, outcomes)
        if case[1] == "parquet":
            assert outcomes.get("other rows", 0) <= CHANGES // 50, (case, outcomes)
