"""Processes that die: whatever was acknowledged is there exactly once, and the warehouse opens clean."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import time
from typing import Any

import pytest
from clean_processes import clean_processes
from core_tables import ids_of, local, make_table, peer_ids, rows, store_of
from fault_writers import append_until_killed, commit_in_threads_until_killed, hold_the_lock
from pyiceberg.table import StaticTable

import icecore
from icecore.engine.errors import CommitStateUnknownError, IcecoreError, StorageError, WarehouseLockedError
from icecore.engine.foreign.adopter import ForeignCommitWarning
from icecore.engine.log.store import EventStore
from icecore.projections.files.event_files import EventFiles
from icecore.projections.files.file_follower import MaterializationWarning
from icecore.projections.files.materialize import Materializer

SCHEMES = ("metastore", "filesystem")


class Killed(BaseException):
    """Stands for the end of the process: nothing of ours may catch it and go on."""


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_killed_writers_lose_nothing(catalog: icecore.Catalog, scheme: str) -> None:
    """SIGKILL at random moments: each acknowledged append is there once, at most the last attempt is there besides."""
    folder = str(catalog.path)
    make_table(catalog, scheme, properties={"icecore.commit-scheme": scheme})
    dice = random.Random(scheme)
    acknowledged: set[int] = set()
    for _ in range(4):
        here, there = clean_processes().Pipe(duplex=False)
        process = clean_processes().Process(target=append_until_killed, args=(folder, there, scheme))
        process.start()
        there.close()
        assert here.poll(60)
        assert here.recv()[0] == "opened"
        time.sleep(dice.uniform(0.0, 0.2))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(30)
        tried: set[int] = set()
        try:
            while here.poll(0):
                kind, number = here.recv()
                (acknowledged if kind == "done" else tried).add(number)
        except EOFError:
            pass
        with icecore.open(folder) as again:
            table = again.load_table(("ns", scheme))
            ids = ids_of(table)
            assert len(ids) == len(set(ids)), "a row is there twice"
            assert acknowledged <= set(ids), "an acknowledged row is lost"
            assert set(ids) - acknowledged <= tried
            acknowledged = set(ids)
            assert again.verify().problems == ()
            table.append(rows(max(ids, default=0) + 1))
            acknowledged.add(max(ids, default=0) + 1)
    assert acknowledged
    with icecore.open(folder) as again:
        table = again.load_table(("ns", scheme))
        assert [s.sequence_number for s in table.snapshots()] == list(range(1, len(table.snapshots()) + 1))
        assert peer_ids(catalog.path, f"ns.{scheme}") == ids_of(table)
        assert again.verify().problems == ()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_killed_threads_lose_nothing(catalog: icecore.Catalog, scheme: str) -> None:
    """SIGKILL while threads commit in groups: each acknowledged commit is there once, and none that was not tried."""
    make_table(catalog, "t0")
    make_table(catalog, "t1", properties={"icecore.commit-scheme": scheme})
    dice = random.Random(scheme)
    told: dict[str, set[str]] = {"opened": set(), "trying": set(), "done": set()}
    for number in range(4):
        here, there = clean_processes().Pipe(duplex=False)
        args = (str(catalog.path), there, number * 10_000)
        process = clean_processes().Process(target=commit_in_threads_until_killed, args=args)
        process.start()
        there.close()
        assert here.poll(60) and here.recv()[0] == "opened"
        while number == 0 and not told["done"]:
            kind, what = here.recv()
            told[kind].add(what)
        time.sleep(dice.uniform(0.05, 0.3))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(30)
        with contextlib.suppress(EOFError):
            while here.poll(0):
                kind, what = here.recv()
                told[kind].add(what)
        with icecore.open(catalog.path) as again:
            there_now = [e.provenance.message for e in store_of(again).events() if e.provenance.message]
            assert len(there_now) == len(set(there_now)), "a commit is there twice"
            assert told["done"] <= set(there_now) <= told["trying"]
            assert again.verify().problems == ()
    assert told["done"]


def test_a_writer_that_dies_with_the_lock_lets_it_go(catalog: icecore.Catalog) -> None:
    """The lock of a killed process goes with it, and what it had half-written is not there."""
    table = make_table(catalog)
    here, there = clean_processes().Pipe()
    process = clean_processes().Process(target=hold_the_lock, args=(str(catalog.path), there))
    process.start()
    assert here.poll(60)
    pid = here.recv()
    impatient = EventStore(catalog.path / "icecore.db", lock_timeout_s=0.2)
    with pytest.raises(WarehouseLockedError, match=r"icecore\.db"), impatient.write():
        pass
    assert ids_of(table) == [], "readers don't wait for the lock"
    os.kill(pid, signal.SIGKILL)
    process.join(30)
    table.append(rows(1))
    assert ids_of(table) == [1]
    assert catalog.name == "icecore"
    assert catalog.verify().problems == ()


# What a process does between the event and the moved pointer, one step after another. A crash at each must heal.
STEPS = ["_write_manifest", "_write_list", "_put", "_move_pointers", "finish"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_while_files_are_written_heals(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, step: str, when: str, scheme: str
) -> None:
    """Dying at any step of writing files leaves the old table or the new one for all readers, never another."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    table.append(rows(1))
    before = catalog.position
    where = EventFiles if hasattr(EventFiles, step) else Materializer
    original = getattr(where, step)

    def dying(self: EventFiles | Materializer, *args: Any, **kwargs: Any) -> Any:
        if when == "after":
            original(self, *args, **kwargs)
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(where, step, dying)
        table.append(rows(2))
    committed = catalog.position > before
    assert committed == (step == "finish"), "files and pointer come with the event, the hint after it"
    assert peer_ids(catalog.path) in ([1], [1, 2])
    with icecore.open(catalog.path) as again:
        expected = [1, 2] if committed else [1]
        assert ids_of(again.load_table("ns.t")) == expected
        assert peer_ids(catalog.path) == expected
        assert again.verify().problems == ()
        again.load_table("ns.t").append(rows(3))
        assert peer_ids(catalog.path) == [*expected, 3]
        assert again.verify().problems == ()


@pytest.mark.parametrize("version", ["metastore", "filesystem"])
def test_a_crash_before_commit_leaves_nothing_in_the_log(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """A commit that dies inside of the lock did not happen, and the next one takes its place and its version."""
    table = make_table(catalog, properties={"icecore.commit-scheme": version})
    table.append(rows(1))
    position = catalog.position
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(store_of(catalog), "_locked", dying_at_commit(store_of(catalog)))
        table.append(rows(2))
    assert catalog.position == position
    assert ids_of(table.refresh()) == [1]
    table.append(rows(3))
    assert ids_of(table) == [1, 3], "the content of the event that never was must not show up"
    assert peer_ids(catalog.path) == [1, 3]
    assert local(table.metadata_location).name.startswith(("v3.", "00002-"))
    assert catalog.verify().problems == ()
    with icecore.open(catalog.path) as again:
        assert ids_of(again.load_table("ns.t")) == [1, 3]


def dying_at_commit(store: EventStore) -> Any:
    """A lock whose holder dies just before COMMIT: all is done inside, nothing is kept."""
    import contextlib

    @contextlib.contextmanager
    def locked(uncertain: Any = None, keep: bool = True) -> Any:
        connection = store.connection()
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
        raise Killed

    return locked


def test_another_writers_file_on_an_abandoned_version_stays(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An abandoned version on which another engine built already is not taken back."""
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(store_of(catalog), "_locked", dying_at_commit(store_of(catalog)))
        table.append(rows(2))
    folder = local(table.metadata_location).parent
    abandoned = (folder / "v2.metadata.json").read_bytes()
    (folder / "v3.metadata.json").write_bytes(b"{}")
    with pytest.raises(IcecoreError, match=r"v3\.metadata\.json"):
        table.append(rows(3))
    assert (folder / "v2.metadata.json").read_bytes() == abandoned
    with pytest.warns(ForeignCommitWarning, match=r"v3\.metadata\.json"):
        assert ids_of(catalog.load_table("ns.t")) == []


class FailingCommit:
    """A connection on which COMMIT fails, either before it happens or after it has happened."""

    def __init__(self, connection: sqlite3.Connection, *, happens: bool, blind: bool = False) -> None:
        self._connection, self._happens, self._blind, self._failed = connection, happens, blind, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and not self._failed:
            self._failed = True
            if self._happens:
                self._connection.execute("COMMIT")
            raise sqlite3.OperationalError("disk I/O error")
        if self._failed and self._blind:
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(sql, *args)


def break_commit(catalog: icecore.Catalog, **how: Any) -> sqlite3.Connection:
    store = store_of(catalog)
    connection = store.connection()
    store._local.connection = FailingCommit(connection, **how)
    return connection


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_commit_that_failed_after_it_happened_is_found(catalog: icecore.Catalog, scheme: str) -> None:
    """A COMMIT of unknown outcome is looked up by event id: it is there, so the append succeeded, once."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    break_commit(catalog, happens=True)
    table.append(rows(1))
    assert ids_of(table) == [1]
    assert len(table.snapshots()) == 1
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_commit_that_failed_and_did_not_happen_is_an_error(catalog: icecore.Catalog, scheme: str) -> None:
    """A COMMIT that did not happen raises, the log is as it was, and the next append takes the place."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    position = catalog.position
    connection = break_commit(catalog, happens=False)
    with pytest.raises(StorageError, match="disk I/O error"):
        table.append(rows(1))
    store_of(catalog)._local.connection = connection
    assert catalog.position == position
    table.append(rows(2))
    assert ids_of(table) == [2]
    assert peer_ids(catalog.path) == [2]
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("happens", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_commit_of_which_nothing_can_be_learnt_says_so(catalog: icecore.Catalog, happens: bool, scheme: str) -> None:
    """Where the log can't be read after a failed COMMIT the error says that the outcome is unknown."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    connection = break_commit(catalog, happens=happens, blind=True)
    with pytest.raises(CommitStateUnknownError):
        table.append(rows(1))
    assert [p.suffix for p in local(table.location()).rglob("*.parquet")] == [".parquet"]
    connection.close()
    # It was closed past its store.
    store_of(catalog)._local.held.leave()
    with icecore.open(catalog.path) as again:
        expected = [1] if happens else []
        assert ids_of(again.load_table("ns.t")) == expected
        assert again.verify().problems == ()
        again.load_table("ns.t").append(rows(2))
        assert peer_ids(catalog.path) == [*expected, 2]
    store_of(catalog)._local.connection = None


def test_an_error_that_nobody_expected_while_files_are_written_keeps_the_commit(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even a bug in writing files is no reason to say that the commit failed."""
    table = make_table(catalog)

    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("a bug")

    with monkeypatch.context() as patch, pytest.warns(MaterializationWarning, match="a bug"):
        patch.setattr(Materializer, "_write", broken)
        table.append(rows(1))
    assert ids_of(table) == [1]
    table.append(rows(2))
    assert peer_ids(catalog.path) == [1, 2]


def test_a_table_that_cant_be_written_keeps_no_other_from_opening(catalog: icecore.Catalog) -> None:
    """One table whose folder is gone for good: the warehouse opens with a warning, and the others work."""
    broken, table = make_table(catalog, "broken"), make_table(catalog)
    folder = local(broken.metadata_location).parent
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_text("a file where the folder was")
    with pytest.warns(MaterializationWarning, match=r"ns\.broken"):
        broken.set_properties({"a": "b"})
    with pytest.warns(MaterializationWarning), icecore.open(catalog.path) as again:
        again.load_table("ns.t").append(rows(1))
        assert again.load_table("ns.broken").properties["a"] == "b"
    assert ids_of(table.refresh()) == [1]


def test_the_hint_never_names_a_version_that_is_not_there(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that follows the version hint of a crashed file system commit sees the last whole version."""
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    table.append(rows(1))
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(store_of(catalog), "_locked", dying_at_commit(store_of(catalog)))
        table.append(rows(2))
    peer = StaticTable.from_metadata(table.location())
    assert sorted(peer.scan().to_arrow()["id"].to_pylist()) == [1]
    abandoned = local(table.metadata_location).parent / "v3.metadata.json"
    assert abandoned.exists()
    icecore.open(catalog.path).close()
    assert not abandoned.exists(), "the next open takes back what never was"
