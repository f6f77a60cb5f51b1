"""What a forked process does with the connections that it got from its parent: nothing, it makes its own.

DuckDB's threads are not there, so a query may never end, and closing such a connection ends the process; SQLite's locks
are the parent's.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Protocol


class Forked(Protocol):
    """Something that has connections and locks."""

    def forget_parent(self) -> None:
        """Called in a forked process before it goes on: takes new ones."""


_known: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(forked: Forked) -> None:
    """Tells an object about forks as long as it is there."""
    _known.add(forked)


def abandon(connection: object) -> None:
    """Sees to it that a parent's connection is never closed here, not even when the process ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _after_fork() -> None:
    for forked in list(_known):
        forked.forget_parent()


os.register_at_fork(after_in_child=_after_fork)
