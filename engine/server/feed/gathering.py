"""Items that come one by one and that a thread of their own handles many at a time, so that no caller waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from attrs import define, field

from icecore.engine.common.fork_safety import Lock

GATHER_S = 1.0
Item = TypeVar("Item")


@define(eq=False)
class Gathering(Generic[Item]):
    """The items that wait; all are handled a second after the first came, or at the end.

    Of more than `most` the oldest are dropped. `at_end` is called last, in the thread. An item that comes after the end
    is handled at once, by the caller.
    """

    name: str
    handle: Callable[[list[Item]], object]
    most: int | None = None
    at_end: Callable[[], object] | None = None
    _waiting: deque[Item] = field(init=False)
    _thread: ThreadPoolExecutor | None = None
    _is_due: bool = False
    _is_closing: threading.Event = field(factory=threading.Event)
    _lock: Lock = field(factory=Lock)

    def __attrs_post_init__(self) -> None:
        self._waiting = deque(maxlen=self.most)

    def take(self, item: Item) -> None:
        """Takes one more item."""
        with self._lock:
            if not self._is_closing.is_set():
                self._waiting.append(item)
                if self._thread is None:
                    self._thread = ThreadPoolExecutor(1, self.name)
                if not self._is_due:
                    self._is_due = True
                    self._thread.submit(self._handle)
                return
        self.handle([item])

    def close(self) -> None:
        """Handles what waits, and ends the thread."""
        with self._lock:
            self._is_closing.set()
        if self._thread is not None:
            if self.at_end is not None:
                self._thread.submit(self.at_end)
            self._thread.shutdown()

    def _handle(self) -> None:
        self._is_closing.wait(GATHER_S)
        with self._lock:
            self._is_due = False
            due = list(self._waiting)
            self._waiting.clear()
        self.handle(due)
