"""The changes of metadata that tables and views have in common. Spec: the REST catalog's BaseUpdate.

Each class is one action. `to_dict` gives its JSON in the REST catalog's words, as events hold it; `from_dict` reads
that and raises ValidationError where it is no such update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

from attrs import field, frozen

from icecore.engine.common.json_reader import get, get_list, get_str_map
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema

LAST_ADDED = -1
"""Stands for the id of the schema, spec, sort order or view version that this commit added last."""
UNASSIGNED = -1
"""Stands for the id of an addition to which the builder gives the next free one."""


class MetadataUpdate:
    """The base of updates, one class per action. By default an update has one field, whose JSON key has its name."""

    __slots__ = ()
    __attrs_attrs__: ClassVar[tuple[Any, ...]]

    action: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        key, name, _ = _field_of(type(self))
        value = getattr(self, name)
        return {"action": self.action, key: value.to_dict() if hasattr(value, "to_dict") else _plain(value)}

    @classmethod
    def from_dict(cls, obj: Any) -> Self:
        key, _, kind = _field_of(cls)
        if hasattr(kind, "from_dict"):
            value = kind.from_dict(get(obj, key, dict, cls.action))
        elif kind in (int, str):
            value = get(obj, key, kind, cls.action)
        else:
            value = tuple(get_list(obj, key, cls.action))
        return cls(value)  # type: ignore[call-arg]  # each has one field


def _found_field(kind: Any) -> tuple[str, str, Any]:
    """The only field of an update: its key in JSON, its name and its type."""
    [found] = kind.__attrs_attrs__
    return found.name.replace("_", "-"), found.name, get_type_hints(kind)[found.name]


_field_of: Callable[[Any], tuple[str, str, Any]] = cache(_found_field)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, Mapping) else value


@frozen
class AssignUuid(MetadataUpdate):
    """Gives a table or view its UUID, which it keeps (G1)."""

    action = "assign-uuid"
    uuid: str


@frozen
class UpgradeFormatVersion(MetadataUpdate):
    """Raises the format version."""

    action = "upgrade-format-version"
    format_version: int


@frozen
class AddSchema(MetadataUpdate):
    """Adds a schema; it is not the current one yet (T8)."""

    action = "add-schema"
    schema: Schema

    @classmethod
    def from_dict(cls, obj: Any) -> AddSchema:
        return cls(Schema.from_dict(get(obj, "schema", dict, cls.action), default_id=UNASSIGNED))


@frozen
class SetLocation(MetadataUpdate):
    """Sets the location under which new files are written."""

    action = "set-location"
    location: str


@frozen
class SetProperties(MetadataUpdate):
    """Sets properties; others stay."""

    action = "set-properties"
    updates: Mapping[str, str] = field(factory=dict)

    @classmethod
    def from_dict(cls, obj: Any) -> SetProperties:
        """`updated` is how early REST clients spell the field."""
        early = "updated" in obj and "updates" not in obj
        return cls(get_str_map(obj, "updated" if early else "updates", cls.action))


@frozen
class RemoveProperties(MetadataUpdate):
    """Removes properties; names that are not set are no error."""

    action = "remove-properties"
    removals: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, obj: Any) -> RemoveProperties:
        """`removed` is how early REST clients spell the field."""
        early = "removed" in obj and "removals" not in obj
        return cls(tuple(get_list(obj, "removed" if early else "removals", cls.action)))


U = TypeVar("U", bound=MetadataUpdate)


def read_updates(objects: Iterable[Any], readers: Mapping[str, Callable[[Any], U]], what: str) -> Iterator[U]:
    """The updates that JSON objects stand for, one after another; `readers` has the reader of each action.

    Raises ValidationError for an action without a reader; `what` names the kind of update in the message.
    """
    for obj in objects:
        action = get(obj, "action", str, "update")
        reader = readers.get(action)
        if reader is None:
            raise ValidationError(f"unknown {what} {action!r}")
        yield reader(obj)


def stored_updates(updates: Iterable[U], read: Callable[[Iterable[Any]], Iterator[U]]) -> list[U]:
    """The updates written as JSON and read again, as from an event. Raises ValidationError where that fails."""
    return list(read(u.to_dict() for u in updates))
