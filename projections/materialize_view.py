"""Writes the metadata files of views, and moves the pointers that other engines read; all follows from the log."""

from __future__ import annotations

import hashlib

from icecore.engine.errors import ForeignCommitError
from icecore.engine.events import VIEW_ADOPTED, VIEW_COMMITTED, VIEW_CREATED, Event
from icecore.engine.foreign_metadata import original_bytes
from icecore.engine.formats.metadata_json import compress
from icecore.engine.log.read_models import ReadModels, dotted
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.storage import Storage
from icecore.engine.view_builder import metadata_codec
from icecore.engine.view_state import ViewState, evolve_view
from icecore.projections.materialize import WrittenFile, foreign_file


def catch_up_view(
    store: EventStore, models: ReadModels, storage: Storage, stream: str, base: ViewState | None
) -> ViewState | None:
    """Writes what the events after `base` amount to, then moves the pointers; returns the state after them.

    Raises StorageError where a file can't be written; what was written stays and the next call goes on.
    """
    state, written = write_view(store, storage, stream, base)
    if state is not None and state is not base:
        with store.write():
            move_view_pointers(store, models, state, written)
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
        if event.kind in (VIEW_CREATED, VIEW_COMMITTED):
            written.append(_write_metadata(event, state, storage))
        elif event.kind == VIEW_ADOPTED:
            adopted = event
            written.append(foreign_file(event))
    if adopted is not None and state is not None:
        location = state.metadata_location
        if location == adopted.payload["metadata-location"] and not storage.exists(location):
            # Lost, where the views are rebuilt from the log.
            storage.write_atomic(location, original_bytes(adopted.payload))
    return state, written


def _write_metadata(event: Event, state: ViewState, storage: Storage) -> WrittenFile:
    data = compress(state.metadata.to_json(), metadata_codec(state.metadata.properties))
    storage.write_atomic(state.metadata_location, data)
    digest = hashlib.sha256(data).hexdigest()
    return WrittenFile(state.metadata_location, "metadata", len(data), digest, event.position)


def move_view_pointers(store: EventStore, models: ReadModels, state: ViewState, written: list[WrittenFile]) -> None:
    """Moves the pointers in the SQLite transaction that is open. Raises ForeignCommitError."""
    head = store.row(MODELS, "get_head", stream=state.stream)
    for f in written:
        store.execute(
            MODELS,
            "put_file",
            location=f.location,
            stream=state.stream,
            position=f.position,
            kind=f.kind,
            length=f.length,
            sha256=f.sha256,
        )
    moved = store.execute(
        MODELS,
        "put_materialized",
        stream=state.stream,
        version=state.stream_version,
        metadata_location=state.metadata_location,
    )
    identifier = models.identifier_of(state.stream)
    known = None if head is None else head["metadata_location"]
    if moved.rowcount and head is not None and identifier is not None and known != state.metadata_location:
        _share(store, models, identifier, known, state.metadata_location)


def _share(
    store: EventStore, models: ReadModels, identifier: tuple[str, ...], known: str | None, metadata_location: str
) -> None:
    """Moves the row that Java's `jdbc` catalog reads. Raises ForeignCommitError where another engine moved it."""
    key = {"catalog": models.catalog_name, "namespace": dotted(identifier[:-1]), "name": identifier[-1]}
    shared = store.row(MODELS, "get_iceberg_table", **key)
    if shared is not None and shared["metadata_location"] not in (known, metadata_location):
        raise ForeignCommitError(
            f"{dotted(identifier)}: another engine committed {shared['metadata_location']} through iceberg_tables; "
            f"{metadata_location} of the log does not follow it, and the pointer stays"
        )
    store.execute(MODELS, "put_iceberg_table", **key, metadata_location=metadata_location, iceberg_type="VIEW")
