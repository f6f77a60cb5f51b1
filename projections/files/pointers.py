"""The pointers to files, moved once these are written: the log's own, and the row that other engines read."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from icecore.engine.errors import ForeignCommitError
from icecore.engine.events.event import is_view_stream
from icecore.engine.log.read_models import ReadModels, dotted
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.view_fold import ViewState


@frozen
class WrittenFile:
    """A file that a stream needs, and the position of the event that it follows from; `length` in bytes."""

    location: str
    kind: str
    length: int
    sha256: str
    position: int


def move_pointers(
    store: EventStore, models: ReadModels, state: TableState | ViewState, written: Sequence[WrittenFile]
) -> bool:
    """Notes the files and moves the pointers to a state, in the SQLite transaction that is open.

    False where nothing is published: another process did it, or there is no metadata file. Raises ForeignCommitError.
    """
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
    location = state.metadata_location
    moved = store.execute(
        MODELS, "put_materialized", stream=state.stream, version=state.stream_version, metadata_location=location
    )
    if not moved.rowcount or head is None or location is None:
        return False
    identifier = models.identifier_of(state.stream)
    if identifier is not None and head["metadata_location"] != location:
        iceberg_type = "VIEW" if is_view_stream(state.stream) else "TABLE"
        _share(store, models, identifier, head["metadata_location"], location, iceberg_type)
    return True


def _share(
    store: EventStore,
    models: ReadModels,
    identifier: tuple[str, ...],
    known: str | None,
    metadata_location: str,
    iceberg_type: str,
) -> None:
    """Moves the row that other engines read. Raises ForeignCommitError where one of them did so meanwhile."""
    key = {"catalog": models.catalog_name, "namespace": dotted(identifier[:-1]), "name": identifier[-1]}
    shared = store.row(MODELS, "get_iceberg_table", **key)
    if shared is not None and shared["metadata_location"] not in (known, metadata_location):
        raise ForeignCommitError(
            f"{dotted(identifier)}: another engine committed {shared['metadata_location']} through iceberg_tables; "
            f"{metadata_location} of the log does not follow it, and the pointer stays"
        )
    store.execute(MODELS, "put_iceberg_table", **key, metadata_location=metadata_location, iceberg_type=iceberg_type)


def take_to_be_there(store: EventStore, models: ReadModels, state: TableState | ViewState) -> None:
    """Publishes the files that somebody else wrote of a state, in the SQLite transaction that is open."""
    if state.pending or state.metadata_location is None:
        return
    move_pointers(store, models, state, ())
