"""The names of methods that a class body takes from other modules, as in `append = table_rows.append`."""

from __future__ import annotations

import inspect
from typing import TypeVar

C = TypeVar("C")


def methods_named(owner: type[C]) -> type[C]:
    """Gives functions of other modules in a class body the names of methods, as `Table.append`.

    So errors of a call name them, and pickles find them; `inspect.getsource` knows where they are written.
    """
    for name, member in vars(owner).items():
        if inspect.isfunction(member) and member.__module__ != owner.__module__:
            for function in {member, inspect.unwrap(member)}:
                function.__qualname__, function.__module__ = f"{owner.__qualname__}.{name}", owner.__module__
    return owner
