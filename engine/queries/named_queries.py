"""Named queries from the .sql files in icecore/sql.

A file holds queries that each start with a line `-- name: <name>`; what stands above the first says what one row is.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\s*$", re.MULTILINE)


@cache
def queries(path: str) -> dict[str, str]:
    """The queries of one file, by name; `path` is relative to the sql folder, as `log/events.sql`."""
    text = (files("icecore") / "sql" / path).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {name: body.strip().rstrip(";") for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def query(path: str, name: str) -> str:
    """One named query; the same object every time, so that statement caches hit."""
    return queries(path)[name]


def quote(identifier: str) -> str:
    """An identifier in double quotes, for SQLite and DuckDB alike. The only way a name enters SQL text."""
    return '"' + identifier.replace('"', '""') + '"'
