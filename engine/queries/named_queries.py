"""Named queries from the .sql files in icecore/sql.

A file holds queries that each start with a line `-- name: <name>`; what stands above the first says what one row is.
Comments right below the name are the head of a query. A line `-- {part}: ...` there declares text that is put in place
of `{part}`: a predicate, columns, names, another query. Values are bound, as `$parameter`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)
_HEAD = re.compile(r"\s*(?:^--.*\n)*", re.MULTILINE)
_PART = re.compile(r"^-- \{(\w+)\}: ", re.MULTILINE)


class NamedQuery(NamedTuple):
    """A query as its file has it, without its head, and the parts that the head declares."""

    text: str
    parts: frozenset[str]


@cache
def queries(path: str) -> dict[str, NamedQuery]:
    """The queries of one file, by name; `path` is relative to the sql folder, as `log/events.sql`."""
    text = (files("icecore") / "sql" / path).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {name: _parse(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _parse(body: str) -> NamedQuery:
    head = _HEAD.match(body)
    end = head.end() if head else 0
    return NamedQuery(body[end:].strip().rstrip(";"), frozenset(_PART.findall(body[:end])))


def query(path: str, name: str, /, **parts: str) -> str:
    """One named query, with its parts; without any the same object every time, so that statement caches hit.

    Raises ValueError where other parts are given than are declared.
    """
    found = queries(path)[name]
    if parts.keys() != found.parts:
        raise ValueError(f"{name} of {path} has the parts {sorted(found.parts)}, found {sorted(parts)}")
    return found.text.format(**parts) if parts else found.text


def quote(identifier: str) -> str:
    """An identifier in double quotes, for SQLite and DuckDB alike. The only way a name enters SQL text."""
    return '"' + identifier.replace('"', '""') + '"'
