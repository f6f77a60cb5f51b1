"""Files that become durable together: each is in its place when it is written, all are on the disk at the end.

One after another they take the disk's time for each; at once they share the journal of its file system. Nothing that
names them may be stored before that end. A file that is there already is never one of them: it may be needed as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeAlias, TypeVar

from icecore.engine.common import fork_safety
from icecore.engine.errors import StorageError

AT_ONCE = 16
FEW = 4
"""Up to this number, as of one commit alone, files are not worth handing over to threads."""
MOST = 256
"""The most files that are open: at this number those so far are made durable."""
_Work: TypeAlias = tuple[str, Callable[[], object]]
Result = TypeVar("Result")


class LateFiles:
    """The files that one thread has put in place and that are not durable yet, with the folders of their names."""

    def __init__(self) -> None:
        self.takes_more = True
        """Whether files may be left to the end; from a failure on each is made durable as it is written."""
        self._files: dict[int, str] = {}
        self._folders: set[str] = set()
        self._error: StorageError | None = None

    def add(self, path: str, file: int) -> None:
        """Takes a file that has its name, by an open descriptor, which need not stay open. Raises as `settle`."""
        self._files[os.dup(file)] = path
        if len(self._files) >= MOST:
            self.settle()

    def add_folder(self, path: str) -> None:
        """Takes a folder, because of the names in it."""
        self._folders.add(path)

    def settle(self) -> None:
        """Makes all of them durable.

        Raises StorageError where that fails, and each time from then on, as it is not known what is on the disk.
        """
        works: list[_Work] = [
            *((path, lambda file=file: os.fsync(file)) for file, path in self._files.items()),
            *((path, lambda path=path: sync_path(path)) for path in self._folders),
        ]
        for path, error in _failed(works):
            self.takes_more = False
            self._error = StorageError(f"can't make {path} durable: {error.strerror or error}")
            self._error.__cause__ = error
        self.close()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Leaves them as they are, durable or not."""
        while self._files:
            os.close(self._files.popitem()[0])
        self._folders.clear()


def sync_path(path: str | os.PathLike[str]) -> None:
    """Makes a file or the names in a folder durable. Raises OSError."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _failed(works: list[_Work]) -> list[tuple[str, OSError]]:
    """Does works, in threads where there are more than a few; those that failed, when all have ended.

    A thread does several: a folder is often on the disk when a file in it is, and each that is begun costs a switch.
    """
    if len(works) <= FEW:
        return _failed_of(works)
    count = min(AT_ONCE, -(-len(works) // 2))
    ends = [_threads.submit(partial(_failed_of, works[i::count])) for i in range(count)]
    return [failed for end in ends for failed in end.result()]


def _failed_of(works: list[_Work]) -> list[tuple[str, OSError]]:
    found = []
    for path, work in works:
        try:
            work()
        except OSError as e:
            found.append((path, e))
    return found


def _done_here(work: Callable[[], Result]) -> Future[Result]:
    done: Future[Result] = Future()
    done.set_result(work())
    return done


class _Threads:
    """The threads that wait for the disk, made when there is something to wait for."""

    def __init__(self) -> None:
        self.forget_parent()
        fork_safety.watch(self)

    def forget_parent(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        """Begins it in a thread; does it here where the interpreter ends and starts none."""
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(AT_ONCE, "icecore-sync")
            return self._pool.submit(work)
        except RuntimeError:
            return _done_here(work)


_threads = _Threads()
