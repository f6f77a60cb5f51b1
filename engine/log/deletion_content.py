"""The files that an event of the log deletes."""

from __future__ import annotations

from attrs import evolve

from icecore.engine.errors import CorruptLogError
from icecore.engine.events.event import Event
from icecore.engine.formats.deleted_files import DeletedFile, decode_files
from icecore.engine.log.reader import EventReader


def deleted_files(store: EventReader, event: Event) -> list[DeletedFile]:
    """The files that an event deletes, by their present locations. Raises CorruptLogError, MissingArchiveError."""
    data = store.content(event.position)
    if data is None:
        raise CorruptLogError(f"position {event.position}: its list of files is missing")
    relocations = store.relocations.since(event.position)
    found = decode_files(data, event.position)
    return [evolve(f, location=relocations.location(f.location)) for f in found] if relocations else found
