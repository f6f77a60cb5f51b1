"""Pieces of SQL whose literals are still values, so that pieces can be combined, compared and sorted before writing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field, frozen


@frozen
class SqlLiteral:
    """A value of a DuckDB type. Of a list, as `BIGINT[]` is, it is a tuple."""

    type: str
    value: Any

    @property
    def is_list(self) -> bool:
        """Whether the value is a list."""
        return self.type.endswith("[]")


@frozen(cache_hash=True)
class Fragment:
    """A piece of SQL with a `?` for each of its literals, in their order.

    Pieces that differ only in their literals have the same text.
    """

    text: str
    literals: tuple[SqlLiteral, ...] = ()


ALWAYS, NEVER = Fragment("TRUE"), Fragment("FALSE")


def literal(sql_type: str, value: Any) -> Fragment:
    """One literal."""
    return Fragment("?", (SqlLiteral(sql_type, value),))


def sql(text: str, *parts: Fragment) -> Fragment:
    """The text with a part in place of each `?`. Raises ValueError where there are more of one than of the other."""
    if not parts and "?" not in text:
        return Fragment(text)
    first, *rest = text.split("?")
    pieces = [part.text + after for part, after in zip(parts, rest, strict=True)]
    return Fragment("".join((first, *pieces)), literals_of(parts))


def joined(separator: str, parts: Sequence[Fragment]) -> Fragment:
    """The parts one after another."""
    return Fragment(separator.join(p.text for p in parts), literals_of(parts))


def literals_of(parts: Sequence[Fragment]) -> tuple[SqlLiteral, ...]:
    """The literals of parts, in order."""
    return parts[0].literals if len(parts) == 1 else tuple([v for p in parts for v in p.literals])


def conjunction(*parts: Fragment) -> Fragment:
    """AND of conditions, with constants folded."""
    return _combined(" AND ", parts, neutral=ALWAYS, deciding=NEVER)


def disjunction(*parts: Fragment) -> Fragment:
    """OR of conditions, with constants folded."""
    return _combined(" OR ", parts, neutral=NEVER, deciding=ALWAYS)


def _combined(word: str, parts: Sequence[Fragment], *, neutral: Fragment, deciding: Fragment) -> Fragment:
    different = [p for p in dict.fromkeys(parts) if p != neutral]
    if deciding in different:
        return deciding
    if len(different) < 2:
        return different[0] if different else neutral
    return sql("(?)", joined(word, different))


@define
class BoundParameters:
    """The values that a statement binds as `p0`, `p1` and so on; equal values of one type share a parameter.

    `types` has their DuckDB types, to which references are cast unless `typed` is false.
    """

    values: dict[str, Any] = field(factory=dict)
    types: dict[str, str] = field(factory=dict)
    typed: bool = True
    _names: dict[SqlLiteral, str] = field(factory=dict)

    def write(self, fragment: Fragment) -> str:
        """The SQL of a piece of the statement, with references to parameters as `$p0::BIGINT`."""
        first, *rest = fragment.text.split("?")
        literals = zip(fragment.literals, rest, strict=True)
        return "".join((first, *(f"{self._reference(value)}{after}" for value, after in literals)))

    def _reference(self, value: SqlLiteral) -> str:
        if value not in self._names:
            name = self._names[value] = f"p{len(self._names)}"
            self.values[name] = list(value.value) if value.is_list else value.value
            self.types[name] = value.type
        return f"${self._names[value]}::{value.type}" if self.typed else f"${self._names[value]}"
