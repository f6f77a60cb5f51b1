"""The rollback of a transaction, or of a part of one."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

from icecore.engine.log.lock.held_log import SETTINGS
from icecore.engine.queries.named_queries import query


def roll_back(connection: sqlite3.Connection) -> None:
    """Takes back the transaction of a connection, if one is open, as far as that can be done."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute(query(SETTINGS, "rollback"))


@contextlib.contextmanager
def taken_back_alone(connection: sqlite3.Connection) -> Iterator[None]:
    """A context in which an error takes back what was written in it, unless SQLite took back the whole transaction."""
    connection.execute(query(SETTINGS, "begin_part"))
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute(query(SETTINGS, "rollback_part"))
            connection.execute(query(SETTINGS, "end_part"))
        raise
    connection.execute(query(SETTINGS, "end_part"))
