"""The log as a table: one row for each event, with its table and its changes in words and numbers.

These are read from the events' JSON, not as values: an event with an update that can't be read as one has its row too,
and to list a whole log would take nearly twice as long by values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from icecore.engine.common.ids import signed
from icecore.engine.errors import name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.events.event_updates import branches_of
from icecore.engine.events.name_events import Named, Renamed, read_name_event
from icecore.engine.log.store import EventStore
from icecore.engine.spec.snapshot import SnapshotRefType

LOG_SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("recorded_at", pa.timestamp("ms", "UTC")),
        ("actor", pa.string()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("operation", pa.string()),
        ("message", pa.string()),
        ("snapshot_id", pa.int64()),
        ("branch", pa.string()),
        ("changes", pa.string()),
        ("summary", pa.map_(pa.string(), pa.string())),
        ("engine", pa.string()),
        ("transaction_id", pa.string()),
        ("event_id", pa.string()),
        ("stream", pa.string()),
        ("stream_version", pa.int64()),
        ("correlation_id", pa.string()),
        ("causation_id", pa.string()),
        ("idempotency_key", pa.string()),
        ("payload", pa.string()),
        ("hash", pa.string()),
    ]
)


def log_table(store: EventStore, events: Iterable[Event]) -> pa.Table:
    """The events as rows of LOG_SCHEMA, in their order.

    `name` is what the table was called at that event, `changes` lists the updates in words.
    """
    names = _Names(store)
    return pa.Table.from_pylist(list(_rows(events, names)), schema=LOG_SCHEMA)


def log_lines(store: EventStore, events: Iterable[Event]) -> Iterator[tuple[Event, str | None, str]]:
    """The events with the names of what they are about and their changes, as rows of `log_table` have them."""
    names = _Names(store)
    for event in events:
        payload = event.payload
        yield event, _name(event, payload, names), "; ".join(describe_changes(event.kind, payload))


class _Names:
    """The name of each table at a position, read when it is asked for: most listings are of few tables."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._names: dict[str, list[tuple[int, str]]] = {}

    def at(self, stream: str, position: int) -> str | None:
        if (names := self._names.get(stream)) is None:
            names = self._names[stream] = list(self._names_of(stream))
        known = [(p, n) for p, n in names if p <= position]
        return max(known)[1] if known else None

    def _names_of(self, stream: str) -> Iterator[tuple[int, str]]:
        if stream == ev.CATALOG_STREAM:
            return
        for event in self._store.naming_events_of(stream):
            change = read_name_event(event.kind, event.payload)
            if isinstance(change, (Named, Renamed)):
                yield event.position, name_text(change.identifier)


def _rows(events: Iterable[Event], names: _Names) -> Iterator[dict[str, Any]]:
    for event in events:
        payload = event.payload
        snapshots = [u["snapshot"] for u in payload.get("updates", ()) if _is_update(u, "add-snapshot")]
        last = snapshots[-1] if snapshots else {}
        summary = last.get("summary") or {}
        row = event.to_row()
        yield {
            **{name: row[name] for name in LOG_SCHEMA.names if name in row},
            "recorded_at": event.recorded_at_ms,
            "name": _name(event, payload, names),
            "operation": summary.get("operation"),
            "snapshot_id": signed(last.get("snapshot-id")),
            "branch": _branch(payload.get("updates", ()), snapshots),
            "changes": "; ".join(describe_changes(event.kind, payload)),
            "summary": list(summary.items()),
        }


def _name(event: Event, payload: Mapping[str, Any], names: _Names) -> str | None:
    return names.at(event.stream, event.position) or _named(event.kind, payload)


def _named(kind: str, payload: Mapping[str, Any]) -> str | None:
    """The subject of an event of the catalog itself."""
    name = payload.get("identifier" if kind == ev.LOG_FORGOTTEN else "namespace")
    return name_text(name or ()) or None


def _branch(updates: Sequence[Any], snapshots: Sequence[Mapping[str, Any]]) -> str | None:
    """The branch that an event put the last of its snapshots on."""
    if not snapshots:
        return None
    parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in snapshots}
    moved = (u for u in updates if _is_update(u, "set-snapshot-ref") and u.get("type") == SnapshotRefType.BRANCH)
    return branches_of(parents, ((u["ref-name"], u["snapshot-id"]) for u in moved)).get(snapshots[-1]["snapshot-id"])


def _is_update(update: Any, action: str) -> bool:
    return isinstance(update, Mapping) and update.get("action") == action


def describe_changes(kind: str, payload: Mapping[str, Any]) -> Iterator[str]:
    """The changes of an event, one phrase for each update."""
    if phrase := _phrase(kind, payload):
        yield phrase
    if skipped := payload.get("skipped"):
        yield f"{_counted(len(skipped), 'version')} before it {'is' if len(skipped) == 1 else 'are'} gone"
    match kind:
        case ev.VIEW_CREATED | ev.VIEW_COMMITTED:
            yield from _view_changes(payload)
        case ev.TABLE_CREATED:
            # The others, as of its schema, are of every creation.
            yield from _table_changes([u for u in payload["updates"] if u["action"] in _OF_SNAPSHOTS])
        case ev.TABLE_COMMITTED | ev.TABLE_ADOPTED:
            yield from _table_changes(payload["updates"])
        case _:
            pass
    if kind == ev.TABLE_COMMITTED and (gone := payload.get("deleted-metadata")):
        yield f"delete {_counted(len(gone), 'metadata file')}"


def _phrase(kind: str, payload: Mapping[str, Any]) -> str | None:
    """The change of an event beside its updates; None of a commit, which is its updates."""
    match kind:
        case ev.TABLE_COMMITTED | ev.VIEW_COMMITTED:
            return None
        case ev.TABLE_CREATED:
            return f"create {name_text(payload['identifier'])}"
        case ev.VIEW_CREATED:
            return f"create view {name_text(payload['identifier'])}"
        case ev.TABLE_ADOPTED | ev.VIEW_ADOPTED:
            return f"adopt {payload['metadata-location'].rsplit('/', 1)[-1]}"
        case ev.TABLE_RESTORED:
            return "restore the log's state over another engine's"
        case ev.TABLE_REGISTERED | ev.VIEW_REGISTERED:
            return f"register {payload['metadata-location']}"
        case ev.TABLE_RENAMED | ev.VIEW_RENAMED:
            return f"rename to {name_text(payload['to'])}"
        case ev.TABLE_DROPPED | ev.VIEW_DROPPED:
            verb = "unregister" if payload.get("unregistered") is True else "drop"
            return f"{verb} {name_text(payload['identifier'])}"
        case ev.TABLE_UNDROPPED | ev.VIEW_UNDROPPED:
            return f"undrop {name_text(payload['identifier'])}"
        case ev.TABLE_FILES_DELETED | ev.TABLE_PURGED:
            return _deletion(payload)
        case ev.LOG_FORGOTTEN:
            return _forgetting(payload)
        case _:
            return kind.partition(".")[2].replace("-", " ")


def _deletion(payload: Mapping[str, Any]) -> str:
    size = f" of {payload['bytes']} bytes" if "bytes" in payload else ""
    return f"{payload['operation'].replace('-', ' ')}: delete {_counted(payload['count'], 'file')}{size}"


def _forgetting(payload: Mapping[str, Any]) -> str:
    positions = {r["position"] for r in payload["redactions"]}
    columns = ", ".join(payload.get("columns") or ()) or "all columns"
    what = f"bounds of {columns} in {_counted(payload['files'], 'file')}" if payload.get("files") else "text"
    return f"forget {what}, of {_counted(len(positions), 'event')}"


_OF_SNAPSHOTS = ("add-snapshot", "set-snapshot-ref")
_ADDED = {
    "set-current-schema": ("add-schema", "schema", "schema-id", "schema"),
    "set-default-spec": ("add-spec", "spec", "spec-id", "partition spec"),
    "set-default-sort-order": ("add-sort-order", "sort-order", "order-id", "sort order"),
}
"""For an update that makes one current: the update that adds one, its keys for that and the id, and the word for it."""


def _table_changes(updates: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The changes of a table; a schema, spec or order that becomes current is told only where it was made before."""
    for update in updates:
        if text := describe_update(update):
            yield text
        elif update["action"] in _ADDED:
            adds, part, key, what = _ADDED[update["action"]]
            chosen = update["sort-order-id" if key == "order-id" else key]
            if chosen != -1 and chosen not in {u[part][key] for u in updates if u["action"] == adds}:
                yield f"back to {what} {chosen}"


def _view_changes(payload: Mapping[str, Any]) -> Iterator[str]:
    """The changes of a view; a version that becomes current is told only where it was made before."""
    added = {u["view-version"]["version-id"] for u in payload["updates"] if _is_update(u, "add-view-version")}
    for update in payload["updates"]:
        if not _is_update(update, "set-current-view-version") or update["view-version-id"] not in added:
            text = describe_update(update)
            if text and not (payload.get("identifier") and _is_update(update, "set-location")):
                yield text


def describe_update(update: Mapping[str, Any]) -> str | None:
    """One update in words; None for those that only follow from another."""
    action = update["action"]
    if action in ("set-current-schema", "set-default-spec", "set-default-sort-order", "assign-uuid"):
        return None
    if action in _PHRASES:
        return _PHRASES[action](update)
    detail = {k: v for k, v in update.items() if k != "action"}
    return f"{action.replace('-', ' ')} {orjson.dumps(detail).decode()[:80]}"


def _snapshot(update: Mapping[str, Any]) -> str:
    summary = update["snapshot"].get("summary") or {}
    counts = [f"{sign} {_counted(summary[key], what)}" for key, sign, what in _COUNTS if key in summary]
    return f"{summary.get('operation', 'snapshot')}: {', '.join(counts) or 'nothing'}"


def _counted(number: object, what: str) -> str:
    """`1 file`, `2 files`, of a number that may stand in a summary as text."""
    return f"{number} {what}{'' if str(number) == '1' else 's'}"


def _spec(update: Mapping[str, Any]) -> str:
    spec = update["spec"]
    return f"partition spec {spec['spec-id']} ({', '.join(f['name'] for f in spec['fields'])})"


def _view_version(update: Mapping[str, Any]) -> str:
    version = update["view-version"]
    dialects = ", ".join(r.get("dialect") or r["type"] for r in version["representations"])
    return f"version {version['version-id']} ({dialects})"


_PHRASES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "add-snapshot": _snapshot,
    "remove-snapshots": lambda u: f"remove {_counted(len(u['snapshot-ids']), 'snapshot')}",
    "set-snapshot-ref": lambda u: f"{u['type']} {u['ref-name']} -> {u['snapshot-id']}",
    "remove-snapshot-ref": lambda u: f"remove ref {u['ref-name']}",
    "set-statistics": lambda u: f"statistics of snapshot {u['statistics']['snapshot-id']}",
    "add-schema": lambda u: f"schema {u['schema']['schema-id']}",
    "add-spec": _spec,
    "set-properties": lambda u: f"set {', '.join(sorted(u.get('updates', u.get('updated', {}))))}",
    "remove-properties": lambda u: f"unset {', '.join(map(str, u.get('removals', u.get('removed', []))))}",
    "add-view-version": _view_version,
    "set-current-view-version": lambda u: f"back to version {u['view-version-id']}",
    "upgrade-format-version": lambda u: f"format version {u['format-version']}",
}
_COUNTS = (
    ("added-data-files", "+", "file"),
    ("added-records", "+", "row"),
    ("deleted-data-files", "-", "file"),
    ("deleted-records", "-", "row"),
    ("added-delete-files", "+", "delete file"),
    ("removed-delete-files", "-", "delete file"),
)
