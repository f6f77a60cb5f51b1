"""What other processes do in the tests of concurrency and of crashes; imported by them, so it must stay importable."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

import icecore
from icecore.engine.errors import IcecoreError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"n{i}" for i in ids]}, schema=SCHEMA)


def at_once(workers: int, work: Callable[[int], None]) -> None:
    """Runs the work in threads that start together; an error of any of them is raised here."""
    barrier, errors = threading.Barrier(workers), []

    def run(worker: int) -> None:
        try:
            barrier.wait()
            work(worker)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def append_some(folder: str, worker: int, count: int, results: Any) -> None:
    """Appends `count` times one row, whose id tells who wrote it; puts the ids that were acknowledged."""
    done = []
    try:
        with icecore.open(folder, actor=f"worker {worker}") as catalog:
            table = catalog.load_table("ns.t")
            for i in range(count):
                table.append(rows(worker * 1000 + i))
                done.append(worker * 1000 + i)
    except IcecoreError as e:
        results.put((worker, done, f"{type(e).__name__}: {e}"))
        return
    results.put((worker, done, None))


def append_one(folder: str, number: int, closes: bool) -> None:
    """Appends one row and ends: with the warehouse closed, or at once."""
    catalog = icecore.open(folder)
    catalog.load_table("ns.t").append(rows(number))
    if closes:
        catalog.close()
    os._exit(0)


def mixed_work(folder: str, worker: int, count: int, results: Any) -> None:
    """Appends, deletes its own older rows, evolves the schema and sets properties, all at once with others."""
    left: list[int] = []
    try:
        with icecore.open(folder, actor=f"worker {worker}") as catalog:
            table = catalog.load_table("ns.t")
            for i in range(count):
                first, second = worker * 1000 + 2 * i, worker * 1000 + 2 * i + 1
                table.append(rows(first, second))
                left += [first, second]
                if i % 3 == 1:
                    table.delete(f"id = {first}")
                    left.remove(first)
                if i % 3 == 2:
                    table.update_schema().add_column(f"w{worker}_{i}", "long").commit()
                table.set_properties({f"worker-{worker}": str(i)})
    except IcecoreError as e:
        results.put((worker, left, f"{type(e).__name__}: {e}"))
        return
    results.put((worker, left, None))


def append_until_killed(folder: str, pipe: Connection, scheme: str) -> None:
    """Appends one row after another and acknowledges each, as fast as it can, until somebody kills the process."""
    warnings.simplefilter("ignore")
    with icecore.open(folder) as catalog:
        table = catalog.load_table(f"ns.{scheme}")
        start = max(table.scan().to_arrow()["id"].to_pylist(), default=0)
        pipe.send(("opened", start))
        for i in range(start + 1, start + 10_000):
            pipe.send(("trying", i))
            table.append(rows(i))
            pipe.send(("done", i))


def commit_in_threads_until_killed(folder: str, pipe: Connection, first: int) -> None:
    """Threads commit to two tables and acknowledge each commit, as fast as they can, until somebody kills the process.

    Each commit says in its message which it is.
    """
    warnings.simplefilter("ignore")
    told = threading.Lock()

    def say(*what: Any) -> None:
        with told:
            pipe.send(what)

    def work(number: int) -> None:
        table = catalog.load_table(f"ns.t{number % 2}")
        for i in range(first, first + 10_000):
            say("trying", f"{number}/{i}")
            table.set_properties({f"worker-{number}": str(i)}, message=f"{number}/{i}")
            say("done", f"{number}/{i}")

    with icecore.open(folder) as catalog:
        say("opened", "")
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def hold_the_lock(folder: str, pipe: Connection) -> None:
    """Takes the write lock of the log, says so, and never lets go."""
    connection = sqlite3.connect(Path(folder) / "icecore.db", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE warehouse SET value = 'half-written' WHERE key = 'catalog-name'")
    pipe.send(os.getpid())
    pipe.recv()
    sys.exit(0)


def open_until_killed(folder: str, pipe: Connection, start: int) -> None:
    """Opens the warehouse anew and appends a row, again and again, until somebody kills the process."""
    warnings.simplefilter("ignore")
    pipe.send(("trying", start))
    for i in range(start, start + 1000):
        with icecore.open(folder) as catalog:
            table = catalog.load_table("ns.t")
            pipe.send(("trying", i))
            table.append(rows(i))
            pipe.send(("done", i))
        # PyIceberg writes its manifests anew after each commit that came first: without a pause it never gets through.
        time.sleep(0.2)
