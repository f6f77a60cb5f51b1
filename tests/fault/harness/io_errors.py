"""Disks that are full, read-only or broken: an error at each step of each operation, once or from there on."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import icecore
from icecore.engine.errors import CommitStateUnknownError, IcecoreError

from .bench import Bench
from .children import FAILED, Outcome, Say, in_child, in_turn
from .counts import Counts
from .deaths import brought_back
from .examine import AFTER, examine, examining, found_in, log_position
from .kills import doing
from .operations import MAKERS, Operation, Setting, random_operation
from .steps import Steps, failing, kill

KINDS = {errno.ENOSPC: "disk full", errno.EROFS: "disk read-only", errno.EIO: "disk broken"}
FULL_FILE_SYSTEM = "file system full"
# Their first event may be made before a second one, or a file, can't be.
IN_PARTS = ("expire snapshots", "materialize", "partition statistics", "rebuild")


def fail_at_each_step(
    root: Path, counts: Counts, setting: Setting, *, every: int = 1, first: int = 0, names: tuple[str, ...] = ()
) -> None:
    """For each operation: learns its steps, then makes each of them fail in turn, in three ways, once and for good."""
    bench = Bench(root)
    base = bench.start(setting)
    turn = first
    for maker in MAKERS:
        operation = maker(base, 101, "key-101")
        if names and operation.name not in names:
            continue
        bench.put_back()
        position = log_position(bench.folder)
        steps = doing(bench.folder, operation, Steps(kill)).wait().get("steps") or ()
        failures, looks = [], []
        for number in range(len(steps)):
            turn += 1
            if turn % every:
                continue
            error = tuple(KINDS)[turn // every % 3]
            lasting, again = bool(turn // every % 2), bool(turn // every // 2 % 2)
            bench.put_back()
            outcome = _failing(bench.folder, operation, Steps(failing(error), number, lasting=lasting), again)
            how = "from there on" if lasting else "once"
            context = f"{setting}, {operation.name}, step {number} of {len(steps)} ({steps[number]}), {how}"
            failures.append((KINDS[error], steps[number], outcome, context))
            look = examining(bench.folder, base, operation, position)
            looks.append(brought_back(bench, bench.set_aside(), look))
        for (kind, what, outcome, context), seen in zip(failures, in_turn(looks), strict=True):
            found = found_in(seen)
            judge_refusal(counts, kind, what, operation, outcome, found.which, found.problems, context)
    bench.remove()


def _failing(folder: str, operation: Operation, steps: Steps, again: bool) -> Outcome:
    def work(say: Say) -> None:
        steps.install()
        with icecore.open(folder, actor="unlucky") as catalog:
            steps.active = True
            try:
                operation.run(catalog)
            except IcecoreError as e:
                steps.active = False
                say("refused", (type(e).__name__, str(e)))
                if again and not isinstance(e, CommitStateUnknownError):
                    operation.run(catalog)
                    say("acknowledged", None)
            else:
                steps.active = False
                say("acknowledged", None)

    return in_child(work)


def judge_refusal(
    counts: Counts,
    kind: str,
    what: str,
    operation: Operation,
    outcome: Outcome,
    which: str | None,
    problems: tuple[str, ...],
    context: str,
) -> None:
    """Counts what came of an error: a refusal of ours, and nothing there; or no refusal, and all there."""
    refused, acknowledged = outcome.get("refused"), outcome.said("acknowledged")
    if (failed := outcome.get(FAILED)) is not None:
        counts.violation(kind, f"{context}: it ended in no error of ours: {failed}")
    for problem in problems:
        counts.violation(kind, f"{context}: {problem}")
    unknown = refused is not None and refused[0] == "CommitStateUnknownError"
    if acknowledged and which != AFTER:
        counts.violation(kind, f"{context}: an acknowledged commit is lost ({which})")
    may_be_there = acknowledged or unknown or 0 in operation.events or operation.name in IN_PARTS
    if refused and which == AFTER and not may_be_there:
        counts.violation(kind, f"{context}: it was refused ({refused}), but it is there")
    if refused and acknowledged:
        counts.add(kind, what, "refused, then made by the same process")
    elif acknowledged:
        counts.add(kind, what, "committed, files healed")
    else:
        counts.add(kind, what, "outcome unknown" if unknown else "refused, nothing there")


@contextlib.contextmanager
def small_file_system(root: Path, megabytes: int) -> Iterator[bool]:
    """A file system of that size at `root`; gives False where this user may not mount one."""
    root.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "icecore-faults", os.fspath(root)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", os.fspath(root)], capture_output=True, check=False)


def fill_a_file_system(root: Path, counts: Counts, setting: Setting, seed: str, rounds: int) -> None:
    """Operations on a real file system that has little space left, or none; then with space again.

    Counts no round where this user may not mount a file system.
    """
    dice = random.Random(f"{seed}/full")
    with small_file_system(root, 24) as mounted:
        if not mounted:
            return
        number = 100
        for start in range(0, rounds, 12):
            bench = Bench(root / "bench")
            model = bench.start(setting)
            for _ in range(min(12, rounds - start)):
                number += 3
                operation = random_operation(dice, model, number)
                position = log_position(bench.folder)
                context = f"seed {seed}, {setting}, {operation.name} {number}"
                with _filled(root, dice.choice((0, 4096, 20_000, 60_000, 120_000))):
                    outcome = _failing(bench.folder, operation, Steps(kill), again=False)
                found = examine(bench.folder, model, operation, position)
                judge_refusal(
                    counts, FULL_FILE_SYSTEM, operation.name, operation, outcome, found.which, found.problems, context
                )
                if found.which is None or found.problems:
                    break
                model = operation.after
            bench.remove()


@contextlib.contextmanager
def _filled(root: Path, free: int) -> Iterator[None]:
    """Leaves about so many bytes of the file system at `root`."""
    filler = root / "filler"
    stats = os.statvfs(root)
    with open(filler, "wb") as f:
        size = max(0, stats.f_bavail * stats.f_frsize - free)
        with contextlib.suppress(OSError):
            os.posix_fallocate(f.fileno(), 0, size)
    try:
        yield
    finally:
        filler.unlink()
