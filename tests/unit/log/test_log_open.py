"""Opening a warehouse: what is no log, what is damaged, what is locked, what can't be written."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from clean_processes import clean_processes
from core_tables import ids_of, make_table, rows, store_of
from fault_writers import append_one

import icecore
from icecore.engine.errors import CorruptLogError, IcecoreError, ReadOnlyError, StorageError, WarehouseLockedError
from icecore.engine.log import sqlite_file
from icecore.engine.log.store import EventStore


def test_a_missing_warehouse_is_not_made_unless_asked(tmp_path: Path) -> None:
    """`create=False` and `read_only` make nothing."""
    for create, read_only in ((False, False), (True, True), (False, True)):
        with pytest.raises(StorageError, match="nowhere"):
            icecore.open(tmp_path / "nowhere", create=create, read_only=read_only)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    "content", [b"this is no database at all, only text\n" * 40, random.Random(8192).randbytes(8192), b"PAR1"]
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes, read_only: bool) -> None:
    """A file of another kind is named in the error, and stays as it is."""
    path = tmp_path / "icecore.db"
    path.write_bytes(content)
    with pytest.raises(CorruptLogError, match=r"icecore\.db is damaged: .*Move it away, and icecore\.db-wal beside"):
        icecore.open(tmp_path, read_only=read_only)
    assert path.read_bytes() == content


def test_a_folder_in_the_place_of_the_log(tmp_path: Path) -> None:
    """A folder called icecore.db can't be opened."""
    (tmp_path / "icecore.db").mkdir()
    with pytest.raises(IcecoreError, match=r"icecore\.db"):
        icecore.open(tmp_path)


def test_a_full_disk_is_named(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says of it that there is an error of the disk, even where a log is only read."""

    def no_room(*_: object) -> sqlite3.Connection:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(EventStore, "_connect", no_room)
    for free, told in ((0, "disk I/O error; its disk is full$"), (2**30, "disk I/O error$")):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        with pytest.raises(StorageError, match=told):
            icecore.open(catalog.path, read_only=True)


def test_a_file_in_the_place_of_the_warehouse(tmp_path: Path) -> None:
    """A file where the folder should be is a clear error."""
    (tmp_path / "w").write_text("file")
    with pytest.raises(IcecoreError, match="w"):
        icecore.open(tmp_path / "w")


def test_a_database_without_a_log(tmp_path: Path) -> None:
    """One of something else, as PyIceberg makes it where icecore.db was lost, gets a log only where one may be made."""
    sqlite3.connect(tmp_path / "icecore.db").execute("CREATE TABLE t (a)").connection.close()
    for read_only in (True, False):
        with pytest.raises(CorruptLogError, match="no transaction log; `icecore init` makes"):
            icecore.open(tmp_path, create=False, read_only=read_only)
    assert icecore.open(tmp_path).position == 0


def test_a_log_of_a_later_release(catalog: icecore.Catalog) -> None:
    """A log format that this release doesn't know is refused."""
    store_of(catalog).connection().execute("UPDATE warehouse SET value = '2' WHERE key = 'log-format'")
    with pytest.raises(CorruptLogError, match="format 2"):
        icecore.open(catalog.path)


@pytest.mark.parametrize("kept", [0.02, 0.3, 0.6, 0.95])
def test_a_truncated_log_is_an_error_of_ours(catalog: icecore.Catalog, tmp_path: Path, kept: float) -> None:
    """A log that is cut off anywhere never ends in SQLite's own exceptions, and never verifies."""
    table = make_table(catalog)
    for i in range(6):
        table.append(rows(i))
    catalog.close()
    data = (catalog.path / "icecore.db").read_bytes()
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "icecore.db").write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(IcecoreError, match=r"icecore\.db|position"):
        with icecore.open(copy, read_only=True) as broken:
            found = broken.verify().problems
        raise CorruptLogError(f"icecore.db: {found}") if found else AssertionError("it verified")


def test_read_only_reads_and_refuses_writes(catalog: icecore.Catalog) -> None:
    """Every write of a read-only warehouse is refused before anything is done; reads work."""
    make_table(catalog).append(rows(1))
    position = catalog.position
    with icecore.open(catalog.path, read_only=True) as reader:
        table = reader.load_table("ns.t")
        assert ids_of(table) == [1]
        assert reader.verify().problems == ()
        for write in (
            lambda: table.append(rows(2)),
            lambda: table.delete("id = 1"),
            lambda: table.set_properties({"a": "b"}),
            lambda: table.update_schema().add_column("x", "long").commit(),
            lambda: reader.create_namespace("other"),
            lambda: reader.drop_table("ns.t"),
            lambda: reader.rename_table("ns.t", "ns.u"),
            lambda: make_table(reader, "u"),
            reader.rebuild,
            reader.materialize,
        ):
            if write == reader.materialize:
                write()
                continue
            with pytest.raises(ReadOnlyError):
                write()
    assert catalog.position == position
    assert [p.name for p in catalog.path.rglob("*.parquet") if ".icecore" not in p.parts] != []
    assert ids_of(catalog.load_table("ns.t")) == [1]


def test_read_only_sees_what_is_committed_later(catalog: icecore.Catalog) -> None:
    """A reader follows the log while another process writes."""
    table = make_table(catalog)
    with icecore.open(catalog.path, read_only=True) as reader:
        seen = reader.load_table("ns.t")
        table.append(rows(1))
        assert ids_of(seen) == []
        assert ids_of(seen.refresh()) == [1]


READ = """
import sys, icecore
with icecore.open(sys.argv[1], read_only=True) as reader:
    print(sorted(reader.load_table("ns.t").scan().to_arrow()["id"].to_pylist()), reader.verify().ok)
try:
    icecore.open(sys.argv[1]).create_namespace("other")
except icecore.IcecoreError as e:
    print(type(e).__name__)
"""


@pytest.mark.parametrize("closed", [True, False])
def test_a_read_only_folder_is_read(catalog: icecore.Catalog, closed: bool) -> None:
    """On a read-only file system the warehouse is read, commits that are still in the WAL too; writing is refused."""
    if not shutil.which("unshare"):
        pytest.skip("needs unshare to mount a folder read-only: file modes don't stop root")
    make_table(catalog).append(rows(1, 2))
    if closed:
        catalog.close()
    folder = str(catalog.path)
    script = f'mount --bind "{folder}" "{folder}" && mount -o remount,ro,bind "{folder}" && "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-W", "ignore", "-c", READ, folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"can't mount a folder read-only here: {done.stderr.strip()[:100]}")
    assert done.stdout.splitlines() == ["[1, 2] True", "ReadOnlyError"], done.stderr


def test_a_wal_is_never_left_out(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that can't be written is read as it is only where no WAL holds commits beside the database."""
    table = make_table(catalog)
    table.append(rows(1))
    wal = catalog.path / "icecore.db-wal"
    assert wal.stat().st_size > 0
    monkeypatch.setattr(os, "access", lambda *_: False)
    with icecore.open(catalog.path, read_only=True) as reader:
        assert ids_of(reader.load_table("ns.t")) == [1]


@pytest.mark.parametrize("place", [".", "icecore.db"])
def test_a_reader_who_may_not_write_follows_and_leaves_nothing(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A shared memory file of his, in a folder that he may write, would keep the owner of the log from writing."""
    with icecore.open(warehouse) as owner:
        owner.create_namespace("ns")
        make_table(owner).append(rows(1))
    files = {p.name for p in warehouse.iterdir()}
    access = os.access
    forbidden = (warehouse / place).absolute()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).absolute() != forbidden and access(path, mode))
    with icecore.open(warehouse, read_only=True) as reader:
        assert ids_of(reader.load_table("ns.t")) == [1]
        assert {p.name for p in warehouse.iterdir()} == files
        for number, closes in ((2, True), (3, True), (4, False), (5, False), (6, True)):
            writer = clean_processes().Process(target=append_one, args=(str(warehouse), number, closes))
            writer.start()
            writer.join(120)
            assert writer.exitcode == 0
            assert ids_of(reader.load_table("ns.t")) == list(range(1, number + 1))
        assert reader.verify(deep=True).problems == ()
    if place == "icecore.db":
        with pytest.raises(ReadOnlyError, match="may not be written, only read"):
            icecore.open(warehouse)


def test_who_reads_without_locks_is_told_of_each_change(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection of its own reads each state of the file, and SQLite says the same of its changes to all of them."""
    icecore.open(warehouse).close()
    monkeypatch.setattr(EventStore, "_takes_locks", lambda store: not store.read_only)
    with contextlib.closing(EventStore(warehouse / "icecore.db", read_only=True)) as reader:
        before = reader.data_version()
        assert reader.data_version() == before and not reader.has_locks
        with icecore.open(warehouse) as writer:
            writer.create_namespace("ns")
        assert reader.data_version() != before


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_the_umask_says_who_may_write_the_log(warehouse: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        icecore.open(warehouse).close()
    finally:
        os.umask(before)
    assert (warehouse / "icecore.db").stat().st_mode & 0o777 == 0o666 & ~umask


def test_the_lock_times_out_with_a_clear_error(catalog: icecore.Catalog) -> None:
    """A writer that waits longer than its timeout is told which log is locked; later it succeeds."""
    holder = sqlite3.connect(catalog.path / "icecore.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    impatient = EventStore(catalog.path / "icecore.db", lock_timeout_s=0.15)
    started = time.monotonic()
    with pytest.raises(WarehouseLockedError, match=r"icecore\.db.*0\.15 s") as caught, impatient.write():
        pass
    assert 0.1 < time.monotonic() - started < 60
    assert caught.value.retryable
    holder.execute("ROLLBACK")
    with impatient.write():
        pass
    holder.close()


def test_a_writer_waits_for_the_lock(catalog: icecore.Catalog) -> None:
    """A lock that is let go in time is only a delay."""
    table = make_table(catalog)
    holder = sqlite3.connect(catalog.path / "icecore.db", isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.2, lambda: holder.execute("ROLLBACK"))
    timer.start()
    table.append(rows(1))
    timer.join()
    holder.close()
    assert ids_of(table) == [1]


@pytest.mark.parametrize("read_only", [True, False])
def test_an_opener_waits_for_whoever_has_the_log_alone(tmp_path: Path, read_only: bool) -> None:
    """The last to close a log locks out all others while it puts the WAL away; who only reads waits for that too."""
    icecore.open(tmp_path).close()
    holder = sqlite3.connect(tmp_path / "icecore.db", isolation_level=None, check_same_thread=False)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.1, holder.close)
    timer.start()
    with icecore.open(tmp_path, read_only=read_only) as opened:
        assert store_of(opened).warehouse_value("warehouse-uuid")
    timer.join()


def test_several_that_open_a_new_warehouse_at_once_make_one(tmp_path: Path) -> None:
    """Creating the log races: all openers end with the same warehouse, and wait for whoever locks it meanwhile."""
    for number in range(40):
        opened: list[icecore.Catalog] = []
        errors: list[BaseException] = []
        start = threading.Barrier(6)

        def work(
            path: Path = tmp_path / str(number),
            start: threading.Barrier = start,
            opened: list[icecore.Catalog] = opened,
            errors: list[BaseException] = errors,
        ) -> None:
            start.wait()
            try:
                opened.append(icecore.open(path))
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert errors == []
        uuids = {store_of(c).warehouse_value("warehouse-uuid") for c in opened}
        assert len(uuids) == 1 and None not in uuids


def test_a_catalog_is_made_under_its_name(tmp_path: Path) -> None:
    """The name in `iceberg_tables` is fixed when the warehouse is made; a later name does not change it."""
    with icecore.open(tmp_path, name="lake") as catalog:
        assert catalog.name == "lake"
    with icecore.open(tmp_path, name="other") as catalog:
        assert catalog.name == "lake"


def test_who_is_held_up_as_it_is_refused_tries_again(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last writer takes the files away for a moment, however long the reader's own try takes."""
    icecore.open(warehouse).close()
    clock, connect = [0.0], EventStore._connect

    def refused(*_: object) -> sqlite3.Connection:
        clock[0] = 100.0
        monkeypatch.setattr(EventStore, "_connect", connect)
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(sqlite_file, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=lambda _: None))
    monkeypatch.setattr(EventStore, "_may_make_files", lambda _: False)
    monkeypatch.setattr(EventStore, "_connect", refused)
    with icecore.open(warehouse, read_only=True) as reader:
        assert reader.position == 0
