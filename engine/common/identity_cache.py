"""The last few things that were made of others, so that what is asked for again is not made again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

KEPT = 16
Source = TypeVar("Source")
Made = TypeVar("Made")


class IdentityCache(Generic[Source, Made]):
    """What was made of the last few objects; each is known by its identity. Not safe to use from several threads."""

    def __init__(self) -> None:
        # The source is held with what was made of it: the identity of an object that is gone is given out again.
        self._kept: OrderedDict[int, tuple[Source, Made]] = OrderedDict()

    def of(self, source: Source, make: Callable[[Source], Made]) -> Made:
        """What `make` made of the source, now or earlier."""
        known = self._kept.get(id(source))
        if known is None or known[0] is not source:
            known = (source, make(source))
            self._kept[id(source)] = known
            self._kept.move_to_end(id(source))
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return known[1]

    def clear(self) -> None:
        self._kept.clear()
