"""Reading a few items ahead of their consumer, in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

READ_AHEAD = 4
"""The number of items that are read at once; results that are not taken yet are in memory."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_ahead(read: Callable[[Item], Result], items: Iterable[Item], at_once: int = READ_AHEAD) -> Iterator[Result]:
    """The results for the items in their order, read `at_once` at a time. Raises what `read` raises for an item."""
    with ThreadPoolExecutor(at_once) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(read, item))
            if len(waiting) >= at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
