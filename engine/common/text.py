"""Text: lists as messages show them, what a terminal can print, and what can be written as UTF-8."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

MOST = 20


def abbreviated(names: Iterable[object], most: int = MOST) -> str:
    """The first names and the number of the others: `a, b and 3 more`; `none` for no names."""
    rest = iter(names)
    shown = ", ".join(str(n) for n in islice(rest, most))
    more = sum(1 for _ in rest)
    return f"{shown} and {more} more" if more else shown or "none"


def is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8, which lone surrogates can't."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """Text in which control characters are written as escapes; new lines stay."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
