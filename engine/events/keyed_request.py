"""A request that is carried out once, under its key: what it asks for, as a context in which commits take that key."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from attrs import define


@define(eq=False)
class KeyedRequest:
    """A request under an idempotency key, which is the caller's alone.

    `operation` and `request_sha256` say what it asks for: another request under the same key is refused. `asker` is a
    hash of who asks, where that is known: only the same asker is told the answer again. `expires_at_ms` is the end of
    the time for which the answer is kept. `answer` may be set, before the commit ends, to text without which the answer
    can't be made again. `is_stored` is true once the answer is in the log.
    """

    key: str
    operation: str
    request_sha256: str
    expires_at_ms: int
    asker: str = ""
    answer: str | None = None
    is_stored: bool = False


_asked: ContextVar[KeyedRequest | None] = ContextVar("keyed_request", default=None)


def keyed_request() -> KeyedRequest | None:
    """The request of this context that is still to be stored."""
    request = _asked.get()
    return None if request is None or request.is_stored else request


@contextlib.contextmanager
def asked_by(request: KeyedRequest | None) -> Iterator[None]:
    """A context whose first commit has the key of a request, where the call names none, and stores its answer.

    With None the commits inside are not part of the surrounding request, and do not use up its key.
    """
    before = _asked.set(request)
    try:
        yield
    finally:
        _asked.reset(before)
