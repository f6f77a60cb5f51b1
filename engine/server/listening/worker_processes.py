"""Several processes that serve one warehouse at one socket; the parent restarts one that ends, and ends all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

from attrs import define, field

from icecore.engine.errors import StorageError

SHORT_LIFE_S = 5.0
MOST_SHORT_LIVES = 5


@define(eq=False)
class WorkerProcesses:
    """A number of processes that run `work`, which is pickled with what it is bound to; they listen at one socket.

    This process closes the socket before they end: a client that connects once they accept nobody is refused, instead
    of waiting for this process to end.
    """

    work: Callable[[], None]
    count: int
    listening: socket.socket
    _alive: dict[int, tuple[SpawnProcess, float]] = field(factory=dict)
    _short_lives: int = 0

    def run(self) -> None:
        """Runs them until this process is told to end, by SIGTERM or SIGINT; then each ends what it has begun.

        Raises StorageError where one after another ends as soon as it began.
        """
        told, tell = os.pipe()
        before = {n: signal.signal(n, lambda *_: os.write(tell, b"!")) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            while len(self._alive) < self.count:
                self._start()
            while told not in (ready := wait([told, *self._alive])):
                for sentinel in ready:
                    if isinstance(sentinel, int):
                        self._replace(sentinel)
        finally:
            self.listening.close()
            for process, _ in self._alive.values():
                process.terminate()
            for process, _ in self._alive.values():
                process.join()
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(told)
            os.close(tell)

    def _start(self) -> None:
        process = multiprocessing.get_context("spawn").Process(target=self.work)
        process.start()
        self._alive[process.sentinel] = process, time.monotonic()

    def _replace(self, sentinel: int) -> None:
        process, begun_at = self._alive.pop(sentinel)
        process.join()
        self._short_lives = self._short_lives + 1 if time.monotonic() - begun_at < SHORT_LIFE_S else 0
        if self._short_lives >= MOST_SHORT_LIVES:
            raise StorageError(f"workers end as soon as they begin, the last one with {process.exitcode}")
        self._start()
