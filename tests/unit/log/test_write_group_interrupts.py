"""Interrupts, locks and forks while threads write as a group: others have their turn, and no part is lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from clean_processes import exit_codes_of
from group_writers import Writers, appending, fail, groups, store, streams, wait_until, written

from icecore.engine.errors import StorageError, WarehouseLockedError
from icecore.engine.log.lock import write_groups
from icecore.engine.log.store import EventStore, WriteTransaction

__all__ = ["groups", "store"]


def test_the_main_thread_writes_its_own_part_alone(store: EventStore, groups: list[int]) -> None:
    """An interrupt comes to the main thread, and must not end what another one writes."""
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(store.write_with(appending("b"))))

    def then() -> None:
        thread.start()
        wait_until(lambda: len(store.groups._waiting) == 1)

    assert store.write_with(appending("a", then=then)) == "a"
    thread.join(60)
    assert outcomes == ["b"] and groups == [1, 1]


@pytest.mark.parametrize("when", ["waiting", "writing", "leading"])
def test_an_interrupt_is_raised_when_the_outcome_is_known(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Who only waits goes at once, and nothing of it is stored; a part that is being written is stored before."""
    interrupted: list[bool] = []
    original = write_groups.QueuedWrite.wait

    def wait(part: write_groups.QueuedWrite, timeout_s: float) -> None:
        if threading.current_thread().name == "interrupted" and not interrupted:
            if when != "waiting":
                original(part, timeout_s)
            interrupted.append(True)
            raise KeyboardInterrupt
        original(part, timeout_s)

    def in_thread() -> Any:
        threading.current_thread().name = "interrupted"
        return store.write_with(appending("a"))

    monkeypatch.setattr(write_groups.QueuedWrite, "wait", wait)
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
    assert writers.first_is_in.wait(60)
    threads.append(threading.Thread(target=lambda: outcomes.append(_outcome(in_thread))))
    threads[1].start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert KeyboardInterrupt in map(type, outcomes)
    assert streams(store) == {"waiting": ["first"], "writing": ["first", "a"], "leading": []}[when]
    assert store.write_with(appending("z")) == "z"


@pytest.mark.parametrize("where", ["_enter", "_lead"])
def test_an_interrupt_between_two_steps_leaves_the_turn_to_others(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    original = getattr(write_groups.WriteGroups, where)

    def interrupted(self: write_groups.WriteGroups, part: write_groups.QueuedWrite) -> None:
        if where == "_enter":
            original(self, part)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(write_groups.WriteGroups, where, interrupted)
        store.write_with(appending("a"))
    assert store.write_with(appending("b")) == "b"
    assert streams(store) == ["b"]


@pytest.mark.parametrize("first_fails", [False, True])
def test_who_is_interrupted_before_it_waits_is_not_written_and_leads_nobody(
    store: EventStore, monkeypatch: pytest.MonkeyPatch, first_fails: bool
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    writers = Writers(store)

    def held(transaction: WriteTransaction) -> Any:
        writers.hold()
        return appending("first", then=fail if first_fails else lambda: None)(transaction)

    thread = threading.Thread(target=_outcome, args=(lambda: store.write_with(held),))
    thread.start()
    assert writers.first_is_in.wait(60)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(write_groups.WriteGroups, "_wait", interrupted)
        store.write_with(appending("a"))
    writers.all_wait.set()
    thread.join(60)
    assert store.write_with(appending("z")) == "z"
    assert streams(store) == (["z"] if first_fails else ["first", "z"])


@pytest.mark.parametrize("of", [EventStore.write, EventStore.reading])
def test_an_interrupt_as_a_transaction_begins_leaves_none_open(
    store: EventStore, of: Callable[[EventStore], AbstractContextManager[object]]
) -> None:
    """Others waited in vain for the lock, and this thread read on as of that moment."""
    connection = store.connection()

    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            return getattr(connection, name)

        def execute(self, sql: str, *parameters: Any) -> Any:
            found = connection.execute(sql, *parameters)
            if sql.strip().startswith("BEGIN"):
                raise KeyboardInterrupt
            return found

    store._local.connection = Interrupted()
    with pytest.raises(KeyboardInterrupt), of(store):
        pass
    store._local.connection = connection
    assert not connection.in_transaction


def test_what_is_refused_inside_of_a_transaction_leaves_it_open(store: EventStore) -> None:
    with store.write() as transaction:
        appending("a")(transaction)
        for inner in (store.write, store.reading):
            with pytest.raises(StorageError, match="within a transaction"), inner():
                pass
    assert streams(store) == ["a"]


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
            thread.join(60)
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
