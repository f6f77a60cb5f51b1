"""A server in a thread, and a client that sends what it is told and holds each answer to the REST document."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import http.client
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import orjson
import uvicorn.server
from attrs import frozen
from rest_document import check_answer

import icecore
from icecore.engine.server.application import application
from icecore.engine.server.feed import gathering
from icecore.engine.server.listening.http_server import HttpServer, listening_socket
from icecore.engine.server.server_settings import ServerSettings

COMMAND = [sys.executable, "-c", "from icecore.engine.cli.main import main; main()"]
"""The command icecore."""
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 7, "name": "id", "required": True, "type": "long"},
        {"id": 9, "name": "city", "required": False, "type": "string"},
    ],
}
VIEW_VERSION = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1_700_000_000_000,
    "summary": {"engine-name": "tests"},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "SELECT id FROM t", "dialect": "duckdb"}],
}


@frozen
class Reply:
    """What came back: `json` reads the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str]:
        """Code, type and message of an error."""
        found = self.json["error"]
        return found["code"], found["type"], found["message"]


@frozen
class RestClient:
    """A client that connects anew for each request."""

    port: int

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None, *, raw: bytes = b""
    ) -> Reply:
        """One request; the path is sent as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            sent = raw if body is None else orjson.dumps(body)
            connection.request(method, path, sent or None, dict(headers or {}))
            came = connection.getresponse()
            reply = Reply(came.status, {k.lower(): v for k, v in came.getheaders()}, came.read())
        if "x-icecore-dry-run" not in {name.lower() for name in headers or {}}:
            packed = reply.headers.get("content-encoding") == "gzip"
            check_answer(method, path, reply.status, gzip.decompress(reply.body) if packed else reply.body)
        return reply

    def get(self, path: str, **headers: str) -> Reply:
        """GET; `if_none_match="x"` sends that header."""
        return self.ask("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def post(self, path: str, body: object = None, **headers: str) -> Reply:
        """POST of JSON."""
        return self.ask("POST", path, body, headers={k.replace("_", "-"): v for k, v in headers.items()})


class _Impatient:
    """asyncio as a server is given it here, which looks a hundred times a second whether it is to end, not ten."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 10)


@contextlib.contextmanager
def served(catalog: icecore.Catalog, settings: ServerSettings | None = None, *, port: int = 0) -> Iterator[RestClient]:
    """A client of a server that runs as long as the block; what it does once a second it does ten times as often."""
    with (
        mock.patch.object(uvicorn.server, "asyncio", _Impatient()),
        mock.patch.object(gathering, "GATHER_S", gathering.GATHER_S / 10),
    ):
        yield from _served(catalog, settings, port)


def _served(catalog: icecore.Catalog, settings: ServerSettings | None, port: int) -> Iterator[RestClient]:
    listening = listening_socket("127.0.0.1", port)
    port = listening.getsockname()[1]
    server = HttpServer(application(catalog, settings), listening)
    thread = threading.Thread(target=server.answer, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)
    try:
        yield RestClient(port)
    finally:
        server.should_exit = True
        thread.join()


def make_table(rest: RestClient, name: str = "t", **more: Any) -> Any:
    """A table of the namespace `ns`, which is made where it is missing."""
    rest.post("/v1/namespaces", {"namespace": ["ns"]})
    reply = rest.post("/v1/namespaces/ns/tables", {"name": name, "schema": SCHEMA, **more})
    assert reply.status == 200, reply.body
    return reply.json
