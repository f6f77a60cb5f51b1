"""What a commit asks of SQLite does not grow with the history."""

from __future__ import annotations

import statistics
from pathlib import Path

import pyarrow as pa
import pytest
from core_tables import store_of

import icecore
from icecore.engine.log.sqlite_file import SqliteFile

ROW = pa.table({"id": [1]}, schema=pa.schema([("id", pa.int64())]))
EVERY = 5


def steps_of_commits(table: icecore.Table, store: SqliteFile, commits: int) -> float:
    """The median count of steps of SQLite's virtual machine in a commit, in fives."""
    found = []
    for _ in range(commits):
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        store.connection().set_progress_handler(step, EVERY)
        table.append(ROW)
        store.connection().set_progress_handler(None, EVERY)
        found.append(count)
    return statistics.median(found)


@pytest.mark.parametrize(("mode", "deleted"), [("commit", "false"), ("commit", "true"), ("manual", "true")])
def test_a_commit_asks_the_same_of_sqlite_after_a_long_history(tmp_path: Path, mode: str, deleted: str) -> None:
    properties = {
        "icecore.materialize": mode,
        "write.metadata.delete-after-commit.enabled": deleted,
        "write.metadata.previous-versions-max": "3",
        # Both counts are of commits between two merges, and of one.
        "commit.manifest.min-count-to-merge": "10",
    }
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table("ns.t", ROW.schema, properties=properties)
        for _ in range(20):
            table.append(ROW)
        early = steps_of_commits(table, store_of(catalog), 9)
        for _ in range(61):
            table.append(ROW)
        late = steps_of_commits(table, store_of(catalog), 9)
        assert late < 1.25 * early
