"""A watch for the commits that a request makes: what it may be answered if it fails afterwards depends on them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from attrs import define, field

from icecore.engine.events.event import Event


@define(eq=False)
class CommitWatch:
    """The commits that are made in a context, without those of other engines that are adopted there.

    `earlier` is the event of an earlier call with the same idempotency key, for which nothing was done this time.
    """

    is_stored: bool = False
    earlier: Event | None = None
    _events: list[Event] = field(factory=list)

    @property
    def made(self) -> list[Event]:
        """The events that were made in the context."""
        return [] if self.earlier else self._events


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


def note_stored(*events: Event) -> None:
    """Tells the watch of this context that a commit is in the log: whatever fails from now on, it stays."""
    if (watch := _watch.get()) is not None:
        watch.is_stored = True
        watch._events += events


def note_earlier(event: Event | None) -> Event | None:
    """Tells the watch of this context which event answers an idempotency key, if any, and returns it."""
    if event is not None and (watch := _watch.get()) is not None:
        watch.earlier = event
    return event
