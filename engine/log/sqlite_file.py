"""One SQLite file that several threads and processes read and write: connections, locks and errors.

Each thread has its own connection. A lock that another process holds is waited for with a jittered retry of our own,
because SQLite's busy timeout starves writers. All that SQLite raises becomes an error of ours that names the file.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shlex
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

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
from icecore.engine.log.lock.held_log import SETTINGS as SETTINGS
from icecore.engine.log.lock.held_log import UNKNOWN, FileId, HeldLog, has_content, is_at, wal_path, was_lost, why_lost
from icecore.engine.log.lock.roll_back import roll_back
from icecore.engine.queries.named_queries import query

DEFAULT_LOCK_TIMEOUT_S = 60.0
KEPT_STATEMENTS = 512
"""The number of statements that a connection keeps compiled, above that of all named queries of a log."""
LOOKED_EVERY_S = 0.1
"""The seconds between two looks, while a connection reads, whether the log's files are still those that it has open."""
_NEEDED_BYTES = 65_536
"""The free bytes below which a disk counts as full: SQLite's shared memory file, needed even to read, takes less."""
_REFUSED_S = 2.0
"""The seconds for which a process that may not write the log tries to open it, again and again."""
_TIMES_READ = 50
"""The most tries of a query by a reader without locks, while somebody writes the log."""
_Seen: TypeAlias = tuple[int, int, int, bool]
DataVersion: TypeAlias = tuple[int, int]
"""The number of a connection, and SQLite's own value for it, which begins alike for each new connection."""
Result = TypeVar("Result")
_text = cache(query)
_numbers = itertools.count()


class SqliteFile:
    """The file of a warehouse log, through the named queries of sql/, whatever its rows mean."""

    _file_id: FileId | None = None
    """The file that the first connection opened; all later ones must open the same, as what was read of it is kept."""

    def __init__(
        self, path: str | os.PathLike[str], *, create: bool, read_only: bool, lock_timeout_s: float, durable: bool
    ) -> None:
        """Opens nothing yet. Raises StorageError where the file is missing and may not be created, ReadOnlyError."""
        self.path = Path(path)
        self.read_only = read_only
        self.refusal: str | None = None
        """The reason why nothing is written though the file could be."""
        self.why_read_only = f"the warehouse {self.path.parent} was opened read-only"
        self._lock_timeout_s = lock_timeout_s
        self._durable = durable
        self._local = threading.local()
        fork_safety.watch(self)
        if not self.path.exists() and (read_only or not create):
            made = f"`icecore init --warehouse {shlex.quote(str(self.path.parent))}` makes a warehouse"
            raise StorageError(f"there is no warehouse log at {self.path}: {made}")
        if read_only:
            return
        # SQLite would let the owner alone write it, whatever the umask says. No file is opened here: closing it would
        # end the locks of this process.
        with contextlib.suppress(OSError):
            os.mknod(self.path, 0o666)
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise ReadOnlyError(f"the warehouse log {self.path} may not be written, only read")

    def __reduce__(self) -> str:
        raise TypeError(
            "an open log can't be pickled: send the catalog, a table, a scan or a plan, which open it where they arrive"
        )

    def connection(self) -> sqlite3.Connection:
        """This thread's connection; a forked child gets its own.

        Raises MovedWarehouseError where locks were lost, and for a new one to another file than before.
        """
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None or not self._is_current():
            if was_lost(self.path):
                raise MovedWarehouseError(why_lost(self.path))
            self._check_is_same()
            found, takes_locks, seen = self._opened()
            self._local.held = self._held(found, takes_locks)
            self._local.left = fork_safety.LeftToParent(found, self._local.held)
            self._local.look_at, self._local.number = 0.0, next(_numbers)
            self._local.connection, self._local.seen = found, seen
        return found

    def _held(self, found: sqlite3.Connection, takes_locks: bool) -> HeldLog:
        """The files that a new connection has open. Raises MovedWarehouseError where another log came meanwhile."""
        held = HeldLog(self.path, found, takes_locks)
        if held.file_id == UNKNOWN:
            held.file_id = self._file_id or UNKNOWN
        elif self._file_id is None:
            self._file_id = held.file_id
        elif self._file_id != held.file_id:
            found.close()
            raise self._moved()
        return held

    def _opened(self) -> tuple[sqlite3.Connection, bool, _Seen | None]:
        """A new connection, whether it takes locks, and, where it does not, the log's files as they were before it.

        A process that may not make files beside the log is refused while the last writer removes its own, and retries.
        """
        deadline = time.monotonic() + _REFUSED_S
        while True:
            is_last = time.monotonic() > deadline
            seen, takes_locks = self._seen() if self.read_only else None, self._takes_locks()
            try:
                return self._connect(takes_locks), takes_locks, None if takes_locks else seen
            except sqlite3.OperationalError:
                if not self.read_only or self._may_make_files() or is_last:
                    with self._translated("open"):
                        raise
            time.sleep(random.uniform(0.001, 0.01))

    def forget_parent(self) -> None:
        """Leaves the connections to the parent process."""
        self._local = threading.local()

    def _takes_locks(self) -> bool:
        """Whether SQLite may make the shared memory file that its locks need, or finds one.

        A read-only folder allows no file; and one that a process makes which may not write the log would keep writers
        out. Beside a WAL that holds commits there is such a file.
        """
        return not self.read_only or self._may_make_files() or has_content(wal_path(self.path))

    def _may_make_files(self) -> bool:
        return all(os.access(place, os.W_OK) for place in (self.path.parent, self.path))

    def _seen(self) -> _Seen:
        """The state of the log's files, which tells whether somebody wrote them."""
        try:
            found = self.path.stat()
        except OSError:
            return (0, 0, 0, False)
        return found.st_ino, found.st_size, found.st_mtime_ns, has_content(wal_path(self.path))

    @property
    def has_locks(self) -> bool:
        """Whether nobody can write over what this thread reads right now."""
        self.connection()
        return self._local.seen is None

    def _is_current(self) -> bool:
        """Whether this thread's connection is to the files as they are now; one with locks always is."""
        seen: _Seen | None = getattr(self._local, "seen", None)
        return seen is None or seen == self._seen()

    def _connect(self, takes_locks: bool) -> sqlite3.Connection:
        mode = "ro" if self.read_only else "rwc" if self._file_id is None else "rw"
        limits = "" if takes_locks else "&immutable=1"
        if self.read_only and not os.access(self.path, os.W_OK):
            limits += "&readonly_shm=1"
        uri = f"{self.path.absolute().as_uri()}?mode={mode}{limits}"
        connection = sqlite3.connect(
            uri,
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=KEPT_STATEMENTS,
        )
        connection.row_factory = sqlite3.Row
        # The first read tells whether a read-only connection gets the files that it needs, and opening is tried again.
        settings = ["foreign_keys", "cache", *(["user_version"] if self.read_only else [])]
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
        """Raises MovedWarehouseError where this thread's connection lost its locks or its file left its path."""
        self.check_path()
        self._check_locks()

    def check_path(self) -> None:
        """Raises MovedWarehouseError where this thread's connection is to a file that left its path."""
        self.connection()
        if not self._local.held.is_in_place:
            raise self._moved()

    def _check_is_same(self) -> None:
        if self._file_id is not None and not is_at(self.path, self._file_id):
            raise self._moved()

    def _moved(self) -> MovedWarehouseError:
        return MovedWarehouseError(
            f"{self.path} is not the log that was opened: the warehouse was moved or replaced since; open it again"
        )

    def _check_locks(self) -> None:
        """Raises MovedWarehouseError where this thread's connection lost its locks."""
        if self._local.held.is_lost():
            raise MovedWarehouseError(why_lost(self.path))

    def close(self) -> None:
        """Closes this thread's connection, unless its locks were lost."""
        if (found := getattr(self._local, "connection", None)) is not None:
            if not self._local.held.is_lost():
                found.close()
                self._local.held.leave()
            self._local.connection = self._local.left = None

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
                # Only a statement that was refused as busy, and so did nothing, is tried again.
                if not _is_busy(e):
                    raise
                return self._retrying(lambda: self.connection().execute(sql, parameters))

    def rows(self, file: str, query_name: str, /, **parameters: Any) -> list[sqlite3.Row]:
        """All rows of a named query. Raises StorageError, CorruptLogError, WarehouseLockedError."""
        return self._fetched(sqlite3.Cursor.fetchall, file, query_name, parameters)

    def row(self, file: str, query_name: str, /, **parameters: Any) -> sqlite3.Row | None:
        """The first row of a named query; None where there is none. Raises as `rows`."""
        found: sqlite3.Row | None = self._fetched(sqlite3.Cursor.fetchone, file, query_name, parameters)
        return found

    def data_version(self) -> DataVersion:
        """A value that differs once others wrote to the file, or this thread has a new connection. Raises as `rows`."""
        [row] = self.rows(SETTINGS, "data_version")
        return self._local.number, row[0]

    def _fetched(
        self, fetch: Callable[[sqlite3.Cursor], Result], file: str, query_name: str, parameters: Mapping[str, Any]
    ) -> Result:
        """The rows of a named query, fetched again where the log was written meanwhile under a reader without locks."""
        for _ in range(_TIMES_READ):
            # An error of opening is raised at once: it does not come of a write at the moment.
            self.connection()
            try:
                found = fetch(self.execute(file, query_name, **parameters))
            except (sqlite3.Error, IcecoreError):
                if self._is_current():
                    with self._translated("read"):
                        raise
            else:
                if self._is_current():
                    return found
        raise WarehouseLockedError(f"the warehouse log {self.path} was written each time that it was read")

    # Locks

    @contextlib.contextmanager
    def _locked(self, uncertain: Callable[[sqlite3.Error], None] | None = None, *, keep: bool = True) -> Iterator[None]:
        """A write transaction of SQLite. `uncertain` learns what became of a COMMIT that failed, and raises or not."""
        connection = self.connection()
        is_inner = connection.in_transaction
        try:
            self._retrying(lambda: connection.execute(query(SETTINGS, "begin_write")))
            yield
        except BaseException:
            # An interrupt may come as soon as the lock is had.
            if not is_inner:
                roll_back(connection)
            raise
        try:
            connection.execute(query(SETTINGS, "commit" if keep else "rollback"))
        except sqlite3.Error as e:
            roll_back(connection)
            if uncertain is None:
                raise
            uncertain(e)
        if keep and self._local.held.is_lost():
            raise CommitStateUnknownError(f"the commit may be stored or not: {why_lost(self.path)}")

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

    def _damaged(self, text: str) -> CorruptLogError:
        # SQLite applies a write-ahead log to whatever copy is put beside it.
        return CorruptLogError(
            f"the warehouse log {self.path} is damaged: {text}; `icecore export` may still read its events. Move it "
            f"away, and {wal_path(self.path).name} beside it, then `icecore import` these, put a copy of it back, or "
            "take the tables into a new one by `icecore init` and `icecore register-folder`"
        )

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
                raise self._damaged(text) from e
            # A full disk may show first in a statement that writes, or in one that reads by making a temporary file.
            doing = "write" if getattr(e, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL else doing
            why = "; its disk is full" if "disk I/O" in text and self._is_disk_full() else ""
            raise StorageError(f"can't {doing} the warehouse log {self.path}: {text}{why}") from e
        except sqlite3.DatabaseError as e:
            raise self._damaged(str(e)) from e
        except OSError as e:
            if isinstance(e, IcecoreError):
                raise
            raise StorageError(f"can't {doing} the warehouse log {self.path}: {e}") from e

    @contextlib.contextmanager
    def _not_of_the_log(self) -> Iterator[None]:
        """A context in which an error of the system is about other files than the log. Raises StorageError."""
        try:
            yield
        except OSError as e:
            if isinstance(e, IcecoreError):
                raise
            raise StorageError(f"the commit to {self.path} was taken back: {e}") from e

    def _is_disk_full(self) -> bool:
        """Whether the disk has no room for the files that SQLite needs beside the log, even to read it."""
        with contextlib.suppress(OSError):
            return shutil.disk_usage(self.path.parent).free < _NEEDED_BYTES
        return False

    def _is_out_of_reach(self, text: str) -> bool:
        """Whether SQLite could not open the file because it can't make the files that it needs beside it."""
        return "unable to open" in text and self.path.exists() and not self._may_make_files()


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
