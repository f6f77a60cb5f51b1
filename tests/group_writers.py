"""Threads that write to one log as a group, in an order that the test gives, and how large the groups were."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from icecore.engine.errors import CommitConflictError
from icecore.engine.events.event import Provenance
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.lock import write_groups
from icecore.engine.log.store import EventStore, WriteTransaction

Body = Callable[[WriteTransaction], Any]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    opened = EventStore(tmp_path / "log.db", lock_timeout_s=60)
    yield opened
    opened.close()


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts each group had, in order."""
    sizes: list[int] = []
    lead = write_groups.WriteGroups._lead

    def counted(self: write_groups.WriteGroups, first: write_groups.QueuedWrite) -> None:
        write = self._write

        def counting(part: write_groups.QueuedWrite, following: write_groups.Following) -> None:
            sizes.append(1)

            def counted_following() -> write_groups.QueuedWrite | None:
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
        assert self.all_wait.wait(60)

    def run(self) -> dict[int, Any]:
        """What each gave or raised."""
        threads = [threading.Thread(target=self._run, args=(i,)) for i in range(len(self.works))]
        threads[0].start()
        assert self.first_is_in.wait(60)
        for number, thread in enumerate(threads[1:], 1):
            thread.start()
            wait_until(partial(self._are_waiting, number))
        self.all_wait.set()
        for thread in threads:
            thread.join(60)
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
    deadline = time.monotonic() + 60
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
