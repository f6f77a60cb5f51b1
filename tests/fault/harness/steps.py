"""The steps of a process: each call that changes a file, and each statement that changes the log.

`Steps.install` puts itself between the engine and the operating system; it is never taken out again, because the
process that has it is about to end. A step is named before it is done, so dying at it means that it was not done;
"half a write" is a step of its own, and so is the moment after COMMIT.
"""

from __future__ import annotations

import builtins
import errno
import os
import signal
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

import icecore.engine.archive.write_archive as archive_module
import icecore.engine.forget.redact_events as forgetting_module
import icecore.engine.relocate.clone_warehouse as clone_module
import icecore.engine.relocate.move_warehouse as move_module
import icecore.engine.storage.atomic_write as scratch_module
import icecore.engine.storage.file_io as storage_module
import icecore.engine.storage.late_files as late_module
from icecore.engine.storage.file_io import Storage

Act = Callable[[str], None]
CHANGING = ("replace", "link", "unlink", "mkdir", "fsync", "rename")
READING = ("SELECT", "PRAGMA", "WITH", "EXPLAIN", "ROLLBACK")


def chosen(names: Sequence[str], every: int, first: int = 0, kinds: set[str] | None = None) -> list[int]:
    """Each so many-th of the steps; with `kinds`, also the first step of each kind that is not among these yet."""
    numbers = set(range(first % every, len(names), every))
    if kinds is not None:
        kinds.update(names[n] for n in numbers)
        for number, name in enumerate(names):
            if name not in kinds:
                kinds.add(name)
                numbers.add(number)
    return sorted(numbers)


class Steps:
    """Counts steps while it is active, and acts at the one whose turn it is: at `at` only, or `from` there on."""

    def __init__(self, act: Act, at: int | None = None, *, lasting: bool = False) -> None:
        self.names: list[str] = []
        self.active = False
        self.at = at
        self.lasting = lasting
        self._act = act

    def step(self, name: str) -> None:
        if not self.active:
            return
        number = len(self.names)
        self.names.append(name)
        if self.at is not None and (number == self.at or (self.lasting and number > self.at)):
            self._act(name)

    def install(self) -> Steps:
        """Puts itself under the storage and under SQLite, for the rest of this process."""
        writing = (storage_module, scratch_module, late_module, archive_module)
        for module in (*writing, forgetting_module, clone_module, move_module):
            patched: Any = module
            patched.os = _Os(self)
            patched.open = self._open
        self._install_outputs()
        self._install_sqlite()
        return self

    def _open(self, path: str, mode: str = "r") -> Any:
        if not set(mode) & set("wxa"):
            return builtins.open(path, mode)
        self.step("create file")
        return _File(self, builtins.open(path, mode))

    def _install_outputs(self) -> None:
        original, steps = Storage.open_output, self

        def open_output(self: Storage, location: str) -> Any:
            with storage_module.translated(location, "write"):
                steps.step("open data file")
            return pa.PythonFile(_DataFile(steps, original(self, location)), mode="w")

        Storage.open_output = open_output  # type: ignore[method-assign]

    def _install_sqlite(self) -> None:
        steps, connect = self, sqlite3.connect

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
                verb = _verb(sql)
                if verb:
                    steps.step(f"SQL {verb}")
                cursor = super().execute(sql, *args)
                if verb == "COMMIT":
                    steps.step("after COMMIT")
                return cursor

        sqlite3.connect = lambda *a, **k: connect(*a, factory=Connection, **k)  # type: ignore[assignment]


class _Os:
    """The module `os`, with steps before what changes files."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CHANGING:
            return real

        def stepped(*args: Any, **kwargs: Any) -> Any:
            self._steps.step(name)
            return real(*args, **kwargs)

        return stepped


class _File:
    """A file whose writes come in two halves."""

    def __init__(self, steps: Steps, file: Any) -> None:
        self._steps, self._file = steps, file

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        self._steps.step("write")
        half = len(data) // 2
        self._file.write(data[:half])
        self._file.flush()
        self._steps.step("half a write")
        self._file.write(data[half:])
        return len(data)


class _DataFile:
    """A data file that is being written, as pyarrow wants one."""

    def __init__(self, steps: Steps, file: Any) -> None:
        self._steps, self._file = steps, file

    def write(self, data: Any) -> int:
        self._steps.step("write data")
        size: int = self._file.write(data)
        return size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if not self._file.closed:
            self._file.close()

    def tell(self) -> int:
        position: int = self._file.tell()
        return position

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)


def _verb(sql: str) -> str:
    """What a statement does, with the table it does it to; empty for one that changes nothing."""
    lines = [line for line in sql.splitlines() if line.strip() and not line.lstrip().startswith("--")]
    words = " ".join(lines).replace("(", " ").split()
    if not words or words[0].upper() in READING:
        return ""
    match words[0].upper():
        case "INSERT" | "DELETE":
            return f"{words[0]} {words[2]}"
        case "UPDATE":
            return f"{words[0]} {words[1]}"
        case "CREATE" | "DROP":
            return words[0]
        case verb:
            return verb.rstrip(";")


def kill(_: str) -> None:
    """Dies like a process that somebody killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def failing(number: int) -> Act:
    """Fails like a disk: files with an errno, SQLite with what it makes of that errno."""

    def act(step: str) -> None:
        if not step.startswith(("SQL", "after")):
            raise OSError(number, os.strerror(number))
        error = sqlite3.OperationalError(
            "database or disk is full"
            if number == errno.ENOSPC
            else "attempt to write a readonly database"
            if number == errno.EROFS
            else "disk I/O error"
        )
        raise error

    return act
