"""Redaction: parts replaced in events, in the log, in its copies of archived ones, and in the archives.

All is done in one SQLite transaction, with the event that tells of it. Archives are written anew beside the old ones
before it commits. Free pages, the WAL and the old archives are cleaned up after COMMIT; where the process dies before
that, the next open does it.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from attrs import evolve, field, frozen

from icecore.engine.archive.write_archive import abandoned_archives, read_back
from icecore.engine.errors import CorruptLogError, IcecoreError, StorageError
from icecore.engine.events.event import ACTOR, CONTENT, MESSAGE, PAYLOAD, Event, text_hash
from icecore.engine.log.archives import Archive
from icecore.engine.log.redactions import ENVELOPE, Redaction, Redactions
from icecore.engine.log.sqlite_file import SETTINGS, run_script
from icecore.engine.log.store import FORGETTING, MODELS, EventStore
from icecore.engine.queries.named_queries import query
from icecore.engine.storage.late_files import sync_path

REDACTION = "log/redaction.sql"
ENDING = ".forgotten-"


@frozen
class Replacement:
    """The new text or content of parts of one event."""

    position: int
    texts: Mapping[str, str] = field(factory=dict)
    content: bytes | None = None

    def apply(self, event: Event) -> Event:
        """The event with its texts replaced."""
        who = event.provenance
        named = {n: self.texts[n] for n in (ACTOR, MESSAGE) if n in self.texts}
        payload = self.texts.get(PAYLOAD, event.payload_text)
        return evolve(event, provenance=evolve(who, **named), payload_text=payload)


@frozen
class ToTidy:
    """The work after a forgetting: archives that were replaced, streams whose files are to be written again."""

    archives: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()

    def to_json(self) -> str:
        return orjson.dumps({"archives": self.archives, "streams": self.streams}).decode()

    @classmethod
    def of(cls, store: EventStore) -> ToTidy | None:
        """The work that is left; None for none."""
        note = store.warehouse_value(FORGETTING)
        if note is None:
            return None
        found = orjson.loads(note)
        return cls(tuple(found["archives"]), tuple(found["streams"]))


def replace_parts(
    store: EventStore,
    replacements: Sequence[Replacement],
    tell: Callable[[list[Redaction]], Event],
    streams: Sequence[str] = (),
) -> Event:
    """Replaces parts of events, inside of a write transaction; `tell` appends the event that says so.

    `streams` are those whose files are to be written again. Raises StorageError, CorruptLogError, MissingArchiveError.
    """
    store.execute(SETTINGS, "securely")
    event = tell([r for replacement in replacements for r in _redactions(store, replacement)])
    run_script(store.connection(), query(REDACTION, "schema"))
    for replacement in replacements:
        for part in (*replacement.texts, *((CONTENT,) if replacement.content is not None else ())):
            store.execute(REDACTION, "allow", position=replacement.position, part=part)
    archived = store.archives.last_position
    for replacement in replacements:
        if replacement.position > archived:
            _put(store, replacement, "put_texts", "put_content")
        else:
            _put(store, replacement, "put_kept_texts", "put_kept_content")
    replaced = [_rewrite(store, a, of, event) for a, of in _by_archive(store, replacements)]
    store.execute(REDACTION, "allow_no_more")
    _note(store, replaced, streams)
    return event


def drop_answers(store: EventStore, text: str | None = None) -> bool:
    """Drops stored answers to requests that have the text, by default all in words, inside of a write transaction.

    Returns whether there were any, so that there is something to tidy.
    """
    store.execute(SETTINGS, "securely")
    found = store.request_keys.forget(text)
    if found:
        _note(store)
    return found


def _note(store: EventStore, archives: Sequence[str] = (), streams: Sequence[str] = ()) -> None:
    """Notes work for `tidy`, besides what is left of earlier work."""
    before = ToTidy.of(store) or ToTidy()
    note = ToTidy((*before.archives, *archives), tuple(dict.fromkeys((*before.streams, *streams))))
    store.execute(MODELS, "put_warehouse", key=FORGETTING, value=note.to_json())


def _redactions(store: EventStore, replacement: Replacement) -> list[Redaction]:
    event = store.event_at(replacement.position)
    out = [
        Redaction(event.position, part, str(text_hash(event.texts[part])), str(text_hash(left)))
        for part, left in replacement.texts.items()
    ]
    if replacement.texts and not event.is_hashed_by_parts:
        out.append(Redaction(event.position, ENVELOPE, event.hash, replacement.apply(event).computed_hash()))
    if replacement.content is not None:
        was = store.content(event.position)
        if was is None:
            raise CorruptLogError(f"position {event.position}: its content files are missing")
        out.append(
            Redaction(event.position, CONTENT, *(hashlib.sha256(d).hexdigest() for d in (was, replacement.content)))
        )
    return out


def _put(store: EventStore, replacement: Replacement, texts: str, content: str) -> None:
    if replacement.texts:
        store.execute(REDACTION, texts, position=replacement.position, **_texts(store, replacement))
    if replacement.content is not None:
        store.execute(REDACTION, content, position=replacement.position, data=replacement.content)


def _texts(store: EventStore, replacement: Replacement) -> dict[str, str | None]:
    return replacement.apply(store.event_at(replacement.position)).texts


# Archives


def _by_archive(store: EventStore, replacements: Iterable[Replacement]) -> list[tuple[Archive, dict[int, Replacement]]]:
    by_position = {r.position: r for r in replacements}
    out = []
    for archive in store.archives.all():
        inside = {p: r for p, r in by_position.items() if archive.first_position <= p <= archive.last_position}
        if inside:
            out.append((archive, inside))
    return out


def _rewrite(store: EventStore, archive: Archive, replacements: Mapping[int, Replacement], told: Event) -> str:
    """Writes an archive anew, makes it part of the log, and returns the file that it replaces."""
    old = store.archives.path_of(archive)
    target = old.with_name(f"{old.name.partition(ENDING)[0]}{ENDING}{told.position}")
    part = target.with_name(f".{target.name}.part")
    try:
        shutil.copyfile(old, part)
        _redact_file(part, replacements)
        for _ in read_back(part, Redactions.of(store)):
            pass
        sync_path(part)
        length, digest = part.stat().st_size, hashlib.sha256(part.read_bytes()).hexdigest()
        os.replace(part, target)
        sync_path(target.parent)
    except (OSError, sqlite3.Error) as e:
        if isinstance(e, IcecoreError):
            raise
        raise StorageError(f"can't write the archive {target} anew: {e}") from e
    finally:
        for ending in ("", "-journal"):
            part.with_name(part.name + ending).unlink(missing_ok=True)
    file = str(Path(archive.file).with_name(target.name))
    store.execute(REDACTION, "put_archive_file", archive_id=archive.archive_id, file=file, length=length, sha256=digest)
    return archive.file


def _redact_file(part: Path, replacements: Mapping[int, Replacement]) -> None:
    with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as connection:
        connection.execute(query(SETTINGS, "securely"))
        connection.execute(query(SETTINGS, "begin"))
        for position, replacement in replacements.items():
            if replacement.texts:
                texts: dict[str, Any] = _archived_texts(connection, replacement)
                connection.execute(query(REDACTION, "put_texts"), {"position": position, **texts})
            if replacement.content is not None:
                data = {"position": position, "data": replacement.content}
                connection.execute(query(REDACTION, "put_content"), data)
        connection.execute(query(SETTINGS, "commit"))
        connection.execute(query(SETTINGS, "compact"))


def _archived_texts(connection: sqlite3.Connection, replacement: Replacement) -> dict[str, str | None]:
    connection.row_factory = sqlite3.Row
    row = connection.execute(query("log/events.sql", "by_position"), {"position": replacement.position}).fetchone()
    return replacement.apply(Event.from_row(row)).texts


# What follows


def tidy(store: EventStore, note: ToTidy) -> bool:
    """Removes the forgotten parts from the database and its folder; False where others still read as of before."""
    connection = store.connection()
    try:
        connection.execute(query(SETTINGS, "securely"))
        connection.execute(query(SETTINGS, "compact"))
        (blocked, *_) = connection.execute(query(SETTINGS, "empty_wal")).fetchone()
    except sqlite3.Error:
        return False
    if blocked:
        return False
    # No reader is at a moment at which the log still named these archives.
    for path in _replaced(store, note) - store.archives.paths():
        with contextlib.suppress(OSError):
            os.unlink(path)
    with store.write():
        store.execute(REDACTION, "drop_note", key=FORGETTING, value=note.to_json())
    return True


def remove_unfinished_archives(store: EventStore) -> None:
    """Removes archives that a process wrote anew and died before they became part of the log; replaced ones stay."""
    if not _unfinished(store):
        return
    # Another process may be writing one, but not while this one holds the write lock.
    with store.write():
        for path in _unfinished(store):
            with contextlib.suppress(OSError):
                os.unlink(path)


def remove_abandoned_archives(store: EventStore) -> None:
    """Removes files of archiving that died: they may hold what was forgotten since. One that goes on fails by this."""
    with store.write():
        note = ToTidy.of(store)
        for path in set(abandoned_archives(store)) - (_replaced(store, note) if note else set()):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _unfinished(store: EventStore) -> set[Path]:
    used = store.archives.paths()
    found = set[Path]()
    # Leftovers of a missing archive stay: after a backup of the log was put back, they may be all that there is of it.
    for path in filter(Path.exists, used):
        base = glob.escape(path.name.partition(ENDING)[0])
        found.update(path.parent.glob(f"{base}{ENDING}*"), path.parent.glob(f".{base}{ENDING}*.part*"))
    note = ToTidy.of(store)
    return found - used - (_replaced(store, note) if note else set())


def _replaced(store: EventStore, note: ToTidy) -> set[Path]:
    return {store.path.absolute().parent / file for file in note.archives}
