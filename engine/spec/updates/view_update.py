"""Changes of view metadata: `ViewUpdate` is the closed union of the REST catalog's eight.

Spec: the REST catalog's ViewUpdate. `ViewBuilder` applies them, events hold their JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args

from attrs import frozen

from icecore.engine.spec.updates.metadata_update import (
    AddSchema,
    AssignUuid,
    MetadataUpdate,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
    read_updates,
)
from icecore.engine.spec.view import ViewVersion


@frozen
class AddViewVersion(MetadataUpdate):
    """Adds a version; it is not the current one yet. Its schema may be LAST_ADDED."""

    action = "add-view-version"
    view_version: ViewVersion


@frozen
class SetCurrentViewVersion(MetadataUpdate):
    """Makes a version the current one; LAST_ADDED is the one that this commit added."""

    action = "set-current-view-version"
    view_version_id: int


ViewUpdate = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetLocation
    | SetProperties
    | RemoveProperties
    | AddViewVersion
    | SetCurrentViewVersion
)

_READERS: dict[str, Callable[[Any], ViewUpdate]] = {kind.action: kind.from_dict for kind in get_args(ViewUpdate)}


def read_view_updates(objects: Iterable[Any]) -> Iterator[ViewUpdate]:
    """The updates that JSON objects stand for. Raises ValidationError for one that is no update of a view."""
    return read_updates(objects, _READERS, "view update")
