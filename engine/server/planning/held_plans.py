"""The plans that clients were given an id of, as what was asked for: a plan is made again from that.

An id says it, so that any process that serves the warehouse can; only what is too long for a path is held here.
"""

from __future__ import annotations

import base64
import binascii
import uuid
import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from icecore.engine.common.fork_safety import Lock
from icecore.engine.common.json_reader import get, loads
from icecore.engine.errors import ValidationError
from icecore.engine.server.planning.deep_json import any_depth
from icecore.engine.server.planning.scan_request import ScanRequest

if TYPE_CHECKING:
    from icecore.engine.server.planning.task_texts import TaskWriter

MOST_HELD = 1_000
MOST_OF_ID = 4_000
MOST_TOLD = 2**20
WHERE = "the plan's id"


@frozen
class HeldPlan:
    """A scan of a table, by its stream, that was planned."""

    stream: str
    request: ScanRequest

    def id(self) -> str:
        """The id that says it, which `of_id` reads."""
        told = {"table": self.stream, "scan": self.request.to_dict(), "made": uuid.uuid4().hex}
        # Without padding, which some clients escape in a path.
        return base64.urlsafe_b64encode(zlib.compress(any_depth(told))).decode().rstrip("=")

    @classmethod
    def of_id(cls, plan_id: str) -> HeldPlan | None:
        """The plan that an id says, None for one that says none."""
        try:
            told = loads(
                zlib.decompressobj().decompress(
                    base64.urlsafe_b64decode(plan_id + "=" * (-len(plan_id) % 4)), MOST_TOLD
                ),
                WHERE,
            )
            return cls(get(told, "table", str, WHERE), ScanRequest.of(get(told, "scan", dict, WHERE)))
        except (ValidationError, zlib.error, binascii.Error, ValueError):
            return None


@define(eq=False)
class HeldPlans:
    """The last plans whose ids don't say them, those that were let go, and the writer of files; for all threads."""

    _held: OrderedDict[str, HeldPlan] = field(factory=OrderedDict)
    _gone: OrderedDict[str, None] = field(factory=OrderedDict)
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
        """The id of a plan; where that can't say it, the plan is held, and the oldest ones are let go."""
        plan = HeldPlan(stream, request)
        if len(plan_id := plan.id()) <= MOST_OF_ID:
            return plan_id
        plan_id = str(uuid.uuid4())
        with self._lock:
            self._held[plan_id] = plan
            while len(self._held) > MOST_HELD:
                self._held.popitem(last=False)
        return plan_id

    def find(self, plan_id: str) -> HeldPlan | None:
        """The plan of an id, None where there is none any more."""
        with self._lock:
            if plan_id in self._gone:
                return None
            held = self._held.get(plan_id)
        return HeldPlan.of_id(plan_id) if held is None else held

    def drop(self, plan_id: str) -> None:
        """Lets a plan go; one that its id says may still be made by other processes."""
        with self._lock:
            self._held.pop(plan_id, None)
            self._gone[plan_id[:MOST_OF_ID]] = None
            while len(self._gone) > MOST_HELD:
                self._gone.popitem(last=False)

    def close(self) -> None:
        """Closes DuckDB, if it was needed."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
