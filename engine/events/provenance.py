"""The actor and engine that an event names where the caller says nothing."""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import cache

from attrs import frozen

from icecore.engine.common.version import ENGINE_VERSION
from icecore.engine.errors import ValidationError
from icecore.engine.events.event import Provenance
from icecore.engine.events.keyed_request import keyed_request

ACTOR_VARIABLE = "ICECORE_ACTOR"


@frozen
class Client:
    """The program that a server commits for, in its own words: its id of the request, why it asks, and for whom."""

    engine: str | None = None
    correlation_id: str | None = None
    message: str | None = None
    actor: str | None = None


_NOBODY = Client()
_client: ContextVar[Client] = ContextVar("client", default=_NOBODY)


@contextlib.contextmanager
def on_behalf_of(client: Client) -> Iterator[None]:
    """A context in which commits name another program than this one, where their calls don't say otherwise."""
    before = _client.set(client)
    try:
        yield
    finally:
        _client.reset(before)


def default_actor() -> str:
    """`ICECORE_ACTOR`, else the name of the user who runs the process."""
    if name := os.environ.get(ACTOR_VARIABLE):
        return name
    return _user(os.getuid())


@cache
def _user(uid: int) -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {uid}"


def provenance(
    actor: str | None,
    *,
    message: str | None = None,
    author: str | None = None,
    idempotency_key: str | None = None,
) -> Provenance:
    """The provenance of a call: its author, else the actor of client, catalog or process; its key, else its request's.

    Raises ValidationError for what is no text, and for an empty key: that of a variable that is not set would have the
    second of two calls taken for the first.
    """
    if idempotency_key == "":
        raise ValidationError("an idempotency key must not be empty")
    if idempotency_key is None and (request := keyed_request()) is not None:
        idempotency_key = request.key
    client = _client.get()
    message = client.message if message is None else message
    given = {
        "author": author,
        "actor": actor,
        "message": message,
        "correlation_id": client.correlation_id,
        "idempotency_key": idempotency_key,
    }
    for name, value in given.items():
        _check_text(name, value)
    who, engine = author or client.actor or actor or default_actor(), client.engine or ENGINE_VERSION
    return Provenance(who, engine, message, client.correlation_id, None, idempotency_key)


def engine_named(summary: Mapping[str, str]) -> str | None:
    """The engine that a snapshot's summary names, with its version; None where it names none (L5)."""
    name, version = (summary.get(f"engine-{key}") for key in ("name", "version"))
    return f"{name} {version}" if name and version else name or None


def _check_text(name: str, value: object) -> None:
    # SQLite would store a number as text, and the event would then not have the hash that it was given.
    if value is None:
        return
    if not isinstance(value, str):
        raise ValidationError(f"{name} must be text, found {type(value).__name__} {str(value)[:60]!r}")
    try:
        value.encode()
    except UnicodeEncodeError as e:
        raise ValidationError(f"{name} must be valid Unicode, found {value[:60]!r}") from e
