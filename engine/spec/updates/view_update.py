"""Changes of view metadata: `ViewUpdate` is the closed union of the REST catalog's eight.

Spec: the REST catalog's ViewUpdate. `ViewBuilder` applies them, events hold their JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, get_args

from attrs import frozen

from icecore.engine.common.json_reader import get
from icecore.engine.spec.updates.metadata_update import (
    AddSchema,
    AssignUuid,
    RemoveProperties,
    SetLocation,
    SetProperties,
    UpgradeFormatVersion,
    read_updates,
)
from icecore.engine.spec.view import ViewVersion


@frozen
class AddViewVersion:
    """Adds a version; it is not the current one yet. Its schema may be LAST_ADDED."""

    action: ClassVar = "add-view-version"
    view_version: ViewVersion

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "view-version": self.view_version.to_dict()}

    @classmethod
    def from_dict(cls, obj: Any) -> AddViewVersion:
        return cls(ViewVersion.from_dict(get(obj, "view-version", dict, cls.action)))


@frozen
class SetCurrentViewVersion:
    """Makes a version the current one; LAST_ADDED is the one that this commit added."""

    action: ClassVar = "set-current-view-version"
    view_version_id: int

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "view-version-id": self.view_version_id}

    @classmethod
    def from_dict(cls, obj: Any) -> SetCurrentViewVersion:
        return cls(get(obj, "view-version-id", int, cls.action))


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
    """The updates of their JSON, one after another. Raises ValidationError for what is no update of a view."""
    return read_updates(objects, _READERS, "view update")
