"""A server that is killed while its clients commit: who asks again by the same key has each commit made once."""

from __future__ import annotations

import http.client
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from rest_client import COMMAND, Reply, RestClient

import icecore

CLIENTS, COMMITS, KILLS = 4, 9, 2
NEW_TABLE = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


class Killed:
    """A server that is killed when so many requests were answered, and started again at its port."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse, self.rest, self.cut, self.kills = warehouse, RestClient(0), 0, 0
        self.server = self.started()

    def started(self) -> subprocess.Popen[str]:
        options = ["--warehouse", str(self.warehouse), "serve", "--port", str(self.rest.port)]
        server = subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        self.rest = RestClient(int(server.stdout.readline().rsplit(":", 1)[1]))
        return server

    def end(self) -> None:
        self.server.kill()
        self.server.communicate()

    def kill(self) -> None:
        """Starts it again once a client was cut off, or found nobody."""
        before, until = self.cut, time.monotonic() + 60
        self.end()
        self.kills += 1
        while self.cut == before and time.monotonic() < until:
            time.sleep(0.001)
        self.server = self.started()

    def sent(self, path: str, body: Any) -> Reply:
        """The answer to a request, which is sent under one key until there is one, for a minute."""
        key, until = str(uuid.uuid4()), time.monotonic() + 60
        while True:
            try:
                return self.rest.post(path, body, idempotency_key=key)
            except (OSError, http.client.HTTPException):
                self.cut += 1
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Killed]:
    server = Killed(tmp_path / "w")
    yield server
    server.end()


def change(name: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {name: "v"}}]}


def test_commits_through_a_killed_server_are_made_once(killed: Killed) -> None:
    """Of one table, of two at once, and new tables: what was answered is there, and nothing is there twice."""
    tables = "/v1/namespaces/ns/tables"
    killed.sent("/v1/namespaces", {"namespace": ["ns"]})
    for name in ("a", "b"):
        killed.sent(tables, {"name": name, "schema": NEW_TABLE})
    answered: list[str] = []

    def commit(client: int, n: int) -> None:
        name = f"c{client}_{n}"
        if n % 3 == 0:
            reply = killed.sent(tables, {"name": name, "schema": NEW_TABLE})
        elif n % 3 == 1:
            parts = [{"identifier": {"namespace": ["ns"], "name": t}, **change(name)} for t in ("a", "b")]
            reply = killed.sent("/v1/transactions/commit", {"table-changes": parts})
        else:
            reply = killed.sent(f"{tables}/a", change(name))
        assert reply.status in (200, 204), (name, reply)
        answered.append(name)

    def work(client: int) -> None:
        for n in range(COMMITS):
            # So that each has something to ask for after each kill.
            until = time.monotonic() + 60
            while killed.kills < n * KILLS // (COMMITS - 1) and time.monotonic() < until:
                time.sleep(0.001)
            commit(client, n)

    with ThreadPoolExecutor(CLIENTS) as pool:
        done = [pool.submit(work, client) for client in range(CLIENTS)]
        for kill in range(1, KILLS + 1):
            while len(answered) < kill * CLIENTS * COMMITS // (KILLS + 1) and not any(d.done() for d in done):
                time.sleep(0.001)
            killed.kill()
        for d in done:
            d.result()
    assert killed.cut >= KILLS, "clients were waiting for their answers"
    killed.server.terminate()
    assert killed.server.wait(timeout=60) == 0
    with icecore.open(killed.warehouse) as catalog:
        made: Counter[str] = Counter()
        for row in catalog.log().to_pylist():
            if row["kind"] == "table.created":
                made[row["name"].removeprefix("ns.")] += 1
            if row["kind"] == "table.committed":
                (update,) = catalog._warehouse.store.event_at(row["position"]).payload["updates"]
                made.update(update["updates"].keys())
        wanted = {f"c{c}_{n}": 2 if n % 3 == 1 else 1 for c in range(CLIENTS) for n in range(COMMITS)}
        assert made == {"a": 1, "b": 1, **wanted}
        assert catalog.verify().problems == ()
