"""Processes that are forked off one that has planned already, as multiprocessing does it: threads are gone there."""

from __future__ import annotations

import contextlib
import gc
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from core_tables import ids_of, make_table, pyiceberg_catalog, rows
from harness.children import FAILED, Child, Say

import icecore
from icecore.engine.common.bulk_attrs import gc_paused
from icecore.engine.common.fork_safety import Lock
from icecore.engine.data.arrow.row_filter import connection
from icecore.engine.log.reader import EventReader
from icecore.projections.plan import planner as planner_module
from icecore.projections.plan.planner import PlannedFiles, Planner
from icecore.projections.segments.manifest_selection import ManifestSelection

ROOT = Path(__file__).parents[2]


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


def test_a_forked_process_sees_what_other_engines_did_before_it(tmp_path: Path) -> None:
    """Its connection is a new one, to which SQLite says of the file's changes what it said to its parent's at first."""
    with icecore.open(tmp_path / "w") as made:
        made.create_namespace("ns")
    with icecore.open(tmp_path / "w") as catalog:
        assert catalog.list_tables("ns") == []
        peer = pyiceberg_catalog(catalog.path)
        peer.create_table("ns.theirs", pa.schema([("id", pa.int64())]))
        peer.close()
        outcome = Child(lambda say: say("found", catalog.list_tables("ns"))).wait(timeout_s=60)
        assert (outcome.get("found"), outcome.get(FAILED)) == ([("ns", "theirs")], None)


def in_a_child(
    work: Callable[[], object], thread: threading.Thread, held: threading.Event, done: threading.Event
) -> Any:
    """What a child says that is forked while the thread holds what it sets `held` for, until `done`."""
    thread.start()
    assert held.wait(60)
    try:
        outcome = Child(lambda say: say("found", work())).wait(timeout_s=60)
    finally:
        done.set()
        thread.join()
    return outcome.get("found"), outcome.get(FAILED)


def test_a_fork_while_a_thread_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The locks that the thread holds at that moment are nobody's in the forked process."""
    catalog, table = registered(tmp_path / "w", written(tmp_path / "theirs"))
    real = Planner._plan
    held, done = threading.Event(), threading.Event()

    def plan(*args: Any) -> tuple[PlannedFiles, ManifestSelection]:
        if threading.current_thread() is thread:
            held.set()
            done.wait(60)
        return real(*args)

    with catalog:
        assert planned(table) == 16
        monkeypatch.setattr(Planner, "_plan", plan)
        thread = threading.Thread(target=planned, args=(table,))
        assert in_a_child(lambda: planned(table), thread, held, done) == (16, None)


@pytest.mark.parametrize("use", ["query", "filter", "commit"])
def test_a_fork_after_a_thread_has_used_connections_of_its_own(tmp_path: Path, use: str) -> None:
    """The thread's are closed by nobody in the forked process, where it has ended before anything of ours runs."""
    catalog, table = registered(tmp_path / "w", written(tmp_path / "theirs"))
    held, done = threading.Event(), threading.Event()

    def work() -> int:
        match use:
            case "query":
                return int(catalog.query("SELECT count(*) FROM ns.t WHERE id > 3").fetchall()[0][0])
            case "filter":
                return len(ids_of(table, row_filter="id > 3"))
            case _:
                catalog.load_table("ns.t").append(rows(99))
                return planned(table)

    def hold() -> None:
        for _ in range(3):
            work()
        held.set()
        done.wait(60)

    with catalog:
        found, failed = in_a_child(work, threading.Thread(target=hold), held, done)
        assert failed is None and found
        assert catalog.verify().problems == ()


def test_a_fork_while_a_thread_makes_the_planner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first plan of the forked process makes one of its own."""
    catalog, table = registered(tmp_path / "w", written(tmp_path / "theirs"))
    held, done = threading.Event(), threading.Event()

    def make(*args: Any) -> Planner:
        if threading.current_thread() is thread:
            held.set()
            done.wait(60)
        return Planner(*args)

    with catalog:
        monkeypatch.setattr(planner_module, "Planner", make)
        thread = threading.Thread(target=planned, args=(table,))
        assert in_a_child(lambda: planned(table), thread, held, done) == (16, None)
        assert planned(table) == 16


@pytest.mark.parametrize("what", ["table", "view"])
def test_a_fork_while_a_thread_reads_the_log(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the lock of the states of tables, or of views, that it brings up to date."""
    held, done = threading.Event(), threading.Event()
    real = EventReader.last_version

    def last_version(*args: Any) -> int:
        if threading.current_thread() is thread:
            held.set()
            done.wait(60)
        return real(*args)

    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
        made = make_table(catalog).metadata_location, catalog.create_view("ns.v", "SELECT 1 AS x").metadata_location

        def load() -> object:
            return (
                catalog.load_table("ns.t").metadata_location
                if what == "table"
                else catalog.load_view("ns.v").metadata_location
            )

        thread = threading.Thread(target=load)
        monkeypatch.setattr(EventReader, "last_version", last_version)
        assert in_a_child(load, thread, held, done) == (made[what == "view"], None)


def test_a_fork_while_a_thread_holds_the_collector_off(tmp_path: Path) -> None:
    """The forked process, where that thread is not, collects garbage again; a pause of its own goes on to its end."""
    held, done = threading.Event(), threading.Event()

    def pause() -> None:
        with gc_paused():
            held.set()
            done.wait(60)

    assert in_a_child(gc.isenabled, threading.Thread(target=pause), held, done) == (True, None)
    with gc_paused():
        outcome = Child(lambda say: say("found", gc.isenabled())).wait(timeout_s=60)
    assert outcome.get("found") is False and gc.isenabled()


def test_a_lock_that_was_entered_before_a_fork_is_left_after_it() -> None:
    """By the thread that forked; and it can be had again then, in both processes."""
    lock = Lock()

    def again() -> bool:
        with lock, lock:
            return True

    def block() -> Iterator[bool]:
        with lock:
            yield again()
        yield again()

    inside = block()
    assert next(inside)
    outcome = Child(lambda say: say("found", (again(), next(inside)))).wait(timeout_s=60)
    assert outcome.get("found") == (True, True) and next(inside)


def test_an_interrupt_leaves_no_lock_held() -> None:
    """One that comes as the lock was taken, and before the block that gives it back has begun."""
    lock = Lock()

    def interrupt(frame: FrameType, event: str, called: object) -> None:
        if event == "c_return" and getattr(called, "__name__", "") in ("acquire", "__enter__"):
            raise KeyboardInterrupt

    def take() -> None:
        with lock:
            taken.append(threading.get_ident())

    taken: list[int] = []
    sys.setprofile(interrupt)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            take()
    finally:
        sys.setprofile(None)
    other = threading.Thread(target=take, daemon=True)
    other.start()
    other.join(timeout=30)
    assert taken[-1] == other.ident


def test_every_lock_is_one_that_a_fork_renews() -> None:
    """So that the next one to be written can't be forgotten."""
    sources = [p for folder in ("engine", "projections") for p in (ROOT / folder).rglob("*.py")]
    assert len(sources) > 100
    made = {p.name for p in sources if re.search(r"\b(R?Lock|Condition|(Bounded)?Semaphore)\b", _imported(p))}
    assert made == {"fork_safety.py"}


def _imported(path: Path) -> str:
    """What a module takes from `threading` and `multiprocessing`."""
    return " ".join(re.findall(r"(?:threading|multiprocessing)(?:\.| import )([\w ,]+)", path.read_text()))


def test_a_forked_process_filters_rows_in_a_connection_of_its_own(tmp_path: Path) -> None:
    """The parent's DuckDB has no threads there."""
    mine = connection()
    outcome = Child(lambda say: say("found", connection() is mine)).wait(timeout_s=60)
    assert outcome.get("found") is False and connection() is mine


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
