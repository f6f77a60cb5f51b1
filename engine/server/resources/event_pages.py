"""The log in pages, for clients that follow it. Spec: the events endpoint that is proposed for the REST document
(apache/iceberg, pull request 12584).

A page ends between two commits, so that the events of one are never apart. Its token holds the position that was
reached and the filters: a client that sends the token of the last page gets the commits since then.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.json_reader import get, get_list, loads_sent
from icecore.engine.errors import ValidationError
from icecore.engine.events.event import Event
from icecore.engine.log.store import EventStore
from icecore.engine.server.feed.logged_commits import is_inside, last_names, named_commits, names_told, shown_event
from icecore.engine.server.feed.logged_operations import object_uuid, operation_type
from icecore.engine.server.wire.answer import Answer, json_answer
from icecore.engine.server.wire.call import Call, levels
from icecore.engine.server.wire.endpoint import Endpoint

DEFAULT_SIZE, MOST = 500, 5_000
_FILTERS = ("operation-types", "catalog-objects")


def query_events(call: Call) -> Answer:
    """The events after a token or a time, oldest first, and the token to go on with. Raises ValidationError."""
    store = call.catalog._warehouse.store
    asked = _asked(call.body, store)
    size = get(call.body, "page-size", int, "the request", DEFAULT_SIZE)
    if size < 1:
        raise ValidationError(f"page-size must be a whole number from 1, found {size}")
    types, objects = get_list(asked, "operation-types", "the request", []), _objects(asked)
    found: list[dict[str, Any]] = []
    reached, time = asked["after"], 0
    names, up_to = last_names(store, reached), None if call.past is None else call.past.position
    for commit in named_commits(store, names, reached, up_to):
        asked_for = [(e, name) for e, name in commit.events if _is_asked(e, name, types, objects)]
        events = [shown_event(e, name, commit.count) for e, name in asked_for]
        if found and len(found) + len(events) > min(size, MOST):
            break
        found += events
        last, _ = commit.events[-1]
        reached, time = last.position, last.recorded_at_ms
    token = base64.urlsafe_b64encode(orjson.dumps({**asked, "after": reached})).decode()
    told = {"events": found, "highest-processed-timestamp-ms": time or store.head()[2], "next-page-token": token}
    return json_answer(told)


def _asked(body: Mapping[str, Any], store: EventStore) -> dict[str, Any]:
    """The filters and the position to go on after; a token has both. Raises ValidationError."""
    if token := get(body, "page-token", str, "the request", ""):
        try:
            asked = loads_sent(base64.urlsafe_b64decode(token), "the page token")
        except ValueError as e:
            raise ValidationError(f"{token[:60]!r} is no page token of this server") from e
        _check_there(get(asked, "after", int, "the page token"), store)
        return asked
    since = get(body, "after-timestamp-ms", int, "the request", 0)
    return {"after": store.position_at(max(since, 1) - 1), **{key: body[key] for key in _FILTERS if body.get(key)}}


def _check_there(position: int, store: EventStore) -> None:
    """Raises ValidationError for a position that the log does not have, as after an older copy took its place."""
    head = store.head()[0]
    if not 0 <= position <= head:
        raise ValidationError(f"there is no event {position} to go on after; the last one is {head}")


def _objects(asked: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The `catalog-objects` asked for: UUIDs of tables and views, and namespaces. Raises ValidationError."""
    found: list[tuple[str, Any]] = []
    for one in get_list(asked, "catalog-objects", "the request", []):
        kind = get(one, "reference-type", str, "a catalog object")
        if kind == "namespace":
            found.append((kind, levels(one)))
        elif kind in ("table", "view"):
            found.append((kind, get(one, f"{kind}-uuid", str, kind).lower()))
        else:
            raise ValidationError(f"a catalog object is a namespace, table or view, found {kind[:60]!r}")
    return found


def _is_asked(event: Event, name: Identifier | None, types: list[Any], objects: list[tuple[str, Any]]) -> bool:
    if types and operation_type(event.kind) not in types:
        return False
    names = names_told(event, name)
    return not objects or any(
        is_inside(names, what) if kind == "namespace" else (object_uuid(event.stream) or "").lower() == what
        for kind, what in objects
    )


ENDPOINTS = (Endpoint("POST", "/events", query_events, is_of_all=True),)
