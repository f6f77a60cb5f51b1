"""The server as a process: it can be reached once it says so, and ends with what was begun answered."""

from __future__ import annotations

import http.client
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from rest_client import COMMAND, Reply, RestClient, served

import icecore
from icecore.engine.errors import StorageError, ValidationError
from icecore.engine.server.application import application
from icecore.engine.server.serve import serve


def is_listening(port: int) -> bool:
    """Whether anybody answers a new connection."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except OSError:
        return False
    return True


def test_a_server_answers_from_its_first_word_to_its_last(tmp_path: Path) -> None:
    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
    command = [*COMMAND, "--warehouse", str(tmp_path / "w"), "serve", "--port", "0", "--most-body-bytes", "500"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        rest = RestClient(int(server.stdout.readline().rsplit(":", 1)[1]))
        replies: list[Reply] = []

        def commit(n: int) -> None:
            replies.append(rest.post("/v1/namespaces/ns/properties", {"updates": {f"k{n}": "v"}}))

        assert rest.post("/v1/namespaces", {"namespace": ["x" * 600]}).status == 413
        commit(0)
        threads = [threading.Thread(target=commit, args=(n,)) for n in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with icecore.open(tmp_path / "w") as catalog:
            with catalog._warehouse.store.write():
                # It waits for this lock, and was sent whole before the other request.
                slow = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=60)
                slow.request("POST", "/v1/namespaces/ns/properties", '{"updates": {"slow": "v"}}')
                assert rest.get("/v1/config").status == 200
                server.send_signal(signal.SIGTERM)
                while is_listening(rest.port):
                    pass
            replies.append(Reply(slow.getresponse().status, {}, b""))
            slow.close()
            assert server.wait(timeout=60) == 0
            assert [r.status for r in replies] == [200] * 10
            assert len(catalog.load_namespace_properties("ns")) == 10 and catalog.verify().problems == ()


def test_a_server_gives_the_memory_of_plans_back(tmp_path: Path) -> None:
    """Arrow's own pool keeps for each thread what it had at once: 30 MB where four clients ask for a million files."""
    told = (
        "import sys; from icecore.engine.server.listening.http_server import HttpServer; import pyarrow as pa; "
        "HttpServer.answer = lambda self: print(pa.default_memory_pool().backend_name); "
        "from icecore.engine.server.serve import serve; serve(sys.argv[1], port=0)"
    )
    ran = subprocess.run([sys.executable, "-c", told, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "system"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_clients_are_served_over_tls(tmp_path: Path) -> None:
    """A certificate and a key that don't belong together are refused before anything listens."""
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    for name in ("a", "b"):
        files = ["-keyout", str(tmp_path / f"{name}.key"), "-out", str(tmp_path / f"{name}.pem")]
        subprocess.run([*made.split(), "-addext", "subjectAltName=IP:127.0.0.1", *files], check=True)
    with pytest.raises(ValidationError, match="can't be used"):
        serve(tmp_path / "w", tls_certificate=tmp_path / "a.pem", tls_key=tmp_path / "b.key")
    options = ["--port", "0", "--tls-certificate", str(tmp_path / "a.pem"), "--tls-key", str(tmp_path / "a.key")]
    command = [*COMMAND, "--warehouse", str(tmp_path / "w"), "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            uri = server.stdout.readline().strip()
            trusted = ssl.create_default_context(cafile=tmp_path / "a.pem")
            with urllib.request.urlopen(f"{uri}/v1/config", context=trusted) as answer:
                assert (uri.partition("//")[0], answer.status) == ("https:", 200)
        finally:
            server.terminate()
        assert server.wait(timeout=60) == 0


def test_a_server_commits_where_no_thread_can_be_started_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the system allows a process so many: what was refused then was committed later, with the next commit."""
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("icecore-"):
            raise RuntimeError("can't start new thread")
        begin(thread)

    with icecore.open(tmp_path / "w") as catalog:
        with served(catalog) as rest, monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            assert rest.post("/v1/namespaces", {"namespace": ["ns"]}).status == 200
            assert rest.get("/v1/namespaces").json == {"namespaces": [["ns"]]}
        assert catalog.position == 1
        with monkeypatch.context() as patch, served(catalog) as rest:
            assert rest.get("/tables").status == 200, "by one of the threads for pages"
            patch.setattr(threading.Thread, "start", start)
        assert not [t for t in threading.enumerate() if t.name.startswith("icecore-page")], "they ended"
        with monkeypatch.context() as patch, pytest.raises(StorageError, match="needs 8 threads as writers"):
            patch.setattr(threading.Thread, "start", start)
            application(catalog)
