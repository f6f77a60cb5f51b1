"""What COMMIT names is on the disk before: with its power a machine loses no file that a pointer leads to."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from core_tables import ids_of, make_table, rows, store_of

import icecore
from icecore.engine.errors import StorageError
from icecore.engine.log.store import EventStore
from icecore.projections.files.materialize import Materializer

NAMED = "SELECT location FROM written_file WHERE kind IN ('manifest', 'manifest-list', 'metadata')"


class Disk:
    """What would be lost with the power: files that were never fsynced, and names younger than their folder's fsync."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.synced: set[int] = set()
        self.unsynced_names: set[str] = set()
        self.commits: list[int] = []
        self.lost: list[str] = []
        self.fails = False
        fsync, connect = os.fsync, sqlite3.connect
        disk = self

        def synced(file: int) -> None:
            if disk.fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            folder = os.readlink(f"/proc/self/fd/{file}")
            self.unsynced_names -= {name for name in list(self.unsynced_names) if os.path.dirname(name) == folder}
            fsync(file)
            self.synced.add(os.fstat(file).st_ino)

        def naming(real: Callable[[str, str], None]) -> Callable[[str, str], None]:
            def named(source: str, target: str) -> None:
                real(source, target)
                self.unsynced_names.add(target)

            return named

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
                if sql.strip().endswith("COMMIT"):
                    disk.look([location for (location,) in super().execute(NAMED)])
                return super().execute(sql, *args)

        patch.setattr(os, "fsync", synced)
        patch.setattr(os, "replace", naming(os.replace))
        patch.setattr(os, "link", naming(os.link))
        patch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Connection, **k))

    def look(self, locations: list[str]) -> None:
        """Notes what a COMMIT names and the disk may not have."""
        paths = [location.removeprefix("file://") for location in locations]
        self.commits.append(len(paths))
        self.lost += [p for p in paths if os.path.exists(p) and os.stat(p).st_ino not in self.synced]
        self.lost += [p for p in paths if p in self.unsynced_names]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def catalog(disk: Disk, tmp_path: Path) -> icecore.Catalog:
    """Opened after the disk is watched."""
    made = icecore.open(tmp_path / "warehouse")
    made.create_namespace("ns")
    return made


def in_one_group(catalog: icecore.Catalog, *works: Callable[[], object]) -> list[BaseException]:
    """Does works in threads, which wait for the log's lock until all are there; gives what they raised."""
    raised: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as e:
            raised.append(e)
        finally:
            store_of(catalog).close()

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    holder = EventStore(store_of(catalog).path)
    with holder.write(keep=False):
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 30
        while len(store_of(catalog).groups._waiting) < len(works) - 1:
            assert time.monotonic() < deadline
            time.sleep(0.001)
    holder.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return raised


def test_files_are_durable_before_what_names_them(catalog: icecore.Catalog, disk: Disk) -> None:
    """Of all that a group writes: several commits to a table, ones that become a file system table's, views."""
    a, b = make_table(catalog, "a"), make_table(catalog, "b", properties={"write.metadata.previous-versions-max": "1"})
    files = make_table(catalog, "files", properties={"icecore.commit-scheme": "filesystem"})
    view = catalog.create_view("ns.v", "SELECT 1 AS x")
    for number in range(3):
        done = len(disk.commits)
        raised = in_one_group(
            catalog,
            lambda n=number: a.append(rows(n)),  # type: ignore[misc]
            lambda n=number: a.append(rows(10 + n)),  # type: ignore[misc]
            lambda n=number: b.append(rows(n)),  # type: ignore[misc]
            lambda: b.set_properties({"write.metadata.delete-after-commit.enabled": "true"}),
            lambda n=number: view.set_properties({"n": str(n)}),  # type: ignore[misc]
            lambda n=number: files.append(rows(n)),  # type: ignore[misc]
        )
        assert raised == [] and len(disk.commits) > done
    assert disk.lost == []
    found = [ids_of(catalog.load_table(f"ns.{name}")) for name in ("a", "b", "files")]
    assert found == [[0, 1, 2, 10, 11, 12], [0, 1, 2], [0, 1, 2]]
    assert catalog.verify().problems == ()


def test_a_group_whose_files_the_disk_refuses_is_refused(catalog: icecore.Catalog, disk: Disk) -> None:
    """All of it, for nobody knows what is on the disk; what comes next is made durable one by one for a while."""
    a, b = make_table(catalog, "a"), make_table(catalog, "b")
    store, position = store_of(catalog), catalog.position
    settle = store.settle_files
    tries: list[bool] = []

    def broken() -> None:
        disk.fails = not tries
        tries.append(disk.fails)
        try:
            settle()
        finally:
            disk.fails = False

    store.settle_files = broken  # type: ignore[method-assign]
    raised = in_one_group(
        catalog, lambda: a.set_properties({"n": "1"}), lambda: b.set_properties({"n": "1"}), lambda: a.append(rows(1))
    )
    assert raised and all(isinstance(e, StorageError) and "durable" in str(e) for e in raised)
    assert catalog.position == position + 3 - len(raised)
    a.append(rows(2))
    assert disk.lost == [] and catalog.verify().problems == ()


def test_what_sqlite_took_back_while_files_were_written_is_refused_whole(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a page that can't be read: what follows in the group would be stored on its own, and then refused."""
    tables = [make_table(catalog, name) for name in ("a", "b")]
    store, position, write = store_of(catalog), catalog.position, Materializer._write
    tries: list[str] = []

    def lose(self: Materializer, stream: str, *args: Any) -> Any:
        tries.append(stream)
        if len(tries) == 1:
            store.connection().execute("ROLLBACK")
            raise StorageError("disk I/O error")
        return write(self, stream, *args)

    monkeypatch.setattr(Materializer, "_write", lose)
    raised = in_one_group(catalog, *(lambda t=t: t.append(rows(1)) for t in tables))
    stored = [ids_of(catalog.load_table(f"ns.{name}")) == [1] for name in ("a", "b")]
    assert len(raised) == 1 and sum(stored) == 1 and catalog.position == position + 1
    assert catalog.verify().problems == ()
