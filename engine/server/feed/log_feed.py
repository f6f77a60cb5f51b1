"""The log as it grows, for any number of followers: one task looks for new events, reads each and writes it as text
once, and wakes all followers.

The newest texts are kept, up to a number of bytes. A follower that is further behind reads pages of the log, one
follower at a time. So a follower that does not read holds one page at most, and holds up nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from typing import TypeVar

import orjson
from attrs import define, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import IcecoreError
from icecore.engine.events.event import LOG_FORGOTTEN
from icecore.engine.log.sqlite_file import DataVersion
from icecore.engine.log.store import EventStore
from icecore.engine.server.feed.logged_commits import (
    NamedCommit,
    Names,
    is_inside,
    last_names,
    named_commits,
    names_told,
    shown_event,
)

PAGE_BYTES = 256 * 1024
KEPT_BYTES = 16 * 2**20
LOOK_S = 0.1
HEARTBEAT = b":\n\n"
Result = TypeVar("Result")


@frozen
class FedEvent:
    """An event as a server-sent event. `names` are the tables, views and namespaces that it is about."""

    position: int
    text: bytes
    names: tuple[Identifier, ...]
    forgets: bool = False

    @classmethod
    def of(cls, commit: NamedCommit) -> Iterator[FedEvent]:
        """The events of one commit."""
        for event, name in commit.events:
            data = orjson.dumps(shown_event(event, name, commit.count))
            text = b"id: %d\ndata: %b\n\n" % (event.position, data)
            yield cls(event.position, text, names_told(event, name), event.kind == LOG_FORGOTTEN)

    def is_inside(self, namespace: Identifier) -> bool:
        """Whether it is about something in a namespace, or the namespace itself.

        A `log.forgotten` event is about all tables, so it is inside the empty namespace alone.
        """
        return is_inside(self.names, namespace)


@define(eq=False)
class LogFeed:
    """The feed of one log. Its followers are of one event loop; the log is read by a thread of its own."""

    store: EventStore
    heartbeat_s: float
    most_followers: int
    followers: int = 0
    _kept: deque[FedEvent] = field(factory=deque)
    _kept_bytes: int = 0
    _kept_after: int = 0
    _reached: int = 0
    _names: Names | None = None
    _version: DataVersion | None = None
    _watch: asyncio.Task[None] | None = None
    _came: asyncio.Event = field(factory=asyncio.Event)
    _thread: ThreadPoolExecutor | None = None
    _is_ending: bool = False

    async def follow(
        self, after: int, up_to: int | None, is_asked: Callable[[FedEvent], bool], check: Callable[[], object]
    ) -> AsyncIterator[bytes]:
        """The texts of the events after a position for which `is_asked` holds, and heartbeats while none comes.

        It ends at `up_to`, when the server ends, and as soon as `check` raises since the follower may see no more.
        """
        self.followers += 1
        try:
            yield HEARTBEAT
            while not self._is_ending and (up_to is None or after < up_to):
                came = self._came
                check()
                for event in await self._after(after):
                    after = event.position
                    if up_to is not None and after > up_to:
                        return
                    if is_asked(event):
                        yield event.text
                if came is self._came and after >= self._reached and not await self._wait(came):
                    yield HEARTBEAT
        except IcecoreError:
            return
        finally:
            self.followers -= 1

    def end(self) -> None:
        """Ends the streams of all followers, as the server ends. It is called from the event loop."""
        self._is_ending = True
        self._wake()

    def close(self) -> None:
        """Ends the thread, which closes its connection to the log."""
        if self._thread is not None:
            self._thread.submit(self.store.close)
            self._thread.shutdown()

    async def _wait(self, came: asyncio.Event) -> bool:
        try:
            await asyncio.wait_for(came.wait(), self.heartbeat_s)
        except TimeoutError:
            return False
        return True

    async def _after(self, position: int) -> list[FedEvent]:
        """The events after a position, from what is kept or the log."""
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look())
        if self._names is None or position < self._kept_after:
            return await self._run(lambda: self._page(position))
        return list(takewhile(lambda e: e.position > position, reversed(self._kept)))[::-1]

    async def _look(self) -> None:
        """Looks for new events as long as the log has followers, and wakes these."""
        while self.followers and not self._is_ending:
            try:
                await self._look_once()
            except IcecoreError:
                # What fails now, as by a lock, may work later; until then followers read pages.
                self._names = None
            await asyncio.sleep(LOOK_S)
        self._names = None

    async def _look_once(self) -> None:
        version = self.store.data_version()
        if self._names is None:
            await self._run(self._begin)
            self._wake()
        elif version != self._version:
            self._keep(await self._run(self._read))
        self._version = version

    def _keep(self, came: list[FedEvent]) -> None:
        if not came:
            return
        self._kept.extend(came)
        self._kept_bytes += sum(len(e.text) for e in came)
        self._reached = came[-1].position
        forgets = any(e.forgets for e in came)
        while self._kept and (forgets or self._kept_bytes > KEPT_BYTES):
            gone = self._kept.popleft()
            self._kept_after, self._kept_bytes = gone.position, self._kept_bytes - len(gone.text)
        self._wake()

    def _wake(self) -> None:
        self._came.set()
        self._came = asyncio.Event()

    async def _run(self, read: Callable[[], Result]) -> Result:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "icecore-feed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, read)

    def _begin(self) -> None:
        """Begins at the end of the log, with no texts kept."""
        self._kept.clear()
        self._kept_bytes = 0
        self._kept_after = self._reached = self.store.head()[0]
        self._names = last_names(self.store, self._reached)

    def _read(self) -> list[FedEvent]:
        """The events that came since it was looked last."""
        # The same dict each time, even while it is empty: `named_commits` adds to it.
        names = {} if self._names is None else self._names
        commits = named_commits(self.store, names, self._reached)
        return [event for commit in commits for event in FedEvent.of(commit)]

    def _page(self, after: int) -> list[FedEvent]:
        """The events of the commits after a position that fill a page: at least one commit, if there is any."""
        found: list[FedEvent] = []
        size = 0
        for commit in named_commits(self.store, last_names(self.store, after), after):
            found += FedEvent.of(commit)
            size += sum(len(e.text) for e in found[-len(commit.events) :])
            if size > PAGE_BYTES:
                break
        return found
