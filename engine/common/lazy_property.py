"""Properties that are computed once, when first asked for, by any number of threads at a time.

`functools.cached_property` of Python 3.11 holds one lock for all objects of a class while it makes one. A process that
is forked meanwhile has that lock held for ever, so nothing slow, such as a plan, may be made under it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Made = TypeVar("Made")


class lazy_property(Generic[Made]):
    """A property of objects that have a `__dict__`. Threads that ask at once may make it twice, and see one."""

    def __init__(self, make: Callable[[Any], Made]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, instance: None, owner: Any = None) -> lazy_property[Made]: ...

    @overload
    def __get__(self, instance: object, owner: Any = None) -> Made: ...

    def __get__(self, instance: object | None, owner: Any = None) -> lazy_property[Made] | Made:
        if instance is None:
            return self
        # Not called again for this object: its dictionary goes first.
        made: Made = instance.__dict__.setdefault(self._name, self._make(instance))
        return made
