"""The transaction log: one SQLite file, append-only, hash-chained, one row per event.

Writers take the write lock first (`BEGIN IMMEDIATE`). Inside the lock the writer sees the latest state, appends, and
lets the read models follow in the same SQLite transaction. A COMMIT whose outcome is unknown is looked up by event id,
never retried blindly.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from icecore.engine.common.ids import new_event_id, now_ms
from icecore.engine.errors import (
    CommitStateUnknownError,
    CorruptLogError,
    IcecoreError,
    MovedWarehouseError,
    ReadOnlyError,
    StorageError,
)
from icecore.engine.events.event import SCHEMA_VERSION, Event, Provenance, canonical
from icecore.engine.events.keyed_request import KeyedRequest, keyed_request
from icecore.engine.events.relocation import Relocation, Relocations
from icecore.engine.log.lock.roll_back import roll_back, taken_back_alone
from icecore.engine.log.lock.write_groups import Following, QueuedWrite, WriteGroups
from icecore.engine.log.reader import EVENTS, LAST_POSITION, EventReader, Head
from icecore.engine.log.request_keys import CARRIED_OUT, RequestKeys
from icecore.engine.log.sqlite_file import DEFAULT_LOCK_TIMEOUT_S, SETTINGS, Result, run_script
from icecore.engine.queries.named_queries import query
from icecore.engine.storage.late_files import LateFiles

MODELS = "log/read_models.sql"
CHECKPOINTS = "log/checkpoints.sql"
SCHEMA = "log/schema.sql"
LOG_FORMAT_VERSION = "1"
# A log whose oldest events lie in archives: earlier releases would miss them.
ARCHIVED_FORMAT = "1-archived"
FORGETTING = "forgetting"
"""The key in `warehouse` of what is still to be tidied up after something was forgotten."""
RELOCATIONS = "relocations"
FOLDERS_KNOWN = "table-folders-known"
"""The key in `warehouse` of the position up to which `table_folder` is whole."""
FAILED_COMMIT = "failed-commit"
"""The key in `warehouse` of the last event whose COMMIT the disk did not take."""
ONE_BY_ONE_S = 60.0
"""The seconds for which files are made durable one by one after it failed for several: then it is known which fail."""


def event_columns(*, is_log: bool) -> str:
    """The columns of a table of events, of a log or of an archive's file: see schema.sql."""
    return query(SCHEMA, "event_columns", unique=" UNIQUE" if is_log else "")


def content_columns(*, beside_events: bool) -> str:
    """The columns of a table of content files; `beside_events` says that its events are in the same file."""
    return query(SCHEMA, "content_columns", of_event=" REFERENCES event (position)" if beside_events else "")


def create_tables(connection: sqlite3.Connection) -> None:
    """Makes the tables of a log and those of its read models, where they are not there."""
    columns = {"event_columns": event_columns(is_log=True), "content_columns": content_columns(beside_events=True)}
    run_script(connection, query(SCHEMA, "log", **columns))
    run_script(connection, query(SCHEMA, "read_models"))


class EventStore(EventReader):
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
        super().__init__(path, create=create, read_only=read_only, lock_timeout_s=lock_timeout_s, durable=durable)
        self._relocations: Relocations | None = None
        self._has_read_models = False
        # Whether this store made the log in its file, which may have been another program's.
        self.is_new = False
        self._one_by_one_until = 0.0
        self.request_keys = RequestKeys(self)
        self.groups = WriteGroups(self._write_group, lock_timeout_s)
        with self._translated("open"):
            connection = self.connection()
            if create and not read_only:
                self._set_up(connection)
            self._check_format(connection)

    def _set_up(self, connection: sqlite3.Connection) -> None:
        if self._has_log(connection):
            return
        # Importing it takes as long as a plan of a million files: only a new log needs it.
        from sqlite_utils import Database

        with self._locked():
            if "event" not in Database(connection, execute_plugins=False).table_names():
                self.is_new = True
                create_tables(connection)
                self.execute(MODELS, "set_warehouse", key="log-format", value=LOG_FORMAT_VERSION)
                self.execute(MODELS, "set_warehouse", key=FOLDERS_KNOWN, value="0")

    def _has_log(self, connection: sqlite3.Connection) -> bool:
        # Another process may just be making it, and hold the lock that changes the kind of journal.
        return self._retrying(lambda: connection.execute(query(EVENTS, "has_log")).fetchone()) is not None

    def _check_format(self, connection: sqlite3.Connection) -> None:
        if not self._has_log(connection):
            raise CorruptLogError(f"{self.path} holds no transaction log; `icecore init` makes an empty one in it")
        version = self.warehouse_value("log-format")
        if version not in (LOG_FORMAT_VERSION, ARCHIVED_FORMAT):
            raise CorruptLogError(f"{self.path} has log format {version}; this release knows {LOG_FORMAT_VERSION}")

    @property
    def relocations(self) -> Relocations:
        """The relocations that events from former folders of the warehouse are read with."""
        if self._relocations is None:
            self._relocations = Relocations.of(self.warehouse_value(RELOCATIONS))
        return self._relocations

    def relocate(self, step: Relocation) -> None:
        """Stores a move or clone, inside of a write transaction."""
        self._relocations = self.relocations.with_step(step)
        self.execute(MODELS, "put_warehouse", key=RELOCATIONS, value=self._relocations.to_json())

    def forget_relocations(self) -> None:
        """Drops the cached relocations, as after a transaction that was rolled back."""
        self._relocations = None

    def warehouse_value(self, key: str) -> str | None:
        """A value of the table `warehouse` by its key; None where it is not set."""
        found = self.row(MODELS, "get_warehouse", key=key)
        return None if found is None else found["value"]

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A context in which all reads of this thread are of one moment, whatever others commit meanwhile."""
        connection = self.connection()
        with self._translated("read"):
            is_inner = connection.in_transaction
            try:
                self._retrying(lambda: connection.execute(query(SETTINGS, "begin")))
                self._local.begun_at = LAST_POSITION
                yield
            finally:
                if not is_inner:
                    roll_back(connection)

    def is_committed(self, position: int) -> bool:
        """Whether an event that this thread sees can't be rolled back by it any more."""
        return not self.connection().in_transaction or position <= self._local.begun_at

    @contextlib.contextmanager
    def write(self, *, keep: bool = True) -> Iterator[WriteTransaction]:
        """A write transaction: all events that are appended in it become visible at once, or none does.

        With `keep=False`, as in a dry run, it does all that a commit does before COMMIT, and ends in a ROLLBACK. Raises
        WarehouseLockedError where the lock can't be had in time, ReadOnlyError, StorageError (disk full),
        CommitStateUnknownError where it can't be learnt whether the events were stored, and MovedWarehouseError.
        """
        self.check_writable()
        events: list[Event] = []
        request: KeyedRequest | None = None
        with self._begun(events, keep=keep):
            transaction = WriteTransaction(self, events, head := self.head(), head[0])
            yield transaction
            transaction.finish()
            request = self._answered(events) if keep else None
        if request is not None:
            request.is_stored = True

    def write_with(self, body: Callable[[WriteTransaction], Result], *, alone: bool = False) -> Result:
        """The result of a body that runs in a write transaction, as that of `write`, maybe in another thread.

        Bodies of several threads may run in one transaction of SQLite, one after another, each as if it was alone. With
        `alone` the body has a transaction of SQLite for itself, which begins with nothing that is not committed.
        Returns once the transaction is stored. Raises as `write`, and what the body raises.
        """
        self.check_writable()
        # In a transaction it would wait for itself: SQLite says that there is one already.
        if alone or self.connection().in_transaction:
            with self.write() as transaction:
                transaction.is_alone = alone
                return body(transaction)
        self.check_in_place()
        return self.groups.run(body)

    def _write_group(self, first: QueuedWrite, following: Following) -> None:
        """Writes the parts of threads in one transaction of SQLite."""
        events: list[Event] = []
        requests: list[KeyedRequest | None] = []
        with self._begun(events), self._files_made_durable():
            head = begun_at = self.head()

            def write(body: Callable[[WriteTransaction], Result]) -> Result:
                nonlocal head
                transaction = WriteTransaction(self, [], head, begun_at[0])
                result = body(transaction)
                transaction.finish()
                requests.append(self._answered(transaction.events))
                events.extend(transaction.events)
                head = transaction.head
                return result

            first.run(write)
            while (part := following()) is not None:
                self._write_beside(part, write)
        for request in requests:
            if request is not None:
                request.is_stored = True

    @contextlib.contextmanager
    def _files_made_durable(self) -> Iterator[None]:
        """A context whose `late_files` are durable at its end, all at once. Raises StorageError."""
        late = self._local.late_files = LateFiles()
        late.takes_more = time.monotonic() >= self._one_by_one_until
        try:
            yield
            self.settle_files()
        finally:
            late.close()
            self._local.late_files = None

    @property
    def late_files(self) -> LateFiles | None:
        """The files that this thread's transaction makes durable before COMMIT; None where each is made so at once."""
        late: LateFiles | None = getattr(self._local, "late_files", None)
        return late

    def settle_files(self) -> None:
        """Makes the files written so far durable, and each later one as it is written. Raises StorageError."""
        if (late := self.late_files) is not None:
            late.takes_more = False
            try:
                late.settle()
            except StorageError:
                self._one_by_one_until = time.monotonic() + ONE_BY_ONE_S
                raise

    def _write_beside(self, part: QueuedWrite, write: Callable[[Callable[[WriteTransaction], Any]], Any]) -> None:
        """Writes a part after others. An error takes back this part alone, unless SQLite rolled back them all."""
        connection = self.connection()
        try:
            with taken_back_alone(connection), self._translated("write"), self._not_of_the_log():
                part.run(write)
        except BaseException as e:
            part.error = e
            if not connection.in_transaction:
                raise StorageError(f"{self.path}: the transaction was rolled back: {e}") from e

    @contextlib.contextmanager
    def _begun(self, events: Sequence[Event], *, keep: bool = True) -> Iterator[None]:
        """The write lock, and a COMMIT at the end, of the `events` that are appended until then."""
        with self._translated("write"), self._locked(lambda error: self._check_stored(events, error), keep=keep):
            self.check_in_place()
            self._bring_up()
            with self._not_of_the_log():
                yield
        # A transaction that is rolled back may be the one that made them.
        self._has_read_models = self._has_read_models or keep

    def _answered(self, events: Sequence[Event]) -> KeyedRequest | None:
        """The request whose key is one of the events', after its answer was stored beside them."""
        request = keyed_request()
        if request is None or all(e.provenance.idempotency_key != request.key for e in events):
            return None
        self.request_keys.put(request, CARRIED_OUT, request.answer, events)
        return request

    def _bring_up(self) -> None:
        """Builds the read models that an earlier release did not have, inside of a write transaction."""
        if not self._has_read_models and self.row(EVENTS, "has_read_models") is None:
            run_script(self.connection(), query(SCHEMA, "read_models"))

    def has_read_model(self, name: str) -> bool:
        """Whether a read model is there: a log of an earlier release that nobody wrote since lacks some."""
        return self._has_read_models or self.row(EVENTS, "has_read_model", name=name) is not None

    def check_writable(self) -> None:
        """Raises ReadOnlyError where nothing may be written, MovedWarehouseError because of the folder."""
        if self.refusal is not None:
            raise MovedWarehouseError(self.refusal)
        if self.read_only:
            raise ReadOnlyError(self.why_read_only)

    def _check_stored(self, events: Sequence[Event], error: sqlite3.Error) -> None:
        """Finds out whether a COMMIT that failed was stored: the events are looked up by id, nothing is retried."""
        wanted = [e.event_id for e in events]
        try:
            found = [i for i in wanted if self.event_by_id(i) is not None]
        except IcecoreError as e:
            raise CommitStateUnknownError(f"COMMIT failed ({error}) and events {wanted} can't be looked up") from e
        if not wanted or found != wanted:
            self._write_over(wanted, error)
            raise error

    def _write_over(self, event_ids: Sequence[str], error: sqlite3.Error) -> None:
        """Makes sure that the events of a COMMIT that failed stay unstored. Raises CommitStateUnknownError.

        Where fsync failed they lie whole behind the end of the WAL: who opens the log after a crash would find them
        committed, unless something else was written there.
        """
        if not event_ids or getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_IOERR:
            return
        try:
            with self._locked():
                self.execute(MODELS, "put_warehouse", key=FAILED_COMMIT, value=event_ids[-1])
        except (sqlite3.Error, IcecoreError) as e:
            raise CommitStateUnknownError(f"COMMIT failed ({error}), and events {event_ids} may be stored yet") from e


class WriteTransaction:
    """A write transaction under the write lock: it sees the latest state, and appends."""

    def __init__(self, store: EventStore, events: list[Event], head: Head, begun_at: int) -> None:
        """`events` collects the appended events after `head`; `begun_at` is the last position that is committed."""
        self.store = store
        self.events = events
        # Actions just before COMMIT, when nothing can be refused any more: files are written then.
        self.at_end: list[Callable[[], None]] = []
        self.head = head
        # Whether nothing of other threads is in it, so that it may read and plan.
        self.is_alone = False
        store._local.begun_at = begun_at
        self.transaction_id: str | None = None

    def finish(self) -> None:
        """Does what comes last before COMMIT."""
        for action in self.at_end:
            action()

    def next_recorded_at_ms(self) -> int:
        """The time that the next event will have: now, but always after the event before it."""
        return max(now_ms(), self.head[2] + 1)

    def stream_version(self, stream: str) -> int:
        """The number of events in a stream."""
        return self.store.last_version(stream) or self.store.archives.last_version(stream)

    def is_last(self, event: Event) -> bool:
        """Whether an event of this transaction is still the last one of its stream."""
        return not any(e.stream == event.stream and e.position > event.position for e in self.events)

    def append(
        self,
        stream: str,
        kind: str,
        payload: Mapping[str, Any],
        *,
        provenance: Provenance,
        event_id: str | None = None,
        recorded_at_ms: int | None = None,
        content: bytes | None = None,
        content_rows: int = 0,
        stream_version: int | None = None,
    ) -> Event:
        """Appends one event to a stream, by default with a new id, at the next time and as the stream's next version.

        The first event's id names the transaction.
        """
        event_id = event_id or new_event_id()
        recorded_at_ms = self.next_recorded_at_ms() if recorded_at_ms is None else recorded_at_ms
        self.transaction_id = self.transaction_id or event_id
        event = Event(
            position=self.head[0] + 1,
            event_id=event_id,
            stream=stream,
            stream_version=self.stream_version(stream) + 1 if stream_version is None else stream_version,
            kind=kind,
            schema_version=SCHEMA_VERSION,
            transaction_id=self.transaction_id,
            recorded_at_ms=recorded_at_ms,
            provenance=provenance,
            payload_text=canonical(payload),
            content_sha256=None if content is None else hashlib.sha256(content).hexdigest(),
            prev_hash=self.head[1],
            hash="",
        ).sealed()
        self.store.execute(EVENTS, "insert", **event.to_row())
        if content is not None:
            self.store.execute(EVENTS, "insert_content", position=event.position, row_count=content_rows, data=content)
        self.head = (event.position, event.hash, recorded_at_ms)
        self.events.append(event)
        return event
