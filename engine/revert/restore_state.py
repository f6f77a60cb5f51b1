"""The updates that make a table or view again what it was: its shape, properties and refs; snapshots stay as they are.

No history is lost: refs point at their snapshots of then, those made since stay until they expire.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from attrs import evolve

from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import table_updates
from icecore.engine.evolution.metadata_commands import new_current_schema
from icecore.engine.log.store import EventStore
from icecore.engine.metadata.metadata_difference import property_updates
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.metadata_update import (
    LAST_ADDED,
    AddSchema,
    SetLocation,
)
from icecore.engine.spec.updates.table_update import (
    AddPartitionSpec,
    AddSortOrder,
    RemoveSnapshotRef,
    RemoveSnapshots,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetSnapshotRef,
    TableUpdate,
)
from icecore.engine.spec.updates.view_update import AddViewVersion, SetCurrentViewVersion, ViewUpdate
from icecore.engine.spec.view import ViewMetadata

Refuse = Callable[[str], Exception]
"""Makes the error of a reason for which there is no way back."""
Gone = Callable[[str, int], Exception]
"""Makes the error of a ref whose snapshot is not there any more."""


def restored_table(
    then: TableMetadata, now: TableMetadata, used_specs: Callable[[], Container[int]], gone: Gone, refuse: Refuse
) -> list[TableUpdate]:
    """The updates from `now` to the schema, specs, sort order, location, properties and refs of `then`.

    The format version stays, as no table can be downgraded; so do statistics, which are facts about snapshots. Raises
    the error that `gone` makes where the snapshot of a ref was expired, and that of `refuse` where the id of a
    partition spec that was removed means another one by now, or is one of `used_specs`, which the manifests of the refs
    name, and an equal spec has another id.
    """
    out: list[TableUpdate] = [*_schema(then, now), *_specs(then, now, used_specs, refuse), *_sort_order(then, now)]
    if then.location != now.location:
        out.append(SetLocation(then.location))
    out += property_updates(now.properties, then.properties)
    out += [RemoveSnapshotRef(name) for name in now.refs if name not in then.refs]
    for name, ref in then.refs.items():
        if now.snapshot_by_id(ref.snapshot_id) is None:
            raise gone(name, ref.snapshot_id)
        if now.refs.get(name) != ref:
            out.append(SetSnapshotRef(name, ref))
    return out


def _schema(then: TableMetadata, now: TableMetadata) -> list[TableUpdate]:
    wanted = then.schema()
    if now.schema().same_fields(wanted):
        return []
    for known in now.schemas:
        if known.same_fields(wanted):
            return [SetCurrentSchema(known.schema_id)]
    return new_current_schema(now, wanted)


def _specs(
    then: TableMetadata, now: TableMetadata, used: Callable[[], Container[int]], refuse: Refuse
) -> list[TableUpdate]:
    """The updates that bring back specs which were removed, by their ids, which manifests name, and the default."""
    out: list[TableUpdate] = []
    for spec in then.partition_specs:
        known = now.specs.get(spec.spec_id)
        if known is None:
            # A table has each spec once, so an equal one would stand for this one, whose id manifests name.
            if any(s.same_as(spec) for s in now.partition_specs) and spec.spec_id in used():
                raise refuse(f"partition spec {spec.spec_id} was removed, and an equal one has another id now")
            out.append(AddPartitionSpec(spec))
        elif not known.same_as(spec):
            raise refuse(f"partition spec {spec.spec_id} was removed, and is another one now")
    wanted = then.spec()
    if now.spec().fields != wanted.fields:
        same = (s.spec_id for s in (*now.partition_specs, wanted) if s.fields == wanted.fields)
        out.append(SetDefaultSpec(next(same)))
    return out


def _sort_order(then: TableMetadata, now: TableMetadata) -> list[TableUpdate]:
    wanted = then.sort_order()
    if now.sort_order().fields == wanted.fields:
        return []
    for known in now.sort_orders:
        if known.fields == wanted.fields:
            return [SetDefaultSortOrder(known.order_id)]
    order_id = max(o.order_id for o in now.sort_orders) + 1
    return [AddSortOrder(evolve(wanted, order_id=order_id)), SetDefaultSortOrder(order_id)]


def restored_view(then: ViewMetadata, now: ViewMetadata, at: int) -> list[ViewUpdate]:
    """The updates from `now` to the location, version and properties of `then`; `at` is their time, as in an event."""
    out: list[ViewUpdate] = []
    if then.location != now.location:
        out.append(SetLocation(then.location))
    out += version_back(then, now, at)
    return [*out, *property_updates(now.properties, then.properties)]


def version_back(then: ViewMetadata, now: ViewMetadata, at: int) -> list[ViewUpdate]:
    """The updates that make the current version of `then` current at a time; one that went is made again.

    The id of one that went may be that of another version by now.
    """
    version = then.current_version()
    if version in now.versions:
        return [SetCurrentViewVersion(version.version_id)]
    again = evolve(version, schema_id=LAST_ADDED, timestamp_ms=at)
    return [AddSchema(then.schema()), AddViewVersion(again), SetCurrentViewVersion(LAST_ADDED)]


def expiry_of(store: EventStore, stream: str, snapshot_id: int, after: int) -> Event | None:
    """The event after a position that took a snapshot out of a table; None where the log does not say."""
    for event in store.filtered_events(stream=stream, after=after):
        if event.kind in (ev.TABLE_COMMITTED, ev.TABLE_ADOPTED) and any(
            isinstance(u, RemoveSnapshots) and snapshot_id in u.snapshot_ids for u in table_updates(event)
        ):
            return event
    return None
