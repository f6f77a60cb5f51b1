"""Deaths at steps of one call: first all of them, then one process that looks at what each of them left."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from attrs import frozen

from .bench import Bench
from .children import Outcome, Say, Work, in_turn

Die = Callable[[int], Outcome]
Look = Callable[[Sequence[int]], Work]


@frozen
class Death:
    """The step at which a process died, what it said before, and what another process said of what it left."""

    number: int
    outcome: Outcome
    seen: Outcome


@frozen
class _Left:
    """The place of what a death left, and what can be compared of it: the log's content, and how many files it is."""

    number: int
    outcome: Outcome
    place: Path
    shape: tuple[tuple[str, ...], int]


def deaths(bench: Bench, names: Sequence[str], numbers: Iterable[int], die: Die, look: Look) -> list[Death]:
    """For each number of a step: lets a process die there, and says what is seen afterwards.

    Two that left the same are looked at once: a transaction reaches the disk at its COMMIT, so a death at its second
    statement leaves what a death at its first one does.
    """
    different: list[list[_Left]] = []
    for number in numbers:
        left = _left(bench, number, die(number))
        if different and _same(names, different[-1][0], left):
            different[-1].append(left)
        else:
            different.append([left])
    looks = [brought_back(bench, same[0].place, look([left.number for left in same])) for same in different]
    pairs = zip(different, in_turn(looks), strict=True)
    return [Death(left.number, left.outcome, seen) for same, seen in pairs for left in same]


def _same(names: Sequence[str], one: _Left, other: _Left) -> bool:
    """Whether only statements lie between two deaths, no COMMIT is among them, and the log is the same."""
    between = names[one.number : other.number]
    return all(n.startswith("SQL ") and n != "SQL COMMIT" for n in between) and one.shape == other.shape


def _left(bench: Bench, number: int, outcome: Outcome) -> _Left:
    place = bench.set_aside()
    files = sorted(p for p in place.rglob("*") if p.is_file())
    logs = (p for p in files if p.name in ("icecore.db", "icecore.db-wal", "icecore.db-journal"))
    digests = tuple(f"{p.relative_to(place)} {hashlib.sha256(_content(p)).hexdigest()}" for p in logs)
    return _Left(number, outcome, place, (digests, len(files)))


def _content(path: Path) -> bytes:
    """The bytes of a file; of a WAL its frames without their salts and checksums, which are new in each process."""
    data = path.read_bytes()
    if not path.name.endswith("-wal") or not data:
        return data
    size = int.from_bytes(data[8:12], "big")
    frames = (data[at : at + 24 + size] for at in range(32, len(data), 24 + size))
    return b"".join(frame[:8] + frame[24:] for frame in frames)


def brought_back(bench: Bench, place: Path, look: Work) -> Work:
    """A look at what was set aside."""

    def work(say: Say) -> None:
        bench.bring_back(place)
        look(say)

    return work
