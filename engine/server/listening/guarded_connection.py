"""Connections whose clients may be slow or hostile: the time for a request's head, and the number of connections.

The time for a body is limited where it is read. Where there are too many connections, that which waits for its client
the longest goes, so that somebody new is always let in.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from icecore.engine.common.optional_packages import needs

with needs("uvicorn", "icecore[server]"):
    from httptools import HttpParserUpgrade, HttpRequestParser
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    from uvicorn.server import ServerState

if TYPE_CHECKING:
    from array import array

LINGER_S = 2.0
REST_BYTES = 1024 * 1024
"""What may still come of a request that was answered before it was whole."""


class GuardedState(ServerState):
    """The connections of a server; of those that wait for their clients the oldest is first."""

    def __init__(self, most_connections: int, head_s: float) -> None:
        super().__init__()
        self.most_connections = most_connections
        self.head_s = head_s
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
    """A connection that is cut off unless a request's head comes in time, and the rest of one that was refused."""

    parser: PlainParser
    server_state: GuardedState
    _due: asyncio.TimerHandle | None = None
    _is_whole = True
    _rest = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """A client connected."""
        super().connection_made(transport)
        self.parser = PlainParser(self)
        self._wait_for_client()
        self._expect_head()
        self.server_state.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self.server_state.waiting.pop(self, None)
        self._unexpect()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; the first of them begin the time for its head."""
        if self._due is None and (self.cycle is None or self.cycle.response_complete) and self._is_whole:
            self._expect_head()
        super().data_received(data)
        if not self._is_whole and self.cycle is not None and self.cycle.response_complete:
            self._rest -= len(data)
            if self._rest < 0:
                self.flow.pause_reading()

    def on_headers_complete(self) -> None:
        """The head of a request is there."""
        if self.parser.is_offer:
            return
        self._unexpect()
        self._is_whole = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request is there: it waits for the server now."""
        if self.parser.is_offer:
            return
        self._is_whole = True
        if not self.cycle.response_complete:
            self.server_state.waiting.pop(self, None)
        elif self._due is not None:
            # What was refused has ended, and the client's next request may follow.
            self._unexpect()
            self._expect_head()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request was answered, maybe before it was whole."""
        super().on_response_complete()
        self._wait_for_client()
        if not self._is_whole:
            # Clients send a body before they read why nobody wanted it, and then ask again on the same connection.
            self._rest = REST_BYTES
            self._due = self.loop.call_later(LINGER_S, self.transport.abort)

    def _wait_for_client(self) -> None:
        if self in self.connections and not self.pipeline:
            self.server_state.waiting[self] = None

    def _expect_head(self) -> None:
        self._due = self.loop.call_later(self.server_state.head_s, self.transport.abort)

    def _unexpect(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
