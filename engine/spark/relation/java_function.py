"""Functions of Python that Java calls."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

_held: WeakSet[JavaFunction] = WeakSet()


class JavaFunction:
    """A function of one argument as py4j hands it to Java.

    Java holds it as long as it likes, so it drops the function by itself when the process ends: DuckDB prints forty
    lines of leaks for tables that outlive the interpreter.
    """

    def __init__(self, apply: Callable[[Any], Any]) -> None:
        self.apply = apply
        _held.add(self)

    class Java:
        """The Java interface that py4j takes it for."""

        implements = ("java.util.function.Function",)


@atexit.register
def _let_go() -> None:
    for function in list(_held):
        vars(function).clear()
