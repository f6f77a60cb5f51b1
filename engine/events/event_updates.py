"""The updates of events as values, and the snapshots that they brought. Spec: the REST catalog's TableUpdate."""

from __future__ import annotations

from collections.abc import Mapping

from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.spec.updates.table_update import AddSnapshot, SetSnapshotRef, TableUpdate, read_table_updates


def table_updates(event: Event) -> tuple[TableUpdate, ...]:
    """The updates of a table's event; none of one that has none. Raises ValidationError, CorruptLogError."""
    return tuple(read_table_updates(event.payload.get("updates", ())))


def snapshots_of(event: Event) -> tuple[list[Snapshot], Mapping[int, str]]:
    """The snapshots that an event brought, and the branches that it put them on. Raises CorruptLogError."""
    if event.kind == ev.TABLE_REGISTERED:
        metadata = event.payload["metadata"]
        refs = {r["snapshot-id"]: name for name, r in (metadata.get("refs") or {}).items()}
        return [Snapshot.from_dict(s) for s in metadata.get("snapshots") or ()], refs
    if event.kind not in (ev.TABLE_CREATED, ev.TABLE_COMMITTED, ev.TABLE_ADOPTED):
        return [], {}
    found, branches = [], dict[int, str]()
    for update in table_updates(event):
        if isinstance(update, AddSnapshot):
            found.append(update.snapshot)
        elif isinstance(update, SetSnapshotRef):
            branches.setdefault(update.ref.snapshot_id, update.ref_name)
    return found, branches
