"""Connections and locks in a forked process, which leaves its parent's alone and makes its own.

DuckDB's threads are not there, so a query may never end, and closing such a connection ends the process; SQLite's locks
are the parent's; a lock that another thread held is never given back, since that thread is not there.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import Any, Protocol


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


class Lock:
    """A reentrant lock that is free in a forked process; every lock of the engine is one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        # What the holder has entered, innermost last: a fork in between puts another lock in place.
        self._entered: list[threading.RLock] = []
        watch(self)

    def forget_parent(self) -> None:
        """Leaves the lock that a thread may have held to the parent process."""
        self._lock = threading.RLock()

    def is_free_within(self, seconds: float) -> bool:
        """Whether this thread could have it in so much time; it does not keep it."""
        lock = self._lock
        if found := lock.acquire(timeout=seconds):
            lock.release()
        return found

    def __enter__(self) -> None:
        lock = self._lock
        lock.acquire()
        self._entered.append(lock)

    def __exit__(self, *_: object) -> None:
        self._entered.pop().release()


def _after_fork() -> None:
    for forked in list(_known):
        forked.forget_parent()


os.register_at_fork(after_in_child=_after_fork)
