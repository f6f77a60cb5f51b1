"""Answers as HTTP responses, compressed where the client takes that and it pays."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING

from attrs import evolve

from icecore.engine.common.optional_packages import needs
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.quick_loads import COMPRESSED_FROM, takes_gzip

with needs("starlette", "icecore[server]"):
    from starlette.responses import Response, StreamingResponse

if TYPE_CHECKING:
    from starlette.requests import Request

_GZIP = 31


def packed(answer: Answer, accepted: str) -> Answer:
    """The answer, its body by gzip where that is large and the text of an `Accept-Encoding` allows it.

    A large body takes a while: this is for threads, not for the event loop. A body that is sent as it is made is packed
    then.
    """
    body = answer.body
    if not isinstance(body, bytes) or len(body) < COMPRESSED_FROM:
        return answer
    headers = {**answer.headers, "vary": "accept-encoding"}
    if takes_gzip(accepted):
        body, headers["content-encoding"] = b"".join(_compressed([body])), "gzip"
    quick = None if answer.quick is None else evolve(answer.quick, body=body, headers=headers)
    return evolve(answer, body=body, headers=headers, quick=quick)


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
    if not isinstance(answer.body, bytes):
        packs = takes_gzip(request.headers.get("accept-encoding", ""))
        chunks = _compressed(answer.body) if packs else answer.body
        headers |= {"content-encoding": "gzip"} if packs else {}
        headers["vary"] = "accept-encoding"
        return StreamingResponse(chunks, answer.status, headers, answer.content_type)
    return Response(answer.body, answer.status, headers, answer.content_type)


def _compressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    pack = zlib.compressobj(1, wbits=_GZIP)
    for chunk in chunks:
        if packed := pack.compress(chunk):
            yield packed
    yield pack.flush()
