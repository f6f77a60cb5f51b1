"""A cache that is bounded by the bytes it holds."""

from __future__ import annotations

import math
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Generic, TypeVar

from attrs import define, field

from icecore.engine.common.fork_safety import Lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


PART_OF_MEMORY = 32

# The most bytes that a container's processes may take, by version 2 and 1 of control groups: a number, or `max`.
CONTAINER_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def within_memory(most: int) -> int:
    """The given number of bytes, or a small part of the memory of the machine or container where that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory = min([machine, *map(_limit, CONTAINER_LIMITS)])
    return min(most, int(memory) // PART_OF_MEMORY)


def _limit(file: Path) -> float:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return math.inf


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
