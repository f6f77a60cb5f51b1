"""The changes of metadata that tables and views have in common. Spec: the REST catalog's BaseUpdate.

Each class is one action. `to_dict` gives its JSON in the REST catalog's words, as events hold it; `from_dict` reads
that and raises ValidationError where it is no such update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from attrs import field, frozen

from icecore.engine.common.json_reader import get, get_list, get_str_map
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema

LAST_ADDED = -1
"""In place of the id of a schema, spec, sort order or view version: the one that this commit added last."""
UNASSIGNED = -1
"""In place of the id of what is added: the builder gives it the next free one."""


@frozen
class AssignUuid:
    """Gives a table or view its UUID, which it keeps (G1)."""

    action: ClassVar = "assign-uuid"
    uuid: str

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "uuid": self.uuid}

    @classmethod
    def from_dict(cls, obj: Any) -> AssignUuid:
        return cls(get(obj, "uuid", str, cls.action))


@frozen
class UpgradeFormatVersion:
    """Raises the format version."""

    action: ClassVar = "upgrade-format-version"
    format_version: int

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "format-version": self.format_version}

    @classmethod
    def from_dict(cls, obj: Any) -> UpgradeFormatVersion:
        return cls(get(obj, "format-version", int, cls.action))


@frozen
class AddSchema:
    """Adds a schema; it is not the current one yet (T8)."""

    action: ClassVar = "add-schema"
    schema: Schema

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "schema": self.schema.to_dict()}

    @classmethod
    def from_dict(cls, obj: Any) -> AddSchema:
        return cls(Schema.from_dict(get(obj, "schema", dict, cls.action), default_id=UNASSIGNED))


@frozen
class SetLocation:
    """Moves where new files go."""

    action: ClassVar = "set-location"
    location: str

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "location": self.location}

    @classmethod
    def from_dict(cls, obj: Any) -> SetLocation:
        return cls(get(obj, "location", str, cls.action))


@frozen
class SetProperties:
    """Sets properties; others stay."""

    action: ClassVar = "set-properties"
    updates: Mapping[str, str] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "updates": dict(self.updates)}

    @classmethod
    def from_dict(cls, obj: Any) -> SetProperties:
        """`updated` is how early REST clients spell the field."""
        early = "updated" in obj and "updates" not in obj
        return cls(get_str_map(obj, "updated" if early else "updates", cls.action))


@frozen
class RemoveProperties:
    """Removes properties; names of none are no error."""

    action: ClassVar = "remove-properties"
    removals: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"action": self.action, "removals": list(self.removals)}

    @classmethod
    def from_dict(cls, obj: Any) -> RemoveProperties:
        """`removed` is how early REST clients spell the field."""
        early = "removed" in obj and "removals" not in obj
        return cls(tuple(get_list(obj, "removed" if early else "removals", cls.action)))


class Update(Protocol):
    """A change of metadata of any kind."""

    def to_dict(self) -> dict[str, Any]: ...


U = TypeVar("U", bound=Update)


def read_updates(objects: Iterable[Any], readers: Mapping[str, Callable[[Any], U]], what: str) -> Iterator[U]:
    """The updates of their JSON, one after another; `readers` has how each action is read.

    Raises ValidationError for what is no update of such a kind, which `what` names.
    """
    for obj in objects:
        action = get(obj, "action", str, "update")
        reader = readers.get(action)
        if reader is None:
            raise ValidationError(f"unknown {what} {action!r}")
        yield reader(obj)


def stored_updates(updates: Iterable[U], read: Callable[[Iterable[Any]], Iterator[U]]) -> list[U]:
    """The updates as an event of them gives them back. Raises ValidationError where it could not be read again."""
    return list(read(u.to_dict() for u in updates))
