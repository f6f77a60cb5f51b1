"""The body of a request, with limits on its size, compressed or not, its slowness, and the size of all together."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import define

from icecore.engine.errors import ValidationError
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.error_answers import named_error

if TYPE_CHECKING:
    from starlette.types import Receive

_GZIP = 31
SMALL = 64 * 1024
"""The bytes that any request may have, whatever others hold."""
AT_ONCE, PAUSE_S = 8, 0.005
"""Where more bodies are read at once, large ones pause after each chunk, so that the event loop has time for others."""


class RefusedBodyError(Exception):
    """A body that the server does not read to its end."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.told = status, kind

    @property
    def answer(self) -> Answer:
        """The answer that says so."""
        return named_error(*self.told, str(self))


@define(eq=False)
class HeldBodies:
    """The bytes of bodies that are held until their requests are answered. For one event loop.

    `grace_s` are the seconds for a body that comes more slowly than `least_bytes_per_s`.
    """

    most: int
    most_together: int
    grace_s: float
    least_bytes_per_s: int
    reading: int = 0
    _held: int = 0

    def check(self, size: int, more: int, received: int) -> None:
        """Raises RefusedBodyError where a body of `size` bytes, `received` of them sent, can't have `more`."""
        if max(size + more, received) > self.most:
            raise RefusedBodyError(413, "BadRequestException", f"a request can have {self.most} bytes, decompressed")
        if size + more > SMALL and self._held + more > self.most_together:
            raise RefusedBodyError(429, "TooManyRequestsException", "other requests are too large together; try again")

    def hold(self, count: int) -> None:
        """Holds so many bytes more, or less."""
        self._held += count


def has_body(headers: Mapping[str, str]) -> bool:
    """Whether a body follows the head of a request."""
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


async def read_body(receive: Receive, headers: Mapping[str, str], held: HeldBodies, body: bytearray) -> None:
    """Reads the body, decompressed, and holds it. Raises RefusedBodyError, and ValidationError where it is no gzip."""
    encoding = headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip"):
        raise ValidationError(f"the request is encoded by {encoding[:60]!r}; gzip is understood")
    unpack = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    begun, received, is_more = asyncio.get_running_loop().time(), 0, True
    held.reading += 1
    try:
        async with asyncio.timeout_at(begun + held.grace_s) as limit:
            while is_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    # Nobody reads the answer; without one the server's log would have a traceback for each.
                    raise RefusedBodyError(400, "BadRequestException", "the request was cut off")
                sent, is_more = message.get("body", b""), message.get("more_body", False)
                received += len(sent)
                chunk = sent if unpack is None else _unpacked(unpack, sent, held.most - len(body) + 1)
                held.check(len(body), len(chunk), received)
                body += chunk
                held.hold(len(chunk))
                if is_more:
                    limit.reschedule(begun + held.grace_s + received / held.least_bytes_per_s)
                    if len(body) > SMALL and held.reading > AT_ONCE:
                        await asyncio.sleep(PAUSE_S * held.reading)
    except TimeoutError as e:
        raise RefusedBodyError(408, "RequestTimeoutException", "the body of the request came too slowly") from e
    finally:
        held.reading -= 1
    if unpack is not None and not unpack.eof:
        raise ValidationError("the request is no whole gzip: its end is missing")


def _unpacked(unpack: zlib._Decompress, chunk: bytes, most: int) -> bytes:
    is_over = unpack.eof and chunk
    try:
        found = b"" if is_over else unpack.decompress(chunk, max(most, 1))
    except zlib.error as e:
        raise ValidationError(f"the request is no gzip: {e}") from e
    if is_over or unpack.unused_data:
        # zlib would keep these bytes in memory, and copy them with each chunk.
        raise ValidationError("the request goes on after the end of its gzip")
    return found
