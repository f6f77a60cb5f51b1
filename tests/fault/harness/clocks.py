"""A clock that jumps, back and forth, between commits and in the middle of them."""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path

import icecore

from .bench import Bench
from .children import FAILED, Say, in_child
from .counts import Counts
from .examine import peer_problems
from .model import Model, difference, observe
from .operations import Setting, random_operation

KIND = "clock that jumps"
HOUR_NS = 3_600_000_000_000


def jump(root: Path, counts: Counts, setting: Setting, seed: str, rounds: int) -> None:
    """Histories of ten operations; each reading of the clock may be hours before or after the one before it."""
    for number in range(rounds):
        bench = Bench(root)
        model = bench.start(setting)
        context = f"seed {seed}, round {number}, {setting}"
        outcome = in_child(lambda say, n=number, m=model, b=bench: _live(say, b.folder, m, f"{seed}/{n}"))  # type: ignore[misc]
        result: list[str] | None = outcome.get("problems")
        for problem in [str(outcome.get(FAILED))] if result is None else result:
            counts.violation(KIND, f"{context}: {problem}")
        counts.add(KIND, "history of 10 operations", "times always grow, all answers right")
    bench.remove()


def _live(say: Say, folder: str, model: Model, seed: str) -> None:
    dice = random.Random(f"{seed}/clock")
    real, offset = time.time_ns, [0]

    def time_ns() -> int:
        if dice.random() < 0.2:
            offset[0] += dice.randrange(-12 * HOUR_NS, 10 * HOUR_NS)
        return real() + offset[0]

    time.time_ns = time_ns
    with icecore.open(folder) as catalog:
        for number in range(10):
            operation = random_operation(dice, model, 200 + 3 * number)
            if operation.name != "expire snapshots":
                operation.run(catalog)
                model = operation.after
        catalog.materialize()
        problems = [f"verify: {p}" for p in catalog.verify().problems] + _time_problems(catalog)
        if text := difference(model, observe(catalog)):
            problems.append(text)
    say("problems", problems + peer_problems(folder, model))


def _time_problems(catalog: icecore.Catalog) -> list[str]:
    """What breaks the order of times: in the log, and in the metadata of tables."""
    problems = []
    recorded = catalog.log()["recorded_at"].to_pylist()
    if any(b <= a for a, b in itertools.pairwise(recorded)):
        problems.append("the times of the log don't grow")
    for table in catalog.tables():
        logs = {
            "snapshots": [s.timestamp_ms for s in table.snapshots()],
            "snapshot log": [e.timestamp_ms for e in table.history()],
            "metadata log": [e.timestamp_ms for e in table.metadata.metadata_log],
        }
        for name, times in logs.items():
            if times != sorted(times) or (times and times[-1] > table.metadata.last_updated_ms):
                problems.append(f"{table.name()}: the times of its {name} don't grow: {times}")
    return problems
