"""Rules: a query over the tables of the SQL prompt, with a header that says what its rows mean.

    -- rule: small-files
    -- severity: warning
    -- finds: A table with partitions of many small files.
    -- mend: Compact it.
    -- option: small_files = 20

A line with more than one space after `--` that begins with no such word goes on with the one before; `scope` may say
`tables` or `warehouse`, where a rule is not about each table by itself. A row of the query is one finding: it has
`message`, the finding in a sentence, and `subject`, what in the table it is about, by which it is known again. Rows of
a table have its `namespace`, `name` and `table_uuid`; the other columns are details. Options are columns of the table
`limits`, which has a row for each table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache

from attrs import field, frozen
from sqlglot import exp

from icecore.engine.errors import ValidationError
from icecore.projections.audit.audit_statement import parse_statement

_LINE = re.compile(r"--( +)(?:(rule|severity|finds|mend|scope|option): +)?(.+)")
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_OPTION = re.compile(r"([a-z][a-z0-9_]*) = (.+)")
_REQUIRED = ("rule", "severity", "finds", "mend")
Option = int | float | str


class Severity(StrEnum):
    """The weight of a finding; the words are those of SARIF."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """The place in the order: 0 is the worst."""
        return list(Severity).index(self)


class Scope(StrEnum):
    """The reach of a rule: it looks at each table by itself, compares tables, or is about the warehouse."""

    TABLE = "table"
    TABLES = "tables"
    WAREHOUSE = "warehouse"


@frozen
class Rule:
    """A rule: `finds` says what one row means, `mend` what to do about it, `options` are its limits with defaults."""

    id: str
    severity: Severity
    finds: str
    mend: str
    sql: str = field(repr=False)
    scope: Scope = Scope.TABLE
    options: Mapping[str, Option] = field(factory=dict)


def parse_rule(text: str, where: str) -> Rule:
    """The rule of a file's text; `where` names the file. Raises ValidationError where the header or SQL is wrong."""
    lines = text.lstrip().splitlines()
    size = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
    parts = _header(lines[:size], where)
    for name in _REQUIRED:
        if name not in parts:
            raise ValidationError(f"{where}: a rule begins with a line `-- {name}: ...`")
    if not _ID.fullmatch(parts["rule"][0]):
        raise ValidationError(f"{where}: a rule's id is small letters and hyphens, found {parts['rule'][0]!r}")
    sql = "\n".join(lines[size:]).strip().rstrip(";")
    try:
        statement_of(sql)
    except ValidationError as e:
        raise ValidationError(f"{where}: {e}") from e
    return Rule(
        parts["rule"][0],
        Severity(_word(parts, "severity", Severity, where)),
        parts["finds"][0],
        parts["mend"][0],
        sql,
        Scope(_word(parts, "scope", Scope, where)),
        dict(_option(text, where) for text in parts.get("option", ())),
    )


@lru_cache(maxsize=256)
def statement_of(sql: str) -> exp.Expression:
    """The tree of a rule's query, which nobody changes. Raises ValidationError where it is no query."""
    return parse_statement(sql)


def _header(lines: list[str], where: str) -> dict[str, list[str]]:
    """The texts of a header by their keys; an option may be there several times."""
    found: dict[str, list[str]] = {}
    key = None
    for line in lines:
        match = _LINE.fullmatch(line.rstrip())
        if match is None or (match[2] is None and (key is None or len(match[1]) < 2)):
            raise ValidationError(f"{where}: {line!r} is no line of a rule's header")
        if match[2] is None:
            found[str(key)][-1] += f" {match[3]}"
            continue
        key = match[2]
        if key in found and key != "option":
            raise ValidationError(f"{where}: its header says {key} twice")
        found.setdefault(key, []).append(match[3])
    return found


def _word(parts: Mapping[str, list[str]], name: str, words: type[StrEnum], where: str) -> str:
    (word,) = parts.get(name, [str(Scope.TABLE)])
    if word not in list(words):
        raise ValidationError(f"{where}: {name} is one of {', '.join(words)}, found {word!r}")
    return word


def _option(text: str, where: str) -> tuple[str, Option]:
    match = _OPTION.fullmatch(text)
    if match is None:
        raise ValidationError(f"{where}: an option is written as `small_files = 20`, found {text!r}")
    return match[1], parse_option(match[2])


def parse_option(text: str) -> Option:
    """A whole number, a number, or text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
