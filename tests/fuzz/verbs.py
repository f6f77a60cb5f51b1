"""What a step is: a verb looks at the world, and says what it would do, and what the model is after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import frozen

from .model import Model

if TYPE_CHECKING:
    from .world import World


@frozen
class Act:
    """One commit: `after` changes the model as `run`, whose answer it gets, should have changed the table.

    An error whose text `may_refuse`, a regular expression, is found in is no finding: nothing was committed then.
    """

    text: str
    run: Callable[[], Any]
    after: Callable[[Model, Any], object]
    may_refuse: str | None = None


Verb: TypeAlias = "Callable[[World], Act | None]"
VERBS: dict[str, tuple[int, Verb]] = {}


def verb(weight: int) -> Callable[[Verb], Verb]:
    """Registers a verb; one of weight 2 is taken twice as often as one of weight 1. None is for where it can't be."""

    def register(function: Verb) -> Verb:
        VERBS[f"{function.__module__.rpartition('.')[2]}.{function.__name__}"] = (weight, function)
        return function

    return register


def nothing(model: Model, answer: Any) -> None:
    """The model stays as it is."""
