"""Kills: at each step of each operation, at random steps of a long history, and at random moments."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field, frozen

import icecore

from .bench import Bench
from .children import FAILED, Child, Outcome, Say, Work, in_child
from .counts import Counts
from .deaths import Die, Look, deaths
from .examine import AFTER, BEFORE, Found, examine, examining, found_in, log_position
from .model import Model
from .operations import APPEND, MAKERS, Operation, Setting, random_operation
from .steps import Steps, chosen, kill

AT_STEP, AT_TIME, IN_BYTES, WHILE_HEALING = (
    "killed at a step",
    "killed at a random time",
    "killed in the middle of a write",
    "killed while opening again",
)
ACKNOWLEDGED, THERE, GONE = "acknowledged, there", "not acknowledged, there", "not acknowledged, gone"


def judge(counts: Counts, kind: str, what: str, outcome: Outcome, found: Found, context: str) -> None:
    """Counts what came of a round. What was acknowledged must be there; nothing may be half there."""
    acknowledged = outcome.said("acknowledged")
    if (failed := outcome.get(FAILED)) is not None:
        counts.violation(kind, f"{context}: the operation failed: {failed}")
    for problem in found.problems:
        counts.violation(kind, f"{context}: {problem}")
    if acknowledged and found.which == BEFORE:
        counts.violation(kind, f"{context}: an acknowledged commit is lost")
    counts.add(kind, what, ACKNOWLEDGED if acknowledged else THERE if found.which == AFTER else GONE)


def doing(folder: str, operation: Operation, steps: Steps | None = None, *, while_opening: bool = False) -> Child:
    """A process that opens the warehouse, does the operation and acknowledges it."""

    def work(say: Say) -> None:
        if steps is not None:
            steps.install().active = while_opening
        with icecore.open(folder, actor="victim") as catalog:
            say("opened", None)
            if steps is not None:
                steps.active = True
            operation.run(catalog)
            if steps is not None:
                steps.active = False
                say("steps", steps.names)
            say("acknowledged", None)

    return Child(work)


def kill_at_each_step(
    root: Path,
    counts: Counts,
    setting: Setting,
    *,
    every: int = 1,
    first: int = 0,
    each_kind: bool = False,
    names: tuple[str, ...] = (),
) -> None:
    """For each operation: does it once to learn its steps, then once for each of them, and dies there.

    With `every` > 1 only each so many-th step, beginning with `first`, and with `each_kind` one of each kind at least;
    with `names` only these operations.
    """
    bench = Bench(root)
    base = bench.start(setting)
    for maker in MAKERS:
        operation = maker(base, 101, "key-101")
        if names and operation.name not in names:
            continue
        bench.put_back()
        position = log_position(bench.folder)
        learnt = doing(bench.folder, operation, Steps(kill)).wait()
        steps = learnt.get("steps")
        if steps is None:
            counts.violation(AT_STEP, f"{setting}, {operation.name}: {learnt.get(FAILED)}")
            continue
        numbers = chosen(steps, every, first, set() if each_kind else None)
        for death in deaths(bench, steps, numbers, *_round(bench, base, operation, position)):
            context = f"{setting}, {operation.name}, step {death.number} of {len(steps)} ({steps[death.number]})"
            if not death.outcome.was_killed:
                counts.violation(AT_STEP, f"{context}: it did not die")
            judge(counts, AT_STEP, steps[death.number], death.outcome, found_in(death.seen), context)
    bench.remove()


def _round(bench: Bench, base: Model, operation: Operation, position: int) -> tuple[Die, Look]:
    """How a process dies at a step of an operation, and how another one looks at what it left."""

    def die(number: int) -> Outcome:
        bench.put_back()
        return doing(bench.folder, operation, Steps(kill, number)).wait()

    def look(numbers: Sequence[int]) -> Work:
        peer = any(number % 16 == 0 for number in numbers)
        return examining(bench.folder, base, operation, position, peer=peer)

    return die, look


@frozen
class Limits:
    """How long a random history goes on."""

    rounds: int = 100
    steps_of_one: int = 60


@define
class History:
    """A warehouse to which one operation after another is made, and each process dies at some moment of it."""

    bench: Bench
    counts: Counts
    setting: Setting
    seed: str
    dice: random.Random = field(init=False)
    model: Model = field(init=False)
    number: int = 100

    def __attrs_post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.model = self.bench.start(self.setting)

    def go_on(self) -> None:
        """One round: an operation, a death, a look at what is there, and the operation again."""
        self.number += 3
        operation = random_operation(self.dice, self.model, self.number)
        position = log_position(self.bench.folder)
        context = f"seed {self.seed}, {self.setting}, {operation.name} {self.number}"
        kind, outcome, what = self._die(operation)
        if self.dice.random() < 0.2:
            self._die_while_opening()
        found = examine(self.bench.folder, self.model, operation, position, peer=self.dice.random() < 0.1)
        judge(self.counts, kind, what, outcome, found, context)
        if found.which is None or found.problems:
            # What follows would only say the same again.
            self.model = self.bench.start(self.setting)
            return
        self.model = operation.after

    def _die(self, operation: Operation) -> tuple[str, Outcome, str]:
        folder = self.bench.folder
        match self.dice.choice(("step", "time", "time", "bytes")):
            case "step":
                steps = Steps(kill, self.dice.randrange(60))
                outcome = doing(folder, operation, steps).wait()
                return AT_STEP, outcome, f"random step of: {operation.name}"
            case "bytes":
                size = self.dice.choice((4_096, 40_000, 150_000, 400_000))
                outcome = _limited(folder, operation, self.dice.randrange(size))
                return IN_BYTES, outcome, operation.name
            case _:
                return AT_TIME, doing(folder, operation).wait(self.dice.uniform(0.0, 0.08)), operation.name

    def _die_while_opening(self) -> None:
        steps = Steps(kill, self.dice.randrange(25))

        def work(say: Say) -> None:
            steps.install().active = True
            icecore.open(self.bench.folder).close()

        outcome = in_child(work)
        if (failed := outcome.get(FAILED)) is not None:
            self.counts.violation(WHILE_HEALING, f"seed {self.seed}, {self.setting}: {failed}")
        self.counts.add(WHILE_HEALING, str(self.setting), "killed" if outcome.was_killed else "opened before")


def _limited(folder: str, operation: Operation, size: int) -> Outcome:
    """Dies when any file would get longer than `size` bytes: what fits of that write is written, by the kernel."""

    def work(say: Say) -> None:
        with icecore.open(folder, actor="victim") as catalog:
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            operation.run(catalog)
            say("acknowledged", None)

    return in_child(work)


def random_kills(root: Path, counts: Counts, setting: Setting, seed: str, rounds: int) -> None:
    """A history of so many rounds; a new one is begun now and then, so that warehouses stay small."""
    done = 0
    while done < rounds:
        history = History(Bench(root), counts, setting, f"{seed}/{done}")
        for _ in range(min(40, rounds - done)):
            history.go_on()
            done += 1
    Bench(root).remove()


__all__ = ["APPEND", "History", "judge", "kill_at_each_step", "random_kills"]
