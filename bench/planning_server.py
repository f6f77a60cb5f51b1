"""Plans over HTTP: a selective one, and one of all files by its parts, of a table of a million files.

usage: python bench/planning_server.py [FILES]

The server is a process of its own, started over segments that are there. Clients read all bytes of the answers; they
parse only the first part of the plan of all files, for the tokens of the others. Results go to
results/planning_server.json.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from many_files import ROWS, many_files
from measure import save

FILES = 1_000_000
REPEAT = 30
CLIENTS = 4
TABLE = "/v1/namespaces/ns/tables/t"


def ask(connection: http.client.HTTPConnection, path: str, body: Any) -> bytes:
    connection.request("POST", TABLE + path, json.dumps(body), {"content-type": "application/json"})
    reply = connection.getresponse()
    found = reply.read()
    assert reply.status == 200, found[:500]
    return found


def milliseconds(action: Callable[[], Any], pid: int) -> dict[str, float]:
    times, cpu = [], cpu_of(pid)
    for _ in range(REPEAT):
        started = time.perf_counter()
        action()
        times.append(1000 * (time.perf_counter() - started))
    used = 1000 * (cpu_of(pid) - cpu) / REPEAT
    return {"median_ms": statistics.median(times), "best_ms": min(times), "server_cpu_ms": used}


def all_files(port: int, pid: int, clients: int) -> dict[str, Any]:
    """The plan of all files: the first part, then the others by `clients` clients at once."""
    started, cpu = time.perf_counter(), cpu_of(pid)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        first = ask(connection, "/plan", {})
    first_s = time.perf_counter() - started
    tokens = json.loads(first).get("plan-tasks", [])

    def fetch(mine: list[str]) -> int:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as own:
            return sum(len(ask(own, "/tasks", {"plan-task": token})) for token in mine)

    with ThreadPoolExecutor(clients) as pool:
        size = len(first) + sum(pool.map(fetch, [tokens[i::clients] for i in range(clients)]))
    return {
        "wall_s": time.perf_counter() - started,
        "first_part_s": first_s,
        "parts": 1 + len(tokens),
        "megabytes": size / 1e6,
        "server_cpu_s": cpu_of(pid) - cpu,
        "server_peak_mb": peak_megabytes(pid),
    }


def wait_for(port: int) -> None:
    """Returns when something listens."""
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.01)


@contextlib.contextmanager
def serving(warehouse: Path) -> Iterator[tuple[int, int]]:
    """Port and process id of a server of the warehouse."""
    command = [sys.executable, "-m", "icecore", "--warehouse", str(warehouse), "serve", "--port", "0", "--plan-scans"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().strip().rsplit(":", 1)[1])
            wait_for(port)
            yield port, process.pid
        finally:
            process.terminate()


def peak_megabytes(pid: int) -> float:
    """The most memory that a process has held so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def cpu_of(pid: int) -> float:
    """The CPU seconds that a process has used, all threads."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    import icecore

    files = int(sys.argv[1]) if len(sys.argv) > 1 else FILES
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        metadata = many_files(Path(folder) / "table", files)
        with icecore.open(Path(folder) / "warehouse") as catalog:
            catalog.create_namespace("ns")
            found = catalog.register_table("ns.t", str(metadata)).scan().plan().to_arrow().num_rows
        assert found == files
        with serving(Path(folder) / "warehouse") as (port, pid):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            point = {"filter": {"type": "eq", "term": "id", "value": files * ROWS // 2}}
            ask(connection, "/plan", point)
            results: dict[str, Any] = {
                "files": files,
                "selective": milliseconds(lambda: ask(connection, "/plan", point), pid),
            }
            results["selective"]["server_peak_mb"] = peak_megabytes(pid)
            for clients in (1, CLIENTS):
                results[f"all_by_{clients}_clients"] = all_files(port, pid, clients)
    print(json.dumps(results, indent=1))
    save("planning_server", results)


if __name__ == "__main__":
    main()
