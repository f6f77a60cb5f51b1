"""Writes the metadata files of views, and moves the pointers that other engines read; all follows from the log."""

from __future__ import annotations

import hashlib

from icecore.engine.errors import CommitConflictError
from icecore.engine.events import VIEW_COMMITTED, VIEW_CREATED, Event
from icecore.engine.formats.metadata_json import compress
from icecore.engine.log.read_models import ReadModels, dotted
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.storage import Storage
from icecore.engine.view_builder import metadata_codec
from icecore.engine.view_state import ViewState, evolve_view
from icecore.projections.materialize import WrittenFile


def catch_up_view(
    store: EventStore, models: ReadModels, storage: Storage, stream: str, base: ViewState | None
) -> ViewState | None:
    """Writes what the events after `base` amount to, then moves the pointers; returns the state after them.

    Raises StorageError where a file can't be written; what was written stays and the next call goes on.
    """
    state = base
    written = []
    for event in store.stream_events(stream, base.stream_version if base else 0):
        state = evolve_view(state, event)
        if event.kind in (VIEW_CREATED, VIEW_COMMITTED):
            written.append(_write_metadata(event, state, storage))
    if state is not None and state is not base:
        _move_pointers(store, models, state, written)
    return state


def _write_metadata(event: Event, state: ViewState, storage: Storage) -> WrittenFile:
    data = compress(state.metadata.to_json(), metadata_codec(state.metadata.properties))
    storage.write_atomic(state.metadata_location, data)
    digest = hashlib.sha256(data).hexdigest()
    return WrittenFile(state.metadata_location, "metadata", len(data), digest, event.position)


def _move_pointers(store: EventStore, models: ReadModels, state: ViewState, written: list[WrittenFile]) -> None:
    with store.write():
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
        if moved.rowcount and head is not None and identifier is not None:
            _share(store, models, identifier, head["metadata_location"], state.metadata_location)


def _share(
    store: EventStore, models: ReadModels, identifier: tuple[str, ...], known: str | None, metadata_location: str
) -> None:
    """Moves the row that Java's `jdbc` catalog reads. Raises CommitConflictError where another engine moved it."""
    key = {"catalog": models.catalog_name, "namespace": dotted(identifier[:-1]), "name": identifier[-1]}
    shared = store.row(MODELS, "get_iceberg_table", **key)
    if shared is not None and shared["metadata_location"] not in (known, metadata_location):
        raise CommitConflictError(
            f"{dotted(identifier)}: another engine committed {shared['metadata_location']} through iceberg_tables; "
            f"{metadata_location} of the log does not follow it, and the pointer stays"
        )
    store.execute(MODELS, "put_iceberg_table", **key, metadata_location=metadata_location, iceberg_type="VIEW")
