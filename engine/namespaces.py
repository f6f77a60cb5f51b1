"""The namespaces that a stream of events amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icecore.engine import events as ev


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
