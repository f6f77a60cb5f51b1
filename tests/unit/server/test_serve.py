"""The server as a process: it can be reached once it says so, and ends with what was begun answered."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

from rest_client import Reply, RestClient

import icecore

COMMAND = [sys.executable, "-c", "from icecore.engine.cli.main import main; main()"]


def test_a_server_answers_from_its_first_word_to_its_last(tmp_path: Path) -> None:
    with icecore.open(tmp_path / "w") as catalog:
        catalog.create_namespace("ns")
    command = [*COMMAND, "--warehouse", str(tmp_path / "w"), "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        rest = RestClient(int(server.stdout.readline().rsplit(":", 1)[1]))
        replies: list[Reply] = []

        def commit(n: int) -> None:
            replies.append(rest.post("/v1/namespaces/ns/properties", {"updates": {f"k{n}": "v"}}))

        commit(0)
        threads = [threading.Thread(target=commit, args=(n,)) for n in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) in (0, -signal.SIGTERM)
    assert [r.status for r in replies] == [200] * 9
    with icecore.open(tmp_path / "w") as catalog:
        assert len(catalog.load_namespace_properties("ns")) == 9 and catalog.verify().problems == ()
