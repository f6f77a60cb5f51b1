"""Threads that write at the same time share a transaction of SQLite, and each is as if it was alone."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clean_processes import exit_codes_of
from core_tables import ids_of, make_table, rows, store_of

import icecore
from icecore.engine.common.ids import now_ms
from icecore.engine.errors import CommitConflictError, CommitStateUnknownError, StorageError, WarehouseLockedError
from icecore.engine.events.event import Provenance
from icecore.engine.events.keyed_request import KeyedRequest
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.lock import write_groups
from icecore.engine.log.store import FAILED_COMMIT, EventStore, WriteTransaction
from icecore.engine.repository.answer_once import answer_once
from icecore.engine.repository.repository import Repository

Body = Callable[[WriteTransaction], Any]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    opened = EventStore(tmp_path / "log.db", lock_timeout_s=5)
    yield opened
    opened.close()


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts each group had, in order."""
    sizes: list[int] = []
    lead = write_groups.WriteGroups._lead

    def counted(self: write_groups.WriteGroups, first: write_groups.Part) -> None:
        write = self._write

        def counting(part: write_groups.Part, following: write_groups.Following) -> None:
            sizes.append(1)

            def counted_following() -> write_groups.Part | None:
                found = following()
                sizes[-1] += found is not None
                return found

            self._write = write
            write(part, counted_following)

        self._write = counting
        lead(self, first)

    monkeypatch.setattr(write_groups.WriteGroups, "_lead", counted)
    monkeypatch.setattr(write_groups, "LONGEST_S", 60.0)
    return sizes


def appending(stream: str, *, then: Callable[[], object] = lambda: None, count: int = 1) -> Body:
    def body(transaction: WriteTransaction) -> str:
        for _ in range(count):
            transaction.append(stream, "test.happened", {}, provenance=Provenance("tester"))
        then()
        return stream

    return body


def fail() -> None:
    raise CommitConflictError("no")


class Writers:
    """Threads that write at once: the first leads, and is held until the others wait, in their order."""

    def __init__(self, store: EventStore, *works: Callable[[], Any]) -> None:
        self.store = store
        self.works = works
        self.outcomes: dict[int, Any] = {}
        self.first_is_in, self.all_wait = threading.Event(), threading.Event()

    def hold(self) -> None:
        """Called in the first's body."""
        self.first_is_in.set()
        assert self.all_wait.wait(20)

    def run(self) -> dict[int, Any]:
        """What each gave or raised."""
        threads = [threading.Thread(target=self._run, args=(i,)) for i in range(len(self.works))]
        threads[0].start()
        assert self.first_is_in.wait(20)
        for number, thread in enumerate(threads[1:], 1):
            thread.start()
            wait_until(partial(self._are_waiting, number))
        self.all_wait.set()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        return self.outcomes

    def _are_waiting(self, number: int) -> bool:
        return len(self.store.groups._waiting) >= number

    def _run(self, number: int) -> None:
        try:
            self.outcomes[number] = self.works[number]()
        except BaseException as e:
            self.outcomes[number] = e
        finally:
            self.store.close()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def written(
    store: EventStore, *bodies: Body, first: Body | None = None, before: Callable[[], object] = lambda: None
) -> dict[int, Any]:
    """What bodies gave or raised that were written in one group; `before` is called in the thread that leads."""
    writers = Writers(store)
    leading = first or appending("first")

    def held(transaction: WriteTransaction) -> Any:
        writers.hold()
        return leading(transaction)

    def lead() -> Any:
        before()
        return store.write_with(held)

    writers.works = (lead, *(partial(store.write_with, b) for b in bodies))
    return writers.run()


def streams(store: EventStore) -> list[str]:
    assert list(chain_problems(store)) == []
    return [e.stream for e in store.events()]


def test_what_comes_meanwhile_is_one_transaction(store: EventStore, groups: list[int]) -> None:
    """In the order in which it came, each with its own answer."""
    outcomes = written(store, appending("a"), appending("b", count=2), appending("c"))
    assert outcomes == {0: "first", 1: "a", 2: "b", 3: "c"}
    assert streams(store) == ["first", "a", "b", "b", "c"]
    assert groups == [4]
    assert len({e.transaction_id for e in store.events()}) == 4


def test_one_alone_is_a_group_of_its_own(store: EventStore, groups: list[int]) -> None:
    for stream in ("a", "b"):
        assert store.write_with(appending(stream)) == stream
    assert groups == [1, 1] and streams(store) == ["a", "b"]


def test_a_failure_takes_back_its_own_part_alone(store: EventStore, groups: list[int]) -> None:
    outcomes = written(store, appending("a", then=fail), appending("b"), appending("c", then=fail), appending("d"))
    assert [type(outcomes[n]) for n in range(5)] == [str, CommitConflictError, str, CommitConflictError, str]
    assert streams(store) == ["first", "b", "d"]
    assert groups == [5]


def test_where_the_first_fails_the_others_are_a_group(store: EventStore, groups: list[int]) -> None:
    outcomes = written(store, appending("a"), appending("b"), first=appending("first", then=fail))
    assert isinstance(outcomes[0], CommitConflictError)
    assert streams(store) == ["a", "b"]
    assert groups == [1, 2]


def test_a_transaction_that_sqlite_took_back_is_nobodys(store: EventStore) -> None:
    """As on a full disk. Who did not come to write yet does so in the next."""

    def lose() -> None:
        store.connection().execute("ROLLBACK")
        raise StorageError("full")

    outcomes = written(store, appending("a"), appending("b", then=lose), appending("c"))
    assert [type(outcomes[n]) for n in range(4)] == [StorageError, StorageError, StorageError, str]
    assert "was rolled back: full" in str(outcomes[0])
    assert str(outcomes[2]) == "full"
    assert streams(store) == ["c"]


class BrokenCommit:
    """A connection whose COMMIT fails, after it happened or before."""

    def __init__(self, connection: Any, *, happens: bool) -> None:
        self._connection, self._happens = connection, happens

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *parameters: Any) -> Any:
        if sql.strip().startswith("COMMIT"):
            self._connection.execute("COMMIT" if self._happens else "ROLLBACK")
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(sql, *parameters)


@pytest.mark.parametrize("happens", [True, False])
def test_a_commit_that_failed_is_looked_up_for_all(store: EventStore, happens: bool) -> None:
    def break_it() -> None:
        store._local.connection = BrokenCommit(store.connection(), happens=happens)

    outcomes = written(store, appending("a"), appending("b", then=fail), before=break_it)
    kinds = [str, str] if happens else [StorageError, StorageError]
    assert [type(outcomes[n]) for n in range(3)] == [*kinds, CommitConflictError]
    assert streams(store) == (["first", "a"] if happens else [])


@pytest.mark.parametrize("works_again", [True, False])
def test_a_commit_that_the_disk_did_not_take_is_written_over(store: EventStore, works_again: bool) -> None:
    """Where fsync fails its events lie whole in the WAL: a crash would bring back what was told as not stored."""
    commits: list[str] = []

    class Refused(BrokenCommit):
        def execute(self, sql: str, *parameters: Any) -> Any:
            if sql.strip().startswith("COMMIT"):
                commits.append(sql)
                if not works_again or len(commits) == 1:
                    error = sqlite3.OperationalError("disk I/O error")
                    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
                    raise error
            return self._connection.execute(sql, *parameters)

    connection = store.connection()
    store._local.connection = Refused(connection, happens=False)
    with pytest.raises(StorageError if works_again else CommitStateUnknownError, match="disk I/O error"):
        store.write_with(appending("a"))
    store._local.connection = connection
    assert len(commits) == 2 and streams(store) == []
    assert (store.warehouse_value(FAILED_COMMIT) is not None) is works_again


def test_nobody_returns_before_the_commit(store: EventStore) -> None:
    """Nor does anybody else see a part of the group before."""
    seen: list[Any] = []
    other = EventStore(store.path)

    def look() -> None:
        seen.append(([e.stream for e in other.events()], dict(writers.outcomes)))
        other.close()

    writers = Writers(store)

    def held(transaction: WriteTransaction) -> Any:
        writers.hold()
        return appending("first")(transaction)

    bodies = (held, appending("a"), appending("b", then=look))
    writers.works = tuple(partial(store.write_with, b) for b in bodies)
    assert writers.run() == {0: "first", 1: "a", 2: "b"}
    assert seen == [([], {})]


def test_a_group_is_bounded(store: EventStore, groups: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """By number and by time, so that other processes have their turn."""
    monkeypatch.setattr(write_groups, "LARGEST", 3)
    written(store, *map(appending, "abcd"))
    assert groups == [3, 2]
    monkeypatch.setattr(write_groups, "LONGEST_S", -1.0)
    written(store, *map(appending, "ef"))
    assert groups == [3, 2, 1, 1, 1]


def test_the_main_thread_writes_its_own_part_alone(store: EventStore, groups: list[int]) -> None:
    """An interrupt comes to the main thread, and must not end what another one writes."""
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(store.write_with(appending("b"))))

    def then() -> None:
        thread.start()
        wait_until(lambda: len(store.groups._waiting) == 1)

    assert store.write_with(appending("a", then=then)) == "a"
    thread.join(20)
    assert outcomes == ["b"] and groups == [1, 1]


@pytest.mark.parametrize("when", ["waiting", "writing", "leading"])
def test_an_interrupt_is_raised_when_the_outcome_is_known(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Who only waits goes at once, and nothing of it is stored; a part that is being written is stored before."""
    interrupted: list[bool] = []
    original = write_groups.Part.wait

    def wait(part: write_groups.Part, timeout_s: float) -> None:
        if threading.current_thread().name == "interrupted" and not interrupted:
            if when != "waiting":
                original(part, timeout_s)
            interrupted.append(True)
            raise KeyboardInterrupt
        original(part, timeout_s)

    def in_thread() -> Any:
        threading.current_thread().name = "interrupted"
        return store.write_with(appending("a"))

    monkeypatch.setattr(write_groups.Part, "wait", wait)
    writers = Writers(store)

    def held(transaction: WriteTransaction) -> Any:
        writers.first_is_in.set()
        wait_until(lambda: bool(interrupted) if when == "waiting" else len(store.groups._waiting) == 1)
        return appending("first", then=fail if when == "leading" else lambda: None)(transaction)

    def lead() -> Any:
        return store.write_with(held)

    threads = [threading.Thread(target=lambda: outcomes.append(_outcome(lead)))]
    outcomes: list[Any] = []
    threads[0].start()
    assert writers.first_is_in.wait(20)
    threads.append(threading.Thread(target=lambda: outcomes.append(_outcome(in_thread))))
    threads[1].start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert KeyboardInterrupt in map(type, outcomes)
    assert streams(store) == {"waiting": ["first"], "writing": ["first", "a"], "leading": []}[when]
    assert store.write_with(appending("z")) == "z"


@pytest.mark.parametrize("where", ["_enter", "_lead"])
def test_an_interrupt_between_two_steps_leaves_the_turn_to_others(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    original = getattr(write_groups.WriteGroups, where)

    def interrupted(self: write_groups.WriteGroups, part: write_groups.Part) -> None:
        if where == "_enter":
            original(self, part)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(write_groups.WriteGroups, where, interrupted)
        store.write_with(appending("a"))
    assert store.write_with(appending("b")) == "b"
    assert streams(store) == ["b"]


def test_a_lock_that_a_body_meets_is_its_own(store: EventStore, groups: list[int]) -> None:
    """Those behind it don't wait for that one."""

    def locked() -> None:
        raise WarehouseLockedError("another file")

    outcomes = written(store, appending("a"), first=appending("first", then=locked))
    assert isinstance(outcomes[0], WarehouseLockedError) and outcomes[1] == "a"
    assert groups == [1, 1]


def _outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except BaseException as e:
        return e


def test_who_waits_for_others_waits_no_longer_than_for_a_process(tmp_path: Path) -> None:
    """The lock is another process's, whom the leader waits for; those behind it are told the same."""
    store, other = (EventStore(tmp_path / "log.db", lock_timeout_s=0.3) for _ in range(2))
    with other.write():
        threads_done: list[Any] = []
        threads = [
            threading.Thread(target=lambda: threads_done.append(_outcome(lambda: store.write_with(appending("a")))))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert [type(o) for o in threads_done] == [WarehouseLockedError] * 3
    assert store.write_with(appending("b")) == "b"
    other.close()
    store.close()


def test_a_forked_process_writes_whoever_leads_here(store: EventStore) -> None:
    """Threads that wait are not in the child."""
    codes: list[int] = []

    def child() -> None:
        assert store.groups._waiting == store.groups._waiting.__class__() and not store.groups._is_led
        os._exit(7)

    def fork(_: WriteTransaction) -> None:
        codes.extend(exit_codes_of(child))

    store.write_with(fork)
    assert codes == [7]
    assert store.write_with(appending("a")) == "a"


def test_a_write_inside_of_a_write_is_refused(store: EventStore) -> None:
    """It would wait for itself."""
    with pytest.raises(StorageError, match="within a transaction"):
        store.write_with(lambda _: store.write_with(appending("a")))
    assert streams(store) == []


# Tables


def test_commits_of_threads_are_one_transaction(
    catalog: icecore.Catalog, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To one table and to others; each is decided on the one before, and its files are written."""
    tables = [make_table(catalog, name) for name in ("t", "u")]
    outcomes = together(catalog, monkeypatch, *(lambda n=n: tables[n % 2].append(rows(n)) for n in range(6)))
    assert set(outcomes.values()) == {None} and groups[-1] == 6
    assert [ids_of(catalog.load_table(f"ns.{n}")) for n in "tu"] == [[0, 2, 4], [1, 3, 5]]
    assert [s.sequence_number for s in catalog.load_table("ns.t").snapshots()] == [1, 2, 3]
    assert catalog.verify().problems == ()


def together(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, *works: Callable[[], Any]) -> dict[int, Any]:
    """What calls gave or raised that commit to tables in one group."""
    writers = Writers(store_of(catalog), *works)
    original = Repository.commit_inside

    def held(self: Repository, *args: Any, **kwargs: Any) -> Any:
        if not writers.first_is_in.is_set():
            writers.hold()
        return original(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(Repository, "commit_inside", held)
        return writers.run()


def test_a_file_system_table_ends_its_group(
    catalog: icecore.Catalog, groups: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version file is its commit: what settles the claim on it must find the event in the log for good."""
    plain = make_table(catalog, "plain")
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    made = len(groups)
    works = [lambda t=t, i=i: t.append(rows(i)) for i, t in enumerate((plain, table, table, plain))]
    together(catalog, monkeypatch, *works)
    assert groups[made:] == [2, 1, 1]
    assert ids_of(catalog.load_table("ns.t")) == [1, 2] and ids_of(catalog.load_table("ns.plain")) == [0, 3]
    assert catalog.verify().problems == ()


def test_what_is_not_committed_is_seen_by_nobody_else(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even by who reads through the same catalog, while the group is written: tables nor views."""
    table, view = make_table(catalog), catalog.create_view("ns.v", "SELECT id FROM t")
    seen: list[Any] = []

    def look() -> None:
        seen.append((dict(catalog.load_table("ns.t").properties), dict(catalog.load_view("ns.v").properties)))
        store_of(catalog).close()

    def looking(_: WriteTransaction) -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join(20)

    outcomes = together(
        catalog,
        monkeypatch,
        lambda: table.set_properties({"a": "1"}),
        lambda: view.set_properties({"a": "1"}),
        lambda: view.set_properties({"b": "1"}),
        lambda: store_of(catalog).write_with(looking),
    )
    assert not any(isinstance(o, BaseException) for o in outcomes.values())
    assert seen == [({}, {})]
    assert catalog.load_table("ns.t").properties == {"a": "1"}
    assert catalog.load_view("ns.v").properties == {"a": "1", "b": "1"}


def test_answers_to_requests_are_stored_with_their_parts(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that failed has none; each of the others is found by its key."""
    table = make_table(catalog)

    def asked(n: int) -> KeyedRequest:
        return KeyedRequest(f"k{n}", "append", str(n), now_ms() + 60_000)

    def again(stored: Any) -> str:
        assert stored.first_position is not None
        return "again"

    def ask(n: int) -> Any:
        change = (lambda: table.append(rows(n))) if n != 1 else (lambda: table.delete("nothing = 1"))
        return answer_once(store_of(catalog), asked(n), change, again)

    together(catalog, monkeypatch, *(lambda n=n: ask(n) for n in (0, 2, 3)))
    assert [ask(n) for n in (0, 2, 3)] == ["again"] * 3
    assert ids_of(catalog.load_table("ns.t")) == [0, 2, 3]
