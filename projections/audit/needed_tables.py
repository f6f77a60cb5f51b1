"""The tables that a query can need, by the names in its conditions.

A table of the catalog is left out of an audit table only where each mention of that audit table is filtered to other
names, or to other names in small letters (lower): by `=`, `IN`, LIKE or ILIKE with texts, or by what they begin with,
end with or contain (starts_with, ends_with, contains), under AND and OR, in the WHERE of the SELECT that it stands in,
or in the ON of a join there. A condition on one table is on all of a SELECT whose joins are USING the key. In any doubt
all tables are needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from attrs import frozen
from sqlglot import exp

KEYS = ("namespace", "name", "table_uuid", "name_now")
Names = Mapping[str, Container[str]]
"""For each key that is limited, the texts that it may be."""

_SIDES = ("LEFT", "RIGHT", "FULL")
_PLAIN = {("", ""), ("INNER", ""), ("CROSS", ""), *((kind, side) for kind in ("", "OUTER") for side in _SIDES)}


class Texts(Container[str]):
    """Texts that a condition allows; there may be more here than it does, never fewer."""

    def __or__(self, other: Texts) -> Texts:
        if isinstance(self, OneOf) and isinstance(other, OneOf):
            return OneOf(self.texts | other.texts)
        return Combined.of(any, self, other)

    def __and__(self, other: Texts) -> Texts:
        for one, also in ((self, other), (other, self)):
            if isinstance(one, OneOf):
                return OneOf(frozenset(t for t in one.texts if t in also))
        return Combined.of(all, self, other)


@frozen
class OneOf(Texts):
    """Texts that are known one by one."""

    texts: frozenset[str]

    def __contains__(self, text: object) -> bool:
        return text in self.texts


@frozen
class Matching(Texts):
    """The texts that a regular expression matches as a whole."""

    pattern: re.Pattern[str]

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and self.pattern.fullmatch(text) is not None

    @classmethod
    def of(cls, pattern: str) -> Matching:
        """The texts that a regular expression matches, whose dots match all."""
        return cls(re.compile(pattern, re.DOTALL))

    @classmethod
    def like(cls, pattern: str) -> Matching:
        """The texts that are LIKE a pattern without an escape."""
        first, *others = ("".join("." if c == "_" else re.escape(c) for c in part) for part in pattern.split("%"))
        if not others:
            return cls.of(first)
        # A text between two % is taken where it occurs first: to take it later never lets more match, so that is not
        # tried.
        between = "".join(f"(?>.*?{part})" for part in others[:-1] if part)
        return cls.of(f"{first}{between}.*{others[-1]}")


@frozen
class InSmallLetters(Texts):
    """The texts whose form in small letters is among others.

    Text that is not ASCII always counts: what DuckDB has as small letters may not be what Python has.
    """

    small: Texts

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and (not text.isascii() or text.lower() in self.small)


@frozen
class Combined(Texts):
    """The texts that are among any of several, or among all."""

    how: Callable[[Iterable[bool]], bool]
    several: tuple[Texts, ...]

    def __contains__(self, text: object) -> bool:
        return self.how(text in one for one in self.several)

    @classmethod
    def of(cls, how: Callable[[Iterable[bool]], bool], *texts: Texts) -> Combined:
        """The combination of texts, flat where parts combine alike: a query may have a thousand conditions."""
        parts = (t.several if isinstance(t, Combined) and t.how is how else (t,) for t in texts)
        return cls(how, tuple(chain.from_iterable(parts)))


@frozen
class NeededTables:
    """The tables that one of several limits allows: `None` stands for all tables."""

    limits: tuple[Names, ...] | None = None

    def has(self, keys: Mapping[str, str | None]) -> bool:
        """Whether a table can be needed, by its values of KEYS; the uuid in small letters."""
        if self.limits is None:
            return True
        return any(all(keys[key] in allowed for key, allowed in limit.items()) for limit in self.limits)


ALL = NeededTables()


def needed_tables(
    statement: exp.Expression, schemas: Mapping[str, pa.Schema], parameters: Mapping[str, Any] | None = None
) -> dict[str, NeededTables]:
    """The tables that a statement can need of each audit table that it names."""
    mentions = [t for t in statement.find_all(exp.Table) if _name(t) in schemas]
    unsure = _is_unsure(statement)
    values = _Values.of(statement, parameters or {})
    limits: dict[str, list[Names]] = {}
    for mention in mentions:
        limit = {} if unsure else _limit(mention, schemas, values)
        limits.setdefault(_name(mention), []).append(limit)
    return {name: NeededTables(tuple(found)) if all(found) else ALL for name, found in limits.items()}


@frozen
class _Values:
    """The texts that constants and parameters of a statement stand for."""

    parameters: Mapping[str, Any]
    only_one: bool

    @classmethod
    def of(cls, statement: exp.Expression, parameters: Mapping[str, Any]) -> _Values:
        unnamed = [p for p in statement.find_all(exp.Placeholder) if p.args.get("this") is None]
        return cls(parameters, len(unnamed) == 1 and len(parameters) == 1)

    def text(self, value: exp.Expression) -> str | None:
        """The text of a constant or parameter; None where it is no text, or may be another one in DuckDB."""
        if isinstance(value, exp.Literal) and value.is_string:
            return str(value.this) if "\\" not in value.this else None
        if isinstance(value, exp.Placeholder):
            name = value.args.get("this")
            found = self.parameters.get(str(name or 1)) if name is not None or self.only_one else None
            return found if isinstance(found, str) else None
        return None


def _name(table: exp.Table) -> str:
    return str(table.name).lower()


def _is_plain(join: exp.Join) -> bool:
    """Whether it is an inner, outer or cross join, and none such as SEMI, ANTI, ASOF or NATURAL."""
    method, kind, side = ((join.args.get(part) or "").upper() for part in ("method", "kind", "side"))
    return not method and (kind, side) in _PLAIN


def _is_unsure(statement: exp.Expression) -> bool:
    """Whether it takes samples, turns columns into rows, or may mention tables in a way that can't be seen."""
    if statement.find(exp.TableSample, exp.Pivot) is not None:
        return True
    return any(not isinstance(t.this, exp.Identifier) for t in statement.find_all(exp.Table))


def _alias(table: exp.Table) -> str:
    return str(table.alias_or_name).lower()


def _limit(mention: exp.Table, schemas: Mapping[str, pa.Schema], values: _Values) -> Names:
    """The names that a mention is limited to by its SELECT; empty where that is not certain."""
    holder = mention.parent
    select = holder.parent if isinstance(holder, exp.From | exp.Join) else None
    if not isinstance(select, exp.Select):
        return {}
    joins: Sequence[exp.Join] = select.args.get("joins") or ()
    sources = _Sources.of(select, joins)
    if sources is None or _is_renamed(mention) or not all(map(_is_plain, joins)):
        return {}
    conditions = list(_conditions(select, joins, mention))
    found: dict[str, Texts] = {}
    for key in set(KEYS) & set(schemas[_name(mention)].names):
        of_key = _Key(key, mention, sources, schemas, values)
        for condition in conditions:
            allowed = of_key.allowed(condition)
            if allowed is not None:
                found[key] = found[key] & allowed if key in found else allowed
    return found


def _is_renamed(mention: exp.Table) -> bool:
    """Whether its columns may have other names there."""
    alias = mention.args.get("alias")
    return alias is not None and bool(alias.args.get("columns"))


def _conditions(select: exp.Select, joins: Sequence[exp.Join], mention: exp.Table) -> Iterator[exp.Expression]:
    """The conditions that a row of the mention has to satisfy to matter in the result.

    That is the WHERE, the ON of each inner join, and the ON of the left join that it is the right side of.
    """
    where = select.args.get("where")
    if where is not None:
        yield where.this
    for join in joins:
        on, side = join.args.get("on"), (join.args.get("side") or "").upper()
        if on is not None and (not side or (side == "LEFT" and join.this is mention)):
            yield on


@frozen
class _Sources:
    """The tables of a SELECT's FROM and joins, whether these are all, and how they are joined."""

    tables: tuple[exp.Table, ...]
    only_tables: bool
    shared: frozenset[str]

    @classmethod
    def of(cls, select: exp.Select, joins: Sequence[exp.Join]) -> _Sources | None:
        """The sources of a SELECT; None where the joins are not plain.

        `shared` are columns that all inner joins are by.
        """
        first = select.args.get("from_") or select.args.get("from")
        if first is None:
            return None
        found = [first.this, *(j.this for j in joins)]
        tables = tuple(t for t in found if isinstance(t, exp.Table))
        if any(t.args.get(part) for t in tables for part in ("joins", "laterals", "pivots", "sample", "when")):
            return None
        only_tables = len(tables) == len(found) and not select.args.get("laterals")
        by = [{i.name.lower() for i in j.args.get("using") or ()} if not j.args.get("side") else set() for j in joins]
        return cls(tables, only_tables, frozenset(set.intersection(*by) if by else ()))

    def means(self, column: exp.Column, key: str, mention: exp.Table, schemas: Mapping[str, pa.Schema]) -> bool:
        """Whether a column is certainly that key of the mention."""
        if column.name.lower() != key or column.args.get("db") or not isinstance(column.this, exp.Identifier):
            return False
        if column.table:
            of = [t for t in self.tables if _alias(t) == str(column.table).lower()]
            if len(of) == 1 and of[0] is mention:
                return True
        if not self.only_tables or any(_name(t) not in schemas or _is_renamed(t) for t in self.tables):
            return False
        having = [t for t in self.tables if key in schemas[_name(t)].names]
        if column.table:
            # Of another table, which is joined by the key.
            return len(of) == 1 and len(having) == len(self.tables) and key in self.shared
        return (len(having) == 1 and having[0] is mention) or (len(having) == len(self.tables) and key in self.shared)


@frozen
class _Key:
    """A key of the table that a mention is of, in the conditions of its SELECT."""

    key: str
    mention: exp.Table
    sources: _Sources
    schemas: Mapping[str, pa.Schema]
    values: _Values

    def allowed(self, condition: exp.Expression) -> Texts | None:
        """The texts that the key must be among for a condition to hold; None where it may be any."""
        if isinstance(condition, exp.Paren):
            return self.allowed(condition.this)
        if not isinstance(condition, exp.And | exp.Or):
            return self._compared(condition)
        left, right = self.allowed(condition.this), self.allowed(condition.expression)
        if left is not None and right is not None:
            return left & right if isinstance(condition, exp.And) else left | right
        return (right if left is None else left) if isinstance(condition, exp.And) else None

    def _compared(self, one: exp.Expression) -> Texts | None:
        match one:
            case exp.EQ():
                return self._equal(one.this, [one.expression]) or self._equal(one.expression, [one.this])
            case exp.In() if not any(one.args.get(part) for part in ("query", "unnest", "field")):
                return self._equal(one.this, one.expressions)
            case exp.Like() if not one.args.get("negate"):
                return self._alike(one, Matching.like)
            case exp.ILike() if not one.args.get("negate"):
                found = self._alike(one, lambda text: Matching.like(text.lower()), only_ascii=True)
                return None if found is None else InSmallLetters(found)
            case exp.StartsWith():
                return self._alike(one, lambda text: Matching.of(f"{re.escape(text)}.*"))
            case exp.EndsWith():
                return self._alike(one, lambda text: Matching.of(f".*{re.escape(text)}"))
            case exp.Contains():
                return self._alike(one, lambda text: Matching.of(f".*{re.escape(text)}.*"))
        return None

    def _equal(self, value: exp.Expression, others: Sequence[exp.Expression]) -> Texts | None:
        """The texts of the key where a value is one of others."""
        found = [self._text(v) for v in others]
        texts = frozenset(t for t in found if t is not None)
        return self._of_key(value, OneOf(texts)) if len(found) and None not in found else None

    def _alike(
        self, one: exp.Binary | exp.Func, made: Callable[[str], Texts], *, only_ascii: bool = False
    ) -> Texts | None:
        """The texts of the key where the first of two values is among the texts that `made` gives for the second."""
        text = self._text(one.expression)
        if text is None or (only_ascii and not text.isascii()):
            return None
        return self._of_key(one.this, made(text))

    def _of_key(self, value: exp.Expression, texts: Texts) -> Texts | None:
        """The texts of the key where a value is among some texts; None where the value is not of the key."""
        if isinstance(value, exp.Lower):
            found = self._of_key(value.this, texts)
            return None if found is None else InSmallLetters(found)
        if isinstance(value, exp.Column) and self.sources.means(value, self.key, self.mention, self.schemas):
            return texts
        return None

    def _text(self, value: exp.Expression) -> str | None:
        found = self.values.text(value)
        return found.lower() if found is not None and self.key == "table_uuid" else found
