"""The refusals of an idempotency key: it was used for another call, or for one that was cut off."""

from __future__ import annotations

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import CommitStateUnknownError, ReusedKeyError, name_text
from icecore.engine.events.event import Event


def reused_key(event: Event, name: Identifier | None = None) -> ReusedKeyError:
    """The error of a call whose key an event of another call has; `name` is that of its table or view now, if any."""
    key, of = event.provenance.idempotency_key, name_text(name) if name else event.stream
    return ReusedKeyError(
        f"the idempotency key {key!r} was used for the {event.kind} of {of} at position {event.position}, not for this "
        f"call"
    )


def cut_off_call(event: Event, name: Identifier | None = None) -> CommitStateUnknownError:
    """The error of a call whose key is that of a commit that a crash cut off, adopted since others built on it.

    It can't be told whether that commit is all that the call was to do.
    """
    key, of = event.provenance.idempotency_key, name_text(name) if name else event.stream
    return CommitStateUnknownError(
        f"the call of the idempotency key {key!r} was cut off: its change of {of} stands at position {event.position}, "
        f"since another engine has built on it, and what else it was to do was perhaps not done"
    )
