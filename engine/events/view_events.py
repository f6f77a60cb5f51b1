"""The events of a view as values: `ViewEvent` is the closed union of them, read of their payloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, read_by_kind
from icecore.engine.spec.updates.view_update import ViewUpdate, read_view_updates
from icecore.engine.spec.view import ViewMetadata


@frozen
class ViewCreated:
    """A new view."""

    identifier: Identifier
    updates: tuple[ViewUpdate, ...]


@frozen
class ViewRegistered:
    """A view that another engine made, as its metadata file has it."""

    identifier: Identifier
    metadata: ViewMetadata
    metadata_location: str
    metadata_version: int


@frozen
class ViewCommitted:
    """A commit."""

    updates: tuple[ViewUpdate, ...]


@frozen
class ViewAdopted:
    """A commit of another engine, as its metadata file has it."""

    metadata: ViewMetadata
    metadata_location: str
    metadata_version: int


@frozen
class ViewRelocated:
    """The metadata of another engine is written anew, with its location after a move or clone of the warehouse."""


@frozen
class ViewRenamed:
    """The view has another name."""

    identifier: Identifier


@frozen
class ViewDropped:
    """The view has no name any more."""


@frozen
class ViewUndropped:
    """A dropped view has a name again."""

    identifier: Identifier


ViewEvent = (
    ViewCreated
    | ViewRegistered
    | ViewCommitted
    | ViewAdopted
    | ViewRelocated
    | ViewRenamed
    | ViewDropped
    | ViewUndropped
)


def read_view_event(event: Event) -> ViewEvent:
    """An event of a view as a value.

    Raises CorruptLogError where a view has no events of that kind; ValidationError, LookupError, TypeError or
    ValueError where its payload is not one of its kind.
    """
    return read_by_kind(event, _READERS)


def _updates(payload: Mapping[str, Any]) -> tuple[ViewUpdate, ...]:
    return tuple(read_view_updates(payload["updates"]))


def _adopted(payload: Mapping[str, Any]) -> ViewAdopted:
    metadata = ViewMetadata.from_dict(payload["metadata"])
    return ViewAdopted(metadata, payload["metadata-location"], payload["metadata-version"])


def _registered(payload: Mapping[str, Any]) -> ViewRegistered:
    metadata = ViewMetadata.from_dict(payload["metadata"])
    identifier = tuple(payload["identifier"])
    return ViewRegistered(identifier, metadata, payload["metadata-location"], payload["metadata-version"])


_READERS: dict[str, Callable[[Mapping[str, Any]], ViewEvent]] = {
    ev.VIEW_CREATED: lambda p: ViewCreated(tuple(p["identifier"]), _updates(p)),
    ev.VIEW_REGISTERED: _registered,
    ev.VIEW_COMMITTED: lambda p: ViewCommitted(_updates(p)),
    ev.VIEW_ADOPTED: _adopted,
    ev.VIEW_RELOCATED: lambda _: ViewRelocated(),
    ev.VIEW_RENAMED: lambda p: ViewRenamed(tuple(p["to"])),
    ev.VIEW_DROPPED: lambda _: ViewDropped(),
    ev.VIEW_UNDROPPED: lambda p: ViewUndropped(tuple(p["identifier"])),
}
