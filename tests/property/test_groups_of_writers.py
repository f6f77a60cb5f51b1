"""Threads that write to one log at once, some of whom fail: the log is as if each had come alone, in some order."""

from __future__ import annotations

import tempfile
import threading
from itertools import groupby
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from icecore.engine.events.event import Provenance
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.store import EventStore, WriteTransaction


class No(Exception):
    """What a writer fails with."""


# Of each thread its writes: how many events, and whether it fails after them.
WORK = st.lists(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=5), min_size=2, max_size=5)


@settings(max_examples=40)
@given(WORK)
def test_each_write_is_there_whole_or_not_at_all(work: list[list[tuple[int, bool]]]) -> None:
    """In the order of its thread, its events side by side, seen by who wrote it as soon as its call returns."""
    with tempfile.TemporaryDirectory() as folder:
        store = EventStore(Path(folder) / "log.db", durable=False)
        errors: list[BaseException] = []
        start = threading.Barrier(len(work))
        threads = [threading.Thread(target=_write_all, args=(store, n, w, start, errors)) for n, w in enumerate(work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        assert list(chain_problems(store)) == []
        found = [(e.stream, e.payload["write"]) for e in store.events()]
        for n, writes in enumerate(work):
            of_thread = [i for stream, i in found if stream == f"t{n}"]
            assert of_thread == [i for i, (count, fails) in enumerate(writes) for _ in range(0 if fails else count)]
        together = [write for write, _ in groupby(found)]
        assert len(together) == len(set(together))
        store.close()


def _write_all(
    store: EventStore,
    number: int,
    writes: list[tuple[int, bool]],
    start: threading.Barrier,
    errors: list[BaseException],
) -> None:
    try:
        start.wait(60)
        for i, write in enumerate(writes):
            _write(store, f"t{number}", i, *write)
    except BaseException as e:
        errors.append(e)
    finally:
        store.close()


def _write(store: EventStore, stream: str, number: int, count: int, fails: bool) -> None:
    def body(transaction: WriteTransaction) -> list[Any]:
        provenance = Provenance("tester")
        made = [
            transaction.append(stream, "test.happened", {"write": number}, provenance=provenance) for _ in range(count)
        ]
        if fails:
            raise No
        return made

    try:
        made = store.write_with(body)
    except No:
        assert fails
        return
    assert not fails and [e.hash for e in made] == [store.event_at(e.position).hash for e in made]
