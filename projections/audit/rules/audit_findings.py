"""The findings of an audit, and the accepted ones, which a baseline names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from attrs import field, frozen

from icecore.engine.common.identifiers import name_parts
from icecore.engine.common.text import printable, short_repr
from icecore.engine.errors import ValidationError
from icecore.projections.audit.rules.rule import Rule, Severity

_NAMED = ("rule", "table", "table_uuid", "subject")
_SHOWN = 20


@frozen
class AuditFinding:
    """A row of a rule. `table` is its dotted name, None for what is of no table; `row` has the other columns.

    `subject` is what in the table it is about: with rule and table it says whether a finding is one that was accepted.
    """

    rule: str
    severity: Severity
    table: str | None
    table_uuid: str | None
    subject: str
    message: str
    mend: str = field(repr=False)
    row: Mapping[str, Any] = field(factory=dict, repr=False, hash=False)

    @property
    def key(self) -> dict[str, str | None]:
        """The names by which a baseline knows it."""
        return {name: getattr(self, name) for name in _NAMED}


@frozen
class Accepted:
    """An entry of a baseline: it accepts the findings that have all that it names of rule, table and subject.

    A table is known by its UUID where the entry has one, so that it may be renamed. Raises ValidationError where it
    names nothing, which would accept whatever there is.
    """

    rule: str | None = None
    table: str | None = None
    table_uuid: str | None = None
    subject: str | None = None
    reason: str | None = None

    def __attrs_post_init__(self) -> None:
        named = [n for name in _NAMED if (n := getattr(self, name)) is not None]
        if not named or not all(isinstance(n, str) for n in named):
            raise ValidationError(f"an entry has to name {', '.join(_NAMED[:-1])} or {_NAMED[-1]}, as text: {named}")

    def accepts(self, finding: AuditFinding) -> bool:
        """Whether the finding is one of these."""
        if self.table_uuid is not None:
            is_of_table = self.table_uuid == finding.table_uuid
        else:
            is_of_table = self.table is None or self.is_named(finding.table)
        return is_of_table and all(getattr(self, n) in (None, getattr(finding, n)) for n in ("rule", "subject"))

    def is_named(self, table: str | None) -> bool:
        """Whether the entry names a table by that name, quoted in one way or another."""
        return None not in (self.table, table) and name_parts(self.table) == name_parts(table)


@frozen
class Audit:
    """The result of an audit: findings, the worst first, and those that the baseline accepts, with its entries.

    `rules` are those that ran. `stale` are entries of the baseline which accept nothing any more.
    """

    __repr__ = short_repr

    findings: tuple[AuditFinding, ...]
    accepted: tuple[tuple[AuditFinding, Accepted], ...] = ()
    stale: tuple[Accepted, ...] = ()
    rules: tuple[Rule, ...] = field(default=(), repr=False)

    def at_least(self, severity: Severity | str) -> tuple[AuditFinding, ...]:
        """The findings of a severity and the worse ones."""
        least = Severity(severity).rank
        return tuple(f for f in self.findings if f.severity.rank <= least)

    def count(self, severity: Severity) -> int:
        """The number of findings of a severity."""
        return sum(f.severity is severity for f in self.findings)

    def __str__(self) -> str:
        blocks = [_block(rule, [f for f in self.findings if f.rule == rule.id]) for rule in self._by_severity()]
        counts = ", ".join(_counted(self.count(s), str(s)) for s in Severity)
        accepted = f", {len(self.accepted):,} accepted" if self.accepted else ""
        stale = f", {_counted(len(self.stale), 'entry of the baseline', 'entries of the baseline')} found no more"
        last = f"{_counted(len(self.rules), 'rule')}: {counts}{accepted}{stale if self.stale else ''}"
        return "\n\n".join([*filter(None, blocks), last])

    def _by_severity(self) -> Sequence[Rule]:
        return sorted(self.rules, key=lambda r: r.severity.rank)


def accepting(
    findings: Sequence[AuditFinding],
    baseline: Sequence[Accepted],
    rules: Sequence[Rule],
    could_find: Callable[[Accepted], bool],
) -> Audit:
    """The audit of findings, of which a baseline accepts some. Unused entries that it `could_find` are stale."""
    left, accepted, used = [], [], set[int]()
    for f in sorted(findings, key=lambda f: (f.severity.rank, f.rule, f.table or "", f.subject)):
        entry = next((i for i, a in enumerate(baseline) if a.accepts(f)), None)
        if entry is None:
            left.append(f)
        else:
            used.add(entry)
            accepted.append((f, baseline[entry]))
    stale = (a for i, a in enumerate(baseline) if i not in used and could_find(a))
    return Audit(tuple(left), tuple(accepted), tuple(stale), tuple(rules))


def read_baseline(path: str | os.PathLike[str]) -> list[Accepted]:
    """The entries of a baseline file. Raises ValidationError where it is none."""
    try:
        found = orjson.loads(Path(path).read_bytes())
        return [Accepted(**entry) for entry in found["accepted"]]
    except FileNotFoundError as e:
        raise ValidationError(f"there is no baseline at {path}") from e
    except (OSError, orjson.JSONDecodeError, LookupError, TypeError, ValidationError) as e:
        raise ValidationError(f"{path} is no baseline: {e}") from e


def baseline_text(audit: Audit, reason: str | None = None) -> str:
    """The text of a baseline that accepts all findings of an audit, those that were accepted with their reasons."""
    entries = [{**f.key, "reason": a.reason} for f, a in audit.accepted]
    entries += [{**f.key, "reason": reason} for f in audit.findings]
    entries.sort(key=lambda e: [str(e[n] or "") for n in _NAMED])
    return orjson.dumps({"accepted": entries}, option=orjson.OPT_INDENT_2).decode() + "\n"


def _block(rule: Rule, found: Sequence[AuditFinding]) -> str:
    if not found:
        return ""
    lines = [f"{rule.severity}: {rule.id}"]
    # A name can hold a new line: no finding may look like another one, or like the counts at the end.
    told = (f"{f.table + ': ' if f.table else ''}{f.message}".replace("\n", "\\n") for f in found[:_SHOWN])
    lines += [f"  {printable(text)}" for text in told]
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN:,} more")
    return "\n".join([*lines, f"  -> {found[0].mend}"])


def _counted(number: int, what: str, several: str | None = None) -> str:
    return f"{number:,} {what if number == 1 else several or what + 's'}"
