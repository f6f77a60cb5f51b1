"""The log as server-sent events. Spec: the HTML standard's EventSource; each event's data is as in pages of events."""

from __future__ import annotations

from icecore.engine.errors import ValidationError
from icecore.engine.server.feed.log_feed import FedEvent
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.error_answers import named_error
from icecore.engine.server.wire.path_names import namespace_of_text
from icecore.engine.server.wire.permissions import check_grants, principal_of

EVENT_STREAM = "text/event-stream"


def follow_events(call: Call) -> Answer:
    """The events after a position, by default the newest one's, and each new event as long as the client listens.

    The id of an event is its position. Raises ValidationError.
    """
    feed, head = call.serving.feed, call.catalog._warehouse.store.head()[0]
    asked = call.headers.get("last-event-id") or call.query.get("after") or str(head)
    if not asked.isdecimal() or len(asked) > 18 or int(asked) > head:
        raise ValidationError(f"there is no event {asked[:60]!r} to go on after; the last one is {head}")
    namespace = namespace_of_text(inside) if (inside := call.query.get("namespace")) else ()
    table = call.query.get("table")
    if table is not None and not namespace:
        raise ValidationError("a table's events need its namespace too")
    name = None if table is None else (*namespace, table)
    if feed.followers >= feed.most_followers:
        return named_error(429, "TooManyRequestsException", f"{feed.followers} clients follow the log already")

    def is_asked(event: FedEvent) -> bool:
        return event.is_inside(namespace) if name is None else name in event.names

    def check() -> None:
        call.catalog._warehouse.store.check_in_place()
        # A token may be revoked meanwhile, or the first one made.
        if call.serving.asks_for_tokens:
            check_grants(principal_of(call.serving.tokens, call.headers), ENDPOINTS[0], call)

    up_to = None if call.past is None else call.past.position
    told = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return Answer(200, feed.follow(int(asked), up_to, is_asked, check), EVENT_STREAM, told)


ENDPOINTS = (Endpoint("GET", "/events", follow_events, is_of_all=True),)
