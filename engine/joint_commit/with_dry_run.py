"""Gives commits of a catalog their `dry_run`: the same call, made on a copy of the catalog that stores nothing."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from icecore.engine.commit.dry_run import CatalogDryRun

P = ParamSpec("P")
R = TypeVar("R")
ABOUT = ("identifier", "from_identifier", "namespace", "position")
"""What the parameter is called that says what a call is about."""


class Tries(Protocol):
    """What can make a commit on a copy of itself."""

    def _tried(self, commit: Callable[[Any], object], about: object) -> CatalogDryRun: ...


def with_dry_run(method: Callable[P, R]) -> Callable[P, R]:
    """A method that has a `dry_run`, and makes one commit: where it is true, gives the CatalogDryRun of the call.

    The method itself is never called with it, so that it can't do anything else then. Its first parameter says what it
    is about, however a caller orders the arguments. Raises TypeError for a method whose first parameter does not.
    """
    signature = inspect.signature(method)
    _, about, *_ = signature.parameters
    if about not in ABOUT:
        raise TypeError(f"{method.__qualname__} is to be about one of {', '.join(ABOUT)}, found {about!r} first")

    @functools.wraps(method)
    def tried(*args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs.pop("dry_run", False):
            return method(*args, **kwargs)
        catalog, *arguments = cast("tuple[Tries, ...]", args)
        call = functools.partial(cast("Callable[..., object]", method), **kwargs)
        named = signature.bind(*args, **kwargs).arguments[about]
        return cast(R, catalog._tried(lambda trial: call(trial, *arguments), named))

    return tried
