"""Events of the log as operations on catalog objects. Spec: the events endpoint that is proposed for the REST document
(apache/iceberg, pull request 12584).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from icecore.engine.common.identifiers import Identifier
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event

CUSTOM = "x-icecore-"
_TYPES = {
    ev.NAMESPACE_CREATED: "create-namespace",
    ev.NAMESPACE_PROPERTIES_UPDATED: "update-namespace-properties",
    ev.NAMESPACE_DROPPED: "drop-namespace",
    ev.TABLE_CREATED: "create-table",
    ev.TABLE_REGISTERED: "register-table",
    ev.TABLE_COMMITTED: "update-table",
    ev.TABLE_RENAMED: "rename-table",
    ev.TABLE_DROPPED: "drop-table",
    ev.VIEW_CREATED: "create-view",
    ev.VIEW_COMMITTED: "update-view",
    ev.VIEW_RENAMED: "rename-view",
    ev.VIEW_DROPPED: "drop-view",
}
_NO_CUSTOM_LETTER = re.compile(r"[^a-zA-Z0-9-_.]")


def operation_type(kind: str) -> str:
    """The type of the operation that an event of a kind tells of; one of our own begins with `x-icecore-`."""
    return _TYPES.get(kind) or CUSTOM + _NO_CUSTOM_LETTER.sub("-", kind)


def operation(event: Event, name: Identifier | None) -> dict[str, Any]:
    """The operation of an event on the table or view that had a name then, or on a namespace."""
    payload, kind = event.payload, operation_type(event.kind)
    found: dict[str, Any] = {"operation-type": kind}
    if kind.startswith(CUSTOM):
        found = {"operation-type": "custom", "custom-type": kind}
    if event.stream == ev.CATALOG_STREAM:
        return found | _of_namespace(event.kind, payload)
    found |= _of_object(event.stream, name)
    if event.kind in (ev.TABLE_RENAMED, ev.VIEW_RENAMED):
        del found["identifier"]
        found |= {"source": _identifier(tuple(payload["from"])), "destination": _identifier(tuple(payload["to"]))}
    if event.kind in (ev.TABLE_COMMITTED, ev.VIEW_COMMITTED):
        found |= {"updates": payload["updates"], "requirements": payload.get("requirements", [])}
    return found


def namespace_of(event: Event) -> Identifier | None:
    """The namespace that an event of the catalog itself is about."""
    found = event.payload.get("namespace") if event.stream == ev.CATALOG_STREAM else None
    return tuple(found) if isinstance(found, list) else None


def object_uuid(stream: str) -> str | None:
    """The UUID of the table or view of a stream; None for that of the catalog."""
    return ev.uuid_of_stream(stream) or None


def _of_namespace(kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    if kind == ev.NAMESPACE_PROPERTIES_UPDATED:
        updated = {"updated": sorted(payload["updates"]), "removed": list(payload["removals"]), "missing": []}
        return {"namespace": payload["namespace"], **updated}
    return {key: payload[key] for key in ("namespace", "properties") if key in payload}


def _of_object(stream: str, name: Identifier | None) -> dict[str, Any]:
    key = "view-uuid" if ev.is_view_stream(stream) else "table-uuid"
    return {"identifier": None if name is None else _identifier(name), key: object_uuid(stream)}


def _identifier(name: Identifier) -> dict[str, Any]:
    return {"namespace": list(name[:-1]), "name": name[-1]}
