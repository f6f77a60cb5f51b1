"""A replica of the read models, replayed from the log into a private database that ends with the process."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import MODELS, EventStore, create_tables

if TYPE_CHECKING:
    import pyarrow as pa


class ReplayedModels(EventStore):
    """Read models without a log, filled from the log of another store."""

    def __init__(self, source: EventStore, entries: Callable[[int], pa.Table | None] | None = None) -> None:
        """Replays the whole log of `source`; `entries` gives an event's entries, maybe from a cache of decoded ones.

        Raises CorruptLogError, and what a damaged payload raises.
        """
        self.path = source.path
        self._source = source
        self._entries = entries or source.entries
        self.read_only = False
        self.refusal = None
        self._relocations = None
        self._has_read_models = True
        self._lock_timeout_s = 0.0
        self._durable = False
        self._local = threading.local()
        self.execute(MODELS, "set_warehouse", key="catalog-name", value=ReadModels(source).catalog_name)
        models = ReadModels(self)
        with self._locked():
            for event in source.events():
                models.apply(event)

    def entries(self, position: int) -> pa.Table | None:
        """The entries beside an event of the log that is replayed."""
        return self._entries(position)

    def _takes_locks(self) -> bool:
        return False

    def _connect(self, takes_locks: bool) -> sqlite3.Connection:
        # An empty name makes a temporary file once the database outgrows its cache.
        connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        create_tables(connection)
        return connection
