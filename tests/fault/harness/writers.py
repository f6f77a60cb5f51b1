"""Many processes that append to few tables at once: none loses a commit, none doubles one, none starves."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen
from rich.console import Console
from rich.table import Table

import icecore

from .bench import Bench
from .children import FAILED, Child, Outcome, Say, in_child
from .operations import SCHEMA, rows

FAIR_SHARE = 1 / 3


@frozen
class Writer:
    """What one writer did: the ids that were acknowledged, and how long each commit took, in seconds."""

    table: str
    ids: tuple[int, ...]
    seconds: tuple[float, ...]

    def times_ms(self) -> dict[str, float]:
        """What half and all but a hundredth of its commits took at most, and the longest."""
        ms = sorted(s * 1000 for s in self.seconds) or [0.0]
        return {"p50": ms[len(ms) // 2], "p99": ms[min(len(ms) - 1, len(ms) * 99 // 100)], "max": ms[-1]}


@frozen
class Race:
    """A race of writers, and what was wrong with it."""

    writers: tuple[Writer, ...]
    seconds: float
    problems: tuple[str, ...]

    @property
    def share_of_slowest(self) -> float:
        """The commits of the slowest writer, as a share of the median's."""
        counts = [len(w.ids) for w in self.writers]
        return min(counts) / max(1.0, statistics.median(counts))

    @property
    def commits(self) -> int:
        return sum(len(w.ids) for w in self.writers)

    def to_json(self) -> dict[str, Any]:
        """Commits and their times in ms by writer."""
        rows = [{"table": w.table, "commits": len(w.ids), **w.times_ms()} for w in self.writers]
        found = {"seconds": self.seconds, "commits": self.commits, "share_of_slowest": self.share_of_slowest}
        return {**found, "writers": rows, "violations": list(self.problems)}

    def show(self, console: Console) -> None:
        table = Table(title=f"{len(self.writers)} writers, {self.seconds:.0f} s", title_justify="left")
        for name in ("writer", "table", "commits", "p50 ms", "p99 ms", "max ms"):
            table.add_column(name, justify="right")
        for number, w in enumerate(self.writers):
            table.add_row(str(number), w.table, str(len(w.ids)), *(f"{t:.0f}" for t in w.times_ms().values()))
        console.print(table)
        console.print(
            f"{self.commits} commits, {self.commits / self.seconds:.0f} a second; the slowest writer has "
            f"{self.share_of_slowest:.2f} of the median's commits"
        )
        for problem in self.problems:
            console.print(f"VIOLATION many writers: {problem}", markup=False, highlight=False)


def race(root: Path, processes: int, tables: int, seconds: float, *, share: float = FAIR_SHARE) -> Race:
    """So many processes append single rows to the tables for so long; then all that was acknowledged is looked for.

    `share` is the least share of the median's commits that the slowest writer must have.
    """
    bench = Bench(root)
    bench.remove()
    root.mkdir(parents=True)
    folder = bench.folder
    names = [f"t{i}" for i in range(tables)]
    _checked(in_child(lambda say: _make(folder, names)))
    start = time.time() + 0.5 + 0.1 * processes
    children = [
        Child(lambda say, n=number: _append(say, folder, n, names[n % tables], start, seconds))  # type: ignore[misc]
        for number in range(processes)
    ]
    problems, writers = [], []
    for number, child in enumerate(children):
        outcome = child.wait()
        if (failed := outcome.get(FAILED)) is not None:
            problems.append(f"writer {number} failed: {failed}")
        done = [value for name, value in outcome.messages if name == "done"]
        writers.append(Writer(names[number % tables], tuple(i for i, _ in done), tuple(s for _, s in done)))
    problems += in_child(lambda say: say("problems", _look(folder, names, writers))).get("problems") or ["not examined"]
    result = Race(tuple(writers), seconds, ())
    if result.share_of_slowest < share:
        problems.append(f"the slowest writer has {result.share_of_slowest:.2f} of the median's commits")
    bench.remove()
    return Race(tuple(writers), seconds, tuple(p for p in problems if p))


def _make(folder: str, names: Sequence[str]) -> None:
    with icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        for name in names:
            catalog.create_table(("ns", name), SCHEMA)


def _append(say: Say, folder: str, number: int, name: str, start: float, seconds: float) -> None:
    with icecore.open(folder, actor=f"writer {number}") as catalog:
        table = catalog.load_table(("ns", name))
        time.sleep(max(0.0, start - time.time()))
        i = number * 1_000_000
        # Who is held up for all of the time still makes one.
        while i == number * 1_000_000 or time.time() < start + seconds:
            began = time.perf_counter()
            table.append(rows(i))
            say("done", (i, time.perf_counter() - began))
            i += 1


def _look(folder: str, names: Sequence[str], writers: Sequence[Writer]) -> list[str]:
    """What is wrong, or one empty text."""
    problems = []
    with icecore.open(folder) as catalog:
        for name in names:
            table = catalog.load_table(("ns", name))
            found = Counter(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())
            expected = Counter(i for w in writers if w.table == name for i in w.ids)
            if lost := expected - found:
                problems.append(f"{name}: {lost.total()} acknowledged commits are lost, as {min(lost)}")
            if more := found - expected:
                problems.append(f"{name}: {more.total()} rows are there twice or were never acknowledged")
            numbers = [s.sequence_number for s in table.snapshots()]
            if numbers != list(range(1, expected.total() + 1)):
                problems.append(f"{name}: its snapshots don't follow one another")
        problems += [f"verify: {p}" for p in catalog.verify().problems]
    return problems or [""]


def _checked(outcome: Outcome) -> None:
    if (failed := outcome.get(FAILED)) is not None:
        raise RuntimeError(failed)
