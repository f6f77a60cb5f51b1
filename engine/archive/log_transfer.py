"""Transfer of a log into a new warehouse: same positions, ids and hashes, checked on the way."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import orjson
from attrs import frozen

from icecore.engine.archive.export_log import (
    Origin,
    Record,
    jsonl_origin,
    parquet_origin,
    read_jsonl,
    read_parquet,
    records,
    write_jsonl,
    write_parquet,
)
from icecore.engine.archive.log_formats import FORMATS, PARQUET
from icecore.engine.errors import CorruptFileError, CorruptLogError, IcecoreError, StorageError, ValidationError
from icecore.engine.events.event import GENESIS_HASH, RELOCATING, Event
from icecore.engine.formats.event_content import decode_table
from icecore.engine.log.deletion_content import note_removed_orphans_of
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.reader import EVENTS
from icecore.engine.log.redactions import Redactions
from icecore.engine.log.store import EventStore

PathOrFile = str | os.PathLike[str] | IO[bytes]
PARQUET_MAGIC = b"PAR1"


@frozen
class ImportedLog:
    """The result of an import: events, the hash of the last one, and the warehouse that the log came from."""

    events: int
    head: str
    origin: Origin = Origin()


def export_log(store: EventStore, target: PathOrFile, format: str, root: str) -> int:
    """Writes the whole log as of one moment and returns the number of events; a file at a path appears whole or not.

    `root` is the folder that the log is of, as a `file://` location.

    Raises ValidationError for an unknown format, CorruptLogError where the chain is broken, StorageError.
    """
    if format not in FORMATS:
        raise ValidationError(f"a log is exported as {' or '.join(FORMATS)}, found {format!r}")
    # An event and its content are two reads: others may forget something in between.
    with store.reading():
        checked = verified(records(store), Redactions.of(store))
        origin = Origin(store.warehouse_value("warehouse-uuid"), root, store.head()[0])
        if isinstance(target, (str, os.PathLike)):
            with _replacing(Path(target)) as out:
                return _write(origin, checked, out, format)
        return _write(origin, checked, target, format)


def _write(origin: Origin, found: Iterable[Record], out: IO[bytes], format: str) -> int:
    return write_parquet(origin, found, out) if format == PARQUET else write_jsonl(origin, found, out)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A context with a file beside the path, which takes its place at the end."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except OSError as e:
        raise StorageError(f"can't write {path}: {e.strerror or e}") from e
    finally:
        part.unlink(missing_ok=True)


def import_records(store: EventStore, models: ReadModels, source: PathOrFile) -> ImportedLog:
    """Appends an exported log's events to an empty one, and brings the read models up; inside of a transaction.

    Raises ValidationError where the log is not empty, CorruptLogError where the chain is broken, CorruptFileError where
    the file is no exported log, StorageError.
    """
    with _opened(source) as (file, where):
        if store.head()[0]:
            raise ValidationError(f"the log {store.path} is not empty: it has {store.head()[0]} events")
        count, head, moved = 0, GENESIS_HASH, False
        # A later event tells what was forgotten of an earlier one, so the file is read twice.
        redactions = Redactions(record.event for record in _read(file, where))
        for record in verified(_read(file, where), redactions):
            moved = moved or record.event.kind in RELOCATING
            # Events before a move are read with its folders: the read models are replayed once all events are there.
            _append(store, None if moved else models, record)
            count, head = count + 1, record.event.hash
        if moved:
            models.replay()
            models.end_replay()
        if not count:
            raise ValidationError(f"{where} holds no events")
        origin = parquet_origin(file) if _is_parquet(file) else jsonl_origin(file)
        if origin.last_position is not None and count < origin.last_position:
            raise CorruptFileError(f"{where} was cut off: it has {count} events of {origin.last_position}")
    return ImportedLog(count, head, origin)


def _append(store: EventStore, models: ReadModels | None, record: Record) -> None:
    event = record.event
    store.execute(EVENTS, "insert", **event.to_row())
    if record.content is not None:
        rows = decode_table(record.content, event.position).num_rows
        store.execute(EVENTS, "insert_content", position=event.position, row_count=rows, data=record.content)
    try:
        if models is not None:
            models.apply(event)
            note_removed_orphans_of(store, event)
    except IcecoreError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, orjson.JSONDecodeError) as e:
        raise CorruptLogError(
            f"position {event.position}: the {event.kind} event can't be applied: {type(e).__name__} {e}"
        ) from e


def _read(file: IO[bytes], where: str) -> Iterator[Record]:
    return read_parquet(file, where) if _is_parquet(file) else read_jsonl(file, where)


def _is_parquet(file: IO[bytes]) -> bool:
    """Whether the file begins as Parquet; it is left at its start."""
    file.seek(0)
    magic = file.read(len(PARQUET_MAGIC))
    file.seek(0)
    return magic == PARQUET_MAGIC


@contextlib.contextmanager
def _opened(source: PathOrFile) -> Iterator[tuple[IO[bytes], str]]:
    if not isinstance(source, (str, os.PathLike)):
        yield source, str(getattr(source, "name", "the exported log"))
        return
    with contextlib.ExitStack() as opened:
        try:
            file = opened.enter_context(Path(source).open("rb"))
        except OSError as e:
            raise StorageError(f"can't read {source}: {e.strerror or e}") from e
        yield file, str(source)


def verified(found: Iterable[Record], redactions: Redactions) -> Iterator[Record]:
    """The records, each checked against the one before it; `redactions` are those of the whole log.

    Raises CorruptLogError at the first that does not follow the one before it.
    """
    position, previous, time_ms = 0, GENESIS_HASH, -1
    versions: dict[str, int] = {}
    for record in found:
        event = record.event
        problem = _problem(record, position, previous, time_ms, versions) or _changed(record, redactions)
        if problem is not None:
            raise CorruptLogError(f"position {event.position}: {problem} (event {event.event_id}, {event.kind})")
        versions[event.stream] = event.stream_version
        position, previous, time_ms = event.position, event.hash, event.recorded_at_ms
        yield record


def _problem(record: Record, position: int, previous: str, time_ms: int, versions: dict[str, Any]) -> str | None:
    event: Event = record.event
    if event.position != position + 1:
        return f"it follows position {position}"
    if event.prev_hash != previous:
        return "it does not follow the event before it: the hashes don't chain"
    if event.recorded_at_ms <= time_ms:
        return "its time is not after that of the event before it"
    if event.stream_version != versions.get(event.stream, 0) + 1:
        return f"version {event.stream_version} of {event.stream} follows {versions.get(event.stream, 0)}"
    if (record.content is None) != (event.content_sha256 is None):
        return "its content files are missing" if record.content is None else "it has content files it knows nothing of"
    return None


def _changed(record: Record, redactions: Redactions) -> str | None:
    if (problem := redactions.event_problem(record.event)) is not None:
        return problem
    digest = None if record.content is None else hashlib.sha256(record.content).hexdigest()
    expected = redactions.content_hash(record.event)
    return None if digest == expected else "its content files were changed after they were written"
