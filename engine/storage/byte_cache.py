"""A cache that is bounded by the bytes it holds."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from attrs import define, field

from icecore.engine.common.fork_safety import Lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


PART_OF_MEMORY = 32


def within_memory(most: int) -> int:
    """So many bytes, or a small part of the machine's memory where that is less."""
    return min(most, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // PART_OF_MEMORY)


@define
class ByteCache(Generic[K, V]):
    """An LRU cache of at most `budget` bytes; a value larger than that is not cached."""

    budget: int
    size_of: Callable[[V], int]
    _held: OrderedDict[K, tuple[V, int]] = field(factory=OrderedDict, repr=False)
    _bytes: int = 0
    _lock: Lock = field(factory=Lock, repr=False)

    def get(self, key: K, load: Callable[[K], V]) -> V:
        """The value of a key, loaded where it isn't cached; two threads may load the same one at once."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key][0]
        value = load(key)
        self._put(key, value, self.size_of(value))
        return value

    def _put(self, key: K, value: V, size: int) -> None:
        with self._lock:
            if key in self._held or size > self.budget:
                return
            self._held[key] = (value, size)
            self._bytes += size
            while self._bytes > self.budget:
                _, (_, gone) = self._held.popitem(last=False)
                self._bytes -= gone

    def clear(self) -> None:
        """Drops everything."""
        with self._lock:
            self._held.clear()
            self._bytes = 0
