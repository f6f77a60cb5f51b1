"""Conditions of filters with many leaves.

DuckDB takes milliseconds to plan each leaf that is written out. Most of a long filter reads alike but for its
literals, as the pairs of `(id = 1 AND x > 2) OR (id = 3 AND x > 4) OR ...` do: such conditions become one, over lists
of literals. They say the same, for each file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from icecore.engine.expression.sql.duckdb_sql import add_parameter
from icecore.engine.queries.named_queries import query
from icecore.projections.plan.metrics_predicate import conjunction, disjunction

FILTERS = "plan/filters.sql"
WIDE = 24
"""Fewer conditions are written out: a short list of them is faster over many files, and DuckDB pushes it into scans."""
ALIKE = 4
LEAVES_PER_NUMBER = 62

_LITERAL = re.compile(r"\$(\w+)::([A-Z]+(?:\(\d+,\d+\))?)(?![\w(\[])")
_EACH = "each_literals"


def any_of(parts: Sequence[str], parameters: dict[str, Any], prefix: str = "p") -> str:
    """OR of conditions that are never NULL, with constants folded. Lists of literals are added to the parameters."""
    return _joined(parts, parameters, prefix, any_of=True)


def all_of(parts: Sequence[str], parameters: dict[str, Any], prefix: str = "p") -> str:
    """AND of conditions that are never NULL, likewise."""
    return _joined(parts, parameters, prefix, any_of=False)


def bit_columns(name: str, conditions: Sequence[str], parameters: dict[str, Any]) -> str:
    """Conditions as numbers of LEAVES_PER_NUMBER bits each, the first condition in the lowest bit."""
    columns = []
    for start in range(0, max(len(conditions), 1), LEAVES_PER_NUMBER):
        part = conditions[start : start + LEAVES_PER_NUMBER]
        known = sum(1 << i for i, c in enumerate(part) if c == "TRUE")
        bits = {i: c for i, c in enumerate(part) if c not in ("TRUE", "FALSE")}
        groups, rest = _grouped(list(bits.values())) if len(bits) >= WIDE else ([], range(len(bits)))
        places, texts = list(bits), list(bits.values())
        terms = [f"{known}::BIGINT"] if known or not bits else []
        terms += [query(FILTERS, "bit", condition=texts[i], bit=str(1 << places[i])) for i in rest]
        for group in groups:
            numbers = [1 << places[i] for i in group.members]
            lists = [*group.lists(parameters, "w"), f"{add_parameter(parameters, numbers, 'w')}::BIGINT[]"]
            parts = {"lists": ", ".join(lists), "condition": group.template, "last": str(len(lists))}
            terms.append(query(FILTERS, "bits_of_alike", **parts))
        columns.append(f"({' + '.join(terms)}) AS {name}_{start // LEAVES_PER_NUMBER}")
    return ", ".join(columns)


def from_bits(numbers: Sequence[int]) -> int:
    """The numbers of `bit_columns` in one row as one number, a bit for each condition."""
    return sum(n << LEAVES_PER_NUMBER * i for i, n in enumerate(numbers))


@frozen
class _Alike:
    """Conditions that are the same but for their literals: the template has those of one as items of `_EACH`."""

    template: str
    types: tuple[str, ...]
    members: list[int]
    names: list[tuple[str, ...]]

    def lists(self, parameters: dict[str, Any], prefix: str) -> list[str]:
        """For each place in the template the literals of all members, as new parameters."""
        columns = zip(*self.names, strict=True)
        return [
            f"{add_parameter(parameters, [parameters[n] for n in names], prefix)}::{raw}[]"
            for names, raw in zip(columns, self.types, strict=True)
        ]


def _joined(parts: Sequence[str], parameters: dict[str, Any], prefix: str, *, any_of: bool) -> str:
    join, name = (disjunction, "any_of_alike") if any_of else (conjunction, "all_of_alike")
    different = list(dict.fromkeys(parts))
    if len(different) < WIDE or ("TRUE" if any_of else "FALSE") in different:
        return join(*different)
    groups, rest = _grouped(different)
    merged = [query(FILTERS, name, lists=", ".join(g.lists(parameters, prefix)), condition=g.template) for g in groups]
    return join(*(different[i] for i in rest), *merged)


def _grouped(conditions: Sequence[str]) -> tuple[list[_Alike], list[int]]:
    """Those that read alike, and the places of the others."""
    found: dict[tuple[str, tuple[str, ...]], _Alike] = {}
    rest: list[int] = []
    for i, condition in enumerate(conditions):
        literals: dict[tuple[str, str], int] = {}

        def item(m: re.Match[str], literals: dict[tuple[str, str], int] = literals) -> str:
            return f"{_EACH}[{literals.setdefault((m[1], m[2]), len(literals)) + 1}]"

        template = _LITERAL.sub(item, condition)
        if not literals or "$" in template:
            # Of those with lists of their own there are few.
            rest.append(i)
            continue
        types = tuple(raw for _, raw in literals)
        group = found.setdefault((template, types), _Alike(template, types, [], []))
        group.members.append(i)
        group.names.append(tuple(name for name, _ in literals))
    groups = [g for g in found.values() if len(g.members) >= ALIKE]
    rest += [i for g in found.values() if len(g.members) < ALIKE for i in g.members]
    return groups, sorted(rest)
