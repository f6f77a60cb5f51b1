"""Lists in messages: as much as a reader takes in, and how much more there is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

MOST = 20


def some_of(names: Iterable[object], most: int = MOST) -> str:
    """The first names, and how many more there are: `a, b and 3 more`; `none` where there is none."""
    rest = iter(names)
    shown = ", ".join(str(n) for n in islice(rest, most))
    more = sum(1 for _ in rest)
    return f"{shown} and {more} more" if more else shown or "none"
