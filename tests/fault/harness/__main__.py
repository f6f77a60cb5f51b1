"""The whole harness from the command line: `python -m tests.fault.harness --help`."""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from rich.console import Console

from . import clocks, crowds, damage, folders, io_errors, kills, permissions, torn
from .children import FAILED, Child, Say
from .counts import Counts
from .operations import MODES, SCHEMES, VERSIONS, Setting
from .writers import race

Job: TypeAlias = "tuple[str, Callable[[Path, Counts], None]]"
SETTINGS = tuple(Setting(s, m, v) for v in VERSIONS for m in MODES for s in SCHEMES)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fault.harness", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="when to stop beginning new jobs (default: 300)")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)), help="repeats a run's dice")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="jobs at once (default: the cores)")
    parser.add_argument("--every", type=int, default=4, help="takes each so many-th step of an operation (default: 4)")
    parser.add_argument("--only", default="", help="jobs whose name holds this text")
    parser.add_argument("--folder", help="where warehouses are made (default: memory, else the temporary folder)")
    parser.add_argument("--writers", type=int, default=16, help="writers of the race at the end, 0 for none")
    parser.add_argument("--race-seconds", type=float, default=60)
    parser.add_argument("--details", action="store_true", help="a table for each kind of fault too")
    parser.add_argument("--json", type=Path, help="a file to write the counts to")
    arguments = parser.parse_args()
    root = Path(arguments.folder or tempfile.mkdtemp(prefix="icecore-faults-", dir=_memory()))
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(f"seed {arguments.seed}", highlight=False)
    try:
        a = arguments
        counts = run(root, a.seed, a.every, a.only, a.processes, a.seconds)
        counts.show(console, arguments.details)
        fair, found = True, {"seed": a.seed, "seconds": a.seconds, **counts.to_json()}
        if arguments.writers:
            result = race(root / "race", arguments.writers, 4, arguments.race_seconds)
            result.show(console)
            fair = not result.problems
            found["race"] = result.to_json()
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if counts.violations or not fair:
        console.print(f"repeat it with --seed {arguments.seed}", highlight=False)
        return 1
    return 0


def jobs(seed: str, every: int) -> Iterator[Job]:
    """Everything there is to do, of each kind of warehouse, without end: first what is done once, then more dice."""
    turn = 0
    while True:
        dice = random.Random(f"{seed}/{turn}")
        for s in dice.sample(SETTINGS, len(SETTINGS)):
            yield from _of_setting(s, f"{seed}/{turn}", every, turn, dice.randrange(every))
        turn += 1


def _of_setting(s: Setting, seed: str, every: int, turn: int, first: int) -> Iterator[Job]:
    yield f"steps {s}", lambda root, c: kills.kill_at_each_step(root, c, s, every=every, first=first + turn)
    yield f"random {s}", lambda root, c: kills.random_kills(root, c, s, seed, 60)
    yield f"errors {s}", lambda root, c: io_errors.fail_at_each_step(root, c, s, every=4 * every, first=first)
    yield f"full {s}", lambda root, c: io_errors.fill_a_file_system(root, c, s, seed, 12)
    yield f"permissions {s}", lambda root, c: permissions.forbid(root, c, s, seed, 15)
    yield f"crowds {s}", lambda root, c: crowds.append_at_once(root, c, s, seed, 25)
    yield f"materializing {s}", lambda root, c: crowds.materialize_at_once(root, c, s, seed, 10)
    yield f"torn {s}", lambda root, c: torn.tear(root, c, s, seed, 15)
    yield f"projections {s}", lambda root, c: damage.damage_projections(root, c, s, seed, 15)
    yield f"log {s}", lambda root, c: damage.damage_log(root, c, s, seed, 25)
    yield f"data {s}", lambda root, c: damage.damage_data(root, c, s, seed, 10)
    yield f"folders {s}", lambda root, c: folders.take_elsewhere(root, c, s, every=2 * every, first=first + turn)
    yield f"clock {s}", lambda root, c: clocks.jump(root, c, s, seed, 2)


def run(root: Path, seed: str, every: int, only: str, processes: int, seconds: float) -> Counts:
    """Does jobs until the time is up, some at once: each worker takes every so many-th of them."""
    # What is there now is never collected, so that forked processes share it.
    gc.collect()
    gc.freeze()
    deadline = time.monotonic() + seconds
    workers = []
    for number in range(processes):
        wanted = (j for j in jobs(seed, every) if only in j[0])
        mine = itertools.islice(wanted, number, None, processes)
        workers.append(Child(_worker(root / str(number), mine, deadline)))
    counts = Counts()
    for worker in workers:
        outcome = worker.wait(timeout_s=seconds + 600)
        for name, value in outcome.messages:
            if name == "counts":
                counts.take(value)
        if (failed := outcome.get(FAILED)) is not None:
            counts.violation("harness", failed)
    gc.unfreeze()
    return counts


def _worker(root: Path, mine: Iterator[Job], deadline: float) -> Callable[[Say], None]:
    def work(say: Say) -> None:
        for _, job in mine:
            if time.monotonic() > deadline:
                return
            counts = Counts()
            job(root, counts)
            say("counts", counts)

    return work


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


if __name__ == "__main__":
    sys.exit(main())
