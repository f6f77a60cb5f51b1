"""The reports that clients send to the server: taken at once, and stored by a thread of its own, many at a time."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from concurrent.futures import ThreadPoolExecutor

from attrs import define, field

from icecore.engine.common.fork_safety import Lock
from icecore.engine.errors import IcecoreError
from icecore.engine.log.reports.client_reports import ClientReport, ClientReports

MOST_WAITING = 1_000
GATHER_S = 1.0


@define(eq=False)
class ReportKeeper:
    """The reports that wait to be stored. Where more come than can be stored the oldest go; no request waits."""

    reports: ClientReports
    _waiting: deque[ClientReport] = field(factory=lambda: deque(maxlen=MOST_WAITING))
    _thread: ThreadPoolExecutor | None = None
    _is_due: bool = False
    _is_closing: threading.Event = field(factory=threading.Event)
    _lock: Lock = field(factory=Lock)

    def take(self, report: ClientReport) -> None:
        """Takes a report, which is stored soon, or when the server ends."""
        with self._lock:
            self._waiting.append(report)
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "icecore-reports")
            if not self._is_due:
                self._is_due = True
                self._thread.submit(self._store)

    def close(self) -> None:
        """Stores what waits, and ends the thread."""
        self._is_closing.set()
        if self._thread is not None:
            self._thread.shutdown()

    def _store(self) -> None:
        self._is_closing.wait(GATHER_S)
        with self._lock:
            self._is_due = False
            due = list(self._waiting)
            self._waiting.clear()
        try:
            self.reports.put(due)
        except IcecoreError as e:
            warnings.warn(f"{len(due)} reports of clients are not kept: {e}", stacklevel=1)
