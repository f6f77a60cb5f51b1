"""The updates of events as values. Spec: the REST catalog's TableUpdate."""

from __future__ import annotations

from icecore.engine.events.event import Event
from icecore.engine.spec.updates.table_update import TableUpdate, read_table_updates


def table_updates(event: Event) -> tuple[TableUpdate, ...]:
    """The updates of a table's event; none of one that has none. Raises ValidationError, CorruptLogError."""
    return tuple(read_table_updates(event.payload.get("updates", ())))
