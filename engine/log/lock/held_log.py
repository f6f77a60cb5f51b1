"""The files of a log as a process has them open, and whether it still has its locks on them.

SQLite's locks are the process's: the system gives them up as soon as anything in the process closes the log's file, as
a copy of the folder does, and a forked process never has them. Another process that closes the log then takes itself
for the last one and removes the write-ahead log, into which this process would go on committing.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from weakref import WeakSet

from attrs import define, field

from icecore.engine.common import fork_safety
from icecore.engine.queries.named_queries import query

SETTINGS = "settings/sqlite.sql"
FileId = tuple[int, int]
UNKNOWN: FileId = (-1, -1)
"""The identity of a file that the system did not tell, as a network's may do for a moment."""


@define(eq=False)
class _WriteAheadLog:
    """The write-ahead log that the connections of this process have open, and when the log's file was written last."""

    file_id: FileId
    changed_at: int | None
    holders: WeakSet[HeldLog] = field(factory=WeakSet)


_open: dict[FileId, _WriteAheadLog] = {}
"""The open write-ahead logs, by the log's file: SQLite has one memory of its locks for all connections of a process."""
_lost: set[FileId] = set()
"""Logs to which no connection may be made or used any more.

One connection to each stays open: the last one to close would write what its WAL holds over the commits of others.
"""
_lock = fork_safety.Lock()


@define(eq=False)
class HeldLog:
    """The files of a log as one connection has them open; without locks nothing is known of them."""

    path: Path
    connection: sqlite3.Connection
    has_locks: bool
    file_id: FileId | None = field(init=False)
    _wal: _WriteAheadLog | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.file_id = _identity(self.path)

    @property
    def is_in_place(self) -> bool:
        """Whether the file at the path is the one that was opened."""
        return is_at(self.path, self.file_id)

    def is_lost(self) -> bool:
        """Whether the write-ahead log was removed that the connection has open, which its locks forbid."""
        if not self.has_locks or self.file_id is None:
            return False
        if self.file_id in _lost:
            return True
        found = _identity(wal_path(self.path))
        if self._wal is None:
            if found in (None, UNKNOWN):
                # SQLite makes it when it first reads a new log.
                return False
            self._wal = self._joined(self.file_id, found)
        if found in (self._wal.file_id, UNKNOWN):
            self._wal.changed_at = _changed_at(self.path)
            return False
        if _identity(self.path) != self.file_id:
            # It was moved, together with the log.
            return False
        if found is None and _changed_at(self.path) == self._wal.changed_at:
            # Nobody else wrote: if it was deleted by hand, what is in it alone is written back now.
            with contextlib.suppress(sqlite3.Error):
                if self.connection.in_transaction:
                    self.connection.execute(query(SETTINGS, "rollback"))
                self.connection.execute(query(SETTINGS, "write_back"))
        _lost.add(self.file_id)
        fork_safety.abandon(self)
        return True

    def _joined(self, file_id: FileId, wal_id: FileId) -> _WriteAheadLog:
        """The write-ahead log that this process has open: that of its other connections, which may be gone by now."""
        with _lock:
            found = _open.get(file_id)
            if found is None or not found.holders:
                found = _open[file_id] = _WriteAheadLog(wal_id, _changed_at(self.path))
            found.holders.add(self)
            return found

    def leave(self) -> None:
        """Notes that the connection is closed. If its thread ends without that, the weak reference ends by itself."""
        if self._wal is not None:
            self._wal.holders.discard(self)


def is_at(path: Path, file_id: FileId | None) -> bool:
    """Whether a file is the one at the path, as far as can be told."""
    return _identity(path) in (file_id, UNKNOWN)


def was_lost(path: Path) -> bool:
    """Whether this process lost its locks on a log, which it can't open any more."""
    return _identity(path) in _lost


def why_lost(path: Path) -> str:
    """The text of the error for who lost its locks on a log."""
    return (
        f"the write-ahead log of {path} was removed while this process had it open, by who closed the log and took "
        "himself for the last one. SQLite's locks are lost when anything in a process opens and closes the file, as a "
        "copy of the folder does, and after a fork; start this process anew to read or write the log"
    )


def wal_path(path: Path) -> Path:
    """The write-ahead log beside a file of SQLite."""
    return path.with_name(path.name + "-wal")


def has_content(path: Path) -> bool:
    """Whether a file is there and not empty."""
    try:
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False


def _identity(path: Path) -> FileId | None:
    """The identity of the file at a path, another one once it is replaced; None where there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return UNKNOWN
    return found.st_dev, found.st_ino


def _changed_at(path: Path) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
