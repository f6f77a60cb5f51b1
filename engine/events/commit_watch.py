"""A watch for commits that a request made: what it may be answered where it fails afterwards depends on them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from attrs import define


@define(eq=False)
class CommitWatch:
    """A look at the commits of a context. What was taken in of other engines' commits is none of them."""

    is_stored: bool = False


_watch: ContextVar[CommitWatch | None] = ContextVar("commit_watch", default=None)


@contextlib.contextmanager
def watching_commits() -> Iterator[CommitWatch]:
    """A context whose watch knows of its commits, also of those of threads that run in a copy of it."""
    watch = CommitWatch()
    before = _watch.set(watch)
    try:
        yield watch
    finally:
        _watch.reset(before)


def note_stored() -> None:
    """Tells the watch of this context that a commit is in the log: whatever fails from now on, it stays."""
    if (watch := _watch.get()) is not None:
        watch.is_stored = True
