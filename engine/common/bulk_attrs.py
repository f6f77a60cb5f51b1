"""Bulk construction of attrs values from columns: a plan of a hundred thousand files is as many tasks."""

from __future__ import annotations

import gc
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import repeat
from typing import Any, TypeVar

import attrs

from icecore.engine.common.fork_safety import Lock

Value = TypeVar("Value")

_lock = Lock()
_pausing: set[int] = set()
_was_enabled = False


def build_attrs(cls: type[Value], count: int, columns: Mapping[str, Iterable[Any]]) -> list[Value]:
    """`count` values of a plain attrs class with slots, the i-th from the i-th item of each column.

    A field without a column has its default. Each field is set for all values by one loop in C: a plan of 100,000
    files as tasks takes 0.22 s of CPU, and 0.30 s where the classes are called. Raises TypeError for a class that does
    more in `__init__` than to set its fields, for an unknown field, and for one that has neither column nor default;
    ValueError where a column is too short.
    """
    defaults = _plain_fields(cls)  # type: ignore[arg-type]  # a class can be hashed
    if unknown := columns.keys() - defaults.keys():
        raise TypeError(f"{cls.__name__} has no fields {sorted(unknown)}")
    made: list[Value] = list(map(cls.__new__, repeat(cls, count)))
    for name, default in defaults.items():
        if name not in columns and default is attrs.NOTHING:
            raise TypeError(f"{cls.__name__} needs a column {name!r}")
        column = columns.get(name, repeat(default))
        deque(map(getattr(cls, name).__set__, made, column), maxlen=0)
        if made and not hasattr(made[-1], name):
            raise ValueError(f"the column {name!r} of {cls.__name__} has less than {count} items")
    return made


@contextmanager
def gc_paused() -> Iterator[None]:
    """A context in which the garbage collector is off, for making many values without cycles.

    A plan of 100,000 files as tasks takes 0.22 s of CPU, and 0.32 s with the collector on, which goes over all objects
    of the process two or three times meanwhile. It is off for the whole process, so no more than that is done inside.
    Threads may overlap; the last one switches it on again, if it was on, and so does a process that was forked.
    """
    global _was_enabled
    thread = threading.get_ident()
    with _lock:
        is_outermost = thread not in _pausing
        if not _pausing:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pausing.add(thread)
    try:
        yield
    finally:
        if is_outermost:
            _resume({thread})


def _resume(threads: set[int]) -> None:
    """Ends the pauses of threads."""
    with _lock:
        was_paused = bool(_pausing)
        _pausing.difference_update(threads)
        if was_paused and not _pausing and _was_enabled:
            gc.enable()


# A forked process has no other threads, which would end their pauses.
os.register_at_fork(after_in_child=lambda: _resume(_pausing - {threading.get_ident()}))


@cache
def _plain_fields(cls: type[Any]) -> Mapping[str, Any]:
    """The fields of a class by name with their defaults."""
    fields = attrs.fields(cls)
    hooks = [n for n in ("__attrs_pre_init__", "__attrs_post_init__") if hasattr(cls, n)]
    special = [
        f.name
        for f in fields
        if f.validator or f.converter or not f.init or f.alias != f.name or isinstance(f.default, attrs.Factory)  # type: ignore[arg-type]  # stubs have Factory as a function
    ]
    unslotted = [f.name for f in fields if not hasattr(getattr(cls, f.name, None), "__set__")]
    if hooks or special or unslotted:
        raise TypeError(f"{cls.__name__} can't be made from columns: {[*hooks, *special, *unslotted]}")
    return {f.name: f.default for f in fields}
