"""Prefixes, their successors, and LIKE patterns.

Strings are ordered by their UTF-8 bytes, which is the order of their code points (Spec: Expressions, E2).
"""

from __future__ import annotations

import re

from icecore.engine.errors import ExpressionError

_MAX_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def string_successor(prefix: str) -> str | None:
    """The least string greater than all that start with the prefix; None where there is none."""
    for i in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[i]) + 1
        if point in _SURROGATES:
            point = _SURROGATES.stop
        if point <= _MAX_CODE_POINT:
            return prefix[:i] + chr(point)
    return None


def bytes_successor(prefix: bytes) -> bytes | None:
    """The least byte string greater than all that start with the prefix; None where there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def like_parts(pattern: str, escape: str | None = None) -> tuple[tuple[str, str], ...]:
    """The pattern as pieces `("text", "ab")`, `("%", "")` and `("_", "")`; texts are never empty nor adjacent.

    Raises ExpressionError where the escape is not one character or ends the pattern.
    """
    if escape is not None and len(escape) > 1:
        raise ExpressionError(f"the escape of LIKE must be one character, found {escape!r}")
    out: list[tuple[str, str]] = []
    chars = iter(pattern)
    for c in chars:
        if not escape or c != escape:
            piece = (c, "") if c in "%_" else ("text", c)
        elif (following := next(chars, None)) is None:
            raise ExpressionError(f"the LIKE pattern {pattern!r} ends with its escape character {escape!r}")
        else:
            piece = ("text", following)
        if piece[0] == "text" and out and out[-1][0] == "text":
            piece = ("text", out.pop()[1] + piece[1])
        out.append(piece)
    return tuple(out)


def like_prefix(pattern: str, escape: str | None = None) -> str:
    """The literal text before the first wildcard."""
    parts = like_parts(pattern, escape)
    return parts[0][1] if parts else ""


def like_regex(pattern: str, escape: str | None = None) -> re.Pattern[str]:
    """A regular expression whose full match is the LIKE pattern."""
    wild = {"%": ".*", "_": "."}
    parts = like_parts(pattern, escape)
    return re.compile("".join(wild.get(kind) or re.escape(text) for kind, text in parts), re.DOTALL)
