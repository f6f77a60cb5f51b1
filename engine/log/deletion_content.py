"""The files that an event of the log deletes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import orjson
from attrs import evolve

from icecore.engine.common.location import location_key
from icecore.engine.errors import CorruptLogError
from icecore.engine.events.event import TABLE_FILES_DELETED, Event
from icecore.engine.formats.deleted_files import DeletedBy, DeletedFile, decode_files
from icecore.engine.log.reader import EventReader
from icecore.engine.log.store import MODELS, EventStore


def deleted_files(store: EventReader, event: Event) -> list[DeletedFile]:
    """The files that an event deletes, by their present locations. Raises CorruptLogError, MissingArchiveError."""
    data = store.content(event.position)
    if data is None:
        raise CorruptLogError(f"position {event.position}: its list of files is missing")
    relocations = store.relocations.since(event.position)
    found = decode_files(data, event.position)
    return [evolve(f, location=relocations.location(f.location)) for f in found] if relocations else found


def note_removed_orphans(store: EventReader, position: int, keys: Iterable[str]) -> None:
    """Notes the files that a search for orphans lets go, inside of the write transaction of its event.

    They are named by their `location_key`.
    """
    store.execute(MODELS, "put_removed_orphans", position=position, digests=_json(map(_digest, keys)))


def note_removed_orphans_of(store: EventReader, event: Event) -> None:
    """Notes them of an event that the log has already, as after an import; none where it is no search for orphans.

    Raises CorruptLogError, MissingArchiveError.
    """
    if event.kind == TABLE_FILES_DELETED and event.payload.get("operation") == DeletedBy.REMOVE_ORPHAN_FILES:
        files = deleted_files(store, event)
        note_removed_orphans(store, event.position, (location_key(f.location) for f in files))


def any_removed_orphans(store: EventStore) -> bool:
    """Whether any search for orphans let files go."""
    return store.has_read_model("removed_orphan") and store.row(MODELS, "has_removed_orphans") is not None


def removed_orphans(store: EventReader, keys: Iterable[str]) -> dict[str, int]:
    """The files, of these, that a search for orphans let go, with the position of its event."""
    by_digest = {_digest(key): key for key in keys}
    rows = store.rows(MODELS, "removed_orphans", digests=_json(by_digest))
    return {by_digest[row["digest"]]: row["position"] for row in rows}


def _digest(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), signed=True)


def _json(digests: Iterable[int]) -> str:
    return orjson.dumps(list(digests)).decode()
