"""What a run counts: rounds of each kind by what came of them, and violations with all that repeats them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from attrs import define, field
from rich.console import Console
from rich.table import Table


@define
class Counts:
    """`rounds` counts by (kind of fault, what it hit, outcome)."""

    rounds: Counter[tuple[str, str, str]] = field(factory=Counter)
    violations: list[str] = field(factory=list)

    def add(self, kind: str, what: str, outcome: str) -> None:
        self.rounds[kind, what, outcome] += 1

    def violation(self, kind: str, text: str) -> None:
        self.violations.append(f"{kind}: {text}")

    def take(self, other: Counts) -> None:
        self.rounds.update(other.rounds)
        self.violations += other.violations

    def total(self, kind: str | None = None) -> int:
        return sum(n for (k, _, _), n in self.rounds.items() if kind in (None, k))

    def outcomes(self, kind: str) -> Counter[str]:
        out: Counter[str] = Counter()
        for (k, _, outcome), n in self.rounds.items():
            if k == kind:
                out[outcome] += n
        return out

    def to_json(self) -> dict[str, Any]:
        """Rounds and outcomes by kind of fault, and the violations."""
        kinds = dict.fromkeys(k for k, _, _ in self.rounds)
        found = {k: {"rounds": self.total(k), "outcomes": dict(self.outcomes(k).most_common())} for k in kinds}
        return {"rounds": self.total(), "kinds": found, "violations": self.violations}

    def show(self, console: Console, details: bool = True) -> None:
        """Prints a table for all kinds, with one row for each thing that was hit where `details` are wanted."""
        kinds = list(dict.fromkeys(k for k, _, _ in self.rounds))
        summary = Table(title="rounds by kind of fault", title_justify="left")
        summary.add_column("fault")
        summary.add_column("rounds", justify="right")
        summary.add_column("what came of them")
        for kind in kinds:
            summary.add_row(kind, str(self.total(kind)), _listed(self.outcomes(kind).items()))
        summary.add_row("all", str(self.total()), f"{len(self.violations)} violations", style="bold")
        console.print(summary)
        for kind in kinds if details else ():
            console.print(self._table_of(kind))
        for text in self.violations:
            console.print(f"VIOLATION {text}", markup=False, highlight=False)

    def _table_of(self, kind: str) -> Table:
        names = list(dict.fromkeys(o for k, _, o in sorted(self.rounds) if k == kind))
        table = Table(title=kind, title_justify="left")
        table.add_column("hit")
        for name in names:
            table.add_column(name, justify="right")
        for what in sorted({w for k, w, _ in self.rounds if k == kind}):
            table.add_row(what, *(str(self.rounds[kind, what, name] or "") for name in names))
        return table


def _listed(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {n}" for name, n in sorted(counts, key=lambda c: -c[1]))
