"""The histories of a table's columns, partition specs, properties and refs: a row for each that an event changed.

What is told is the change of the table's metadata by its events, those of other engines that were adopted too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from attrs import frozen

from icecore.engine.common.ids import signed
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.metadata.fold import TableFold
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import SnapshotRef
from icecore.engine.spec.types import Type
from icecore.engine.spec.updates.table_update import AddSnapshot, RemoveSnapshotRef, SetSnapshotRef, read_table_updates
from icecore.projections.history.logged_tables import OF_EVENT, Histories, LoggedTable, LoggedTables, of_event

_OF_REFS = frozenset({SetSnapshotRef.action, RemoveSnapshotRef.action})
_LIGHT = _OF_REFS | {AddSnapshot.action}
"""Updates that change nothing that is told here except refs: the metadata need not be built for them."""
_COLUMN = (("column_name", pa.string()), ("type", pa.string()), ("required", pa.bool_()), ("doc", pa.string()))
_REF = (
    ("type", pa.string()),
    ("snapshot_id", pa.int64()),
    ("min_snapshots_to_keep", pa.int32()),
    ("max_snapshot_age_ms", pa.int64()),
    ("max_ref_age_ms", pa.int64()),
)
_CHANGE = ("change", pa.string())


def _before(columns: tuple[tuple[str, pa.DataType], ...]) -> list[tuple[str, pa.DataType]]:
    return [(f"{name}_before", kind) for name, kind in columns]


SCHEMA_HISTORY = pa.schema(
    [*OF_EVENT, _CHANGE, ("schema_id", pa.int32()), ("field_id", pa.int32()), *_COLUMN, *_before(_COLUMN)]
)
_SPEC = (("spec_id", pa.int32()), ("partition_spec", pa.string()))
SPEC_HISTORY = pa.schema([*OF_EVENT, *_SPEC, *_before(_SPEC)])
_VALUE = (("value", pa.string()),)
PROPERTY_HISTORY = pa.schema([*OF_EVENT, _CHANGE, ("key", pa.string()), *_VALUE, *_before(_VALUE)])
REF_HISTORY = pa.schema([*OF_EVENT, _CHANGE, ("ref", pa.string()), *_REF, *_before(_REF)])


@frozen
class Shape:
    """The state of a table at an event; no metadata before the first."""

    metadata: TableMetadata | None
    refs: Mapping[str, SnapshotRef]


Told = Callable[[Shape, Shape], Iterator[dict[str, Any]]]


def history_rows(log: LoggedTables, table: LoggedTable, schema: pa.Schema, told: Told) -> list[pa.Table]:
    """The rows that `told` makes of the states before and after each event.

    Events are folded once for all four histories, as folding them takes longer than making rows.
    """
    if table.stream not in log.histories:
        found: Histories = {each: [] for each in (columns, specs, properties, refs)}
        for event, before, after in _shapes(log.events(table)):
            for each, rows in found.items():
                rows += [{**of_event(table, event), **row} for row in each(before, after)]
        log.histories[table.stream] = found
    return [pa.Table.from_pylist(log.histories[table.stream][told], schema=schema)]


def schema_history(log: LoggedTables, table: LoggedTable) -> list[pa.Table]:
    """The rows of `schema_history`."""
    return history_rows(log, table, SCHEMA_HISTORY, columns)


def spec_history(log: LoggedTables, table: LoggedTable) -> list[pa.Table]:
    """The rows of `spec_history`."""
    return history_rows(log, table, SPEC_HISTORY, specs)


def property_history(log: LoggedTables, table: LoggedTable) -> list[pa.Table]:
    """The rows of `property_history`."""
    return history_rows(log, table, PROPERTY_HISTORY, properties)


def ref_history(log: LoggedTables, table: LoggedTable) -> list[pa.Table]:
    """The rows of `ref_history`."""
    return history_rows(log, table, REF_HISTORY, refs)


_MOST_WAITING = 1_000
"""The most commits that wait to be folded."""


def _shapes(events: Iterator[Event]) -> Iterator[tuple[Event, Shape, Shape]]:
    folding, shape = TableFold(), Shape(None, {})
    waiting: list[Event] = []
    for event in events:
        # Most commits only add snapshots: they are folded where a later one needs it.
        waiting.append(event)
        if event.kind in ev.DELETIONS:
            continue
        before = shape
        is_light = shape.metadata is not None and event.kind == ev.TABLE_COMMITTED and _is_light(event)
        if not is_light or len(waiting) >= _MOST_WAITING:
            for each in waiting:
                folding.apply(each)
            waiting.clear()
        if is_light:
            shape = Shape(shape.metadata, _refs_after(event, shape.refs))
        else:
            state = folding.state()
            assert state is not None, "an event was applied"
            shape = Shape(state.metadata, state.metadata.refs)
        yield event, before, shape


def _is_light(event: Event) -> bool:
    return all(u.get("action") in _LIGHT for u in event.payload.get("updates", ()))


def _refs_after(event: Event, before: Mapping[str, SnapshotRef]) -> Mapping[str, SnapshotRef]:
    refs = dict(before)
    for update in read_table_updates(u for u in event.payload["updates"] if u["action"] in _OF_REFS):
        if isinstance(update, SetSnapshotRef):
            refs[update.ref_name] = update.ref
        elif isinstance(update, RemoveSnapshotRef):
            refs.pop(update.ref_name, None)
    return refs


def columns(before: Shape, after: Shape) -> Iterator[dict[str, Any]]:
    """The changes of columns: those of the current schema that were added, removed or changed."""
    if before.metadata is after.metadata or after.metadata is None:
        return
    old = {} if before.metadata is None else _columns(before.metadata.schema())
    new = _columns(after.metadata.schema())
    for field_id in sorted(old.keys() | new.keys()):
        if row := _changed(old.get(field_id), new.get(field_id)):
            yield {**row, "schema_id": after.metadata.current_schema_id, "field_id": field_id}


def _columns(schema: Schema) -> dict[int, dict[str, Any]]:
    found = {}
    for field_id in schema.field_ids:
        f = schema.find_field(field_id)
        name = schema.name_of(field_id)
        found[field_id] = {"column_name": name, "type": _type_text(f.field_type), "required": f.required, "doc": f.doc}
    return found


def _type_text(kind: Type) -> str:
    """A type as text; of a nested one only its kind, as its fields have rows of their own."""
    return str(kind) if kind.is_primitive else type(kind).__name__.removesuffix("Type").lower()


def specs(before: Shape, after: Shape) -> Iterator[dict[str, Any]]:
    """The change of the default partition spec, where it became another."""
    if before.metadata is after.metadata or after.metadata is None:
        return
    old, new = (None if m is None else _spec(m) for m in (before.metadata, after.metadata))
    if old != new:
        yield {**(new or {}), **_of_before(old)}


def _spec(metadata: TableMetadata) -> dict[str, Any]:
    return {"spec_id": metadata.default_spec_id, "partition_spec": str(metadata.spec())}


def properties(before: Shape, after: Shape) -> Iterator[dict[str, Any]]:
    """The changes of properties: those that were added, removed or changed."""
    if before.metadata is after.metadata or after.metadata is None:
        return
    old = {} if before.metadata is None else before.metadata.properties
    new = after.metadata.properties
    for key in sorted(old.keys() | new.keys()):
        values = ({"value": values[key]} if key in values else None for values in (old, new))
        if row := _changed(*values):
            yield {**row, "key": key}


def refs(before: Shape, after: Shape) -> Iterator[dict[str, Any]]:
    """The changes of refs: branches and tags that were made, moved, changed or removed."""
    for name in sorted(before.refs.keys() | after.refs.keys()):
        old, new = (None if name not in shape.refs else _ref(shape.refs[name]) for shape in (before, after))
        if row := _changed(old, new):
            yield {**row, "ref": name}


def _ref(ref: SnapshotRef) -> dict[str, Any]:
    return {
        "type": str(ref.type),
        "snapshot_id": signed(ref.snapshot_id),
        "min_snapshots_to_keep": ref.min_snapshots_to_keep,
        "max_snapshot_age_ms": ref.max_snapshot_age_ms,
        "max_ref_age_ms": ref.max_ref_age_ms,
    }


def _changed(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The values before and after, and what happened; None where nothing did."""
    if old == new:
        return None
    change = "added" if old is None else "removed" if new is None else "changed"
    return {"change": change, **(new or {}), **_of_before(old)}


def _of_before(old: Mapping[str, Any] | None) -> dict[str, Any]:
    return {f"{name}_before": value for name, value in (old or {}).items()}
