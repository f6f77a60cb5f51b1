"""Answers as HTTP responses: compressed where the client takes that and it pays."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING

from icecore.engine.common.optional_packages import needs
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.quick_loads import COMPRESSED_FROM, takes_gzip

with needs("starlette", "icecore[server]"):
    from starlette.responses import Response, StreamingResponse

if TYPE_CHECKING:
    from starlette.requests import Request

_GZIP = 31


def response(answer: Answer, request: Request) -> Response:
    """The response of an answer. For HEAD it has no body, only the type of GET's; 204 and 304 have no body either."""
    headers = dict(answer.headers)
    if answer.body is None:
        return Response(status_code=answer.status, headers=headers)
    if request.method == "HEAD":
        made = Response(status_code=answer.status, headers=headers, media_type=answer.content_type)
        # A length would have to be that of GET's body (RFC 9110, section 8.6).
        del made.headers["content-length"]
        return made
    if isinstance(answer.body, AsyncIterator):
        return StreamingResponse(answer.body, answer.status, headers, answer.content_type)
    packs = takes_gzip(request.headers.get("accept-encoding", ""))
    if not isinstance(answer.body, bytes):
        chunks = _compressed(answer.body) if packs else answer.body
        headers |= {"content-encoding": "gzip"} if packs else {}
        headers["vary"] = "accept-encoding"
        return StreamingResponse(chunks, answer.status, headers, answer.content_type)
    body = answer.body
    if len(body) >= COMPRESSED_FROM:
        headers["vary"] = "accept-encoding"
        if packs:
            body, headers["content-encoding"] = b"".join(_compressed([body])), "gzip"
    return Response(body, answer.status, headers, answer.content_type)


def _compressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    pack = zlib.compressobj(1, wbits=_GZIP)
    for chunk in chunks:
        if packed := pack.compress(chunk):
            yield packed
    yield pack.flush()
