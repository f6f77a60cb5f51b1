"""The time that functions as `now()` tell in a query: that at which it was made, however often it is computed.

Files are left out by that time, so at a later time rows would be found in some files and missed in others.
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
    """Makes all functions of a connection tell this time."""
    if now is not None:
        duck.rows(con, query("query/told_time.sql", "functions", now=now))
