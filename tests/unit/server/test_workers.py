"""Several processes that serve one warehouse at one address: what one does the others see at once."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from rest_client import COMMAND, RestClient, make_table

import icecore
from icecore.engine.server.application import application
from icecore.engine.server.listening.http_server import HttpServer, listening_socket

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the processes are found in /proc")
TABLE = "/v1/namespaces/ns/tables/t"


def workers_of(pid: int, count: int) -> set[int]:
    """The workers of a server, once there are so many."""
    found: set[int] = set()
    until = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < until, found
        time.sleep(0.01)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.add(int(child))
    return found


@contextlib.contextmanager
def ended(server: subprocess.Popen[str]) -> Iterator[None]:
    """A block after which the process is gone, whatever happens in it."""
    try:
        yield
    finally:
        server.kill()


@contextlib.contextmanager
def only(worker: int, of: set[int]) -> Iterator[None]:
    """A block in which one of the workers answers, as the others are stopped."""
    others = of - {worker}
    for other in others:
        os.kill(other, signal.SIGSTOP)
        while Path(f"/proc/{other}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            pass
    try:
        yield
    finally:
        for other in others:
            os.kill(other, signal.SIGCONT)


def test_workers_are_as_one_server(tmp_path: Path) -> None:
    """Commits, loads by ETag, idempotency keys and plans; one that dies is replaced, and all end with the parent."""
    command = [*COMMAND, "--warehouse", str(tmp_path / "w"), "serve", "--port", "0", "--workers", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, ended(server):
        assert server.stdout is not None
        rest = RestClient(int(server.stdout.readline().rsplit(":", 1)[1]))
        make_table(rest)
        one, other = pair = workers_of(server.pid, 2)
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "1"}}]}
        key = "0190a5e5-0000-7000-8000-000000000001"
        with only(one, pair):
            etag = rest.get(TABLE).headers["etag"]
        with only(other, pair):
            assert rest.get(TABLE, if_none_match=etag).status == 304
            made = rest.post(TABLE, change, idempotency_key=key)
            plan = rest.post(f"{TABLE}/plan", {}).json
            values = [n * 2654435761 % 2**40 for n in range(2000)]
            long = rest.post(f"{TABLE}/plan", {"filter": {"type": "in", "term": "id", "values": values}}).json
        with only(one, pair):
            assert rest.get(TABLE, if_none_match=etag).json["metadata"]["properties"]["k"] == "1"
            assert rest.post(TABLE, change, idempotency_key=key).json == made.json
            assert rest.get(f"{TABLE}/plan/{plan['plan-id']}").json == plan
            path = f"{TABLE}/plan/{long['plan-id']}"
            assert rest.get(path).json == long and rest.ask("DELETE", path).status == 204
            assert rest.get(path).status == 404
            assert rest.post(TABLE, {**change, "updates": [], "x": 1}, idempotency_key=key).status in (400, 409, 422)
        os.kill(one, signal.SIGKILL)
        while Path(f"/proc/{one}").exists():
            time.sleep(0.01)
        [new] = workers_of(server.pid, 2) - pair
        with only(new, {other}):
            assert rest.get(TABLE).json["metadata"]["properties"]["k"] == "1"
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0
        assert not Path(f"/proc/{other}").exists()
    with icecore.open(tmp_path / "w") as catalog:
        assert [r["kind"] for r in catalog.log().to_pylist()][-2:] == ["table.created", "table.committed"]
        assert catalog.verify().problems == ()


def test_who_connects_at_the_end_is_refused_at_once(tmp_path: Path) -> None:
    """And does not wait at the parent's socket for workers that accept nobody any more; what was begun is answered."""
    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
        command = [*COMMAND, "--warehouse", str(tmp_path / "w"), "serve", "--port", "0", "--workers", "2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, ended(server):
            assert server.stdout is not None
            port = int(server.stdout.readline().rsplit(":", 1)[1])
            slow = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            slow.request("GET", "/v1/config")
            assert slow.getresponse().read(), "a worker has the connection"
            with catalog._warehouse.store.write():
                # It waits for this lock.
                slow.request("POST", "/v1/namespaces/ns/properties", '{"updates": {"slow": "v"}}')
                server.send_signal(signal.SIGTERM)
                assert _refuses(port)
            assert slow.getresponse().status == 200
            slow.close()
            assert server.wait(timeout=60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_is_told_to_end_as_it_begins_ends(tmp_path: Path, number: int) -> None:
    """Before its loop runs too: a worker that had just begun took no notice, and its parent waited for it for ever."""
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        with icecore.open(tmp_path / "w") as catalog, listening_socket("127.0.0.1", 0) as listening:
            server = HttpServer(application(catalog), listening)
            with mock.patch.object(server, "run", lambda _: signal.raise_signal(number)):
                server.answer()
            assert server.should_exit
    finally:
        for n, handler in before.items():
            signal.signal(n, handler)


def _refuses(port: int) -> bool:
    """Whether connections are refused before long."""
    for _ in range(6000):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
        except ConnectionRefusedError:
            return True
        time.sleep(0.01)
    return False
