"""Clients that are slow or hostile: they are cut off, and others are served meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from rest_client import RestClient, served

import icecore
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.server import application
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant
from icecore.engine.server.listening import guarded_connection, http_server
from icecore.engine.server.resources import configuration
from icecore.engine.server.server_settings import ServerSettings
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.endpoint import Endpoint


def connected(rest: RestClient, sent: bytes = b"") -> socket.socket:
    """A connection that sends so much and no more."""
    made = socket.create_connection(("127.0.0.1", rest.port), timeout=60)
    with contextlib.suppress(ConnectionError):
        # It may be cut off before all of it is sent.
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
    with served(catalog, ServerSettings(head_s=0.05)) as rest, connected(rest, b"GET /v1") as slow:
        assert ending(slow) == b""
    with served(catalog, ServerSettings(body_s=0.05)) as rest, connected(rest, head) as slow:
        assert ending(slow).startswith(b"HTTP/1.1 408 ")


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


HEAD = b"GET /v1/config HTTP/1.1\r\nhost: 127.0.0.1\r\n"
IN_CHUNKS = b"POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begun", "more", "status"),
    [
        (b"GET /v1/config?", b"a" * 1_000, b"HTTP/1.1 431 "),
        (HEAD + b"x: ", b"a" * 1_000, b"HTTP/1.1 431 "),
        (HEAD, b"x: %s\r\n" % (b"a" * 1_000), b"HTTP/1.1 431 "),
        (IN_CHUNKS + b"1;", b"a" * 1_000, b""),
        (IN_CHUNKS + b"2\r\n{}\r\n0\r\n", b"x: %s\r\n" % (b"a" * 1_000), b""),
    ],
    ids=["path", "header", "headers", "chunk", "headers after the body"],
)
def test_what_is_beside_a_body_is_limited(catalog: icecore.Catalog, begun: bytes, more: bytes, status: bytes) -> None:
    """One client without a token had the server take 1.5 GB in ten seconds."""
    with served(catalog, ServerSettings(most_head_bytes=2_000)) as rest, connected(rest, begun) as client:
        said = b""
        with contextlib.suppress(ConnectionError):
            for _ in range(100_000):
                client.sendall(more)
            pytest.fail("it takes whatever comes")
        with contextlib.suppress(ConnectionError):
            said = ending(client)
        assert said == b"" or said.startswith(status or b"never")
        body = b'{"namespace": ["ns"], "properties": {"k": "%s"}}' % (b"v" * 50_000)
        whole = b"".join(b"1\r\n%c\r\n" % c for c in body) + b"0\r\n\r\n"
        assert connected(rest, IN_CHUNKS + whole).recv(65536).startswith(b"HTTP/1.1 200 ")


def test_of_requests_one_after_the_other_no_more_wait_than_may(rest: RestClient) -> None:
    """They are answered, and then the connection ends, on which uvicorn would read on."""
    one = HEAD + b"\r\n"
    with connected(rest, one * (guarded_connection.MOST_PIPELINED + 2)) as client:
        assert ending(client).count(b"HTTP/1.1 200 ") == guarded_connection.MOST_PIPELINED + 1


@pytest.mark.parametrize("asks_again", [False, True])
def test_who_does_not_read_its_answer_goes_first(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, asks_again: bool
) -> None:
    """Whoever came next was turned away in its place, also where it asks for more meanwhile."""
    catalog.create_namespace("ns")
    table = catalog.create_table("ns.t", parse_schema("id long"))
    for n in range(16):
        table.set_properties({"k": f"{n}" * 2**20})
    stuck, real = threading.Event(), guarded_connection.GuardedConnection.pause_writing
    again, whole = threading.Event(), guarded_connection.GuardedConnection.on_message_complete

    def pause_writing(connection: guarded_connection.GuardedConnection) -> None:
        real(connection)
        stuck.set()

    def on_message_complete(connection: guarded_connection.GuardedConnection) -> None:
        whole(connection)
        if stuck.is_set():
            again.set()

    monkeypatch.setattr(guarded_connection.GuardedConnection, "pause_writing", pause_writing)
    monkeypatch.setattr(guarded_connection.GuardedConnection, "on_message_complete", on_message_complete)
    sent = b"GET /v1/events?after=0 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with served(catalog, ServerSettings(most_connections=1)) as rest, connected(rest, sent) as silent:
        assert stuck.wait(60)
        if asks_again:
            silent.sendall(HEAD + b"\r\n")
            assert again.wait(60)
        assert rest.get("/v1/config").status == 200
        assert len(ending(silent)) < 16 * 2**20


def test_who_waits_for_its_last_answer_of_several_does_not_go(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once all before it were answered it was taken for a client that asks for nothing."""
    end = threading.Event()
    held = Endpoint("GET", "/namespaces", lambda _: Answer(200, b"{}" if end.wait(60) else b""))
    monkeypatch.setattr(application, "OPERATIONS", (*configuration.ENDPOINTS, held))
    sent = HEAD + b"\r\nGET /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"
    with served(catalog, ServerSettings(most_connections=2)) as rest, connected(rest, sent) as busy:
        assert busy.recv(65536).startswith(b"HTTP/1.1 200 ")
        with connected(rest) as idle, connected(rest):
            try:
                assert ending(idle) == b""
            finally:
                end.set()
            assert ending(busy).startswith(b"HTTP/1.1 200 ")


def test_who_still_takes_its_answer_when_the_server_ends_gets_all_of_it(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is made in parts, as a long plan is, was cut off after the time in which nothing may be taken.

    Here that time passes with each part, after which as much waits as before.
    """
    parts = Endpoint("GET", "/namespaces", lambda _: Answer(200, (b"x" * 2**16 for _ in range(512))))
    monkeypatch.setattr(application, "OPERATIONS", (parts,))

    ends, taken = threading.Event(), list[int]()
    real = guarded_connection.GuardedConnection.resume_writing

    def resume_writing(connection: guarded_connection.GuardedConnection) -> None:
        real(connection)
        taken.append(1)

    class Time:
        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        async def sleep(self, _: float) -> None:
            before = len(taken)
            ends.set()
            while len(taken) == before:
                await asyncio.sleep(0.001)

    def slowly(client: socket.socket) -> int:
        assert ends.wait(60)
        return sum(iter(lambda: len(client.recv(2**18)), 0))

    monkeypatch.setattr(guarded_connection.GuardedConnection, "resume_writing", resume_writing)
    monkeypatch.setattr(http_server, "asyncio", Time())
    with ThreadPoolExecutor(1) as reader:
        with served(catalog) as rest:
            client = connected(rest, b"GET /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            assert client.recv(15) == b"HTTP/1.1 200 OK"
            found = reader.submit(slowly, client)
        with client:
            assert found.result() > 2**25


def test_who_took_some_is_not_cut_off_though_as_much_waits_again() -> None:
    takes, stuck = (Mock(guarded_connection.GuardedConnection, transport=Mock(), resumed=0) for _ in range(2))
    for connection in (takes, stuck):
        connection.transport.get_write_buffer_size.return_value = 5
    state = SimpleNamespace(connections={takes, stuck}, waiting={})
    server: Any = SimpleNamespace(server_state=state, patience_s=0)

    async def look() -> None:
        looking = asyncio.create_task(http_server.HttpServer._abort_stuck(server))
        for _ in range(100):
            takes.resumed += 1
            await asyncio.sleep(0)
        looking.cancel()

    asyncio.run(look())
    assert stuck.transport.abort.called and not takes.transport.abort.called


def test_what_follows_a_body_is_no_header(rest: RestClient, catalog: icecore.Catalog) -> None:
    """By a token after the body, what another one was answered was kept for that: it may be one that there is not."""
    catalog.create_namespace("ns")
    catalog.create_table("ns.t", parse_schema("id long"))
    secret = AccessTokens(catalog._warehouse.store).create("ann", [Grant.parse("read:ns")])[1]
    path = "/v1/namespaces/ns/tables/t"
    head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{rest.port}\r\nauthorization: Bearer {secret}\r\n"
    sent = f"{head}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\nauthorization: Bearer none\r\n\r\n"
    with connected(rest, sent.encode()) as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert rest.get(path, authorization="Bearer none").status == 401


def test_a_form_that_anybody_may_send_is_short(rest: RestClient) -> None:
    """Four of 32 MB took half a minute and 5 GB, of who had no token."""
    sent = b"grant_type=x&" + b"a=1&" * 20_000
    assert rest.ask("POST", "/v1/oauth/tokens", raw=sent[:60_000]).status == 400
    assert rest.ask("POST", "/v1/oauth/tokens", raw=sent).status == 413


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
    monkeypatch.setattr(guarded_connection, "LINGER_S", 60)
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
