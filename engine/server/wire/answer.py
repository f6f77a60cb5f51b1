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
    """Status, body and headers. An iterable body is sent as it is made, and an asynchronous one may never end."""

    status: int
    body: bytes | Iterable[bytes] | AsyncIterator[bytes] | None = None
    content_type: str = JSON
    headers: Mapping[str, str] = {}
    quick: QuickLoad | None = None
    """The load by which the event loop may answer the same request, until a commit to the table."""


NO_CONTENT = Answer(204)


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """A value as JSON."""
    return Answer(status, orjson.dumps(value), headers=headers or {})
