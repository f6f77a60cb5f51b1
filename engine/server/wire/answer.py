"""The answer to a request, before it goes over the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import orjson
from attrs import frozen

from icecore.engine.server.wire.quick_loads import QuickLoad

JSON = "application/json"


@frozen
class Answer:
    """Status, body and headers. A body that is an iterable of bytes is sent as it is made; None has no body.

    One that is asynchronous may never end.
    """

    status: int
    body: bytes | Iterable[bytes] | AsyncIterator[bytes] | None = None
    content_type: str = JSON
    headers: Mapping[str, str] = {}
    quick: QuickLoad | None = None
    """What the event loop may answer the same request with, as long as nothing came to the table."""


NO_CONTENT = Answer(204)


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """A value as JSON."""
    return Answer(status, orjson.dumps(value), headers=headers or {})
