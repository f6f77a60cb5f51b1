"""The changes of namespaces as values: `NamespaceEvent` is the closed union of them, and `to_dict` their payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.events import event as ev


@frozen
class NamespaceCreated:
    """A new namespace."""

    kind: ClassVar = ev.NAMESPACE_CREATED
    namespace: Identifier
    properties: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {"namespace": list(self.namespace), "properties": dict(self.properties)}


@frozen
class NamespacePropertiesUpdated:
    """Properties are set and removed; others stay."""

    kind: ClassVar = ev.NAMESPACE_PROPERTIES_UPDATED
    namespace: Identifier
    updates: Mapping[str, str]
    removals: frozenset[str]

    def to_dict(self) -> dict[str, Any]:
        removals = sorted(self.removals)
        return {"namespace": list(self.namespace), "updates": dict(self.updates), "removals": removals}

    def applied(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties after it."""
        return {**{k: v for k, v in properties.items() if k not in self.removals}, **self.updates}


@frozen
class NamespaceDropped:
    """An empty namespace is dropped."""

    kind: ClassVar = ev.NAMESPACE_DROPPED
    namespace: Identifier

    def to_dict(self) -> dict[str, Any]:
        return {"namespace": list(self.namespace)}


NamespaceEvent = NamespaceCreated | NamespacePropertiesUpdated | NamespaceDropped


def read_namespace_event(kind: str, payload: Mapping[str, Any]) -> NamespaceEvent | None:
    """A change of a namespace as a value; None of an event of anything else."""
    match kind:
        case ev.NAMESPACE_CREATED:
            return NamespaceCreated(tuple(payload["namespace"]), payload["properties"])
        case ev.NAMESPACE_PROPERTIES_UPDATED:
            namespace = tuple(payload["namespace"])
            return NamespacePropertiesUpdated(namespace, payload["updates"], frozenset(payload["removals"]))
        case ev.NAMESPACE_DROPPED:
            return NamespaceDropped(tuple(payload["namespace"]))
        case _:
            return None
