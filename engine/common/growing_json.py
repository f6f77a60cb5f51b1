"""A cache of the JSON of long lists that mostly grow at their end."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import compress
from operator import is_not
from typing import Generic, TypeVar

from attrs import define, field

Item = TypeVar("Item")

KEPT = 4
SHORT = 256
"""Lists up to this length are joined each time."""


@define
class JoinedJson(Generic[Item]):
    """Arrays of JSON whose items' own JSON never changes; a few of the long ones are kept.

    A kept array is used only where its items begin the new list, so a wrong guess of a key does no harm. Threads need
    no lock: the kept arrays are one value that is replaced.
    """

    _to_json: Callable[[Item], bytes]
    _kept: tuple[tuple[Hashable, tuple[Item, ...], bytes], ...] = field(init=False, default=())

    def of(self, key: Hashable, items: tuple[Item, ...]) -> bytes:
        """The array of the items. Raises what the items' JSON raises."""
        if len(items) <= SHORT:
            return b"[" + b",".join(map(self._to_json, items)) + b"]"
        joined = self._join(key, items)
        others = [kept for kept in self._kept if kept[0] != key]
        self._kept = ((key, items, joined), *others[: KEPT - 1])
        return b"[" + joined + b"]"

    def _join(self, key: Hashable, items: tuple[Item, ...]) -> bytes:
        for kept, known, joined in self._kept:
            if kept == key and len(known) <= len(items) and self._same(known, items):
                return b",".join([joined, *map(self._to_json, items[len(known) :])])
        return b",".join(map(self._to_json, items))

    def _same(self, known: tuple[Item, ...], items: tuple[Item, ...]) -> bool:
        """Whether `items` begins with the items of `known`: nearly all of them are the very same objects."""
        others = compress(zip(known, items, strict=False), map(is_not, known, items))
        return all(self._to_json(a) == self._to_json(b) for a, b in others)
