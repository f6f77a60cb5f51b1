"""Moves and clones that die at each of their steps: made again they are whole, and a clone's original is as it was."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import icecore

from .bench import Bench
from .children import FAILED, Child, Outcome, Say, Work
from .counts import Counts
from .deaths import deaths
from .model import Model, difference, observe
from .operations import Setting
from .steps import Steps, chosen, kill

KIND = "killed while moving or cloning"
TAKEN = "taken"

Way = Callable[[str, str], object]
BY_HAND = ("move by hand", "clone of a copy")
WAYS: dict[str, Way] = {
    "move": lambda folder, to: icecore.move_warehouse(folder, to),
    "move by hand": lambda folder, to: icecore.move_warehouse(to),
    "clone": lambda folder, to: icecore.clone_warehouse(folder, to),
    "clone of metadata": lambda folder, to: icecore.clone_warehouse(folder, to, metadata_only=True),
    "clone of a copy": lambda folder, to: icecore.clone_warehouse(to),
}


def take_elsewhere(
    root: Path, counts: Counts, setting: Setting, *, every: int = 1, first: int = 0, each_kind: bool = False
) -> None:
    """For each way: learns its steps, then dies at each so many-th of them, beginning with `first`.

    With `each_kind` it dies at a step of each kind, in one way or another.
    """
    bench = Bench(root)
    kinds: set[str] | None = set() if each_kind else None
    base = bench.start(setting)
    to = os.fspath(root / TAKEN)
    for name, way in WAYS.items():
        _lay_out(bench, name, to)
        learnt = _taking(way, bench.folder, to, Steps(kill)).wait()
        steps = learnt.get("steps")
        if steps is None:
            counts.violation(KIND, f"{setting}, {name}: {learnt.get(FAILED)}")
            continue

        def die(number: int, name: str = name, way: Way = way) -> Outcome:
            _lay_out(bench, name, to)
            return _taking(way, bench.folder, to, Steps(kill, number)).wait()

        look = _examining(way, base, bench, to, is_clone=name.startswith("clone"))
        for death in deaths(bench, steps, chosen(steps, every, first, kinds), die, lambda _, look=look: look):  # type: ignore[misc]
            context = f"{setting}, {name}, step {death.number} of {len(steps)} ({steps[death.number]})"
            if not death.outcome.was_killed:
                counts.violation(KIND, f"{context}: it did not die")
            for problem in _problems(death.seen):
                counts.violation(KIND, f"{context}: {problem}")
            counts.add(KIND, name, "made again, whole")
    bench.remove()


def _problems(found: Outcome) -> list[str]:
    problems: list[str] | None = found.get("problems")
    return [f"can't be examined: {found.get(FAILED)}"] if problems is None else problems


def _lay_out(bench: Bench, name: str, to: str) -> None:
    shutil.rmtree(to, ignore_errors=True)
    bench.put_back()
    if name in BY_HAND:
        shutil.copytree(bench.folder, to)
    if name == "move by hand":
        shutil.rmtree(bench.folder)


def _taking(way: Way, folder: str, to: str, steps: Steps) -> Child:
    def work(say: Say) -> None:
        steps.install().active = True
        way(folder, to)
        steps.active = False
        say("steps", steps.names)

    return Child(work)


def _examining(way: Way, base: Model, bench: Bench, to: str, *, is_clone: bool) -> Work:
    """Makes the call again where it has something left to do, and compares what is there then."""

    def work(say: Say) -> None:
        problems = []
        try:
            way(bench.folder, to)
        except icecore.IcecoreError as e:
            if not any(text in str(e) for text in ("nothing to move", "name a new folder", "not empty")):
                problems.append(f"made again: {type(e).__name__} {e}")
        with icecore.open(to, actor="examiner") as catalog:
            problems += difference(base, observe(catalog))
            problems += [f"verify: {p}" for p in catalog.verify(deep=True).problems]
        if is_clone and _digests(Path(bench.folder)) != _digests(bench._kept):
            problems.append("the original was changed")
        say("problems", problems)

    return work


def _digests(folder: Path) -> dict[str, str]:
    found = (p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("icecore.db"))
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in found
        if ".icecore" not in p.relative_to(folder).parts
    }
