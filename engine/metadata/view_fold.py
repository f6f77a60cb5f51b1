"""The state of a view and its fold over the events of its stream. Pure, as the tables' is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from attrs import evolve, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import short_repr
from icecore.engine.errors import CorruptLogError, IcecoreError
from icecore.engine.events.event import Event
from icecore.engine.events.view_events import (
    ViewAdopted,
    ViewCommitted,
    ViewCreated,
    ViewDropped,
    ViewEvent,
    ViewRegistered,
    ViewRelocated,
    ViewRenamed,
    ViewUndropped,
    read_view_event,
)
from icecore.engine.metadata.fold import metadata_folder
from icecore.engine.metadata.view_builder import ViewBuilder
from icecore.engine.properties.table_properties import VIEW_METADATA_COMPRESSION
from icecore.engine.spec.updates.view_update import ViewUpdate
from icecore.engine.spec.view import ViewMetadata


@frozen
class ViewState:
    """A view as of one version of its stream.

    `metadata_location` is where its metadata file is written, `metadata_version` the number in that file's name.
    """

    __repr__ = short_repr

    stream: str
    stream_version: int
    position: int
    event_hash: str
    identifier: Identifier
    metadata: ViewMetadata
    metadata_location: str
    metadata_version: int
    dropped: bool = False

    @property
    def pending(self) -> bool:
        """Whether commits wait to be written out by hand; never for a view."""
        return False


def fold_view(state: ViewState | None, events: Iterable[Event]) -> ViewState | None:
    """The state after the events. Raises CorruptLogError where they can't follow."""
    for event in events:
        state = evolve_view(state, event)
    return state


def evolve_view(state: ViewState | None, event: Event) -> ViewState:
    """The state after the next event. Raises CorruptLogError where it does not follow the one before."""
    expected = (state.stream_version if state else 0) + 1
    if event.stream_version != expected:
        raise CorruptLogError(
            f"position {event.position}: version {event.stream_version} of {event.stream}, expected {expected}"
        )
    try:
        return _next(state, event, read_view_event(event))
    except CorruptLogError:
        raise
    except (IcecoreError, LookupError, TypeError, ValueError, AttributeError) as e:
        what = str(e) if isinstance(e, IcecoreError) else f"{type(e).__name__} {e}"
        raise CorruptLogError(f"position {event.position}: the {event.kind} event can't be applied: {what}") from e


def _next(state: ViewState | None, event: Event, change: ViewEvent) -> ViewState:
    match change:
        case ViewCreated():
            return _committed(None, event, change.updates, change.identifier)
        case ViewRegistered():
            return _registered(event, change)
        case _ if state is None:
            raise CorruptLogError(f"position {event.position}: {event.kind} before the view was created")
        case ViewCommitted():
            return _committed(state, event, change.updates, state.identifier)
    at = evolve(state, stream_version=event.stream_version, position=event.position, event_hash=event.hash)
    match change:
        case ViewAdopted():
            return evolve(
                at,
                metadata=change.metadata,
                metadata_location=change.metadata_location,
                metadata_version=change.metadata_version,
            )
        case ViewRelocated():
            return _written(at, event, state.metadata, state.metadata_version + 1)
        case ViewRenamed():
            return evolve(at, identifier=change.identifier)
        case ViewDropped():
            return evolve(at, dropped=True)
        case ViewUndropped():
            return evolve(at, identifier=change.identifier, dropped=False)
        case _:
            assert_never(change)


def _registered(event: Event, change: ViewRegistered) -> ViewState:
    return ViewState(
        event.stream,
        event.stream_version,
        event.position,
        event.hash,
        change.identifier,
        change.metadata,
        change.metadata_location,
        change.metadata_version,
    )


def _committed(
    state: ViewState | None, event: Event, updates: Iterable[ViewUpdate], identifier: Identifier
) -> ViewState:
    base = state.metadata if state else None
    # Which dialects it may drop was decided when it was committed.
    metadata = ViewBuilder(base, event.recorded_at_ms).apply(updates).build(may_drop_dialects=True)
    version = state.metadata_version + 1 if state else 0
    first = ViewState(event.stream, event.stream_version, event.position, event.hash, identifier, metadata, "", version)
    return _written(evolve(first, dropped=state.dropped if state else False), event, metadata, version)


def _written(state: ViewState, event: Event, metadata: ViewMetadata, version: int) -> ViewState:
    """The state with a metadata file of its own for the event."""
    location = f"{view_metadata_folder(metadata)}/{view_metadata_file_name(version, event.event_id, metadata)}"
    return evolve(state, metadata=metadata, metadata_location=location, metadata_version=version)


def view_metadata_folder(metadata: ViewMetadata) -> str:
    """The folder of the view's metadata files (V1, MD7)."""
    return metadata_folder(metadata.location.rstrip("/"), metadata.properties)


def view_metadata_file_name(version: int, event_id: str, metadata: ViewMetadata) -> str:
    """The name of a view's metadata file, which follows from the event (V1, MD7)."""
    gz = ".gz" if VIEW_METADATA_COMPRESSION.of(metadata.properties) == "gzip" else ""
    return f"{version:05d}-{event_id}{gz}.metadata.json"


def view_state_to_dict(state: ViewState) -> dict[str, Any]:
    """The JSON object of a checkpoint."""
    return {
        "stream": state.stream,
        "stream-version": state.stream_version,
        "position": state.position,
        "event-hash": state.event_hash,
        "identifier": list(state.identifier),
        "metadata": state.metadata.to_dict(),
        "metadata-location": state.metadata_location,
        "metadata-version": state.metadata_version,
        "dropped": state.dropped,
    }


def view_state_from_dict(obj: Mapping[str, Any]) -> ViewState:
    """The state of a checkpoint's JSON object."""
    return ViewState(
        obj["stream"],
        obj["stream-version"],
        obj["position"],
        obj["event-hash"],
        tuple(obj["identifier"]),
        ViewMetadata.from_dict(obj["metadata"]),
        obj["metadata-location"],
        obj["metadata-version"],
        obj["dropped"],
    )
