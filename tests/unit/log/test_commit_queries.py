"""What a commit asks of SQLite: few statements, and no more of them after a long history."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from core_tables import store_of

import icecore
from icecore.engine.log.sqlite_file import SqliteFile
from icecore.engine.server.resources.commits import update_table
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.serving import Serving

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


def statements_of(store: SqliteFile, action: Callable[[], object]) -> list[str]:
    """The statements that SQLite ran, triggers' too."""
    seen: list[str] = []
    store.connection().set_trace_callback(seen.append)
    action()
    store.connection().set_trace_callback(None)
    return seen


def test_a_commit_makes_few_statements(tmp_path: Path) -> None:
    """The numbers are what was reached, not what is needed; none of them looks for the same again."""
    with icecore.open(tmp_path, actor="ann") as catalog:
        catalog.create_namespace("ns")
        table, store = catalog.create_table("ns.t", ROW.schema), store_of(catalog)
        table.append(ROW)
        change = {"action": "set-properties", "updates": {"key": "2"}}
        call = Call(Serving(catalog), names={"namespace": "ns", "table": "t"}, body={"updates": [change]})
        for action, most in (
            (lambda: table.set_properties({"key": "1"}), 17),
            (lambda: update_table(call), 18),
            (lambda: table.append(ROW), 32),
        ):
            found = statements_of(store, action)
            assert len(found) <= most, found
            reads = [s for s in found if s.startswith("SELECT")]
            assert not any("sqlite_master" in s for s in reads)
