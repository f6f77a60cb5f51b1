"""Several processes at once, some of which are killed: appending, and writing out the same files."""

from __future__ import annotations

import errno
import random
import time
from pathlib import Path

import icecore
from icecore.engine.errors import IcecoreError
from icecore.projections.files.materialize import Materializer

from .bench import Bench
from .children import FAILED, Child, Outcome, Say, in_child
from .counts import Counts
from .examine import leftovers, peer_problems
from .model import Model, difference, observe
from .operations import MAKERS, Setting, rows
from .steps import Steps, kill

MATERIALIZING, APPENDING, COMMITS = "materializing at once", "three appending at once", "commits of those three"


def materialize_at_once(root: Path, counts: Counts, setting: Setting, seed: str, rounds: int) -> None:
    """Commits whose files are missing are written out by two to four processes at once, of which some are killed.

    Then one more opens: all files have the bytes that a rebuild by one process gives.
    """
    dice = random.Random(f"{seed}/materialize")
    bench = Bench(root)
    base = bench.start(setting)
    outcome = in_child(lambda say: say("model", _leave_behind(bench.folder, base)))
    model: Model | None = outcome.get("model")
    if model is None:
        counts.violation(MATERIALIZING, f"{setting}: {outcome.get(FAILED)}")
        return
    bench.keep()
    for number in range(rounds):
        bench.put_back()
        plans = [dice.randrange(80) if dice.random() < 0.5 else None for _ in range(dice.randint(2, 4))]
        start = time.time() + 0.05
        children = [
            Child(lambda say, at=at, start=start: _write_out(say, bench.folder, start, Steps(kill, at)))  # type: ignore[misc]
            for at in plans
        ]
        outcomes = [child.wait() for child in children]
        context = f"seed {seed}, round {number}, {setting}, killed at {plans}"
        for ended in outcomes:
            if (failed := ended.get(FAILED)) is not None:
                counts.violation(MATERIALIZING, f"{context}: {failed}")
        checked = in_child(lambda say: say("problems", _look(bench.folder, model)))
        for problem in checked.get("problems") or [str(checked.get(FAILED))]:
            if problem:
                counts.violation(MATERIALIZING, f"{context}: {problem}")
        killed = sum(o.was_killed for o in outcomes)
        counts.add(MATERIALIZING, f"{len(plans)} processes", f"{killed} killed, all files right")
    bench.remove()


def _leave_behind(folder: str, model: Model) -> Model:
    """Commits whose files can't be written; file system tables write theirs inside of the commit, pointers after it."""

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with icecore.open(folder) as catalog:
        Materializer.catch_up = no_space  # type: ignore[assignment, method-assign]
        for number, maker in enumerate((0, 1, 5, 6, 2, 0, 7)):
            operation = MAKERS[maker](model, 300 + 10 * number, f"behind-{number}")
            operation.run(catalog)
            model = operation.after
    return model


def _write_out(say: Say, folder: str, start: float, steps: Steps) -> None:
    steps.install()
    time.sleep(max(0.0, start - time.time()))
    steps.active = True
    with icecore.open(folder) as catalog:
        catalog.materialize()
    say("done", None)


def _look(folder: str, model: Model) -> list[str]:
    """What is wrong, or one empty text."""
    problems = []
    with icecore.open(folder) as catalog:
        catalog.materialize()
        problems += leftovers(folder)
        problems += [f"verify: {p}" for p in catalog.verify().problems]
        if text := difference(model, observe(catalog)):
            problems.append(text)
        problems += peer_problems(folder, model)
        files = {p: p.read_bytes() for p in Path(folder).rglob("metadata/*") if p.is_file()}
        catalog.rebuild()
        problems += [f"verify after a rebuild: {p}" for p in catalog.verify().problems]
        # Old metadata files that a table keeps no more may go with the rebuild.
        again = {p: data for p, data in files.items() if p.exists()}
        problems += [f"{p.name} differs from a rebuild's" for p, data in again.items() if p.read_bytes() != data]
    return problems or [""]


def append_at_once(root: Path, counts: Counts, setting: Setting, seed: str, rounds: int) -> None:
    """Three processes append to two tables, all are killed, then three others, and so on.

    After each round: every acknowledged row is there once, and of the others at most the last of each process.
    """
    dice = random.Random(f"{seed}/append")
    bench = Bench(root)
    base = bench.start(setting)
    number, known = 1000, {n: set(t.ids) for n, t in base.tables}
    for turn in range(rounds):
        if turn % 15 == 0 and turn:
            base = bench.start(setting)
            known = {n: set(t.ids) for n, t in base.tables}
        names = [dice.choice("tu") for _ in range(3)]
        children = []
        for name in names:
            number += 1000
            children.append(Child(lambda say, n=name, i=number: _append(say, bench.folder, n, i)))  # type: ignore[misc]
        outcomes = [child.wait(dice.uniform(0.0, 0.15)) for child in children]
        context = f"seed {seed}, round {turn}, {setting}, tables {names}"
        _judge(counts, bench.folder, known, names, outcomes, context)
    bench.remove()


def _append(say: Say, folder: str, name: str, number: int) -> None:
    with icecore.open(folder, actor="one of three") as catalog:
        table = catalog.load_table(("ns", name))
        say("opened", None)
        for i in range(number, number + 999):
            say("trying", i)
            table.append(rows(i))
            say("done", i)


def _judge(
    counts: Counts, folder: str, known: dict[str, set[int]], names: list[str], outcomes: list[Outcome], context: str
) -> None:
    checked = in_child(lambda say: say("found", _present(folder)))
    if checked.get("found") is None:
        counts.violation(APPENDING, f"{context}: {checked.get(FAILED)}")
        return
    present, problems = checked.get("found")
    for name in known:
        of_table = [o for n, o in zip(names, outcomes, strict=True) if n == name]
        done = {v for o in of_table for what, v in o.messages if what == "done"}
        tried = {v for o in of_table for what, v in o.messages if what == "trying"}
        ids = set(present[name])
        if len(ids) != len(present[name]):
            problems.append(f"{name}: a row is there twice")
        if lost := (known[name] | done) - ids:
            problems.append(f"{name}: lost {sorted(lost)}")
        if more := ids - known[name] - tried:
            problems.append(f"{name}: nobody wrote {sorted(more)}")
        for _ in done & ids:
            counts.add(COMMITS, "append", "acknowledged, there")
        for i in tried - done:
            counts.add(COMMITS, "append", f"not acknowledged, {'there' if i in ids else 'gone'}")
        known[name] = ids
    for outcome in outcomes:
        if (failed := outcome.get(FAILED)) is not None:
            problems.append(failed)
        counts.add(APPENDING, "process", "killed" if outcome.was_killed else "ended")
    for problem in problems:
        counts.violation(APPENDING, f"{context}: {problem}")


def _present(folder: str) -> tuple[dict[str, list[int]], list[str]]:
    with icecore.open(folder) as catalog:
        problems = [*leftovers(folder), *(f"verify: {p}" for p in catalog.verify().problems)]
        try:
            found = observe(catalog)
        except IcecoreError as e:
            return {}, [*problems, f"{type(e).__name__}: {e}"]
        return {name: list(table.ids) for name, table in found.tables}, problems
