"""Changes of namespaces: how properties are updated, the checks before a change, and the fold of their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never

from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import UnprocessableEntityError, ValidationError
from icecore.engine.events.namespace_events import (
    NamespaceCreated,
    NamespaceDropped,
    NamespaceEvent,
    NamespacePropertiesUpdated,
    read_namespace_event,
)
from icecore.engine.log.read_models import ReadModels
from icecore.engine.properties.string_properties import string_properties


@frozen
class ChangedProperties:
    """The properties that a change of a namespace set, and those that it removed or found missing."""

    updated: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, change: NamespacePropertiesUpdated, before: Mapping[str, str]) -> ChangedProperties:
        """The names that a change has to do with, as of the properties that there were before."""
        removed, missing = change.removals & before.keys(), change.removals - before.keys()
        return cls(tuple(sorted(change.updates)), tuple(sorted(removed)), tuple(sorted(missing)))


def updated_properties(
    namespace: Identifier, removals: Sequence[str], updates: Mapping[str, str] | None
) -> NamespacePropertiesUpdated:
    """An update of properties. Raises ValidationError, UnprocessableEntityError where one is removed and updated."""
    if isinstance(removals, str) or not all(isinstance(key, str) for key in removals):
        raise ValidationError(f"the properties to remove must be a sequence of strings, found {removals!r}")
    new = string_properties(updates)
    if both := sorted(set(removals) & set(new)):
        raise UnprocessableEntityError(f"the properties {both} are both removed and updated")
    return NamespacePropertiesUpdated(namespace, new, frozenset(removals))


def is_implied_by(namespaces: Iterable[Identifier], name: Identifier) -> bool:
    """Whether one of the namespaces is inside of the named one, which is there because of it."""
    return any(len(n) > len(name) and n[: len(name)] == name for n in namespaces)


def check_namespace_change(models: ReadModels, change: NamespaceEvent, *, stays_implied: bool = False) -> None:
    """Raises NamespaceAlreadyExistsError, NoSuchNamespaceError, NamespaceNotEmptyError; called in the lock.

    One that is dropped and `stays_implied` by those inside of it need not be empty.
    """
    match change:
        case NamespaceCreated():
            models.check_new_namespace(change.namespace)
        case NamespaceDropped():
            if not (stays_implied and models.inner_namespaces(change.namespace, limit=1)):
                models.check_empty(change.namespace)
        case NamespacePropertiesUpdated():
            models.namespace_properties(change.namespace)
        case _:
            assert_never(change)


def fold_namespaces(namespaces: dict[Identifier, dict[str, str]], kind: str, payload: Mapping[str, Any]) -> None:
    """Applies one event to a map from namespace to its properties; events of other things change nothing."""
    match change := read_namespace_event(kind, payload):
        case NamespaceCreated():
            namespaces[change.namespace] = dict(change.properties)
        case NamespacePropertiesUpdated():
            namespaces[change.namespace] = change.applied(namespaces[change.namespace])
        case NamespaceDropped():
            namespaces.pop(change.namespace, None)
        case None:
            pass
        case _:
            assert_never(change)
