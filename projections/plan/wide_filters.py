"""Conditions of filters with many leaves.

DuckDB takes milliseconds to plan each leaf that is written out. Most of a long filter reads alike but for its
literals, as the pairs of `(id = 1 AND x > 2) OR (id = 3 AND x > 4) OR ...` do: such conditions become one, over lists
of literals. The result for each file stays the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from icecore.engine.expression.sql.fragment import (
    ALWAYS,
    NEVER,
    Fragment,
    SqlLiteral,
    conjunction,
    disjunction,
    joined,
    sql,
)
from icecore.engine.queries.named_queries import query

FILTERS = "plan/filters.sql"
WIDE = 24
"""Fewer conditions than this are written out: that is faster over many files, and DuckDB pushes them into scans."""
ALIKE = 4
LEAVES_PER_NUMBER = 62


def any_of(parts: Sequence[Fragment]) -> Fragment:
    """OR of conditions that are never NULL, with constants folded."""
    different = list(dict.fromkeys(parts))
    if len(different) < WIDE or ALWAYS in different:
        return disjunction(*different)
    groups, rest = _grouped(different)
    return disjunction(*(different[i] for i in rest), *(g.over_lists("any_of_alike") for g in groups))


def all_of(parts: Sequence[Fragment]) -> Fragment:
    """AND of conditions that are never NULL, with constants folded."""
    different = list(dict.fromkeys(parts))
    if len(different) < WIDE or NEVER in different:
        return conjunction(*different)
    groups, rest = _grouped(different)
    return conjunction(*(different[i] for i in rest), *(g.over_lists("all_of_alike") for g in groups))


def bit_columns(name: str, conditions: Sequence[Fragment]) -> Fragment:
    """Conditions as numbers of LEAVES_PER_NUMBER bits each, the first condition in the lowest bit."""
    starts = range(0, max(len(conditions), 1), LEAVES_PER_NUMBER)
    numbers = (_bits(conditions[start : start + LEAVES_PER_NUMBER]) for start in starts)
    return joined(", ", [sql(f"(?) AS {name}_{i}", number) for i, number in enumerate(numbers)])


def _bits(conditions: Sequence[Fragment]) -> Fragment:
    """The sum of a bit for each condition that holds."""
    known = sum(1 << i for i, c in enumerate(conditions) if c == ALWAYS)
    asked = [(1 << i, c) for i, c in enumerate(conditions) if c not in (ALWAYS, NEVER)]
    bits, texts = [b for b, _ in asked], [c for _, c in asked]
    groups, rest = _grouped(texts) if len(asked) >= WIDE else ([], list(range(len(asked))))
    terms = [sql(f"{known}::BIGINT")] if known or not asked else []
    terms += [sql(query(FILTERS, "bit", condition="?", bit=str(bits[i])), texts[i]) for i in rest]
    terms += [g.bits_over_lists([bits[i] for i in g.members]) for g in groups]
    return joined(" + ", terms)


def from_bits(numbers: Sequence[int]) -> int:
    """The numbers of `bit_columns` in one row as one number, a bit for each condition."""
    return sum(n << LEAVES_PER_NUMBER * i for i, n in enumerate(numbers))


@frozen
class _Alike:
    """Conditions of the same text.

    `members` are their places, `lists` has for each `?` the list of their literals there.
    """

    text: str
    members: list[int]
    lists: tuple[SqlLiteral, ...]

    @classmethod
    def of(cls, conditions: Sequence[Fragment], members: list[int]) -> _Alike:
        columns = zip(*(conditions[i].literals for i in members), strict=True)
        lists = (SqlLiteral(f"{column[0].type}[]", tuple(v.value for v in column)) for column in columns)
        return cls(conditions[members[0]].text, members, tuple(lists))

    def over_lists(self, name: str) -> Fragment:
        """A query of `FILTERS` over the lists; equal lists are given once."""
        lists = tuple(dict.fromkeys(self.lists))
        return Fragment(query(FILTERS, name, lists=_placeholders(lists), condition=self._condition(lists)), lists)

    def bits_over_lists(self, bits: Iterable[int]) -> Fragment:
        """The sum of the bits of the conditions that hold."""
        lists = (*dict.fromkeys(self.lists), SqlLiteral("BIGINT[]", tuple(bits)))
        parts = {"lists": _placeholders(lists), "condition": self._condition(lists), "last": str(len(lists))}
        return Fragment(query(FILTERS, "bits_of_alike", **parts), lists)

    def _condition(self, lists: Sequence[SqlLiteral]) -> str:
        """The condition over the items of the lists."""
        items = [Fragment(f"each_literals[{lists.index(values) + 1}]") for values in self.lists]
        return sql(self.text, *items).text


def _placeholders(literals: Sequence[SqlLiteral]) -> str:
    return ", ".join("?" * len(literals))


def _grouped(conditions: Sequence[Fragment]) -> tuple[list[_Alike], list[int]]:
    """The conditions grouped with those that read alike, and the places of the others."""
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    rest: list[int] = []
    for i, condition in enumerate(conditions):
        if not condition.literals or any(v.is_list for v in condition.literals):
            rest.append(i)
        else:
            found.setdefault((condition.text, tuple(v.type for v in condition.literals)), []).append(i)
    groups = [_Alike.of(conditions, members) for members in found.values() if len(members) >= ALIKE]
    rest += [i for members in found.values() if len(members) < ALIKE for i in members]
    return groups, sorted(rest)
