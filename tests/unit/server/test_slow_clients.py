"""Clients that are slow or hostile: they are cut off, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import socket

import pytest
from rest_client import RestClient, served

import icecore
from icecore.engine.server.listening import guarded_connection
from icecore.engine.server.wire import request_body
from icecore.engine.server.wire.serving import ServerSettings


def connected(rest: RestClient, sent: bytes = b"") -> socket.socket:
    """A connection that sends so much and no more."""
    made = socket.create_connection(("127.0.0.1", rest.port), timeout=60)
    made.sendall(sent)
    return made


def ending(connection: socket.socket) -> bytes:
    """What comes until the server ends the connection."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(65536):
            found += more
    return found


def test_of_too_many_connections_those_that_wait_the_longest_go(catalog: icecore.Catalog) -> None:
    with served(catalog, ServerSettings(most_connections=2)) as rest, contextlib.ExitStack() as stack:
        first, *_ = (stack.enter_context(connected(rest, b"GET /v1")) for _ in range(4))
        assert rest.get("/v1/config").status == 200
        assert ending(first) == b""


def test_what_comes_too_slowly_or_is_too_much_together_is_refused(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request's head, its body, and bodies while others are held; small ones are taken even then."""
    head = b"POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 900000\r\n\r\n"
    monkeypatch.setattr(guarded_connection, "LINGER_S", 0.05)
    with served(catalog, ServerSettings(most_bodies_bytes=0)) as rest:
        with connected(rest, head + b" " * 90_000) as large:
            assert ending(large).startswith(b"HTTP/1.1 429 ")
            assert rest.post("/v1/namespaces", {"namespace": ["ns"]}).status == 200
        monkeypatch.setattr(guarded_connection, "HEAD_S", 0.05)
        monkeypatch.setattr(request_body, "GRACE_S", 0.05)
        with connected(rest, b"GET /v1") as slow, connected(rest, head) as slow_body:
            assert ending(slow) == b""
            assert ending(slow_body).startswith(b"HTTP/1.1 408 ")


def test_a_request_that_is_cut_off_is_no_failure_of_the_server(
    rest: RestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(rest, b"POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n"):
        assert rest.get("/v1/config").status == 200
    assert rest.get("/v1/config").status == 200 and not caplog.records
