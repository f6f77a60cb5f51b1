"""Loads and commits a second over HTTP, of `icecore serve` and of Java's own REST server in the same run.

usage: python bench/server.py [--seconds S] [--java CLASSPATH]

Both serve a folder on the same disk, with their names in a file of SQLite, and are asked by one process over 16
connections. A commit sets a property: it writes one metadata file. CLASSPATH is a file with the class path of the jars
in java/pom.xml; without one Java is left out. Results go to results/server.json.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attrs import evolve
from http_load import Load, Request, encoded, put_on, rates
from measure import save
from planning_server import cpu_of, serving, wait_for

CLIENTS = 16
COMMITTING = 8
TABLES = 16
COLUMNS = 100
NAMESPACE = "/v1/namespaces/ns"
LOADED = f"{NAMESPACE}/tables/loaded"
WARM_UP_S = 3.0

Serving = contextlib.AbstractContextManager[tuple[int, int]]


def getting(headers: dict[str, str]) -> Request:
    asked = encoded("GET", LOADED, **headers)
    return lambda connection, number: asked


def committing(tables: int) -> Request:
    """Requests for commits to `tables` tables, each of which sets a property of its connection."""

    def request(connection: int, number: int) -> bytes:
        change = {"action": "set-properties", "updates": {f"key{connection}": str(number)}}
        body = json.dumps({"requirements": [], "updates": [change]}).encode()
        return encoded("POST", f"{NAMESPACE}/tables/t{connection % tables}", body)

    return request


@contextlib.contextmanager
def java_serving(folder: Path, classpath: Path) -> Iterator[tuple[int, int]]:
    """Port and process id of Java's server, which is warm only after a few seconds of loads."""
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": str(folder),
        "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db",
        # SQLite's driver takes one writer; other connections are refused, not waited for.
        "CATALOG_CLIENTS": "1",
        "CATALOG_JDBC_STRICT__MODE": "true",
    }
    command = ["java", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", classpath.read_text().strip()]
    command.append("org.apache.iceberg.rest.RESTCatalogServer")
    with subprocess.Popen(command, env=os.environ | told, stdout=subprocess.DEVNULL) as process:
        try:
            wait_for(port)
            yield port, process.pid
        finally:
            process.terminate()


def make_tables(port: int) -> str:
    """Makes the tables; gives the ETag of the one that is loaded."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:

        def ask(method: str, path: str, body: Any = None) -> http.client.HTTPResponse:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"content-type": "application/json"})
            reply = connection.getresponse()
            found = reply.read()
            assert reply.status == 200, found[:500]
            return reply

        ask("POST", "/v1/namespaces", {"namespace": ["ns"], "properties": {}})
        for name, columns in (("loaded", COLUMNS), *((f"t{i}", 2) for i in range(TABLES))):
            fields = [{"id": i + 1, "name": f"column{i}", "required": False, "type": "long"} for i in range(columns)]
            schema = {"type": "struct", "schema-id": 0, "fields": fields}
            ask("POST", f"{NAMESPACE}/tables", {"name": name, "schema": schema})
        return ask("GET", LOADED).headers["etag"]


def measure(port: int, pid: int, seconds: float) -> dict[str, Any]:
    """All cases of a server."""
    etag = make_tables(port)
    found: dict[str, Any] = {}

    def put(name: str, good: int, *loads: Load) -> None:
        cpu = cpu_of(pid)
        result = put_on(*loads)[0]
        found[name] = rates(result, good, seconds)
        found[name]["server_cpu_ms"] = 1000 * (cpu_of(pid) - cpu) / max(1, result.statuses[good])

    loads = Load(port, CLIENTS, seconds, getting, ({},))
    put_on(evolve(loads, seconds=WARM_UP_S))
    put("loads", 200, loads)
    put("loads, not modified", 304, evolve(loads, told=({"if-none-match": etag},)))
    put("commits to one table", 200, Load(port, CLIENTS, seconds, committing, (1,)))
    put(f"commits to {TABLES} tables", 200, Load(port, CLIENTS, seconds, committing, (TABLES,)))
    few = evolve(loads, connections=COMMITTING)
    put(
        f"loads over {COMMITTING} while {COMMITTING} commit",
        200,
        few,
        Load(port, COMMITTING, seconds, committing, (COMMITTING,)),
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--java", type=Path)
    options = parser.parse_args()
    servers: dict[str, Callable[[Path], Serving]] = {"icecore": serving}
    if options.java is not None and options.java.is_file():
        servers["Java"] = lambda folder: java_serving(folder, options.java)
    else:
        print("Java's server is left out: --java names no file with its class path", file=sys.stderr)
    results: dict[str, Any] = {}
    # Both folders stay until the end: on ext4 without a journal, new files are slow after many were deleted.
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for name, serve in servers.items():
            own = Path(folder) / name
            own.mkdir()
            with serve(own) as (port, pid):
                results[name] = measure(port, pid, options.seconds)
    for name, cases in results.items():
        for case, row in cases.items():
            print(
                f"{name:8} {case:26} {row['per_s']:9.0f}/s  p50 {row['p50_ms']:7.2f} ms  p99 {row['p99_ms']:7.2f} ms"
                f"  CPU {row['server_cpu_ms']:6.2f} ms  other answers {row['other_answers']:.0f}"
            )
    save("server", results)


if __name__ == "__main__":
    main()
