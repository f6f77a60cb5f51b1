"""Fewer steps with the same end."""

from __future__ import annotations

import re
from typing import Any

from .jvm import Jvm
from .walk import Outcome, walk


def shrunk(jvm: Jvm, found: Outcome, spark: Any = None, tries: int = 60) -> Outcome:
    """The walk with steps left out, many at first and single ones at last, as long as it ends alike."""
    last = max(1, len(found.said) - 1)
    best, width = found, max(1, len(found.steps) // 2)
    best.steps = tuple(s for s in found.steps if s.number <= _last_number(found)) or found.steps[:last]
    while width and tries:
        at = 0
        while at < len(best.steps) and tries:
            fewer = best.steps[:at] + best.steps[at + width :]
            tries -= 1
            out = walk(jvm, found.seed, fewer, spark=spark)
            if out.finding is not None and _kind(out.finding) == _kind(found.finding or ""):
                best = out
            else:
                at += width
        width //= 2
    return best


def _last_number(found: Outcome) -> int:
    return int(found.said[-1].split()[0])


def _kind(finding: str) -> str:
    """What findings of the same cause have in common: the last line of a traceback, without numbers and values."""
    line = finding.strip().splitlines()[0 if finding.startswith(("Violation", "Java")) else -1]
    return re.sub(r"[0-9]+|'[^']*'|\[.*|\(.*| where .*", "", line)[:60]
