"""Connections and locks in a forked process, which leaves its parent's alone and makes its own.

DuckDB's threads are not there, so a query may never end, and closing such a connection ends the process; SQLite's locks
are the parent's; a lock that another thread held is never given back, since that thread is not there.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from attrs import frozen

T = TypeVar("T")
Turn: TypeAlias = "AbstractContextManager[object, None]"
"""A context that one thread at a time is in."""


class Forked(Protocol):
    """Something that has connections and locks."""

    def forget_parent(self) -> None:
        """Takes new connections and locks; called in a forked process before it goes on."""


_known: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(forked: Forked) -> None:
    """Registers an object for `forget_parent`, as long as the object is there."""
    _known.add(forked)


def abandon(connection: object) -> None:
    """Keeps a parent's connection from ever being closed here, at the end of the process too."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


class LeftToParent:
    """Connections of one thread, which a forked process leaves to its parent.

    In a forked process the other threads are gone before our code runs, and so are their `threading.local` values: a
    connection that is dropped so must not be closed. Kept in a `threading.local` beside the connections.
    """

    # An interrupt may end `__init__` before it has set them.
    _connections: tuple[object, ...] = ()
    _pid = 0

    def __init__(self, *connections: object) -> None:
        self._pid = os.getpid()
        self._connections = connections

    @property
    def is_own(self) -> bool:
        """Whether this process made them."""
        return self._pid == os.getpid()

    def __del__(self) -> None:
        if not self.is_own:
            for connection in self._connections:
                abandon(connection)


class PerThread(Generic[T]):
    """A connection for each thread that asks, which ends with the thread; a forked process makes its own."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._local = threading.local()

    def get(self) -> T:
        """This thread's connection. Raises what making one does."""
        left: LeftToParent | None = getattr(self._local, "left", None)
        if left is None or not left.is_own:
            connection = self._make()
            self._local.left, self._local.connection = LeftToParent(connection), connection
        found: T = self._local.connection
        return found


class Lock:
    """A reentrant lock that is free in a forked process; every lock of the engine is one.

    `with` takes the methods of the lock that there is, and calls these: an interrupt can't come between the call that
    takes it and the block that gives it back, as it could in a method written in Python. A fork within the block leaves
    the block its own lock.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        watch(self)

    def forget_parent(self) -> None:
        """Leaves the lock that a thread may have held to the parent process."""
        self._lock = threading.RLock()

    def within(self, seconds: float, otherwise: type[Exception]) -> Turn:
        """A context that holds the lock; raises `otherwise` where it is not free within `seconds`.

        For threads that no signal interrupts, as only the main one is.
        """
        return _WithinTime(self, seconds, otherwise)

    @property
    def __enter__(self) -> Callable[[], bool]:
        return self._lock.__enter__

    @property
    def __exit__(self) -> Callable[..., None]:
        return self._lock.__exit__


@frozen
class _WithinTime:
    lock: Lock
    seconds: float
    otherwise: type[Exception]

    @property
    def __enter__(self) -> Callable[[], None]:
        return partial(self._take, self.lock._lock)

    @property
    def __exit__(self) -> Callable[..., None]:
        return self.lock.__exit__

    def _take(self, lock: threading.RLock) -> None:
        if not lock.acquire(timeout=self.seconds):
            raise self.otherwise


def _after_fork() -> None:
    for forked in list(_known):
        forked.forget_parent()


os.register_at_fork(after_in_child=_after_fork)
