"""Reading a few things ahead of whoever takes them, in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

READ_AHEAD = 4
"""How many are read at once: what is read and not taken yet is in memory."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_ahead(read: Callable[[Item], Result], items: Iterable[Item], at_once: int = READ_AHEAD) -> Iterator[Result]:
    """The results for the items in their order, so many of them at work. Raises what `read` raises for an item."""
    with ThreadPoolExecutor(at_once) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(read, item))
            if len(waiting) >= at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
