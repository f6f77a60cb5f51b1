"""Keyword options that are declared once, as a TypedDict, and taken by many calls as `**options: Unpack[...]`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ForwardRef, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=Mapping[str, Any])


def takes_options(declared: type, renamed: Mapping[str, str] = MappingProxyType({})) -> Callable[[F], F]:
    """Makes a function with `**options: Unpack[declared]` refuse other keywords before it does anything.

    The TypeError is the one that Python raises for a function whose keywords are written out, and so is the signature
    that `help` and `inspect` show; `...` stands for the default that the function itself has. `renamed` maps former
    names of parameters, which are still understood, to the present ones.
    """
    keys = declared.__annotations__

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        named = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        accepted = frozenset([*keys, *(p.name for p in named if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))])

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for old in renamed.keys() & kwargs.keys():
                kwargs.setdefault(renamed[old], kwargs.pop(old))
            if not kwargs.keys() <= accepted:
                unknown = next(k for k in kwargs if k not in accepted)
                raise TypeError(f"{checked.__qualname__}() got an unexpected keyword argument {unknown!r}")
            return function(*args, **kwargs)

        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=_text(annotation))
            for name, annotation in keys.items()
        ]
        checked.__signature__ = signature.replace(parameters=[*named, *options])  # type: ignore[attr-defined]  # read by inspect
        return cast(F, checked)

    return decorate


def options_of(declared: type[T], options: Mapping[str, Any]) -> T:
    """The options that the TypedDict declares."""
    return cast(T, {k: v for k, v in options.items() if k in declared.__annotations__})


def _text(annotation: object) -> object:
    return annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
