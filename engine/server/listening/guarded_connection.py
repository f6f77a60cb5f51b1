"""Connections whose clients may be slow or hostile: time and size of a request's head, and how many there are.

Time and size of a body are limited where it is read. Where there are too many connections, that which waits for its
client the longest goes, so that somebody new is always let in.
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
"""What may still come of a request that was answered before it was whole."""
MOST_PIPELINED = 64
"""The requests of a connection that wait for the answers to those before them; what follows is not read."""
BESIDE_A_BYTE = 6
"""The bytes for each of a body: one that comes alone has the length of its chunk and two ends of lines with it."""
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class GuardedState(ServerState):
    """The connections of a server; of those that wait for their clients the oldest is first."""

    def __init__(self, most_connections: int, head_s: float, most_head_bytes: int) -> None:
        super().__init__()
        self.most_connections = most_connections
        self.head_s = head_s
        self.most_head_bytes = most_head_bytes
        self.waiting: OrderedDict[GuardedConnection, None] = OrderedDict()

    def make_room(self) -> None:
        """Cuts off who waits the longest, where there are too many connections."""
        if len(self.connections) > self.most_connections and self.waiting:
            self.waiting.popitem(last=False)[0].transport.abort()


class PlainParser(HttpRequestParser):
    """A parser of requests that stay HTTP/1.1, whatever else their clients offer to speak (RFC 9110, section 7.8).

    A request with such an offer ends with its head to httptools, which takes the body for bytes of the other protocol:
    so the head is read again without the offer, by another parser, as one that is to close the connection reads no
    more. CONNECT has no body.
    """

    def __init__(self, connection: GuardedConnection) -> None:
        super().__init__(connection)
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self._connection = connection

    @property
    def is_offer(self) -> bool:
        """Whether the request that is read comes again without its offer."""
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
    """A connection that is cut off unless a request's head comes in time, and the rest of one that was refused.

    `_beside` are the bytes of a request that are not of its body: its head, and what follows a body that comes in
    chunks, or parts it beyond what chunks need.
    """

    parser: PlainParser
    server_state: GuardedState
    _due: asyncio.TimerHandle | None = None
    _is_whole = True
    _beside = 0
    _rest = 0
    _is_full = False
    resumed = 0
    """How often its client had taken enough of its answer for more to be made."""

    @property
    def is_answered(self) -> bool:
        """Whether an answer to a whole request is under way, which the client takes or not."""
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
        """A header; what follows a body is none, whatever it is called."""
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
            # What was refused has ended, and the client's next request may follow.
            self._unexpect()
            self._expect_head()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request was answered, maybe before it was whole."""
        self._open.popleft()
        super().on_response_complete()
        if self.pipeline or self._is_full:
            # uvicorn reads on with each answer, however many wait.
            self.flow.pause_reading()
        self._wait_for_client()
        if not self._is_whole:
            # Clients send a body before they read why nobody wanted it, and then ask again on the same connection.
            self._rest = REST_BYTES
            self._due = self.loop.call_later(LINGER_S, self.transport.abort)

    def pause_writing(self) -> None:
        """The client does not take its answer as fast as that is made."""
        super().pause_writing()
        self.server_state.waiting[self] = None

    def resume_writing(self) -> None:
        """The client took enough of its answer."""
        super().resume_writing()
        self.resumed += 1
        if not self.cycle.response_complete:
            self._wait_for_server()

    def _cut_off(self) -> None:
        """Ends what is too long: in words, unless an answer is under way."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_TOO_LONG)
            self.transport.close()
        else:
            self._give_up()
            self.transport.abort()

    def _give_up(self) -> None:
        """Lets what is not answered yet go unanswered; of several requests uvicorn thinks of the last alone."""
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
