"""Queries that were made ready, kept for when the same is asked again and its tables and views are unchanged.

Each time that is checked by looking up its names, as a new query does.
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

from attrs import define, field

from icecore.engine.common import fork_safety
from icecore.engine.common.fork_safety import Lock
from icecore.engine.common.identifiers import Identifier
from icecore.engine.query.kept_relations import KeptRelations

MOST_KEPT = 16
MOST_CONNECTIONS = 4
"""The most queries that keep an idle connection, and by it their instance of DuckDB: those asked last."""
MOST_TEXT = 100_000
# Types of which unequal values have unequal texts. Time zones other than UTC are refused below.
_PLAIN = {int, float, str, bool, bytes, type(None), Decimal, UUID, dt.date, dt.time, dt.datetime, dt.timedelta}


def key_of(sql: str, namespace: Identifier, parameters: Mapping[str, Any] | None) -> Hashable | None:
    """The key that equal queries have in common; None for a query that is not kept."""
    given = parameters or {}
    zones = (getattr(v, "tzinfo", None) for v in given.values())
    if any(type(v) not in _PLAIN for v in given.values()) or any(z not in (None, dt.UTC) for z in zones):
        return None
    if len(sql) + sum(len(v) for v in given.values() if isinstance(v, (str, bytes))) > MOST_TEXT:
        return None
    # Python refuses to write an int of thousands of digits in decimal.
    texts = ((name, v, hex(v) if type(v) is int else repr(v)) for name, v in given.items())
    return sql, namespace, parameters is None, tuple((name, type(v), text) for name, v, text in texts)


class Kept(Protocol):
    """A query made ready."""

    def disconnect(self) -> None:
        """Ends the connection that waits for it; in a forked process it is left to the parent."""


@define(eq=False)
class KeptQueries:
    """The queries of one catalog that were asked last, and the relations that queries share.

    Threads may share it; a forked process begins with none.
    """

    most_kept: int = MOST_KEPT
    most_connections: int = MOST_CONNECTIONS
    relations: KeptRelations = field(factory=KeptRelations, init=False, repr=False)
    _kept: OrderedDict[Hashable, Kept] = field(factory=OrderedDict, init=False, repr=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        fork_safety.watch(self)

    def forget_parent(self) -> None:
        """Leaves the connections to the parent process."""
        for kept in self._kept.values():
            kept.disconnect()
        self._kept = OrderedDict()
        self.relations.clear()

    def find(self, key: Hashable) -> Kept | None:
        """The query of a key, whose tables may have changed since; None where none is kept."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                self._trim()
            return found

    def put(self, key: Hashable, query: Kept) -> None:
        """Keeps a query in place of one of the same key; of too many, the one asked for longest ago is dropped."""
        with self._lock:
            self._kept[key] = query
            self._kept.move_to_end(key)
            self._trim()

    def clear(self) -> None:
        """Drops all of them."""
        with self._lock:
            self._kept.clear()
        self.relations.clear()

    def _trim(self) -> None:
        while len(self._kept) > self.most_kept:
            self._kept.popitem(last=False)
        for kept in list(self._kept.values())[: -self.most_connections]:
            kept.disconnect()
