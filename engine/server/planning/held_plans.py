"""The plans that clients have ids of, held as their requests: a plan is made again from its request.

The id itself encodes the request, so that any process that serves the warehouse can make the plan. A request too long
for a path is kept in a file beside the log, for a day at most, as long as there are not too many.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
import time
import uuid
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from icecore.engine.common.fork_safety import Lock
from icecore.engine.common.json_reader import get, loads
from icecore.engine.errors import MissingFileError, ValidationError
from icecore.engine.server.planning.deep_json import any_depth
from icecore.engine.server.planning.scan_request import ScanRequest
from icecore.engine.storage.atomic_write import put_file
from icecore.engine.storage.file_io import translated

if TYPE_CHECKING:
    from icecore.engine.server.planning.task_texts import TaskWriter

MOST_HELD = 1_000
MOST_OF_ID = 4_000
MOST_TOLD, MOST_OF_FILE = 2**20, 2**25
MOST_OF_FILES = 2**28
"""The bytes of the files together: who may only read could otherwise fill the disk of the log."""
KEPT_S = 24 * 60 * 60
_OF_FILE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
WHERE = "the plan's id"


@frozen
class HeldPlan:
    """A scan that was planned: the stream of its table, its request, and the id of the schema that its names are of."""

    stream: str
    request: ScanRequest
    schema_id: int

    def id(self) -> str:
        """The id that encodes the plan, which `of_id` reads."""
        scan = {"scan": self.request.to_dict(), "schema": self.schema_id}
        told = {"table": self.stream, **scan, "made": uuid.uuid4().hex}
        # Without padding, which some clients escape in a path.
        return base64.urlsafe_b64encode(zlib.compress(any_depth(told))).decode().rstrip("=")

    @classmethod
    def of_id(cls, plan_id: str, most: int = MOST_TOLD) -> HeldPlan | None:
        """The plan that an id encodes, in at most `most` decompressed bytes; None where it encodes none."""
        try:
            told = loads(
                zlib.decompressobj().decompress(base64.urlsafe_b64decode(plan_id + "=" * (-len(plan_id) % 4)), most),
                WHERE,
            )
            request = ScanRequest.of(get(told, "scan", dict, WHERE))
            return cls(get(told, "table", str, WHERE), request, get(told, "schema", int, WHERE))
        except (ValidationError, zlib.error, binascii.Error, ValueError):
            return None


@define(eq=False)
class HeldPlans:
    """The plans too long for their ids, in files of a folder, the ids that were dropped, and the writer of tasks.

    It is for all threads.
    """

    folder: Path
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

    def hold(self, plan: HeldPlan) -> str:
        """The id of a plan; one too long for an id goes to a file, and old files are deleted. Raises StorageError."""
        if len(told := plan.id()) <= MOST_OF_ID:
            return told
        plan_id = str(uuid.uuid4())
        path = self.folder / plan_id
        with translated(str(path), "write"):
            self.folder.mkdir(exist_ok=True, parents=True)
            self._let_go()
            put_file(str(path), told.encode(), scratch=None, replace=False, durable=False)
        return plan_id

    def _let_go(self) -> None:
        """Deletes plans that are old, and the oldest of too many; other processes may do so at the same time."""
        found: list[tuple[float, int, Path]] = []
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if _OF_FILE.fullmatch(path.name):
                    told = path.stat()
                    found.append((told.st_mtime, told.st_size, path))
        together = 0
        for number, (written, size, path) in enumerate(sorted(found, reverse=True)):
            together += size
            if number >= MOST_HELD or together > MOST_OF_FILES or written < time.time() - KEPT_S:
                path.unlink(missing_ok=True)

    def find(self, plan_id: str) -> HeldPlan | None:
        """The plan of an id, None where there is none any more. Raises StorageError."""
        with self._lock:
            if plan_id in self._gone:
                return None
        if _OF_FILE.fullmatch(plan_id) is None:
            return HeldPlan.of_id(plan_id)
        path = self.folder / plan_id
        try:
            with translated(str(path), "read"):
                return HeldPlan.of_id(path.read_text(), MOST_OF_FILE)
        except MissingFileError:
            return None

    def drop(self, plan_id: str) -> None:
        """Drops a plan; other processes may still make it where its id encodes it. Raises StorageError."""
        if _OF_FILE.fullmatch(plan_id):
            path = self.folder / plan_id
            with translated(str(path), "delete"):
                path.unlink(missing_ok=True)
        with self._lock:
            self._gone[plan_id[:MOST_OF_ID]] = None
            while len(self._gone) > MOST_HELD:
                self._gone.popitem(last=False)

    def close(self) -> None:
        """Closes DuckDB, if it was needed."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
