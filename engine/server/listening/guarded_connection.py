"""Limits for clients that may be slow or hostile: on time and size of a request's head, and on connections.

Time and size of a body are limited where it is read. Where there are too many connections, the one that has waited
longest for its client is cut off, so that a new client is always let in.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from icecore.engine.common.optional_packages import needs

with needs("uvicorn", "icecore[server]"):
    from httptools import HttpParserUpgrade, HttpRequestParser
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
    from uvicorn.server import ServerState

if TYPE_CHECKING:
    from array import array

LINGER_S = 2.0
REST_BYTES = 1024 * 1024
"""The bytes that are still read of a request that was answered before it was whole."""
MOST_PIPELINED = 64
"""The most requests of a connection that wait for answers to earlier ones; further requests are not read."""
BESIDE_A_BYTE = 6
"""The most bytes for each of a body: one that comes alone has its chunk's length and two line ends with it."""
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class GuardedState(ServerState):
    """The connections of a server; `waiting` has those that wait for their clients, the longest waiting one first."""

    def __init__(self, most_connections: int, head_s: float, most_head_bytes: int) -> None:
        super().__init__()
        self.most_connections = most_connections
        self.head_s = head_s
        self.most_head_bytes = most_head_bytes
        self.waiting: OrderedDict[GuardedConnection, None] = OrderedDict()

    def make_room(self) -> None:
        """Cuts off the connection that waits longest for its client, where there are too many connections."""
        if len(self.connections) > self.most_connections and self.waiting:
            self.waiting.popitem(last=False)[0].transport.abort()


class PlainParser(HttpRequestParser):
    """A parser that reads requests as HTTP/1.1 even where the client offers an upgrade (RFC 9110, section 7.8).

    For httptools a request with an upgrade ends with its head, and its body is bytes of the other protocol. So the head
    is read again without the offer, by a new parser, as one that is to close the connection reads no more. CONNECT,
    which has no body, is not read again.
    """

    def __init__(self, connection: GuardedConnection) -> None:
        super().__init__(connection)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self._connection = connection

    @property
    def is_offer(self) -> bool:
        """Whether the request offers an upgrade, so that its head is read again without the offer."""
        return self.should_upgrade() and self.get_method() != b"CONNECT"

    def feed_data(self, data: bytes | bytearray | memoryview[int] | array[int]) -> None:
        """Reads bytes of requests. Raises HttpParserError, and HttpParserUpgrade at CONNECT."""
        parser, rest = self, memoryview(data)
        while rest:
            try:
                super(PlainParser, parser).feed_data(rest)
                break
            except HttpParserUpgrade as e:
                if not parser.is_offer:
                    raise
                rest, head = rest[e.args[0] :], parser._head()
                parser = self._connection.parser = PlainParser(self._connection)
                super(PlainParser, parser).feed_data(head)

    def _head(self) -> bytes:
        lines = [b"%s %s HTTP/%s" % (self.get_method(), self._connection.url, self.get_http_version().encode())]
        lines += [b"%s: %s" % header for header in self._connection.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])


class GuardedConnection(HttpToolsProtocol):
    """A connection that is cut off unless the head of a request, and the rest of a refused one, come in time.

    `_beside` counts the bytes of a request outside its body: its head, the trailers of a body in chunks, and the
    framing of chunks beyond what they need.
    """

    parser: PlainParser
    server_state: GuardedState
    _due: asyncio.TimerHandle | None = None
    _is_whole = True
    _beside = 0
    _rest = 0
    _is_full = False
    resumed = 0
    """The number of times that its client had taken enough of an answer for more to be made."""

    @property
    def is_answered(self) -> bool:
        """Whether an answer to a whole request is under way, even if the client does not take it."""
        return len(self._open) > (not self._is_whole)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """A client connected."""
        super().connection_made(transport)
        self._open: deque[RequestResponseCycle] = deque()
        self.parser = PlainParser(self)
        self._wait_for_client()
        self._expect_head()
        self.server_state.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self.server_state.waiting.pop(self, None)
        self._unexpect()
        self._give_up()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; the first of them begin the time for its head."""
        if self._due is None and (self.cycle is None or self.cycle.response_complete) and self._is_whole:
            self._expect_head()
        self._beside += len(data)
        super().data_received(data)
        if self._beside > self.server_state.most_head_bytes:
            self._cut_off()
        if not self._is_whole and self.cycle is not None and self.cycle.response_complete:
            self._rest -= len(data)
            if self._rest < 0:
                self.flow.pause_reading()

    def on_headers_complete(self) -> None:
        """The head of a request is there."""
        if self.parser.is_offer or self._is_full:
            return
        self._unexpect()
        if len(self.pipeline) >= MOST_PIPELINED:
            self._is_full, self.cycle.keep_alive = True, False
            return
        self._is_whole = False
        super().on_headers_complete()
        self._open.append(self.cycle)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of a request; trailers, which follow a body, are ignored whatever their names."""
        if self._is_whole:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self._beside = max(0, self._beside - BESIDE_A_BYTE * len(body))
        if not self._is_full:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is there: it waits for the server now."""
        if self.parser.is_offer or self._is_full:
            return
        self._is_whole = True
        self._beside = 0
        if not self.cycle.response_complete:
            self._wait_for_server()
        elif self._due is not None:
            # The refused request has ended, and the client's next one may follow.
            self._unexpect()
            self._expect_head()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request was answered, maybe before it was whole."""
        self._open.popleft()
        super().on_response_complete()
        if self.pipeline or self._is_full:
            # uvicorn resumes reading after each answer, however many requests wait.
            self.flow.pause_reading()
        self._wait_for_client()
        if not self._is_whole:
            # Clients send a body before they read why nobody wanted it, and then ask again on the same connection.
            self._rest = REST_BYTES
            self._due = self.loop.call_later(LINGER_S, self.transport.abort)

    def pause_writing(self) -> None:
        """The client does not take its answer as fast as the answer is made."""
        super().pause_writing()
        self.server_state.waiting[self] = None

    def resume_writing(self) -> None:
        """The client took enough of its answer."""
        super().resume_writing()
        self.resumed += 1
        if not self.cycle.response_complete:
            self._wait_for_server()

    def _cut_off(self) -> None:
        """Ends a connection that sent too much beside bodies: with status 431, unless an answer is under way."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_TOO_LONG)
            self.transport.close()
        else:
            self._give_up()
            self.transport.abort()

    def _give_up(self) -> None:
        """Tells all requests without a whole answer that the client is gone; uvicorn tells only the last of several."""
        for cycle in self._open:
            cycle.disconnected = True
            cycle.message_event.set()

    def _wait_for_client(self) -> None:
        if self in self.connections and not self.is_answered:
            self.server_state.waiting[self] = None

    def _wait_for_server(self) -> None:
        if not self.flow.write_paused:
            self.server_state.waiting.pop(self, None)

    def _expect_head(self) -> None:
        self._due = self.loop.call_later(self.server_state.head_s, self.transport.abort)

    def _unexpect(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
