"""A rebuild is one transaction: others see what was there until it is done, and one bad table harms no other."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from harness import kills
from harness.children import Say, in_child
from harness.counts import Counts
from harness.operations import Setting
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.errors import RebuildError, StorageError
from icecore.projections.files.event_files import EventFiles
from icecore.projections.files.file_follower import FileFollower

SCHEMA = pa.schema([("id", pa.int64())])
NAMES = ("a", "b", "bad", "y", "z")


@pytest.fixture
def filled(catalog: icecore.Catalog) -> icecore.Catalog:
    """Five tables, every other one in a file system's way, and a view."""
    for i, name in enumerate(NAMES):
        properties = {"icecore.commit-scheme": "filesystem"} if i % 2 else {}
        catalog.create_table(f"ns.{name}", SCHEMA, properties=properties).append([{"id": i}])
    catalog.create_view("ns.v", "SELECT 1 AS x")
    return catalog


def rows_elsewhere(warehouse: Path) -> dict[str, list[int]]:
    peer = SqlCatalog("icecore", uri=f"sqlite:///{warehouse}/icecore.db", warehouse=str(warehouse))
    found = {n[-1]: peer.load_table(n).scan().to_arrow()["id"].to_pylist() for n in peer.list_tables("ns")}
    peer.engine.dispose()
    return found


def metadata_bytes(warehouse: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in warehouse.rglob("metadata/*") if p.is_file()}


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch, filled: icecore.Catalog) -> Callable[[str, Exception], None]:
    """Lets the metadata file of one table, or of a view, fail to be written."""
    write = EventFiles._write_metadata

    def break_it(name: str, error: Exception) -> None:
        def broken(self: EventFiles, event: object, state: object, *rest: object) -> object:
            if state.identifier[-1] == name:  # type: ignore[attr-defined]  # a TableState, whatever its name
                raise error
            return write(self, event, state, *rest)  # type: ignore[arg-type]  # what it was called with

        monkeypatch.setattr(EventFiles, "_write_metadata", broken)

    return break_it


@pytest.mark.parametrize("bad", ["bad", "b"])
@pytest.mark.parametrize("error", [StorageError("no space"), KeyError("strange")], ids=repr)
def test_one_bad_table_keeps_what_it_had_and_the_others_are_rebuilt(
    filled: icecore.Catalog,
    warehouse: Path,
    breaking: Callable[[str, Exception], None],
    monkeypatch: pytest.MonkeyPatch,
    open_again: Callable[[], icecore.Catalog],
    bad: str,
    error: Exception,
) -> None:
    """The error names it at the end; every table is read elsewhere as before, here and after the next open."""
    before, files = rows_elsewhere(warehouse), metadata_bytes(warehouse)
    lost = {p for p in files if f"/ns/{bad}" not in str(p) and p.name.endswith(".json")}
    for path in lost:
        path.unlink()
    breaking(bad, error)
    with pytest.raises(
        RebuildError, match=rf"1 of 6 tables and views keep .*ns\.{bad}: .*(no space|strange)"
    ) as caught:
        filled.rebuild()
    assert list(caught.value.failed) == [f"ns.{bad}"]
    assert metadata_bytes(warehouse) == files
    assert rows_elsewhere(warehouse) == before
    assert filled.verify().problems == ()
    monkeypatch.undo()
    again = open_again()
    assert again.verify().problems == ()
    again.load_table(f"ns.{bad}").append([{"id": 9}])
    assert sorted(rows_elsewhere(warehouse)[bad]) == [*before[bad], 9]
    again.rebuild()
    assert again.verify().problems == ()


def test_others_see_all_tables_while_a_rebuild_runs(
    filled: icecore.Catalog, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each table that is written the rows of `iceberg_tables` are those from before, and no name is free."""
    seen = []
    rewrite = FileFollower.rewrite

    def look(self: FileFollower, *given: object) -> object:
        with sqlite3.connect(warehouse / "icecore.db") as other:
            seen.append(other.execute("SELECT table_name, metadata_location FROM iceberg_tables ORDER BY 1").fetchall())
        other.close()
        return rewrite(self, *given)  # type: ignore[arg-type]  # what it was called with

    monkeypatch.setattr(FileFollower, "rewrite", look)
    filled.rebuild()
    with sqlite3.connect(warehouse / "icecore.db") as other:
        after = other.execute("SELECT table_name, metadata_location FROM iceberg_tables ORDER BY 1").fetchall()
    other.close()
    assert len(after) == 6
    assert seen == [after] * 5


@pytest.mark.parametrize("setting", [Setting(), Setting("filesystem")], ids=str)
def test_killed_at_steps_of_a_rebuild(tmp_path: Path, setting: Setting) -> None:
    """SIGKILL at steps of it: the warehouse is as before, or as after, which is the same."""
    counts = Counts()
    kills.kill_at_each_step(tmp_path / "w", counts, setting, every=37, names=("rebuild",))
    assert counts.violations == []
    assert counts.total() >= 3


def test_a_rebuild_that_dies_leaves_the_pointers(filled: icecore.Catalog, warehouse: Path) -> None:
    """Read by PyIceberg at once, before anything here heals: all tables are there."""
    before = rows_elsewhere(warehouse)
    filled.close()

    def work(_: Say) -> None:
        rewrite, written = FileFollower.rewrite, []

        def dying(self: FileFollower, *given: object) -> object:
            written.append(given)
            if len(written) == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return rewrite(self, *given)  # type: ignore[arg-type]  # what it was called with

        FileFollower.rewrite = dying  # type: ignore[method-assign,assignment]  # in this process only
        with icecore.open(warehouse) as again:
            again.rebuild()

    assert in_child(work).was_killed
    assert rows_elsewhere(warehouse) == before
    with icecore.open(warehouse) as again:
        assert again.verify().problems == ()
