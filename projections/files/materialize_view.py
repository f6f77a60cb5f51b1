"""Materialization of views: their metadata files, and the pointers that other engines read."""

from __future__ import annotations

import hashlib

from icecore.engine.common.compressed_json import compress
from icecore.engine.events.event import (
    VIEW_ADOPTED,
    VIEW_COMMITTED,
    VIEW_CREATED,
    VIEW_REGISTERED,
    VIEW_RELOCATED,
    Event,
)
from icecore.engine.events.files_of_others import METADATA_FILE, original_bytes
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import EventStore
from icecore.engine.metadata.view_fold import ViewState, evolve_view
from icecore.engine.properties.table_properties import VIEW_METADATA_COMPRESSION
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.late_files import LateFiles
from icecore.projections.files.event_files import foreign_file
from icecore.projections.files.pointers import WrittenFile, move_pointers


def catch_up_view(
    store: EventStore, models: ReadModels, storage: Storage, stream: str, base: ViewState | None
) -> ViewState | None:
    """Writes the files of the events after `base`, then moves the pointers; returns the state after them.

    Raises StorageError where a file can't be written; what was written stays and the next call goes on.
    """
    state, written = write_view(store, storage, stream, base)
    if state is not None and state is not base:
        with store.write():
            move_pointers(store, models, state, written)
    return state


def write_view(
    store: EventStore, storage: Storage, stream: str, base: ViewState | None
) -> tuple[ViewState | None, list[WrittenFile]]:
    """Writes the files of the events after `base`, and moves no pointer. Raises StorageError."""
    state = base
    written = []
    adopted: Event | None = None
    for event in store.stream_events(stream, base.stream_version if base else 0):
        state = evolve_view(state, event)
        if event.kind in (VIEW_CREATED, VIEW_COMMITTED, VIEW_RELOCATED):
            written.append(_write_metadata(event, state, storage, store.late_files))
        elif event.kind == VIEW_ADOPTED:
            adopted = event
            written.append(foreign_file(event))
        elif event.kind == VIEW_REGISTERED and METADATA_FILE in event.payload:
            # It is looked for on a local disk alone: a store that does not answer takes seconds.
            is_local = storage.local_path(event.payload["metadata-location"]) is not None
            adopted = event if is_local else None
    # The file of a registered view that was dropped is left to whoever has it.
    is_left = adopted is not None and adopted.kind == VIEW_REGISTERED and state is not None and state.dropped
    if adopted is not None and state is not None and not is_left:
        location = state.metadata_location
        if location == adopted.payload["metadata-location"] and not storage.exists(location):
            # Lost, where the views are rebuilt from the log.
            storage.write_atomic(location, original_bytes(adopted.payload))
    return state, written


def _write_metadata(event: Event, state: ViewState, storage: Storage, late: LateFiles | None) -> WrittenFile:
    data = compress(state.metadata.to_json(), VIEW_METADATA_COMPRESSION.of(state.metadata.properties))
    storage.write_atomic(state.metadata_location, data, late)
    storage.sync_folder(state.metadata_location.rsplit("/", 1)[0], late)
    digest = hashlib.sha256(data).hexdigest()
    return WrittenFile(state.metadata_location, "metadata", len(data), digest, event.position)
