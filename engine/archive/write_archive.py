"""The writer of archives: first the file, verified and durable, then one SQLite transaction that moves the events.

The file gets its name in that transaction. A crash before COMMIT leaves the log unchanged and a file that nothing
refers to; after COMMIT all is done. So either state is valid.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import orjson
from attrs import frozen

from icecore.engine.errors import CommitConflictError, CorruptLogError, IcecoreError, StorageError, ValidationError
from icecore.engine.events.event import LOG_FORGOTTEN, Event
from icecore.engine.log.archives import ARCHIVE, Archive
from icecore.engine.log.reader import EVENTS
from icecore.engine.log.redactions import Redactions
from icecore.engine.log.sqlite_file import SETTINGS, run_script
from icecore.engine.log.store import ARCHIVED_FORMAT, EventStore, content_columns, event_columns
from icecore.engine.queries.named_queries import query
from icecore.engine.storage.late_files import sync_path


@frozen
class Archived:
    """The result of archiving: the positions, the number of events, and the archive's path."""

    first_position: int
    last_position: int
    events: int
    path: Path


StatesAt = Callable[[int], Mapping[str, bytes]]
NeededContent = Callable[[int], set[int]]


def archive_events(
    store: EventStore, last: int, path: Path | None, states_at: StatesAt, needed_content: NeededContent
) -> Archived | None:
    """Archives the events up to a position; None where they are archived already.

    `states_at` gives the states of streams at a position as checkpoints. `needed_content` gives the positions, up to
    one, whose content files snapshots need. Raises ValidationError where an event is still to be written out or is the
    last of the log, CorruptLogError where the chain is broken, CommitConflictError where another process archived or
    forgot something meanwhile, StorageError; the log is unchanged then.
    """
    begun_at, first = store.head()[0], store.archives.last_position + 1
    if last < first:
        return None
    _check_range(store, last)
    target = path or archive_path(store.path, first, last)
    target = target.absolute()
    _check_target(store, target, first, last)
    states = states_at(last)
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        archive = _write_file(store, part, target, first, last)
        with store.write():
            if store.archives.last_position + 1 != first:
                raise CommitConflictError(f"another process archived up to position {store.archives.last_position}")
            # The archive's file and the states were made before, and still hold what was forgotten.
            if forgotten := next(store.filtered_events(kind=LOG_FORGOTTEN, after=begun_at), None):
                raise CommitConflictError(f"something was forgotten meanwhile, at position {forgotten.position}")
            _check_range(store, last)
            needed = needed_content(last)
            _check_target(store, target, first, last)
            _put_in_place(part, target)
            _move(store, archive, states, needed)
    finally:
        for ending in ("", "-journal"):
            part.with_name(part.name + ending).unlink(missing_ok=True)
    with contextlib.suppress(sqlite3.Error):
        # Deleted rows leave free pages. Where others use the log now, later writes use these up.
        store.connection().execute(query(SETTINGS, "compact"))
    return Archived(first, last, last - first + 1, target)


def archive_path(log: Path, first: int, last: int) -> Path:
    """The default path of the archive of a log's positions: beside the log."""
    return log.with_name(f"{log.name}.archive-{first:08d}-{last:08d}")


def abandoned_archives(store: EventStore) -> Iterator[Path]:
    """The leftovers beside the log of archiving that died, or still goes on; called under the write lock.

    Archiving names its file under that lock. A named file is a leftover only if the log has all its events too: one
    that another state of this log archived has others. Where an archive of the log is missing, as after a backup was
    put back, all named files stay, as one may hold what it had.
    """
    name, folder = glob.escape(store.path.name), store.path.absolute().parent
    yield from folder.glob(f".{name}.archive-*.part*")
    # An archive's path may be written another way than its folder's.
    used = {path.resolve() for path in store.archives.paths()}
    if all(path.exists() for path in used):
        yield from (p for p in folder.glob(f"{name}.archive-*") if p.resolve() not in used and _is_copy(store, p))


def _is_copy(store: EventStore, path: Path) -> bool:
    """Whether the last event of an archive file is, with all before it, in the log."""
    found = _extent(path)
    with contextlib.suppress(IcecoreError, TypeError):
        return found is not None and store.event_at(found[1]).hash == found[2]
    return False


def _extent(path: Path) -> tuple[int, int, str] | None:
    """The first and the last position of an archive file, and the last hash; None of a file that is none."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_opened(path)) as connection:
        found = connection.execute(query(ARCHIVE, "extent_of_file")).fetchone()
        return None if found is None else tuple(found)
    return None


def _check_range(store: EventStore, last: int) -> None:
    if last >= store.head()[0]:
        raise ValidationError(f"the last event of the log, position {store.head()[0]}, can't be archived")
    rows = store.rows(ARCHIVE, "first_unwritten", up_to=last)
    if rows:
        raise ValidationError(
            f"the files of {rows[0]['stream']} are still to be written from position {rows[0]['position']} on: "
            f"materialize it, or archive less"
        )


def _check_target(store: EventStore, target: Path, first: int, last: int) -> None:
    used = store.archives.paths() | {store.path.absolute()}
    if target in used:
        raise ValidationError(f"{target} is a part of the log already")
    # A leftover of a call that died has the same events. What has others may be all that another log, or a later state
    # of this one, has of them.
    if target.exists() and _extent(target) != (first, last, store.event_at(last).hash):
        raise ValidationError(
            f"{target} is there already, and is no archive of positions {first} to {last} of this log"
        )


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)


def _write_file(store: EventStore, part: Path, target: Path, first: int, last: int) -> Archive:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _fill(store, part, first, last)
        sync_path(part)
        return _checked(store, part, target, first, last)
    except (OSError, sqlite3.Error) as e:
        if isinstance(e, IcecoreError):
            raise
        raise StorageError(f"can't write the archive {target}: {e}") from e


def _put_in_place(part: Path, target: Path) -> None:
    try:
        os.replace(part, target)
        sync_path(target.parent)
    except OSError as e:
        raise StorageError(f"can't write the archive {target}: {e}") from e


def _fill(store: EventStore, part: Path, first: int, last: int) -> None:
    with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as connection:
        connection.execute(query(SETTINGS, "not_durable"))
        run_script(
            connection,
            query(
                ARCHIVE,
                "file_schema",
                event_columns=event_columns(is_log=False),
                content_columns=content_columns(beside_events=True),
            ),
        )
        connection.execute(query(SETTINGS, "begin"))
        for event in store.events(first - 1, last):
            connection.execute(query(EVENTS, "insert"), event.to_row())
            content = store.content_row(event.position)
            if content is not None:
                row = {"position": event.position, "row_count": content["row_count"], "data": content["data"]}
                connection.execute(query(EVENTS, "insert_content"), row)
        connection.execute(query(SETTINGS, "commit"))


def _checked(store: EventStore, part: Path, target: Path, first: int, last: int) -> Archive:
    """Reads the file back. Raises CorruptLogError where it is not the chain that the log has there."""
    events = read_back(part, Redactions.of(store))
    opening = next(events, None)
    before = store.event_at(first - 1).hash if first > 1 else None
    if opening is None or opening.position != first or before not in (None, opening.prev_hash):
        raise CorruptLogError(f"the archive {target} does not begin with position {first} of the log")
    closing = opening
    for event in events:
        closing = event
    if closing.position != last or closing.hash != store.event_at(last).hash:
        raise CorruptLogError(f"the archive {target} does not end with position {last} of the log")
    home = store.path.absolute().parent
    inside = target.is_relative_to(home)
    return Archive(
        0,
        first,
        last,
        opening.prev_hash,
        closing.hash,
        opening.recorded_at_ms,
        closing.recorded_at_ms,
        str(target.relative_to(home)) if inside else str(target),
        part.stat().st_size,
        hashlib.sha256(part.read_bytes()).hexdigest(),
    )


def read_back(part: Path, redactions: Redactions) -> Iterator[Event]:
    """The events of the file. Raises CorruptLogError at the first that breaks the chain."""
    with contextlib.closing(_opened(part)) as connection:
        connection.row_factory = sqlite3.Row
        known: Event | None = None
        for row in connection.execute(query(ARCHIVE, "all_in_file")):
            event = Event.from_row(row)
            found = connection.execute(query(EVENTS, "content_with_rows"), {"position": event.position}).fetchone()
            digest = None if found is None else hashlib.sha256(found["data"]).hexdigest()
            follows = known is None or (event.position, event.prev_hash) == (known.position + 1, known.hash)
            changed = redactions.event_problem(event) is not None or digest != redactions.content_hash(event)
            if not follows or changed:
                raise CorruptLogError(f"position {event.position}: the chain is broken, so nothing is archived")
            known = event
            yield event


def _move(store: EventStore, archive: Archive, states: Mapping[str, bytes], needed: set[int]) -> None:
    """Makes the file part of the log; inside of a write transaction, on which all of this depends."""
    run_script(
        store.connection(),
        query(
            ARCHIVE,
            "schema",
            event_columns=event_columns(is_log=True),
            content_columns=content_columns(beside_events=False),
        ),
    )
    last = archive.last_position
    archive_id = store.execute(ARCHIVE, "put_archive", **_row(archive)).lastrowid
    for stream in store.rows(EVENTS, "streams_up_to", up_to=last):
        store.execute(
            ARCHIVE,
            "put_stream",
            archive_id=archive_id,
            **dict(stream),
            event_hash=store.event_at(stream["position"]).hash,
            state=states.get(stream["stream"]),
        )
    store.execute(ARCHIVE, "keep_events", up_to=last)
    positions = orjson.dumps(sorted(needed)).decode()
    store.execute(ARCHIVE, "keep_content", up_to=last, positions=positions)
    store.execute(ARCHIVE, "delete_checkpoints", up_to=last)
    store.execute(ARCHIVE, "delete_content", up_to=last)
    store.execute(ARCHIVE, "delete_events", up_to=last)
    store.execute(ARCHIVE, "set_format", value=ARCHIVED_FORMAT)


def _row(archive: Archive) -> dict[str, object]:
    return {
        "first_position": archive.first_position,
        "last_position": archive.last_position,
        "first_prev_hash": archive.first_prev_hash,
        "last_hash": archive.last_hash,
        "first_recorded_at_ms": archive.first_recorded_at_ms,
        "last_recorded_at_ms": archive.last_recorded_at_ms,
        "file": archive.file,
        "length": archive.length,
        "sha256": archive.sha256,
    }
