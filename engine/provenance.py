"""Who commits: the actor and engine that an event names where the caller says nothing."""

from __future__ import annotations

import getpass
import os

from icecore.engine.events import Provenance
from icecore.engine.version import engine_version

ACTOR_VARIABLE = "ICECORE_ACTOR"


def default_actor() -> str:
    """`ICECORE_ACTOR`, else the name of the user who runs the process."""
    if name := os.environ.get(ACTOR_VARIABLE):
        return name
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def provenance(
    actor: str | None,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
    correlation_id: str | None = None,
    causation_id: str | None = None,
) -> Provenance:
    """The provenance of a call: its author, else the catalog's actor."""
    return Provenance(
        author or actor or default_actor(), engine_version(), message, correlation_id, causation_id, idempotency_key
    )
