"""An LRU cache keyed by object identity."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

KEPT = 16
Source = TypeVar("Source")
Made = TypeVar("Made")


class IdentityCache(Generic[Source, Made]):
    """The values derived from the last few objects. Not safe to use from several threads."""

    def __init__(self) -> None:
        # The source is held with what was made of it: the identity of an object that is gone is given out again.
        self._kept: OrderedDict[int, tuple[Source, Made]] = OrderedDict()

    def of(self, source: Source, make: Callable[[Source], Made]) -> Made:
        """`make(source)`, or what that gave earlier for the same object."""
        known = self._kept.get(id(source))
        if known is None or known[0] is not source:
            known = (source, make(source))
            self._kept[id(source)] = known
            self._kept.move_to_end(id(source))
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return known[1]

    def clear(self) -> None:
        """Drops all values."""
        self._kept.clear()
