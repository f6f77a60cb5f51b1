"""The plans that clients were given an id of, as what was asked for: a plan is made again from that."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from icecore.engine.common.fork_safety import Lock
from icecore.engine.server.planning.scan_request import ScanRequest

if TYPE_CHECKING:
    from icecore.engine.server.planning.task_texts import TaskWriter

MOST_HELD = 1_000


@frozen
class HeldPlan:
    """A scan of a table, by its stream, that was planned."""

    stream: str
    request: ScanRequest


@define(eq=False)
class HeldPlans:
    """The last plans by their ids, for any number of threads, and the writer of their files."""

    _held: OrderedDict[str, HeldPlan] = field(factory=OrderedDict)
    _writer: TaskWriter | None = None
    _lock: Lock = field(factory=Lock)

    @property
    def writer(self) -> TaskWriter:
        """The writer, the same one each time. A server that plans no scan needs no DuckDB."""
        with self._lock:
            if self._writer is None:
                from icecore.engine.server.planning.task_texts import TaskWriter

                self._writer = TaskWriter()
            return self._writer

    def hold(self, stream: str, request: ScanRequest) -> str:
        """Holds a plan, and lets the oldest ones go; the id of the plan."""
        plan_id = str(uuid.uuid4())
        with self._lock:
            self._held[plan_id] = HeldPlan(stream, request)
            while len(self._held) > MOST_HELD:
                self._held.popitem(last=False)
        return plan_id

    def find(self, plan_id: str) -> HeldPlan | None:
        """The plan of an id, None where it is not held any more."""
        with self._lock:
            return self._held.get(plan_id)

    def drop(self, plan_id: str) -> None:
        """Lets a plan go, if it is held."""
        with self._lock:
            self._held.pop(plan_id, None)

    def close(self) -> None:
        """Closes DuckDB, if it was needed."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
