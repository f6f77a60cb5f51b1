"""Processes that are forked off one that has planned already, as multiprocessing does it: threads are gone there."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from core_tables import ids_of, make_table, repository_of, rows
from harness.children import FAILED, Child, Say

import icecore
from icecore.projections.planner import PlannedFiles, Planner


def written(folder: Path) -> str:
    """The metadata file of a table of twenty manifests that were written alike."""
    with icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog, properties={"commit.manifest-merge.enabled": "false"})
        for number in range(20):
            table.append(rows(number))
        assert table.metadata_location is not None
        return table.metadata_location


def registered(folder: Path, metadata_location: str) -> tuple[icecore.Catalog, icecore.Table]:
    catalog = icecore.open(folder)
    catalog.create_namespace("ns")
    return catalog, catalog.register_table("ns.t", metadata_location)


def planned(table: icecore.Table) -> int:
    return int(table.scan("id > 3").plan().to_arrow().num_rows)


def test_a_forked_process_expands_manifests(tmp_path: Path) -> None:
    """As its parent did before it."""
    location = written(tmp_path / "w")
    catalog, table = registered(tmp_path / "parent", location)
    with catalog:
        assert planned(table) == 16

    def work(say: Say) -> None:
        with registered(tmp_path / "child", location)[0] as other:
            say("planned", planned(other.load_table("ns.t")))

    outcome = Child(work).wait(timeout_s=60)
    assert (outcome.get("planned"), outcome.get(FAILED)) == (16, None)


def test_a_forked_process_goes_on_with_the_catalog_of_its_parent(tmp_path: Path) -> None:
    """Both commit, and neither loses anything."""
    catalog, table = registered(tmp_path / "w", written(tmp_path / "theirs"))

    def work(say: Say) -> None:
        table.append(rows(20))
        say("planned", planned(table))

    with catalog:
        assert planned(table) == 16
        outcome = Child(work).wait(timeout_s=60)
        assert (outcome.get("planned"), outcome.get(FAILED)) == (17, None)
        table.append(rows(21))
        assert ids_of(table) == list(range(22))
        assert catalog.verify().problems == ()


def check_that_a_child_plans(
    table: icecore.Table, thread: threading.Thread, held: threading.Event, done: threading.Event
) -> None:
    """Forks while the thread holds what it sets `held` for, until `done`."""
    thread.start()
    assert held.wait(60)
    try:
        outcome = Child(lambda say: say("planned", planned(table))).wait(timeout_s=60)
    finally:
        done.set()
        thread.join()
    assert (outcome.get("planned"), outcome.get(FAILED)) == (16, None)


def test_a_fork_while_a_thread_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The locks that the thread holds at that moment are nobody's in the forked process."""
    catalog, table = registered(tmp_path / "w", written(tmp_path / "theirs"))
    real = Planner._plan
    held, done = threading.Event(), threading.Event()

    def plan(*args: Any) -> PlannedFiles:
        if threading.current_thread() is thread:
            held.set()
            done.wait(60)
        return real(*args)

    with catalog:
        assert planned(table) == 16
        monkeypatch.setattr(Planner, "_plan", plan)
        thread = threading.Thread(target=planned, args=(table,))
        check_that_a_child_plans(table, thread, held, done)


def test_a_fork_while_a_thread_reads_the_log(tmp_path: Path) -> None:
    """Nor is the lock of the states that it brings up to date."""
    catalog, table = registered(tmp_path / "w", written(tmp_path / "theirs"))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with repository_of(catalog).states._lock:
            held.set()
            done.wait(60)

    with catalog:
        check_that_a_child_plans(table, threading.Thread(target=hold), held, done)


def test_a_forked_process_ends_well(tmp_path: Path) -> None:
    """It runs to the end of the interpreter, which closes what is open, and leaves the parent's work alone."""
    script = """
import os, sys, icecore
with icecore.open(sys.argv[1]) as catalog:
    catalog.create_namespace("ns")
    table = catalog.register_table("ns.t", sys.argv[2])
    before = table.scan().plan().to_arrow().num_rows
    child = os.fork()
    after = table.scan("id > 3").plan().to_arrow().num_rows
    if child:
        print(before, after, os.waitpid(child, 0)[1], catalog.verify().problems)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "w"), written(tmp_path / "theirs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("20 16 0 ()\n", 0), done.stderr
