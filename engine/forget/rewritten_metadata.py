"""Earlier metadata files, rewritten where their events say less now."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from icecore.engine.common.compressed_json import compress
from icecore.engine.events.event import TABLE_ADOPTED, TABLE_REGISTERED, VIEW_COMMITTED, VIEW_CREATED, is_view_stream
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.metadata.fold import TableFold
from icecore.engine.metadata.view_fold import ViewState, evolve_view
from icecore.engine.properties.table_properties import VIEW_METADATA_COMPRESSION
from icecore.engine.repository.repository import Repository
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.event_files import metadata_bytes
from icecore.projections.files.version_files import version_of


def rewrite_metadata(repository: Repository, stream: str) -> None:
    """Replaces the existing metadata files of a table or view by those that its events give now.

    The latest is the same as before. Raises StorageError.
    """
    store = repository.store
    if is_view_stream(stream):
        storage, versions = repository.storage, _view_versions(store, stream)
    else:
        storage, versions = repository.storage_of(repository.state(stream)), _table_versions(store, stream)
    for location, data, position in versions:
        row = store.row(MODELS, "get_file", location=location)
        digest = hashlib.sha256(data).hexdigest()
        if row is None or row["stream"] != stream or row["sha256"] == digest or not storage.exists(location):
            continue
        if _is_of_another(location, {row["sha256"], digest}, storage):
            continue
        storage.write_atomic(location, data)
        with store.write():
            store.execute(
                MODELS,
                "put_file",
                location=location,
                stream=stream,
                position=position,
                kind="metadata",
                length=len(data),
                sha256=digest,
            )


def _is_of_another(location: str, ours: set[str], storage: Storage) -> bool:
    """Whether a version may be of a table that was made in the folder since: such a name tells no table."""
    return version_of(location) is not None and hashlib.sha256(storage.read_bytes(location)).hexdigest() not in ours


def _table_versions(store: EventStore, stream: str) -> Iterator[tuple[str, bytes, int]]:
    """The metadata files that the log wrote, with their new content."""
    folding, known = TableFold(), None
    for event in store.stream_events(stream):
        folding.apply(event)
        location = folding.metadata_location
        if location != known and location is not None and event.kind not in (TABLE_ADOPTED, TABLE_REGISTERED):
            state = folding.state()
            assert state is not None, "an event was applied"
            yield location, metadata_bytes(state), event.position
        known = location


def _view_versions(store: EventStore, stream: str) -> Iterator[tuple[str, bytes, int]]:
    state: ViewState | None = None
    for event in store.stream_events(stream):
        state = evolve_view(state, event)
        if event.kind in (VIEW_CREATED, VIEW_COMMITTED):
            data = compress(state.metadata.to_json(), VIEW_METADATA_COMPRESSION.of(state.metadata.properties))
            yield state.metadata_location, data, event.position
