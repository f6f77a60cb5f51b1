"""The findings of `verify`, summed up by cause, and their text. Nothing here looks at a file."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import groupby

from attrs import frozen

from icecore.engine.common.text import counted, short_repr

SHOWN_EXAMPLES = 3
SHOWN_PROBLEMS = 20
WIDTH = 80


class Cause(StrEnum):
    """The fault of files or, from `UNREACHABLE` on, the reason why they can't be checked."""

    LOG = "log"
    GONE = "gone"
    SIZE = "size"
    CHANGED = "changed"
    UNREADABLE = "unreadable"
    COUNT = "count"
    UNREACHABLE = "unreachable"
    UNKNOWN_SIZE = "unknown size"
    UNKNOWN_FORMAT = "unknown format"
    ENCRYPTED = "encrypted"
    NOT_NEEDED = "gone, not needed"
    NOT_KEPT = "not kept"
    UNLOGGED = "of no event"


_HARMLESS = frozenset({Cause.NOT_NEEDED, Cause.NOT_KEPT, Cause.UNLOGGED})
UNCHECKED = frozenset({Cause.UNREACHABLE, Cause.UNKNOWN_SIZE, Cause.UNKNOWN_FORMAT, Cause.ENCRYPTED, *_HARMLESS})
_PHRASES = {
    Cause.GONE: "are gone",
    Cause.SIZE: "have another size than was noted",
    Cause.CHANGED: "were changed after they were written",
    Cause.UNREADABLE: "can't be read",
    Cause.COUNT: "hold something else than was noted",
    Cause.UNREACHABLE: "can't be looked at",
    Cause.UNKNOWN_SIZE: "are there, but no size was noted",
    Cause.UNKNOWN_FORMAT: "are of a format that can't be read here",
    Cause.ENCRYPTED: "are encrypted, and were not looked into",
    Cause.NOT_NEEDED: "are gone, but no snapshot needs them",
    Cause.UNLOGGED: "are of later commits than the log has, as where an earlier icecore.db was put back",
    Cause.NOT_KEPT: "are of other engines, and no event keeps them: a rebuild can't bring them back",
}
# Where the location says it all.
_PLAIN = frozenset({Cause.GONE, Cause.CHANGED, Cause.UNKNOWN_SIZE, Cause.ENCRYPTED, *_HARMLESS})


@frozen
class Finding:
    """Files of one kind, of one table or view, with the same fault, or that can't be checked for one reason.

    `table` is its dotted name, and None for what is wrong with the log. `examples` are the locations of the first few
    of `count` files, `details` a clause for each. `folder` holds all of them, as they are written; `missing_folder` is
    the outermost folder on the way there that is not there. For the log, `details` has the whole sentence.
    """

    cause: Cause
    table: str | None
    kind: str
    count: int
    examples: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    folder: str | None = None
    missing_folder: str | None = None
    dropped: bool = False

    def __str__(self) -> str:
        if self.table is None:
            return "; ".join(self.details)
        moved = f"; there is no folder {self.missing_folder}: was it moved?" if self.missing_folder else ""
        if self.count == 1:
            return f"{self._of}: the {self.kind} {self.details[0]}{moved}"
        under = f" under {self.folder}" if self.folder else ""
        head = f"{self._of}: {counted(self.count, self.kind)}{under} {_PHRASES[self.cause]}"
        return f"{head}: {_first(self._shortened(), self.count, ', ' if self.cause in _PLAIN else '; ')}{moved}"

    @property
    def _of(self) -> str:
        return f"{self.table} (dropped)" if self.dropped else f"{self.table}"

    def _shortened(self) -> list[str]:
        """The examples with the fault of each, without the folder that they share."""
        texts = self.examples if self.cause in _PLAIN else self.details
        if self.cause is Cause.UNREACHABLE:
            # The store's reason is the same for all.
            texts = texts[:1]
        return [t.replace(f"{self.folder}/", "") if self.folder else t for t in texts]


@frozen
class Verification:
    """The result of `verify`. `files` is the number of files that it looked for.

    `findings` is empty where all is well; `notes` says what could not be checked, which is neither right nor wrong,
    which earlier metadata files are gone that nothing needs, which files of others the log has no copy of, and which
    metadata files are of commits that it lacks.
    """

    __repr__ = short_repr

    events: int
    tables: int
    files: int
    head: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    views: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each fault, with the first few files; empty where all is well."""
        return _sentences(self.findings)

    @property
    def unchecked(self) -> int:
        """The number of files that could not be checked."""
        return sum(n.count for n in self.notes if n.cause not in _HARMLESS)

    def __str__(self) -> str:
        parts = [counted(self.events, "event"), counted(self.tables, "table")]
        parts += [counted(self.views, "view")] if self.views else []
        what = ", ".join([*parts, counted(self.files, "file"), f"head {self.head[:12]}"])
        lines = [f"ok: {what}" if self.ok else f"{counted(len(self.problems), 'problem')} in {what}:"]
        lines += _listed(self.problems, frozenset(str(f) for f in self.findings if f.table is None))
        if self.notes:
            lines.append(f"{counted(self.unchecked, 'file')} not checked:" if self.unchecked else "not wrong, but:")
            lines += _listed(_sentences(self.notes), frozenset())
        return "\n".join(lines)


def of_log(problems: Iterable[str]) -> list[Finding]:
    """The faults of the log and its read models, a finding for each sentence."""
    return [Finding(Cause.LOG, None, "log", 1, (), (p,)) for p in problems]


def _sentences(findings: Sequence[Finding]) -> tuple[str, ...]:
    """One sentence for each finding; findings of one missing folder, or one harmless cause, share a sentence."""
    lost = sorted((f for f in findings if f.missing_folder), key=lambda f: f.missing_folder or "")
    groups = {folder: list(group) for folder, group in groupby(lost, key=lambda f: f.missing_folder)}
    harmless = {cause: [f for f in findings if f.cause is cause] for cause in _HARMLESS}
    out = []
    for f in findings:
        group = harmless.get(f.cause) or (groups.get(f.missing_folder, []) if f.missing_folder else [])
        if len(group) < 2:
            out.append(str(f))
        elif group[0] is f:
            out.append(_harmless_text(group) if f.cause in _HARMLESS else _folder_text(group))
    return tuple(out)


def _harmless_text(group: Sequence[Finding]) -> str:
    """The sentence on earlier metadata files that are gone, or on files that only tables from elsewhere have."""
    kinds = dict.fromkeys(f.kind for f in group)
    files = ", ".join(counted(sum(f.count for f in group if f.kind == kind), kind) for kind in kinds)
    tables = counted(len({f.table for f in group}), "table")
    return f"{files} of {tables} {_PHRASES[group[0].cause]}: first {group[0].examples[0]}"


def _folder_text(group: Sequence[Finding]) -> str:
    tables = list(dict.fromkeys(f._of for f in group))
    who = tables[0] if len(tables) == 1 else f"{len(tables):,} tables"
    kinds: dict[str, int] = {}
    for f in group:
        kinds[f.kind] = kinds.get(f.kind, 0) + f.count
    parts = ", ".join(counted(n, kind) for kind, n in kinds.items())
    total = sum(kinds.values())
    folder = group[0].missing_folder
    examples = [e for f in group for e in f.examples[:1]] if len(group) > 2 else [e for f in group for e in f.examples]
    shown = _first([e.removeprefix(f"{folder}/") for e in examples[:SHOWN_EXAMPLES]], total)
    return f"{who}: {total:,} files ({parts}) are gone: there is no folder {folder}: was it moved? First {shown}"


def _first(texts: Sequence[str], count: int, separator: str = ", ") -> str:
    shown = texts[:SHOWN_EXAMPLES]
    more = count - len(shown)
    return separator.join(shown) + (f" and {more:,} more" if more else "")


def _listed(sentences: Sequence[str], whole: frozenset[str]) -> list[str]:
    """Sentences as lines of a list, broken between words where they are not to stay whole; the first ones only."""
    lines = [
        f"- {s}"
        if s in whole
        else textwrap.fill(
            s, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        for s in sentences[:SHOWN_PROBLEMS]
    ]
    more = len(sentences) - SHOWN_PROBLEMS
    return [*lines, f"- and {more:,} more"] if more > 0 else lines
