"""Clients that are slow or hostile: they are cut off, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import gzip
import logging
import socket

import pytest
from rest_client import RestClient, served

import icecore
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant
from icecore.engine.server.listening import guarded_connection
from icecore.engine.server.server_settings import ServerSettings


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
    with served(catalog, ServerSettings(most_bodies_bytes=0)) as rest, connected(rest, head + b" " * 90_000) as large:
        assert ending(large).startswith(b"HTTP/1.1 429 ")
        assert rest.post("/v1/namespaces", {"namespace": ["ns"]}).status == 200
    hurried = ServerSettings(head_s=0.05, body_s=0.05)
    with served(catalog, hurried) as rest, connected(rest, b"GET /v1") as slow, connected(rest, head) as slow_body:
        assert ending(slow) == b""
        assert ending(slow_body).startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    ("sent", "more", "status"),
    [
        (gzip.compress(b"{}") + b"x", 10**9, 400),
        (gzip.compress(b"{}")[:-8], 0, 400),
        (gzip.compress(b" " * 70_000), 10**9, 413),
        (gzip.compress(b"")[:10] + b"\0\0\0\xff\xff" * 14_000, 10**9, 413),
    ],
    ids=["goes on after its end", "lacks its end", "is large", "has large nothing"],
)
def test_a_compressed_body_is_limited_by_what_comes_and_by_what_it_holds(
    catalog: icecore.Catalog, sent: bytes, more: int, status: int
) -> None:
    """What followed the end of the gzip was kept without a limit, and took the event loop minutes to copy."""
    head = b"POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
    sent = head % (len(sent) + more) + sent
    with served(catalog, ServerSettings(most_body_bytes=65_536)) as rest, connected(rest, sent) as client:
        assert client.recv(65536).startswith(f"HTTP/1.1 {status} ".encode())


def test_of_who_may_not_ask_no_body_is_read(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a token, with one that does not grant it, and for a page of another site; none of it is ever sent."""
    monkeypatch.setattr(guarded_connection, "LINGER_S", 0.05)
    secret = AccessTokens(catalog._warehouse.store).create("ann", [Grant.parse("read:ns")])[1]
    shown = f"authorization: Bearer {secret}\r\n"
    with served(catalog) as rest:
        for sent, status in (("", 401), (shown, 403), (shown + "origin: http://other\r\n", 403)):
            head = f"POST /v1/namespaces/ns/tables HTTP/1.1\r\nhost: 127.0.0.1\r\n{sent}content-length: 9\r\n\r\n"
            with connected(rest, head.encode()) as silent:
                assert ending(silent).startswith(f"HTTP/1.1 {status} ".encode())


def test_a_client_that_sends_what_was_refused_asks_again_on_its_connection(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As clients do that send head and body one after the other."""
    monkeypatch.setattr(guarded_connection, "LINGER_S", 5)
    head = "POST /v1/nothing HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n"
    with served(catalog) as rest, connected(rest, head.format(90_000).encode()) as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 404 ")
        client.sendall(b" " * 90_000)
        client.sendall(b"GET /v1/config HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        monkeypatch.setattr(guarded_connection, "LINGER_S", 0.05)
        client.sendall(head.format(10**9).encode())
        assert ending(client).startswith(b"HTTP/1.1 404 ")


def test_a_request_that_is_cut_off_is_no_failure_of_the_server(
    rest: RestClient, caplog: pytest.LogCaptureFixture
) -> None:
    with connected(rest, b"POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n"):
        assert rest.get("/v1/config").status == 200
    assert rest.get("/v1/config").status == 200 and not caplog.records


def test_an_offer_of_another_protocol_is_passed_over(rest: RestClient, caplog: pytest.LogCaptureFixture) -> None:
    """As Java's HttpClient, curl --http2 and Iceberg 1.8 make it: the body counts, sent with the head or in parts."""
    logging.getLogger("uvicorn").addHandler(caplog.handler)
    head = "POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: {}\r\n"
    with connected(rest) as client:
        for offer in ("h2c", "TLS/1.2", "websocket"):
            for size in (1, 200_000):
                body = f'{{"namespace": ["{offer[:3]}{size}"]}}' + " " * size
                lines = head.format(offer) + f"content-length: {len(body)}\r\n\r\n"
                chunks = head.format(offer) + "transfer-encoding: chunked\r\n\r\n"
                client.sendall((lines + body).encode())
                assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
                client.sendall(chunks.encode())
                client.sendall(f"{len(body):x}\r\n{body}\r\n0\r\n\r\n".encode())
                assert client.recv(65536).startswith(b"HTTP/1.1 409 ")
        assert not caplog.records
        client.sendall(b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(("version", "also"), [("1.0", ""), ("1.1", ", close")])
def test_an_offer_on_a_connection_that_is_closed_next_is_passed_over_too(
    rest: RestClient, version: str, also: str
) -> None:
    """As a proxy sends it on that asks in HTTP/1.0, or on a connection for each request."""
    body = '{"namespace": ["closed"]}'
    head = f"POST /v1/namespaces HTTP/{version}\r\nhost: 127.0.0.1\r\nconnection: upgrade{also}\r\nupgrade: h2c\r\n"
    with connected(rest, f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()) as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert client.recv(65536) == b""
