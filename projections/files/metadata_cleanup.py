"""Deletion of metadata files that fell out of the metadata log, where the table asks for it (MD2).

The commit names them, so a rebuild doesn't write them again and `verify` doesn't miss them. Commits of other engines,
which delete them themselves, and events of schema version 1 name none: there it follows from the metadata log. A note
in `written_file` comes with the pointer that no longer leads to the file; the file is deleted after that, at once or,
after a crash, at the next open or commit. Only files that this log wrote are ever deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable, Sequence

from attrs import frozen

from icecore.engine.common.compressed_json import MOST_BYTES_OF_METADATA
from icecore.engine.errors import IcecoreError, MissingFileError
from icecore.engine.events.event import TABLE_ADOPTED, TABLE_REGISTERED, Event
from icecore.engine.events.table_events import VERSIONS_MAX
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.metadata.fold import TableFold, TableState, previous_versions_max
from icecore.engine.properties.table_properties import DELETE_AFTER_COMMIT
from icecore.engine.spec.updates.metadata_update import RemoveProperties, SetLocation, SetProperties
from icecore.engine.spec.updates.table_update import TableUpdate
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.version_files import version_of

# The field in which an event names the files that go with it, and the schema version from which on events have it.
DELETED_METADATA = "deleted-metadata"
NAMING_VERSION = 2
# Kinds in `written_file`: to be deleted, and deleted.
FORGOTTEN = "metadata-forgotten"
DELETED = "metadata-deleted"


@frozen
class DroppedMetadata:
    """Metadata files that a batch of events takes out of the metadata log; `own` are those that it made itself."""

    locations: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()

    @classmethod
    def of(cls, store: EventStore, base: TableState | None, events: Sequence[Event]) -> DroppedMetadata:
        """The metadata files that the events drop; none where another table is at the same location."""
        asked = base is not None and DELETE_AFTER_COMMIT.name in base.metadata.properties
        if not asked and not any(DELETE_AFTER_COMMIT.name in e.payload_text for e in events):
            return cls()
        folding = TableFold(base)
        before, gone, made = folding.metadata_log, set[str](), set[str]()
        for event in events:
            location = folding.metadata_location
            folding.apply(event)
            after = folding.metadata_log
            if event.schema_version >= NAMING_VERSION and event.kind != TABLE_ADOPTED:
                gone |= set(event.payload.get(DELETED_METADATA, ()))
            elif DELETE_AFTER_COMMIT.of(folding.properties):
                # Another engine's log may not have even the last of ours any more.
                gone |= {*before, location or ""} - {*after, ""}
            before = after
            if event.kind not in (TABLE_REGISTERED, TABLE_ADOPTED) and folding.metadata_location is not None:
                made.add(folding.metadata_location)
        registered = {e.payload["metadata-location"] for e in events if e.kind == TABLE_REGISTERED}
        gone -= {*before, folding.metadata_location or ""}
        # The pointer of this table may be at the last of ours still.
        last = None if base is None else base.metadata_location
        gone = {f for f in gone if store.row(MODELS, "is_pointed_at", location=f, own=int(f == last)) is None}
        if not gone or is_shared(store, events[-1].stream, folding.location):
            return cls()
        return cls(frozenset(gone - registered), frozenset((gone & made) - registered))


def new_versions_max(state: TableState, updates: Iterable[TableUpdate]) -> dict[str, int]:
    """The part of a commit's payload that says how long the metadata log may be from this commit on (MD2).

    Empty where the log's length stays the same by it. Events of earlier releases lack it: there a new limit holds from
    the next commit on.
    """
    before, after = (previous_versions_max(p) for p in (state.metadata.properties, _properties_after(state, updates)))
    length = len(state.metadata.metadata_log) + 1
    return {} if min(length, before) == min(length, after) else {VERSIONS_MAX: after}


def _properties_after(state: TableState, updates: Iterable[TableUpdate]) -> dict[str, str]:
    properties = dict(state.metadata.properties)
    for update in updates:
        match update:
            case SetProperties():
                properties |= update.updates
            case RemoveProperties():
                properties = {k: v for k, v in properties.items() if k not in update.removals}
    return properties


def deletes_metadata(state: TableState) -> bool:
    """Whether the table property is set, be it to false."""
    return DELETE_AFTER_COMMIT.name in state.metadata.properties


def let_go(
    store: EventStore, state: TableState, updates: Sequence[TableUpdate] = (), versions_max: int | None = None
) -> dict[str, list[str]]:
    """The part of a commit's payload that names the metadata files which it drops and which are then deleted.

    Empty for none, as where the table does not ask for it, or the file is not one that this log wrote. `versions_max`
    is the length of the metadata log where the commit changes it.
    """
    properties = _properties_after(state, updates)
    location = next((u.location for u in reversed(updates) if isinstance(u, SetLocation)), state.metadata.location)
    if (
        state.metadata_location is None
        or not DELETE_AFTER_COMMIT.of(properties)
        or is_shared(store, state.stream, location)
    ):
        return {}
    log = [*(e.metadata_file for e in state.metadata.metadata_log), state.metadata_location]
    cut = len(log) - (versions_max or previous_versions_max(state.metadata.properties))
    own = [f for f in log[: max(0, cut)] if store.row(MODELS, "own_metadata", location=f, stream=state.stream)]
    return {DELETED_METADATA: own} if own else {}


def is_shared(store: EventStore, stream: str, location: str) -> bool:
    """Whether another table, be it dropped, has the same location."""
    return store.row(MODELS, "other_head_at", location=location, stream=stream) is not None


def note_forgotten(store: EventStore, stream: str, position: int, forgotten: DroppedMetadata, storage: Storage) -> None:
    """Notes the files to delete, and those deleted by now, in the transaction that moves the pointer."""
    for row in store.rows(MODELS, "files_of_kind", stream=stream, kind=FORGOTTEN):
        # One that a crash kept from being noted.
        if not storage.exists(row["location"]):
            store.execute(MODELS, "put_kind", location=row["location"], stream=stream, kind=DELETED)
    for location in forgotten.locations:
        if location in forgotten.own:
            store.execute(MODELS, "put_forgotten", location=location, stream=stream, position=position)
        if store.row(MODELS, "is_pointed_at", location=location, own=0) is None:
            store.execute(MODELS, "put_kind", location=location, stream=stream, kind=FORGOTTEN)


def sweep(store: EventStore, stream: str, storage: Storage) -> None:
    """Deletes the noted files; those that can't be deleted now are tried again later.

    Under the write lock, as another table may be made in the folder, whose versions have the same names.
    """
    if store.rows(MODELS, "files_of_kind", stream=stream, kind=FORGOTTEN):
        with contextlib.suppress(IcecoreError), store.write():
            for row in store.rows(MODELS, "files_of_kind", stream=stream, kind=FORGOTTEN):
                with contextlib.suppress(IcecoreError):
                    if _is_ours(row, storage):
                        storage.delete(row["location"])
                    store.execute(MODELS, "put_kind", location=row["location"], stream=stream, kind=DELETED)


def _is_ours(noted: sqlite3.Row, storage: Storage) -> bool:
    """Whether a noted file has the bytes that were written, or a name of its own where these were not noted."""
    location = noted["location"]
    if not noted["sha256"] and version_of(location) is None:
        return True
    with contextlib.suppress(MissingFileError):
        data = storage.read_bytes(location, MOST_BYTES_OF_METADATA)
        return (len(data), hashlib.sha256(data).hexdigest()) == (noted["length"], noted["sha256"])
    return False


def deleted_metadata(store: EventStore, stream: str) -> set[str]:
    """The metadata files of a table that were deleted: what lies at their places by now may be anybody's."""
    return {r["location"] for r in store.rows(MODELS, "files_of_kind", stream=stream, kind=DELETED)}
