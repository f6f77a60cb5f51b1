"""Changes of namespaces: what events of them hold, when they can be made, and what they amount to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ValidationError
from icecore.engine.events import event as ev
from icecore.engine.log.read_models import ReadModels
from icecore.engine.properties.string_properties import string_properties


def updated_properties(
    namespace: Identifier, removals: Sequence[str], updates: Mapping[str, str] | None
) -> dict[str, Any]:
    """The payload of an update of properties. Raises ValidationError where a key is both removed and updated."""
    if isinstance(removals, str) or not all(isinstance(key, str) for key in removals):
        raise ValidationError(f"the properties to remove must be a sequence of strings, found {removals!r}")
    new = string_properties(updates)
    if both := sorted(set(removals) & set(new)):
        raise ValidationError(f"the properties {both} are both removed and updated")
    return {"namespace": list(namespace), "updates": new, "removals": sorted(set(removals))}


def check_namespace_change(models: ReadModels, kind: str, payload: Mapping[str, Any]) -> None:
    """Raises NamespaceAlreadyExistsError, NoSuchNamespaceError, NamespaceNotEmptyError; to be asked in the lock."""
    name = tuple(payload["namespace"])
    match kind:
        case ev.NAMESPACE_CREATED:
            models.check_new_namespace(name)
        case ev.NAMESPACE_DROPPED:
            models.check_empty(name)
        case _:
            models.namespace_properties(name)


def fold_namespaces(namespaces: dict[tuple[str, ...], dict[str, str]], kind: str, payload: Mapping[str, Any]) -> None:
    """Takes one event into a map from namespace to its properties; events of other things change nothing."""
    if kind not in (ev.NAMESPACE_CREATED, ev.NAMESPACE_PROPERTIES_UPDATED, ev.NAMESPACE_DROPPED):
        return
    name = tuple(payload["namespace"])
    match kind:
        case ev.NAMESPACE_CREATED:
            namespaces[name] = dict(payload["properties"])
        case ev.NAMESPACE_PROPERTIES_UPDATED:
            kept = {k: v for k, v in namespaces[name].items() if k not in set(payload["removals"])}
            namespaces[name] = kept | payload["updates"]
        case ev.NAMESPACE_DROPPED:
            namespaces.pop(name, None)
