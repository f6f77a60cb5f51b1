"""Processes that do one thing and may die of it; what they say comes back through a pipe."""

from __future__ import annotations

import os
import pickle
import select
import signal
import struct
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from . import preloaded

# Imported once, so that none of the forked processes has to.
PRELOADED = preloaded

Say = Callable[[str, Any], None]
Work = Callable[[Say], None]
TIMEOUT_S = 120.0
SAID, FAILED, _OF_ONE = "said", "failed", "of one"


@frozen
class Outcome:
    """What a process said, in order, and how it ended: an exit code, or a negative signal number."""

    messages: tuple[tuple[str, Any], ...]
    exit_code: int

    def get(self, what: str) -> Any:
        """What was said last under a name, or None."""
        return next((value for name, value in reversed(self.messages) if name == what), None)

    def said(self, what: str) -> bool:
        return any(name == what for name, _ in self.messages)

    @property
    def was_killed(self) -> bool:
        return self.exit_code in (-signal.SIGKILL, -signal.SIGXFSZ)


class Child:
    """A forked process at work."""

    def __init__(self, work: Work) -> None:
        self._reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reader)
            _run(work, writer)
        os.close(writer)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, kill_after_s: float | None = None, *, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Waits for the end; where a time is given, kills the process that long after it said something first.

        One that hangs is killed too, and its outcome says so under "failed".
        """
        started = time.monotonic()
        data = bytearray()
        hung, kill_at = False, None
        while True:
            left = timeout_s - (time.monotonic() - started)
            until_kill = left if kill_at is None else kill_at - time.monotonic()
            ready, _, _ = select.select([self._reader], [], [], max(0.0, min(left, until_kill)))
            if ready:
                chunk = os.read(self._reader, 1 << 16)
                if not chunk:
                    break
                data += chunk
                if kill_after_s is not None:
                    kill_at, kill_after_s = time.monotonic() + kill_after_s, None
            elif kill_at is not None and time.monotonic() >= kill_at:
                self.kill()
                kill_at = None
            elif left <= 0:
                hung = True
                self.kill()
                break
        os.close(self._reader)
        _, status = os.waitpid(self.pid, 0)
        messages = list(_unpacked(bytes(data)))
        if hung:
            messages.append((FAILED, f"the process hung for {timeout_s:g} s"))
        return Outcome(tuple(messages), os.waitstatus_to_exitcode(status))


def in_child(work: Work) -> Outcome:
    """Does the work in a process of its own, to its end."""
    return Child(work).wait()


def in_turn(works: Sequence[Work]) -> list[Outcome]:
    """Does works one after another in one process of their own, and gives an outcome for each.

    What ends the process is the outcome of all that it did not come to.
    """

    def work(say: Say) -> None:
        for number, each in enumerate(works):
            try:
                each(lambda name, value, number=number: say(_OF_ONE, (number, name, value)))  # type: ignore[misc]
            except Exception:
                say(_OF_ONE, (number, FAILED, traceback.format_exc()))

    outcome = Child(work).wait(timeout_s=TIMEOUT_S + len(works))
    of_all = tuple((name, value) for name, value in outcome.messages if name != _OF_ONE)
    found: list[list[tuple[str, Any]]] = [[] for _ in works]
    for name, value in outcome.messages:
        if name == _OF_ONE:
            found[value[0]].append(value[1:])
    return [Outcome(tuple(messages) or of_all, outcome.exit_code) for messages in found]


def _run(work: Work, writer: int) -> None:
    def say(name: str, value: Any) -> None:
        body = pickle.dumps((name, value))
        rest = memoryview(struct.pack("<I", len(body)) + body)
        while rest:
            rest = rest[os.write(writer, rest) :]

    code = 1
    try:
        warnings.simplefilter("ignore")
        work(say)
        code = 0
    except BaseException:
        say(FAILED, traceback.format_exc())
    finally:
        os._exit(code)


def _unpacked(data: bytes) -> list[tuple[str, Any]]:
    """The messages that arrived whole: the last one may be cut."""
    out = []
    while len(data) >= 4:
        (length,) = struct.unpack_from("<I", data)
        if len(data) < 4 + length:
            break
        out.append(pickle.loads(data[4 : 4 + length]))
        data = data[4 + length :]
    return out
