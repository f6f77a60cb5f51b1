"""One SQLite file that several threads and processes read and write: connections, locks and errors.

Each thread has its own connection. A lock that another process holds is waited for with a jittered retry of our own,
because SQLite's busy timeout starves writers. All that SQLite raises becomes an error of ours that names the file.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from attrs import define, field

from icecore.engine.common import fork_safety
from icecore.engine.errors import (
    CommitFailedError,
    CommitStateUnknownError,
    CorruptLogError,
    IcecoreError,
    MovedWarehouseError,
    ReadOnlyError,
    StorageError,
    WarehouseLockedError,
)
from icecore.engine.queries.named_queries import query

SETTINGS = "settings/sqlite.sql"
DEFAULT_LOCK_TIMEOUT_S = 60.0
KEPT_STATEMENTS = 512
"""The number of statements that a connection keeps compiled, above that of all named queries of a log."""
LOOKED_EVERY_S = 0.1
"""How often it is looked, while a connection reads, whether the log's files are still those that it has open."""
_NEEDED_BYTES = 65_536
"""More than SQLite's shared memory file has, without which a log is not even read."""
Result = TypeVar("Result")
_text = cache(query)
FileId = tuple[int, int]
UNKNOWN: FileId = (-1, -1)
"""The identity of a file that the system did not tell, as a network's may do for a moment."""


@define(eq=False)
class _User:
    """One who has a connection, as long as its thread is there."""


@define(eq=False)
class _OpenLog:
    """The write-ahead log that the connections of this process have open, and when the log's file was written last."""

    wal_id: FileId
    changed_at: int | None
    users: WeakSet[_User] = field(factory=WeakSet)


_open_logs: dict[FileId, _OpenLog] = {}
_lost: set[FileId] = set()
"""Logs whose locks this process lost. SQLite has one memory of them for all connections of a process, so that none may
be made any more, and one stays open: the last one to close would write what it holds over the commits of others."""
_lock = fork_safety.Lock()


class SqliteFile:
    """The file of a warehouse log, through the named queries of sql/, whatever its rows mean."""

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool, read_only: bool, lock_timeout_s: float, durable: bool
    ) -> None:
        """Opens nothing yet. Raises StorageError where the file is missing and may not be created."""
        self.path = Path(path)
        self.read_only = read_only
        self.refusal: str | None = None
        """Why nothing is written though the file could be."""
        self.why_read_only = f"the warehouse {self.path.parent} was opened read-only"
        self._lock_timeout_s = lock_timeout_s
        self._durable = durable
        self._local = threading.local()
        fork_safety.watch(self)
        if not self.path.exists() and (read_only or not create):
            raise StorageError(f"there is no warehouse log at {self.path}: `icecore init` makes a warehouse")

    def connection(self) -> sqlite3.Connection:
        """This thread's connection; a forked child gets its own. Raises MovedWarehouseError where locks were lost."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            if _file_id(self.path) in _lost:
                raise MovedWarehouseError(self._why_lost)
            self._local.has_locks = False
            found = self._connect()
            self._local.file_id = _file_id(self.path)
            self._local.log, self._local.user = None, _User()
            self._local.look_at = 0.0
            self._local.connection = found
        return found

    def forget_parent(self) -> None:
        """Leaves this thread's connection to the parent process."""
        if (found := getattr(self._local, "connection", None)) is not None:
            fork_safety.abandon(found)
            fork_safety.abandon(self._local.user)
            self._local.connection = None

    def _connect(self) -> sqlite3.Connection:
        mode = "ro" if self.read_only else "rwc"
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        if self.read_only and not os.access(self.path.parent, os.W_OK) and not self._has_wal():
            # SQLite can't make its shared memory file there. With a WAL that holds commits it must find one.
            uri += "&immutable=1"
        else:
            self._local.has_locks = True
        connection = sqlite3.connect(
            uri,
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=KEPT_STATEMENTS,
        )
        connection.row_factory = sqlite3.Row
        settings = ["foreign_keys", "cache"]
        if not self.read_only:
            settings = ["wal", "durable" if self._durable else "not_durable", *settings]
        for setting in settings:
            # Several of them read the schema, and so meet the lock of whoever opens or closes the log right now.
            self._retrying(partial(connection.execute, query(SETTINGS, setting)))
        return connection

    @property
    def is_writable(self) -> bool:
        """Whether it was opened for writing, and nothing speaks against it."""
        return not self.read_only and self.refusal is None

    def check_in_place(self) -> None:
        """Raises MovedWarehouseError where this thread's connection is to a file that left its path."""
        self.connection()
        if _file_id(self.path) not in (self._local.file_id, UNKNOWN):
            raise MovedWarehouseError(
                f"{self.path} is not the log that was opened: the warehouse was moved or replaced since; open it again"
            )
        self._check_locks()

    def _check_locks(self) -> None:
        """Raises MovedWarehouseError where this thread's connection lost its locks."""
        if self._has_lost_locks():
            raise MovedWarehouseError(self._why_lost)

    def _has_lost_locks(self) -> bool:
        """Whether the write-ahead log that this thread's connection has open was removed, which its locks forbid.

        SQLite's locks are the process's, and the system gives them up as soon as anything in the process closes the
        file, as a copy of the folder does. Who closes the log then takes himself for the last one.
        """
        local = self._local
        if not local.has_locks:
            return False
        if local.file_id in _lost:
            return True
        found = _file_id(self._wal)
        if local.log is None:
            if found in (None, UNKNOWN):
                # SQLite makes it when it first reads a new log.
                return False
            local.log = self._joined(found)
        if found in (local.log.wal_id, UNKNOWN):
            local.log.changed_at = _changed_at(self.path)
            return False
        if _file_id(self.path) != local.file_id:
            # It was moved, together with the log.
            return False
        if found is None and _changed_at(self.path) == local.log.changed_at:
            # Nobody else wrote: if it was deleted by hand, what is in it alone is written back now.
            with contextlib.suppress(sqlite3.Error):
                if local.connection.in_transaction:
                    local.connection.execute(query(SETTINGS, "rollback"))
                local.connection.execute(query(SETTINGS, "write_back"))
        _lost.add(local.file_id)
        fork_safety.abandon(local.connection)
        return True

    def _joined(self, wal_id: FileId) -> _OpenLog:
        """The write-ahead log that this process has open: its other connections may have one that is gone by now."""
        with _lock:
            found = _open_logs.get(self._local.file_id)
            if found is None or not found.users:
                found = _open_logs[self._local.file_id] = _OpenLog(wal_id, _changed_at(self.path))
            found.users.add(self._local.user)
            return found

    @property
    def _why_lost(self) -> str:
        return (
            f"the write-ahead log of {self.path} was removed while this process had it open, by who closed the log and "
            "took himself for the last one. SQLite's locks are lost when anything in a process opens and closes the "
            "file, as a copy of the folder does, and after a fork; start this process anew to read or write the log"
        )

    @property
    def _wal(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    def _has_wal(self) -> bool:
        return self._wal.exists() and self._wal.stat().st_size > 0

    def close(self) -> None:
        """Closes this thread's connection, unless its locks were lost."""
        if (found := getattr(self._local, "connection", None)) is not None:
            if not self._has_lost_locks():
                found.close()
                if self._local.log is not None:
                    self._local.log.users.discard(self._local.user)
            self._local.connection = None

    # Queries

    def execute(self, file: str, query_name: str, /, **parameters: Any) -> sqlite3.Cursor:
        """Runs a named query of sql/ on this thread's connection."""
        sql = _text(file, query_name)
        connection = self.connection()
        if (now := time.monotonic()) >= self._local.look_at:
            self._check_locks()
            self._local.look_at = now + LOOKED_EVERY_S
        try:
            return connection.execute(sql, parameters)
        except (sqlite3.Error, OSError) as e:
            with self._translated("read"):
                # Only what nobody carried out is tried again.
                if not _is_busy(e):
                    raise
                return self._retrying(lambda: self.connection().execute(sql, parameters))

    def rows(self, file: str, query_name: str, /, **parameters: Any) -> list[sqlite3.Row]:
        """All rows of a named query. Raises StorageError, CorruptLogError, WarehouseLockedError."""
        cursor = self.execute(file, query_name, **parameters)
        try:
            return cursor.fetchall()
        except sqlite3.Error:
            with self._translated("read"):
                raise

    def row(self, file: str, query_name: str, /, **parameters: Any) -> sqlite3.Row | None:
        """The first row of a named query; None where there is none. Raises as `rows`."""
        cursor = self.execute(file, query_name, **parameters)
        try:
            found: sqlite3.Row | None = cursor.fetchone()
        except sqlite3.Error:
            with self._translated("read"):
                raise
        return found

    # Locks

    @contextlib.contextmanager
    def _locked(self, uncertain: Callable[[sqlite3.Error], None] | None = None, *, keep: bool = True) -> Iterator[None]:
        """A write transaction of SQLite. `uncertain` learns what became of a COMMIT that failed, and raises or not."""
        connection = self.connection()
        self._retrying(lambda: connection.execute(query(SETTINGS, "begin_write")))
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute(query(SETTINGS, "rollback"))
            raise
        try:
            connection.execute(query(SETTINGS, "commit" if keep else "rollback"))
        except sqlite3.Error as e:
            with contextlib.suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute(query(SETTINGS, "rollback"))
            if uncertain is None:
                raise
            uncertain(e)
        if keep and self._has_lost_locks():
            raise CommitStateUnknownError(f"the commit may be stored or not: {self._why_lost}")

    def _retrying(self, action: Callable[[], Result]) -> Result:
        """Runs an action, again while another process holds a lock, with a short random pause between tries."""
        deadline = time.monotonic() + self._lock_timeout_s
        while True:
            try:
                return action()
            except sqlite3.OperationalError as e:
                if not _is_busy(e):
                    raise
                if time.monotonic() > deadline:
                    raise WarehouseLockedError(
                        f"the warehouse log {self.path} was locked by another process for {self._lock_timeout_s:g} s"
                    ) from e
                time.sleep(random.uniform(0.0002, 0.004))

    @contextlib.contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError as e:
            raise CommitFailedError(f"the log {self.path} refused a row: {e}") from e
        except sqlite3.OperationalError as e:
            text = str(e)
            if _is_busy(e):
                raise WarehouseLockedError(f"the warehouse log {self.path} is locked: {text}") from e
            if "readonly" in text or "read-only" in text or self._is_out_of_reach(text):
                raise ReadOnlyError(f"can't {doing} the warehouse log {self.path}: {text}") from e
            if "malformed" in text or "decode to UTF-8" in text:
                raise CorruptLogError(f"the warehouse log {self.path} is damaged: {text}") from e
            why = "; its disk is full" if "disk I/O" in text and self._is_disk_full() else ""
            raise StorageError(f"can't {doing} the warehouse log {self.path}: {text}{why}") from e
        except sqlite3.DatabaseError as e:
            raise CorruptLogError(f"the warehouse log {self.path} is damaged: {e}") from e
        except OSError as e:
            if isinstance(e, IcecoreError):
                raise
            raise StorageError(f"can't {doing} the warehouse log {self.path}: {e}") from e

    def _is_disk_full(self) -> bool:
        """Whether the disk has no room for the files that SQLite needs beside the log, even to read it."""
        with contextlib.suppress(OSError):
            return shutil.disk_usage(self.path.parent).free < _NEEDED_BYTES
        return False

    def _is_out_of_reach(self, text: str) -> bool:
        """Whether SQLite could not open the file because it can't make the files that it needs beside it."""
        return "unable to open" in text and self.path.exists() and not os.access(self.path.parent, os.W_OK)


def _file_id(path: Path) -> FileId | None:
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


def run_script(connection: sqlite3.Connection, script: str) -> None:
    """Executes the statements of a script, in the transaction that is open if there is one."""
    for statement in statements(script):
        connection.execute(statement)


def statements(script: str) -> Iterator[str]:
    """The statements of a script one by one, triggers whole."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        yield pending


def _is_busy(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, sqlite3.OperationalError) and code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
