"""Load on an HTTP server: connections that each send the next request when the last one is answered.

A process of its own sends the requests, with as little Python as possible: of two cores it has one, the server the
other.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any, cast

from attrs import define, field, frozen

Request = Callable[[int, int], bytes]
"""The bytes of a request, by the number of its connection and its own number there."""


@frozen
class Load:
    """A load of `connections` for `seconds`; another process calls `requests` with the arguments `told`."""

    port: int
    connections: int
    seconds: float
    requests: Callable[..., Request]
    told: tuple[Any, ...] = ()


@define
class Loading:
    """The answers to a load: the seconds that each took, and their number by status."""

    seconds: list[float] = field(factory=list)
    statuses: Counter[int] = field(factory=Counter)


def encoded(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", "content-type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


class Connection(asyncio.Protocol):
    """One connection, which asks until the time is over. It reads answers with a length, and those in chunks."""

    def __init__(
        self, number: int, request: Request, found: Loading, until: float, ended: asyncio.Future[None]
    ) -> None:
        self._number, self._request, self._found, self._until, self._ended = number, request, found, until, ended
        self._asked = 0
        self._begun = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def _send(self) -> None:
        self._buffer, self._left, self._in_chunks = b"", -1, False
        request = self._request(self._number, self._asked)
        self._asked += 1
        self._begun = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._left < 0:
            self._buffer += data
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head, data = self._buffer[:end].lower(), self._buffer[end + 4 :]
            self._status = int(head[9:12])
            at = head.find(b"\ncontent-length:")
            self._in_chunks = at < 0 and self._status not in (204, 304)
            self._left = 0 if at < 0 else int(head[at + 16 :].split(b"\r", 1)[0])
            self._buffer = b""
        if self._in_chunks:
            self._buffer = self._buffer[-4:] + data if len(data) < 5 else data
            if not self._buffer.endswith(b"0\r\n\r\n"):
                return
        else:
            self._left -= len(data)
        if self._left <= 0:
            self._answered()

    def _answered(self) -> None:
        now = time.perf_counter()
        self._found.statuses[self._status] += 1
        self._found.seconds.append(now - self._begun)
        if now < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set_result(None)


async def _all(load: Load) -> Loading:
    loop, found, request = asyncio.get_running_loop(), Loading(), load.requests(*load.told)
    until = time.perf_counter() + load.seconds
    ends = [loop.create_future() for _ in range(load.connections)]
    for number, ended in enumerate(ends):
        await loop.create_connection(
            lambda n=number, e=ended: Connection(n, request, found, until, e), "127.0.0.1", load.port
        )
    await asyncio.gather(*ends)
    return found


def answers(load: Load) -> Loading:
    """The answers to a load that this process puts on."""
    import uvloop

    return uvloop.run(_all(load))


def put_on(*loads: Load) -> list[Loading]:
    """The answers to loads that are put on at once, each from a process of its own."""
    with ProcessPoolExecutor(len(loads), mp_context=multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(answers, loads))


def rates(found: Loading, good: int, seconds: float) -> dict[str, float]:
    """The rate of answers with the status `good`, the number of others, and the median and 99th percentile of times."""
    cuts = statistics.quantiles(found.seconds, n=100)
    return {
        "per_s": found.statuses[good] / seconds,
        "other_answers": found.statuses.total() - found.statuses[good],
        "p50_ms": 1000 * cuts[49],
        "p99_ms": 1000 * cuts[98],
    }
