"""The rollback of a transaction."""

from __future__ import annotations

import contextlib
import sqlite3

from icecore.engine.log.lock.held_log import SETTINGS
from icecore.engine.queries.named_queries import query


def roll_back(connection: sqlite3.Connection) -> None:
    """Takes back the transaction of a connection, if one is open, as far as that can be done."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute(query(SETTINGS, "rollback"))
