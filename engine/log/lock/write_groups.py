"""Groups of writes: what threads of a process write at the same time is one transaction of SQLite, with one fsync.

A thread that finds nobody writing leads: it takes the write lock, writes its own part, then those of the threads that
came meanwhile, each after a savepoint, and commits for all. Then the first of those that came too late leads. A thread
that is alone pays for no more than a lock that is free.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field

from icecore.engine.common import fork_safety
from icecore.engine.common.fork_safety import Lock
from icecore.engine.errors import WarehouseLockedError

LONGEST_S = 0.05
"""The seconds for which parts are taken into a group; other processes wait for the lock that long."""
LARGEST = 64
IN_A_ROW_S = 0.1
LET_IN_S = 0.0045
"""The pause for other processes, a little longer than the longest one between two of their tries."""

Result = TypeVar("Result")


@define(eq=False)
class QueuedWrite:
    """The part of one thread: `body` is called once, in the thread that leads, in the context of its own thread."""

    body: Callable[[Any], Any]
    result: Any = None
    error: BaseException | None = None
    leads: bool = False
    has_begun: bool = False
    _context: contextvars.Context = field(factory=contextvars.copy_context)
    _woken: threading.Event = field(factory=threading.Event)

    def run(self, write: Callable[[Callable[[Any], Any]], Any]) -> None:
        """Writes the part: calls `write` with its body, in the context of its own thread."""
        self.has_begun = True
        self.result = self._context.run(write, self.body)

    def wake(self) -> None:
        """Lets its thread go on: it was written, or leads now."""
        self._woken.set()

    def wait(self, timeout_s: float) -> None:
        """Waits for `wake`, not for ever."""
        self._woken.wait(timeout_s)

    @property
    def is_awake(self) -> bool:
        """Whether it was woken."""
        return self._woken.is_set()


Following = Callable[[], QueuedWrite | None]
"""Gives the next part of the group; None where it is to be committed."""


class WriteGroups:
    """The groups of one file's writers in this process, one at a time. A forked process begins with none."""

    def __init__(self, write: Callable[[QueuedWrite, Following], None], timeout_s: float) -> None:
        """`write` makes one transaction of a part and those that follow; an error in one of these is noted there.

        A thread waits `timeout_s` at most for its turn.
        """
        self._write = write
        self._timeout_s = timeout_s
        self._lock = Lock()
        self.forget_parent()
        fork_safety.watch(self)

    def forget_parent(self) -> None:
        """Forgets the threads of the parent process."""
        self._waiting: deque[QueuedWrite] = deque()
        self._is_led = False
        self._is_closed = False
        self._without_pause_since = 0.0

    def close(self) -> None:
        """Takes no more parts into the group that is written: what its last one did must not be seen before COMMIT."""
        self._is_closed = True

    def run(self, body: Callable[[Any], Result]) -> Result:
        """Writes a part, in a group; gives what its body gave, or raises what it raised, or why nothing was stored.

        Raises WarehouseLockedError where its turn did not come in time.
        """
        part = QueuedWrite(body)
        try:
            self._enter(part)
            if not part.leads:
                self._wait(part)
            if part.leads:
                self._lead(part)
        except BaseException:
            # A part that is interrupted before it waits is still queued, and could be chosen to lead without a thread.
            self._withdrawn(part)
            raise
        finally:
            # After any interrupt, too: nobody else could lead.
            if part.leads:
                self._hand_on()
        if part.error is not None:
            raise part.error
        result: Result = part.result
        return result

    def _enter(self, part: QueuedWrite) -> None:
        with self._lock:
            if self._is_led:
                self._waiting.append(part)
            else:
                self._is_led, self._without_pause_since = True, time.monotonic()
                part.leads = True

    def _wait(self, part: QueuedWrite) -> None:
        """Waits for a part to be written, or to lead. An interrupt is raised when its outcome is known."""
        interrupt: BaseException | None = None
        deadline = time.monotonic() + self._timeout_s
        while not part.is_awake:
            try:
                part.wait(self._timeout_s)
                if time.monotonic() > deadline and self._withdrawn(part):
                    part.error = WarehouseLockedError(f"other threads wrote to the log for {self._timeout_s:g} s")
                    return
            except BaseException as e:
                interrupt = e
                if self._withdrawn(part):
                    raise
        if interrupt is not None:
            raise interrupt

    def _withdrawn(self, part: QueuedWrite) -> bool:
        with self._lock:
            if part in self._waiting:
                self._waiting.remove(part)
                return True
            return False

    def _lead(self, first: QueuedWrite) -> None:
        group, deadline = [first], float("inf")

        def following() -> QueuedWrite | None:
            nonlocal deadline
            deadline = min(deadline, time.monotonic() + LONGEST_S)
            # Signals come to the main thread: they must not end what others write.
            if self._is_closed or len(group) == LARGEST or threading.current_thread() is threading.main_thread():
                return None
            with self._lock:
                if not self._waiting or time.monotonic() > deadline:
                    return None
                group.append(self._waiting.popleft())
                return group[-1]

        try:
            self._let_others_in()
            self._is_closed = False
            self._write(first, following)
        except BaseException as e:
            if isinstance(e, WarehouseLockedError) and not first.has_begun:
                # The threads that waited with it have waited as long.
                with self._lock:
                    group += self._waiting
                    self._waiting.clear()
            for part in group:
                part.error = part.error or e
        finally:
            for part in group[1:]:
                part.wake()

    def _let_others_in(self) -> None:
        """Pauses where this process wrote without a pause for long: other processes get the lock then."""
        if time.monotonic() - self._without_pause_since > IN_A_ROW_S:
            time.sleep(LET_IN_S)
            self._without_pause_since = time.monotonic()

    def _hand_on(self) -> None:
        """Lets the first of those that wait lead the next group."""
        with self._lock:
            if self._waiting:
                part = self._waiting.popleft()
                part.leads = True
                part.wake()
            else:
                self._is_led = False
