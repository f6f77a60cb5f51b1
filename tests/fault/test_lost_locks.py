"""A process that loses SQLite's locks, as by a copy of the folder that it has open, loses no commit by it.

The system gives up all locks of a process on a file when anything in the process closes the file: SQLite's manual,
"How to corrupt an SQLite database file", 2.2.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from core_tables import SCHEMA
from harness.children import FAILED, Child, Say

import icecore
from icecore.engine.errors import CommitStateUnknownError, MovedWarehouseError

ANOTHER = """
import sys, icecore
with icecore.open(sys.argv[1]) as catalog:
    for name in sys.argv[2:]:
        catalog.create_namespace(name)
    print(*sorted(".".join(n) for n in catalog.list_namespaces()))
    assert catalog.verify().problems == ()
"""


def another(folder: Path, *names: str) -> list[str]:
    """The namespaces that another process sees after it made some and closed the warehouse."""
    run = [sys.executable, "-c", ANOTHER, str(folder), *names]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()


def said_by(work: Callable[[Path, icecore.Catalog, Say], None], folder: Path) -> object:
    """What is said in a process of its own that has the warehouse open, and closes it."""

    def run(say: Say) -> None:
        with icecore.open(folder / "lake") as catalog:
            catalog.create_namespace("first")
            work(folder, catalog, say)

    outcome = Child(run).wait()
    assert outcome.get(FAILED) is None and outcome.exit_code == 0
    return outcome.get("done")


def copied(folder: Path) -> None:
    shutil.copytree(folder / "lake", folder / "copy")


def refused(action: Callable[[], object]) -> None:
    with pytest.raises(MovedWarehouseError, match="start this process anew"):
        action()


def test_a_copy_alone_changes_nothing(tmp_path: Path) -> None:
    """Nor do others that only come and stay: who was there goes on, and the copy is whole."""

    def work(folder: Path, catalog: icecore.Catalog, say: Say) -> None:
        copied(folder)
        catalog.create_namespace("second")
        say("done", [n for (n,) in catalog.list_namespaces()])

    assert said_by(work, tmp_path) == ["first", "second"]
    assert another(tmp_path / "lake", "third") == ["first", "second", "third"]


def test_who_lost_its_locks_neither_reads_nor_writes_on(tmp_path: Path) -> None:
    """Nor does it write over the commits of others when it closes, or opens the log once more."""

    def work(folder: Path, catalog: icecore.Catalog, say: Say) -> None:
        copied(folder)
        another(folder / "lake")
        refused(lambda: catalog.create_namespace("lost"))
        another(folder / "lake", "others")
        refused(lambda: catalog.create_table("first.t", SCHEMA))
        refused(catalog.list_namespaces)
        refused(lambda: icecore.open(folder / "lake"))
        say("done", True)

    assert said_by(work, tmp_path)
    assert another(tmp_path / "lake", "last") == ["first", "last", "others"]


def test_threads_that_come_later_are_refused_too(tmp_path: Path) -> None:
    """They find another write-ahead log in place, which their process has no locks of either."""

    def work(folder: Path, catalog: icecore.Catalog, say: Say) -> None:
        copied(folder)
        another(folder / "lake", "others")
        with staying(folder / "lake"):
            with ThreadPoolExecutor(1) as pool:
                pool.submit(refused, catalog.list_namespaces).result()
            refused(lambda: catalog.create_namespace("lost"))
        say("done", True)

    assert said_by(work, tmp_path)
    assert another(tmp_path / "lake") == ["first", "others"]


@contextmanager
def staying(folder: Path) -> Iterator[None]:
    """A context in which another process has the warehouse open."""
    script = "import sys, icecore; c = icecore.open(sys.argv[1]); print(c.position, flush=True); sys.stdin.read()"
    run = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline()
        yield


def test_a_file_that_the_system_does_not_tell_of_for_a_moment_is_not_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network's file system."""
    told = os.stat

    def failing(path: Any, *rest: Any, **more: Any) -> os.stat_result:
        if str(path).endswith("-wal"):
            raise OSError(errno.EIO, "Input/output error")
        return told(path, *rest, **more)

    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("first")
        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", failing)
            catalog.create_namespace("second")
        catalog.create_namespace("third")
        assert len(catalog.list_namespaces()) == 3


def test_a_commit_during_which_the_locks_are_lost_is_of_unknown_outcome(tmp_path: Path) -> None:
    """Its events are in a file that is gone; the commits of others stand when the process ends."""

    def work(folder: Path, catalog: icecore.Catalog, say: Say) -> None:
        store = catalog._warehouse.store
        with pytest.raises(CommitStateUnknownError, match="start this process anew"), store.write() as transaction:
            store.execute("log/read_models.sql", "put_warehouse", key="some", value="thing")
            assert transaction.head[0]
            copied(folder)
            another(folder / "lake")
        say("done", another(folder / "lake", "others"))

    assert said_by(work, tmp_path) == ["first", "others"]
    assert another(tmp_path / "lake") == ["first", "others"]


def test_a_write_ahead_log_that_was_deleted_by_hand_loses_nothing(tmp_path: Path) -> None:
    """What it alone had is written back by who has it open yet."""

    def work(folder: Path, catalog: icecore.Catalog, say: Say) -> None:
        catalog.create_namespace("second")
        (folder / "lake" / "icecore.db-wal").unlink()
        refused(lambda: catalog.create_namespace("third"))
        say("done", True)

    assert said_by(work, tmp_path)
    assert another(tmp_path / "lake") == ["first", "second"]


def test_a_folder_that_moved_can_be_opened_where_it_is_now(tmp_path: Path) -> None:
    """In the process that had it open before too: its locks are as they were."""

    def work(folder: Path, catalog: icecore.Catalog, say: Say) -> None:
        (folder / "lake").rename(folder / "moved")
        with pytest.raises(MovedWarehouseError, match="open it again"):
            catalog.create_namespace("second")
        with icecore.open(folder / "moved", read_only=True) as again:
            say("done", [n for (n,) in again.list_namespaces()])

    assert said_by(work, tmp_path) == ["first"]


def wait_until(ready: Callable[[], bool]) -> None:
    for _ in range(12_000):
        if ready():
            return
        time.sleep(0.005)
    pytest.fail("the other process never came so far")


def test_a_forked_process_does_not_go_on_when_its_parent_closed_the_log(tmp_path: Path) -> None:
    """It has no locks of its own: what it commits then would be lost."""
    catalog = icecore.open(tmp_path / "lake")
    catalog.create_namespace("first")

    def work(say: Say) -> None:
        catalog.create_namespace("second")
        wait_until((tmp_path / "closed").exists)
        refused(lambda: catalog.create_namespace("third"))

    child = Child(work)
    wait_until(lambda: catalog.namespace_exists("second"))
    catalog.close()
    (tmp_path / "closed").touch()
    outcome = child.wait()
    assert outcome.get(FAILED) is None and outcome.exit_code == 0
    assert another(tmp_path / "lake") == ["first", "second"]
