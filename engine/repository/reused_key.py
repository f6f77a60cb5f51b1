"""The refusal of an idempotency key that was used for another call."""

from __future__ import annotations

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ReusedKeyError
from icecore.engine.events.event import Event
from icecore.engine.log.read_models import dotted


def reused_key(event: Event, name: Identifier | None = None) -> ReusedKeyError:
    """The error of a call whose key an event of another call has, to what has a name now or none."""
    key, of = event.provenance.idempotency_key, dotted(name) if name else event.stream
    return ReusedKeyError(
        f"the idempotency key {key!r} was used for the {event.kind} of {of} at position {event.position}, not for this "
        f"call"
    )
