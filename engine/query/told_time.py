"""The time that a query's functions tell, as `now()` does: that at which it was made, each time that it is computed.

Files are left out by that time, so a later one would find rows in some files and miss those in others.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import duckdb

from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query

# Many columns are named age: it is a function before a parenthesis, or a comment that there may be one after.
_MENTIONED = re.compile(
    r"""\b((now|today|(get_)?current_\w+|localtime\w*|transaction_timestamp)\b|age"?\s*(\(|--|/\*))""", re.IGNORECASE
)


def told_time(sql: str) -> str | None:
    """The present time as a string in SQL; None where a query can't ask for it."""
    return duck.literal(datetime.now(UTC).isoformat(sep=" ")) if _MENTIONED.search(sql) else None


def tell_time(con: duckdb.DuckDBPyConnection, now: str | None) -> None:
    """Makes a time the one that all functions of a connection tell."""
    if now is not None:
        con.execute(query("query/told_time.sql", "functions", now=now)).fetchall()
