"""The transaction log: one SQLite file, append-only, hash-chained, one row per event.

Writers take the write lock first (`BEGIN IMMEDIATE`) and wait with a jittered retry of our own, because SQLite's busy
timeout starves writers. Inside the lock the writer sees the latest state, appends, and lets the read models follow in
the same SQLite transaction. A COMMIT whose outcome is unknown is looked up by event id, never retried blindly.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from icecore.engine.errors import (
    CommitFailedError,
    CommitStateUnknownError,
    CorruptLogError,
    IcecoreError,
    ReadOnlyError,
    StorageError,
    WarehouseLockedError,
)
from icecore.engine.events import (
    CATALOG_STREAM,
    GENESIS_HASH,
    SCHEMA_VERSION,
    TABLE_CREATED,
    TABLE_DROPPED,
    TABLE_UNDROPPED,
    VIEW_CREATED,
    VIEW_DROPPED,
    VIEW_UNDROPPED,
    Event,
    Provenance,
    canonical,
)
from icecore.engine.ids import now_ms
from icecore.engine.log.archives import Archives
from icecore.engine.sql_files import queries, query

EVENTS = "log/events.sql"
MODELS = "log/read_models.sql"
SCHEMA = "log/schema.sql"
LOG_FORMAT_VERSION = "1"
# A log whose oldest events lie in archives: earlier releases would miss them.
ARCHIVED_FORMAT = "1-archived"
DEFAULT_LOCK_TIMEOUT_S = 60.0
_LAST_POSITION = 2**62
# Kinds that give names or take them, which stay in the log when it is archived.
NAMING = frozenset({TABLE_CREATED, TABLE_DROPPED, TABLE_UNDROPPED, VIEW_CREATED, VIEW_DROPPED, VIEW_UNDROPPED})


class EventStore:
    """The log of one warehouse. Safe to use from several threads and processes; each thread has its own connection."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        read_only: bool = False,
        lock_timeout_s: float = DEFAULT_LOCK_TIMEOUT_S,
        durable: bool = True,
    ) -> None:
        """Opens or creates the file.

        Raises StorageError where it is missing and may not be created, CorruptLogError where it is no log of ours,
        ReadOnlyError where it has to be written but can't be.
        """
        self.path = Path(path)
        self.read_only = read_only
        self._lock_timeout_s = lock_timeout_s
        self._durable = durable
        self._local = threading.local()
        self.archives = Archives(self)
        exists = self.path.exists()
        if not exists and (read_only or not create):
            raise StorageError(f"there is no warehouse log at {self.path}")
        with self._translated("open"):
            connection = self.connection()
            if not read_only:
                self._set_up(connection)
            self._check_format(connection)

    def connection(self) -> sqlite3.Connection:
        """This thread's connection; a forked child gets its own."""
        local = self._local
        if getattr(local, "pid", None) != os.getpid():
            local.connection = self._connect()
            local.pid = os.getpid()
        connection: sqlite3.Connection = local.connection
        return connection

    def _connect(self) -> sqlite3.Connection:
        mode = "ro" if self.read_only else "rwc"
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        if self.read_only and not os.access(self.path.parent, os.W_OK) and not self._has_wal():
            # SQLite can't make its shared memory file there. With a WAL that holds commits it must find one.
            uri += "&immutable=1"
        connection = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        if not self.read_only:
            self._retrying(lambda: connection.execute("PRAGMA journal_mode = WAL"))
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'OFF'}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA cache_size = -16000")
        return connection

    def _has_wal(self) -> bool:
        wal = self.path.with_name(self.path.name + "-wal")
        return wal.exists() and wal.stat().st_size > 0

    def _set_up(self, connection: sqlite3.Connection) -> None:
        if self._has_log(connection):
            return
        # Importing it takes as long as a plan of a million files: only a new log needs it.
        from sqlite_utils import Database

        with self._locked(connection):
            if "event" not in Database(connection, execute_plugins=False).table_names():
                script = queries(SCHEMA)
                for part in ("log", "read_models"):
                    for statement in statements(script[part]):
                        connection.execute(statement)
                self.execute(MODELS, "set_warehouse", key="log-format", value=LOG_FORMAT_VERSION)

    def _has_log(self, connection: sqlite3.Connection) -> bool:
        return connection.execute(query(EVENTS, "has_log")).fetchone() is not None

    def _check_format(self, connection: sqlite3.Connection) -> None:
        if not self._has_log(connection):
            raise CorruptLogError(f"{self.path} holds no transaction log")
        version = self.warehouse_value("log-format")
        if version not in (LOG_FORMAT_VERSION, ARCHIVED_FORMAT):
            raise CorruptLogError(f"{self.path} has log format {version}; this release knows {LOG_FORMAT_VERSION}")

    def close(self) -> None:
        """Closes this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.pid = None

    # Reading

    def execute(self, file: str, query_name: str, /, **parameters: Any) -> sqlite3.Cursor:
        """Runs a named query of sql/ on this thread's connection."""
        sql = query(file, query_name)
        with self._translated("read"):
            cursor: sqlite3.Cursor = self._retrying(lambda: self.connection().execute(sql, parameters))
            return cursor

    def rows(self, file: str, query_name: str, /, **parameters: Any) -> list[sqlite3.Row]:
        with self._translated("read"):
            return self.execute(file, query_name, **parameters).fetchall()

    def row(self, file: str, query_name: str, /, **parameters: Any) -> sqlite3.Row | None:
        with self._translated("read"):
            found: sqlite3.Row | None = self.execute(file, query_name, **parameters).fetchone()
            return found

    def warehouse_value(self, key: str) -> str | None:
        found = self.row(MODELS, "get_warehouse", key=key)
        return None if found is None else found["value"]

    def head(self) -> tuple[int, str, int]:
        """Position, hash and time (ms) of the last event; (0, zeros, 0) of an empty log."""
        found = self.row(EVENTS, "head")
        return (0, GENESIS_HASH, 0) if found is None else (found["position"], found["hash"], found["recorded_at_ms"])

    def events(self, after: int = 0, up_to: int | None = None) -> Iterator[Event]:
        """The events after one position up to another, in order. Raises MissingArchiveError."""
        limit = _LAST_POSITION if up_to is None else up_to
        yield from map(Event.from_row, self._iterate("all", after=after, up_to=limit))

    def stream_events(self, stream: str, after_version: int = 0, up_to: int | None = None) -> Iterator[Event]:
        """The events of one stream after a stream version, up to a position. Raises MissingArchiveError."""
        limit = _LAST_POSITION if up_to is None else up_to
        yield from map(Event.from_row, self._stream_rows(stream, after_version, limit))

    def _stream_rows(self, stream: str, after: int, up_to: int) -> Iterator[sqlite3.Row]:
        """What the log has first, since another process may archive meanwhile: what it has not is archived then."""
        rows = self._read("of_stream", stream=stream, after=after, up_to=up_to)
        first = next(rows, None)
        if first is None or first["stream_version"] > after + 1:
            before = _LAST_POSITION if first is None else first["stream_version"]
            if stream == CATALOG_STREAM:
                kept = self.archives.kept("kept_of_stream", stream=stream, after=after, up_to=up_to)
                yield from (row for row in kept if row["stream_version"] < before)
            else:
                yield from self.archives.stream_events(stream, after, before, up_to)
        if first is not None:
            yield first
            yield from rows

    def naming_events(self, up_to: int | None = None) -> Iterator[Event]:
        """The events that are no commits to a table or view: those that give names, take them and shape namespaces."""
        limit = _LAST_POSITION if up_to is None else up_to
        own = [Event.from_row(row) for row in self._read("naming", up_to=limit)]
        first = own[0].position if own else _LAST_POSITION
        kept = map(Event.from_row, self.archives.kept("kept_naming", up_to=limit))
        yield from (event for event in kept if event.position < first)
        yield from own

    def filtered_events(self, **conditions: Any) -> Iterator[Event]:
        """Events by any of: after, up_to (positions), stream, actor, kind, since_ms, until_ms."""
        defaults = {"after": 0, "up_to": _LAST_POSITION}
        names = ("stream", "actor", "kind", "since_ms", "until_ms")
        parameters: dict[str, Any] = (
            defaults | dict.fromkeys(names) | {k: v for k, v in conditions.items() if v is not None}
        )
        if parameters["kind"] in NAMING:
            yield from (e for e in self.naming_events(parameters["up_to"]) if _fits(e, parameters))
            return
        archived = self.archives.all()
        since = parameters["since_ms"]
        if archived and since is not None and since > archived[-1].last_recorded_at_ms:
            parameters["after"] = max(parameters["after"], archived[-1].last_position)
        yield from map(Event.from_row, self._iterate("filtered", **parameters))

    def _iterate(self, query_name: str, /, **parameters: Any) -> Iterator[sqlite3.Row]:
        """The rows of a query by position: what the log has first, since another process may archive meanwhile."""
        after, up_to = parameters["after"], parameters["up_to"]
        rows = self._read(query_name, **parameters)
        first = next(rows, None)
        if first is None or first["position"] > after + 1:
            others = {k: v for k, v in parameters.items() if k not in ("after", "up_to")}
            before = up_to if first is None else min(up_to, first["position"] - 1)
            yield from self.archives.events(query_name, after, before, **others)
        if first is not None:
            yield first
            yield from rows

    def _read(self, query_name: str, /, **parameters: Any) -> Iterator[sqlite3.Row]:
        with self._translated("read"):
            cursor = self.execute(EVENTS, query_name, **parameters)
            while batch := cursor.fetchmany(500):
                yield from batch

    def event_by_id(self, event_id: str) -> Event | None:
        found = self.row(EVENTS, "by_id", event_id=event_id) or self.archives.find("by_id", event_id=event_id)
        return None if found is None else Event.from_row(found)

    def event_at(self, position: int) -> Event:
        """The event of a position. Raises CorruptLogError where there is none, MissingArchiveError."""
        found = (
            self.row(EVENTS, "by_position", position=position)
            or self.archives.kept_row("kept_at", position=position)
            or self.archives.at("by_position", position)
        )
        if found is None:
            raise CorruptLogError(f"there is no event at position {position}")
        return Event.from_row(found)

    def event_by_idempotency_key(self, key: str) -> Event | None:
        found = self.row(EVENTS, "by_idempotency_key", idempotency_key=key)
        found = found or self.archives.kept_row("kept_by_key", idempotency_key=key)
        return None if found is None else Event.from_row(found)

    def transaction_events(self, transaction_id: str) -> list[Event]:
        own = [Event.from_row(r) for r in self.rows(EVENTS, "of_transaction", transaction_id=transaction_id)]
        parameters = {"transaction_id": transaction_id}
        archived = map(Event.from_row, self.archives.events("of_transaction", 0, _LAST_POSITION, **parameters))
        known = {e.position for e in own}
        return [*(e for e in archived if e.position not in known), *own]

    def content(self, position: int) -> bytes | None:
        """The content file bytes beside an event. Raises MissingArchiveError."""
        found = self.content_row(position)
        return None if found is None else found["data"]

    def content_row(self, position: int) -> sqlite3.Row | None:
        """The content files beside an event, `data` and `row_count`. Raises MissingArchiveError."""
        return (
            self.row(EVENTS, "content_with_rows", position=position)
            or self.archives.kept_row("kept_content_at", position=position)
            or self.archives.at("content_with_rows", position)
        )

    def position_at(self, timestamp_ms: int) -> int:
        """The last position recorded at or before a time."""
        found = self.row(EVENTS, "position_at", timestamp_ms=timestamp_ms)
        own = 0 if found is None else int(found["position"])
        return own or self.archives.position_at(timestamp_ms)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """All that is read inside, by this thread, is of one moment, whatever others commit meanwhile."""
        connection = self.connection()
        with self._translated("read"):
            self._retrying(lambda: connection.execute("BEGIN"))
            self._local.begun_at = _LAST_POSITION
            try:
                yield
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    def is_committed(self, position: int) -> bool:
        """Whether an event that this thread sees can't be rolled back by it any more."""
        return not self.connection().in_transaction or position <= self._local.begun_at

    # Writing

    @contextlib.contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """A write transaction: all events that are appended in it become visible at once, or none does.

        Raises WarehouseLockedError where the lock can't be had in time, ReadOnlyError, StorageError (disk full), and
        CommitStateUnknownError where it can't be learnt whether the events were stored.
        """
        if self.read_only:
            raise ReadOnlyError(f"the warehouse {self.path.parent} was opened read-only")
        transaction: WriteTransaction | None = None
        with self._translated("write"), self._locked(self.connection(), lambda: transaction):
            transaction = WriteTransaction(self)
            yield transaction
            for action in transaction.at_end:
                action()

    @contextlib.contextmanager
    def _locked(self, connection: sqlite3.Connection, appended: Any = None) -> Iterator[None]:
        self._retrying(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as e:
            self._after_failed_commit(connection, e, appended() if appended else None)

    def _after_failed_commit(
        self, connection: sqlite3.Connection, error: sqlite3.Error, transaction: WriteTransaction | None
    ) -> None:
        """Learns what became of a COMMIT that failed: nothing is retried, the events are looked up by id."""
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        wanted = [e.event_id for e in transaction.events] if transaction else []
        try:
            found = [i for i in wanted if self.event_by_id(i) is not None]
        except IcecoreError as e:
            raise CommitStateUnknownError(f"COMMIT failed ({error}) and events {wanted} can't be looked up") from e
        if wanted and found == wanted:
            return
        raise error

    def _retrying(self, action: Any) -> Any:
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
            raise StorageError(f"can't {doing} the warehouse log {self.path}: {text}") from e
        except sqlite3.DatabaseError as e:
            raise CorruptLogError(f"the warehouse log {self.path} is damaged: {e}") from e
        except OSError as e:
            if isinstance(e, IcecoreError):
                raise
            raise StorageError(f"can't {doing} the warehouse log {self.path}: {e}") from e

    def _is_out_of_reach(self, text: str) -> bool:
        """Whether SQLite could not open the file because it can't make the files that it needs beside it."""
        return "unable to open" in text and self.path.exists() and not os.access(self.path.parent, os.W_OK)


class WriteTransaction:
    """The inside of a write lock: sees the latest state, and appends."""

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self.events: list[Event] = []
        # What is done just before COMMIT, when nothing can be refused any more: files are written then.
        self.at_end: list[Callable[[], None]] = []
        self._position, self._hash, self._recorded_at_ms = store.head()
        store._local.begun_at = self._position
        self.transaction_id: str | None = None

    @property
    def next_position(self) -> int:
        return self._position + 1

    def next_recorded_at_ms(self) -> int:
        """The time that the next event will have: now, but always after the event before it."""
        return max(now_ms(), self._recorded_at_ms + 1)

    def stream_version(self, stream: str) -> int:
        found = self.store.row(EVENTS, "stream_version", stream=stream)
        own = 0 if found is None else int(found["stream_version"])
        return own or self.store.archives.last_version(stream)

    def append(
        self,
        stream: str,
        kind: str,
        payload: Mapping[str, Any],
        *,
        event_id: str,
        recorded_at_ms: int,
        provenance: Provenance,
        content: bytes | None = None,
        content_rows: int = 0,
    ) -> Event:
        """Appends one event to a stream. The first event's id names the transaction."""
        self.transaction_id = self.transaction_id or event_id
        event = Event(
            position=self._position + 1,
            event_id=event_id,
            stream=stream,
            stream_version=self.stream_version(stream) + 1,
            kind=kind,
            schema_version=SCHEMA_VERSION,
            transaction_id=self.transaction_id,
            recorded_at_ms=recorded_at_ms,
            provenance=provenance,
            payload_text=canonical(payload),
            content_sha256=None if content is None else hashlib.sha256(content).hexdigest(),
            prev_hash=self._hash,
            hash="",
        ).sealed()
        self.store.execute(EVENTS, "insert", **event.to_row())
        if content is not None:
            self.store.execute(EVENTS, "insert_content", position=event.position, row_count=content_rows, data=content)
        self._position, self._hash, self._recorded_at_ms = event.position, event.hash, recorded_at_ms
        self.events.append(event)
        return event


def _fits(event: Event, conditions: Mapping[str, Any]) -> bool:
    """As the query `filtered` has it."""
    after, since, until = conditions["after"], conditions["since_ms"], conditions["until_ms"]
    return (
        event.position > after
        and event.kind == conditions["kind"]
        and conditions["stream"] in (None, event.stream)
        and conditions["actor"] in (None, event.provenance.actor)
        and (since is None or event.recorded_at_ms >= since)
        and (until is None or event.recorded_at_ms <= until)
    )


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


def _is_busy(error: sqlite3.OperationalError) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
