"""Threads that write at the same time share a transaction of SQLite, and each is as if it was alone."""

from __future__ import annotations

import errno
import sqlite3
from functools import partial
from typing import Any

import pytest
from group_writers import Writers, appending, fail, groups, store, streams, written

from icecore.engine.errors import CommitConflictError, CommitStateUnknownError, StorageError
from icecore.engine.log.lock import write_groups
from icecore.engine.log.store import FAILED_COMMIT, EventStore, WriteTransaction

__all__ = ["groups", "store"]


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


def test_what_the_system_refuses_a_part_is_not_put_on_the_log(store: EventStore, groups: list[int]) -> None:
    """An error of a library that reads a file tells of that file, also after others in a group."""

    def refused() -> None:
        raise OSError(errno.EIO, "Input/output error", "/data/part.parquet")

    outcomes = written(store, appending("a", then=refused))
    assert isinstance(outcomes[1], StorageError)
    assert str(outcomes[1]).startswith(f"the commit to {store.path} was taken back: [Errno 5]")
    assert streams(store) == ["first"] and groups == [2]


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


def test_a_write_inside_of_a_write_is_refused(store: EventStore) -> None:
    """It would wait for itself."""
    with pytest.raises(StorageError, match="within a transaction"):
        store.write_with(lambda _: store.write_with(appending("a")))
    assert streams(store) == []
