"""Files and folders that may only be read, by the modes of a real file system."""

from __future__ import annotations

import ctypes
import os
import random
from pathlib import Path

import icecore
from icecore.engine.errors import IcecoreError

from .bench import Bench
from .children import Say, in_child
from .counts import Counts
from .examine import examine, log_position
from .io_errors import judge_refusal
from .operations import MAKERS, Operation, Setting

KIND = "read-only files and folders"
# Linux: what lets root write where the modes of files forbid it, and the call that gives it up.
CAPABILITY_VERSION, DAC_OVERRIDE, FOWNER = 0x20080522, 1, 3
PLACES = ("icecore.db", ".", "ns", "ns/t", "ns/t/metadata", "ns/t/data", "ns/u/metadata", ".icecore", "ns/v/metadata")


def forbid(root: Path, counts: Counts, setting: Setting, seed: str, rounds: int) -> None:
    """One to three places become read-only, somebody makes an operation, and the places become writable again."""
    dice = random.Random(f"{seed}/permissions")
    bench = Bench(root)
    base = bench.start(setting)
    for number in range(rounds):
        bench.put_back()
        operation = dice.choice(MAKERS)(base, 101, "key-101")
        position = log_position(bench.folder)
        whole = dice.random() < 0.15
        places = list(PLACES) if whole else dice.sample(PLACES, dice.randint(1, 3))
        folder = Path(bench.folder)
        _set_modes(folder, [folder / p for p in places])
        outcome = in_child(lambda say, o=operation: _try(say, bench.folder, o))  # type: ignore[misc]
        _set_modes(folder, [])
        found = examine(bench.folder, base, operation, position)
        context = f"seed {seed}, round {number}, {setting}, {operation.name}, read-only: {places}"
        what = "all places" if whole else f"{len(places)} places"
        judge_refusal(counts, KIND, what, operation, outcome, found.which, found.problems, context)
    bench.remove()


def _set_modes(folder: Path, read_only: list[Path]) -> None:
    """Makes the places read-only, and all others writable."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in read_only:
        if path.exists():
            path.chmod(0o555 if path.is_dir() else 0o444)


def _try(say: Say, folder: str, operation: Operation) -> None:
    give_up_override()
    try:
        with icecore.open(folder, actor="somebody") as catalog:
            operation.run(catalog)
    except IcecoreError as e:
        say("refused", (type(e).__name__, str(e)))
    else:
        say("acknowledged", None)


def give_up_override() -> None:
    """Makes the modes of files hold for this process, also where it is root's. Raises OSError."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    # Effective, permitted and inheritable, for the first 32 capabilities and for the others.
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    for i in range(3):
        sets[i] &= ~(1 << DAC_OVERRIDE | 1 << FOWNER)
    if libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")
