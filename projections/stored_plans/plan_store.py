"""Named plans on disk: one file each in the warehouse's cache, whole or not there, for any process to read.

A file is a line with the format and a checksum of all that follows, a line of JSON, and Arrow tables. A file that is
damaged or of another release is as good as none, since a plan can be made again.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import orjson
import pyarrow as pa
from attrs import frozen

from icecore.engine.common.text import is_unicode
from icecore.engine.errors import IcecoreError, MissingFileError, StorageError, ValidationError
from icecore.engine.events.event import file_name_of_stream
from icecore.engine.storage.file_io import Storage

FORMAT = "icecore-plan-3"
PLANS_FOLDER = "plans"
SUFFIX = ".plan"
MAX_NAME = 200


@frozen
class StoredPlan:
    """A named plan as stored: the request, the types under which it was made, and the results as tables."""

    head: Mapping[str, Any]
    tables: Mapping[str, pa.Table]

    @property
    def name(self) -> str:
        """The plan's name."""
        name: str = self.head["name"]
        return name


@frozen
class PlanStore:
    """The named plans of one table. Without a folder nothing can be stored."""

    folder: Path | None

    @classmethod
    def of(cls, segments: Path | None, stream: str) -> PlanStore:
        """The store beside the folder of segments; `stream` is the table's."""
        if segments is None:
            return cls(None)
        return cls(segments.parent / PLANS_FOLDER / file_name_of_stream(stream))

    @classmethod
    def all(cls, segments: Path | None) -> Iterator[PlanStore]:
        """The stores of all tables beside the folder of segments."""
        for folder in () if segments is None else sorted((segments.parent / PLANS_FOLDER).glob("*")):
            yield cls(folder)

    def path(self, name: str) -> Path:
        """The file of a plan. Raises ValidationError for a name that can't be one, StorageError without a folder."""
        if not is_unicode(name):
            raise ValidationError(f"a plan's name must be Unicode text, found a lone surrogate in {name!r}")
        file = quote(name, safe="")
        if not name or len(file) > MAX_NAME:
            raise ValidationError(f"a plan's name must have 1 to {MAX_NAME} characters, found {name!r}")
        if self.folder is None:
            raise StorageError("plans can't be kept: the warehouse has no folder for its cache that can be written")
        return self.folder / f"{file}{SUFFIX}"

    def names(self) -> list[str]:
        """The names of the plans, sorted."""
        return sorted(unquote(p.name.removesuffix(SUFFIX)) for p in self._files())

    def _files(self) -> Iterator[Path]:
        if self.folder is not None and self.folder.is_dir():
            yield from self.folder.glob(f"*{SUFFIX}")

    def read(self, name: str) -> StoredPlan | None:
        """The plan, or None where there is none that can be read."""
        try:
            data = Storage().read_bytes(str(self.path(name)))
        except StorageError:
            return None
        try:
            return _decode(data)
        except (ValueError, KeyError, TypeError, pa.ArrowException, IcecoreError):
            return None

    def write(self, plan: StoredPlan) -> None:
        """Stores the plan, in place of an earlier one of its name. Raises StorageError."""
        path = self.path(plan.name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise StorageError(f"can't make the folder {path.parent}: {e.strerror}") from e
        Storage().write_atomic(str(path), _encode(plan))

    def drop(self, name: str) -> bool:
        """Removes a plan; False where there was none. Raises StorageError."""
        path = self.path(name)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as e:
            raise StorageError(f"can't remove {path}: {e.strerror}") from e
        return True

    def forget(self, is_in: Callable[[bytes], int]) -> None:
        """Removes the plans that have something in their names or bytes. Raises StorageError."""
        for name in self.names():
            with contextlib.suppress(MissingFileError):  # dropped meanwhile
                if is_in(name.encode()) or is_in(Storage().read_bytes(str(self.path(name)))):
                    self.drop(name)


def _encode(plan: StoredPlan) -> bytes:
    parts = {n: _ipc(t) for n, t in plan.tables.items()}
    body = b"".join(parts.values())
    head = orjson.dumps({"tables": [[n, len(p)] for n, p in parts.items()], "plan": dict(plan.head)})
    content = head + b"\n" + body
    return f"{FORMAT} {hashlib.sha256(content).hexdigest()}\n".encode() + content


def _decode(data: bytes) -> StoredPlan | None:
    first, _, content = data.partition(b"\n")
    if first != f"{FORMAT} {hashlib.sha256(content).hexdigest()}".encode():
        return None
    line, _, body = content.partition(b"\n")
    head = orjson.loads(line)
    tables, start = {}, 0
    for name, length in head["tables"]:
        tables[name] = pa.ipc.open_stream(body[start : start + length]).read_all()
        start += length
    return StoredPlan(head["plan"], tables)


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
