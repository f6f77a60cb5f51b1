"""Connections whose clients may be slow or hostile: the time for a request's head, and the number of connections.

The time for a body is limited where it is read. Where there are too many connections, that which waits for its client
the longest goes, so that somebody new is always let in.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from icecore.engine.common.optional_packages import needs

with needs("uvicorn", "icecore[server]"):
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    from uvicorn.server import ServerState

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


class GuardedConnection(HttpToolsProtocol):
    """A connection that is cut off unless a request's head comes in time, and the rest of one that was refused."""

    server_state: GuardedState
    _due: asyncio.TimerHandle | None = None
    _is_whole = True
    _rest = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """A client connected."""
        super().connection_made(transport)
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
        self._unexpect()
        self._is_whole = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request is there: it waits for the server now."""
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
