"""The body of a request, read no further than it may be long, compressed or not."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from icecore.engine.errors import ValidationError

if TYPE_CHECKING:
    from starlette.requests import Request

_GZIP = 31


class TooLongError(Exception):
    """A request that is longer than the server takes."""


async def read_body(request: Request, most: int) -> bytes:
    """The body, decompressed. Raises TooLongError, and ValidationError for what can't be decompressed."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise ValidationError(f"the request is encoded by {encoding[:60]!r}; gzip is understood")
    unpack = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk if unpack is None else _unpacked(unpack, chunk, most - len(body) + 1)
        if len(body) > most:
            raise TooLongError(f"a request can have {most} bytes, decompressed")
    return bytes(body)


def _unpacked(unpack: zlib._Decompress, chunk: bytes, most: int) -> bytes:
    try:
        return unpack.decompress(chunk, max(most, 1))
    except zlib.error as e:
        raise ValidationError(f"the request is no gzip: {e}") from e
