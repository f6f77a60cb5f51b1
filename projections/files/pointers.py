"""The pointers to files, moved once these are written: the log's own, and the row that other engines read."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from icecore.engine.errors import ForeignCommitError, name_text
from icecore.engine.log.lock.standing import Standing
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.view_fold import ViewState
from icecore.projections.files.version_files import version_of


@frozen
class WrittenFile:
    """A file that a stream needs, and the position of the event that it follows from; `length` in bytes."""

    location: str
    kind: str
    length: int
    sha256: str
    position: int


def move_pointers(
    store: EventStore,
    models: ReadModels,
    state: TableState | ViewState,
    written: Sequence[WrittenFile],
    standing: Standing | None = None,
) -> bool:
    """Notes the files and moves the pointers to a state, in the SQLite transaction that is open.

    `standing` is the stream's, where that is known. False where nothing is published: another process did it,
    or there is no metadata file. Raises ForeignCommitError.
    """
    standing = standing or models.find_standing(state.stream)
    for f in written:
        if version_of(f.location) is not None:
            store.execute(MODELS, "take_over_file", location=f.location, stream=state.stream, kind=f.kind)
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
    if not moved.rowcount or standing is None or location is None:
        return False
    if standing.identifier is not None and standing.published != location:
        if standing.has_row and standing.shared not in (standing.published, location):
            raise ForeignCommitError(
                f"{name_text(standing.identifier)}: another engine committed {standing.shared} through iceberg_tables; "
                f"{location} of the log does not follow it, and the pointer stays"
            )
        models.share(state.stream, standing.identifier, location)
    return True


def take_to_be_there(store: EventStore, models: ReadModels, state: TableState | ViewState) -> None:
    """Publishes a state whose files somebody else wrote, in the SQLite transaction that is open."""
    if state.pending or state.metadata_location is None:
        return
    move_pointers(store, models, state, ())
