"""The read models that follow the log in the same SQLite transaction: names, heads and manifest lists.

Each is a projection of the events: `apply` takes one event in, and dropping the tables and applying all events again
gives the same rows.
"""

from __future__ import annotations

import array
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from icecore.engine import events as ev
from icecore.engine.errors import (
    CorruptLogError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
)
from icecore.engine.events import Event
from icecore.engine.log.sqlite_file import run_script
from icecore.engine.log.store import MODELS, SCHEMA, EventStore
from icecore.engine.log.table_folders import TableFolders
from icecore.engine.manifest_changes import ListedManifest, changes_of
from icecore.engine.relocated_manifests import RelocatedManifests, listing
from icecore.engine.relocation import Relocation
from icecore.engine.sql_files import query

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATOR = "."
MINIMAL_PROPERTIES = {"exists": "true"}


def dotted(namespace: tuple[str, ...]) -> str:
    return SEPARATOR.join(namespace)


class ReadModels:
    """Reads and maintains the read models of one log."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.folders = TableFolders(store)

    # Following the log

    def apply(self, event: Event, entries: pa.Table | None = None) -> None:
        """Takes one event in; inside of a write transaction. `entries` are its content files, if they are at hand."""
        payload = event.payload
        match event.kind:
            case ev.NAMESPACE_CREATED:
                self._put_namespace(tuple(payload["namespace"]), payload["properties"])
            case ev.NAMESPACE_PROPERTIES_UPDATED:
                namespace = tuple(payload["namespace"])
                gone = set(payload["removals"])
                kept = {k: v for k, v in self.namespace_properties(namespace).items() if k not in gone}
                self._put_namespace(namespace, kept | payload["updates"])
            case ev.NAMESPACE_DROPPED:
                self._run("delete_namespace", name=dotted(tuple(payload["namespace"])))
                self._run("delete_iceberg_namespace", catalog=self.catalog_name, namespace=dotted(payload["namespace"]))
            case ev.TABLE_CREATED | ev.TABLE_REGISTERED | ev.VIEW_CREATED | ev.VIEW_REGISTERED:
                self._put_name(event, tuple(payload["identifier"]))
            case ev.TABLE_RENAMED | ev.VIEW_RENAMED:
                self._rename(event, tuple(payload["from"]), tuple(payload["to"]))
            case ev.TABLE_DROPPED | ev.VIEW_DROPPED:
                self._forget_name(event, tuple(payload["identifier"]))
            case ev.TABLE_UNDROPPED | ev.VIEW_UNDROPPED:
                self._put_name(event, tuple(payload["identifier"]))
                self._share_again(event, tuple(payload["identifier"]))
            case ev.WAREHOUSE_MOVED | ev.WAREHOUSE_CLONED:
                self._store.relocate(relocation_of(event))
        if event.stream != ev.CATALOG_STREAM:
            self._advance(event, payload)
        if event.kind == ev.TABLE_PURGED:
            # It is at its location no more, and no file of it is to be there.
            self._run("forget_location", stream=event.stream)
            self._run("forget_files", stream=event.stream)
        if event.kind == ev.TABLE_RELOCATED:
            self._replace_manifests(event, RelocatedManifests.from_dict(payload, event.position))
        self.folders.apply(event, entries)

    def _replace_manifests(self, event: Event, relocated: RelocatedManifests) -> None:
        """The lists of snapshots with the manifests that were written anew."""
        new = [self._put_manifest(event, m) for m in relocated.manifests]
        places, placed = relocated.places, set[int]()
        for snapshot_id in relocated.lists:
            if snapshot_id in relocated.whole:
                ids = [new[i] for i in relocated.whole[snapshot_id]]
            else:
                rows = self._manifest_rows(event.stream, snapshot_id) or []
                ids = [new[places[listing(m)]] if listing(m) in places else i for i, m in rows]
            placed.update(ids)
            self._put_list(event, snapshot_id, ids)
        if not placed.issuperset(new):
            raise CorruptLogError(f"position {event.position}: manifests that it writes anew are in no list")

    def _put_list(self, event: Event, snapshot_id: int, ids: Sequence[int]) -> None:
        packed = array.array("q", ids).tobytes()
        self._run("put_snapshot_manifests", stream=event.stream, snapshot_id=_signed(snapshot_id), manifest_ids=packed)

    def replay(self) -> list[str]:
        """Makes the read models again of all events; inside of a write transaction, with `end_replay` after it.

        What was published of each stream is set aside until then; what `iceberg_tables` holds of other catalogs stays.
        Returns the streams of tables and views, in the order of the log.
        """
        connection = self._store.connection()
        connection.execute("REINDEX")
        for name in ("read_models", "set_read_models_aside", "read_models"):
            run_script(connection, query(SCHEMA, name))
        self.folders.begin()
        for name in ("clear_iceberg_tables", "clear_iceberg_namespaces"):
            self._run(name, catalog=self.catalog_name)
        for event in self._store.naming_events():
            if event.kind in ev.RELOCATING:
                # Events before it are read with what it says.
                self._store.relocate(relocation_of(event))
        streams = []
        for event in self._store.events():
            self.apply(event)
            if event.stream != ev.CATALOG_STREAM and event.stream_version == 1:
                streams.append(event.stream)
        return streams

    def end_replay(self) -> None:
        """Drops what was set aside."""
        run_script(self._store.connection(), query(SCHEMA, "forget_read_models_aside"))

    def _advance(self, event: Event, payload: Mapping[str, Any]) -> None:
        self._run(
            "put_head",
            stream=event.stream,
            stream_version=event.stream_version,
            position=event.position,
            location=_location(event.kind, payload),
        )
        for snapshot_id, changes in changes_of(payload, event.position).items():
            if changes.base is not None:
                parent = [(self._put_manifest(event, m), m) for m in changes.base]
            else:
                parent = self._parent_rows(event, payload, snapshot_id)
            added = [self._put_manifest(event, m) for m in changes.added]
            kept = [i for i, m in parent if m.manifest.manifest_path not in changes.removed]
            self._put_list(event, snapshot_id, [*added, *kept])

    def _parent_rows(
        self, event: Event, payload: Mapping[str, Any], snapshot_id: int
    ) -> list[tuple[int, ListedManifest]]:
        """The parent's list with the ids of its rows."""
        parent_id = next(
            u["snapshot"].get("parent-snapshot-id")
            for u in payload["updates"]
            if u["action"] == "add-snapshot" and u["snapshot"]["snapshot-id"] == snapshot_id
        )
        if parent_id is None:
            return []
        rows = self._manifest_rows(event.stream, parent_id)
        if rows is None:
            raise CorruptLogError(
                f"position {event.position}: the manifest list of snapshot {parent_id}, on which snapshot "
                f"{snapshot_id} builds, is not in the log"
            )
        return rows

    def _put_manifest(self, event: Event, listed: ListedManifest) -> int:
        cursor = self._store.execute(
            MODELS,
            "put_manifest",
            stream=event.stream,
            position=listed.position,
            manifest_path=listed.manifest.manifest_path,
            record=orjson.dumps(listed.to_dict()).decode(),
        )
        assert cursor.lastrowid is not None, "an INSERT gives a row id"
        return cursor.lastrowid

    # Names

    @property
    def catalog_name(self) -> str:
        return self._store.warehouse_value("catalog-name") or "icecore"

    def _put_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> None:
        name = dotted(namespace)
        self._run("put_namespace", name=name, properties=orjson.dumps(dict(properties)).decode())
        self._run("delete_iceberg_namespace", catalog=self.catalog_name, namespace=name)
        for key, value in (MINIMAL_PROPERTIES | dict(properties)).items():
            self._run("put_iceberg_namespace", catalog=self.catalog_name, namespace=name, key=key, value=value)

    def namespace_properties(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """Raises NoSuchNamespaceError."""
        found = self._store.row(MODELS, "get_namespace", name=dotted(namespace))
        if found is None:
            raise NoSuchNamespaceError(f"there is no namespace {dotted(namespace)!r}")
        properties: dict[str, str] = orjson.loads(found["properties"])
        return properties

    def namespaces(self) -> list[tuple[str, ...]]:
        return [tuple(r["name"].split(SEPARATOR)) for r in self._store.rows(MODELS, "list_namespaces")]

    def check_new_namespace(self, namespace: tuple[str, ...]) -> None:
        if namespace in self.namespaces():
            raise NamespaceAlreadyExistsError(f"the namespace {dotted(namespace)!r} exists already")

    def check_empty(self, namespace: tuple[str, ...]) -> None:
        """Raises NamespaceNotEmptyError naming one of the things inside, NoSuchNamespaceError."""
        self.namespace_properties(namespace)
        names = self.names_in(namespace)
        inner = [n for n in self.namespaces() if n[: len(namespace)] == namespace and n != namespace]
        if names or inner:
            inside = names[0][0] if names else dotted(inner[0])
            raise NamespaceNotEmptyError(f"the namespace {dotted(namespace)!r} is not empty: it holds {inside!r}")
        name = dotted(namespace)
        below = name + SEPARATOR
        shared = self._store.row(MODELS, "iceberg_table_below", catalog=self.catalog_name, namespace=name, below=below)
        if shared is not None:
            found = f"{shared['table_namespace']}.{shared['table_name']}"
            raise NamespaceNotEmptyError(f"the namespace {name!r} is not empty: another engine made {found!r} in it")

    def names_in(self, namespace: tuple[str, ...], kind: str | None = None) -> list[tuple[str, str]]:
        """(name, stream) of the tables or views directly in a namespace."""
        rows = self._store.rows(MODELS, "names_in", namespace=dotted(namespace))
        return [(r["name"], r["stream"]) for r in rows if kind in (None, r["kind"])]

    def all_names(self) -> list[tuple[tuple[str, ...], str, str]]:
        """(identifier, kind, stream) of everything that has a name."""
        rows = self._store.rows(MODELS, "all_names")
        return [((*r["namespace"].split(SEPARATOR), r["name"]), r["kind"], r["stream"]) for r in rows]

    def find(self, identifier: tuple[str, ...]) -> tuple[str, str] | None:
        """(kind, stream) of the table or view of that name."""
        found = self._store.row(MODELS, "get_name", namespace=dotted(identifier[:-1]), name=identifier[-1])
        return None if found is None else (found["kind"], found["stream"])

    def table_stream(self, identifier: tuple[str, ...]) -> str:
        """Raises NoSuchTableError."""
        found = self.find(identifier)
        if found is None or found[0] != "table":
            hint = " (it is a view)" if found else ""
            raise NoSuchTableError(f"there is no table {dotted(identifier)!r}{hint}")
        return found[1]

    def stream(self, identifier: tuple[str, ...]) -> str:
        """The stream of the table or view of that name. Raises NoSuchTableError."""
        found = self.find(identifier)
        if found is None:
            raise NoSuchTableError(f"there is no table or view {dotted(identifier)!r}")
        return found[1]

    def view_stream(self, identifier: tuple[str, ...]) -> str:
        """Raises NoSuchViewError."""
        found = self.find(identifier)
        if found is None or found[0] != "view":
            hint = " (it is a table)" if found else ""
            raise NoSuchViewError(f"there is no view {dotted(identifier)!r}{hint}")
        return found[1]

    def check_new_name(self, identifier: tuple[str, ...]) -> None:
        """Raises NoSuchNamespaceError, TableAlreadyExistsError."""
        self.namespace_properties(identifier[:-1])
        found = self.find(identifier)
        if found is not None:
            raise TableAlreadyExistsError(f"there is a {found[0]} {dotted(identifier)!r} already")
        namespace, name = dotted(identifier[:-1]), identifier[-1]
        shared = self._store.row(MODELS, "get_iceberg_table", catalog=self.catalog_name, namespace=namespace, name=name)
        if shared is not None:
            raise TableAlreadyExistsError(
                f"another engine made {dotted(identifier)!r} in iceberg_tables; its metadata is "
                f"{shared['metadata_location']}, which can be registered under another name"
            )

    def identifier_of(self, stream: str) -> tuple[str, ...] | None:
        found = self._store.row(MODELS, "name_of_stream", stream=stream)
        return None if found is None else (*found["namespace"].split(SEPARATOR), found["name"])

    def _put_name(self, event: Event, identifier: tuple[str, ...]) -> None:
        namespace = dotted(identifier[:-1])
        kind = "view" if ev.is_view_stream(event.stream) else "table"
        self._run("put_name", namespace=namespace, name=identifier[-1], kind=kind, stream=event.stream)

    def _rename(self, event: Event, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        self._run("delete_name", stream=event.stream)
        self._put_name(event, new)
        self._run(
            "rename_iceberg_table",
            stream=event.stream,
            catalog=self.catalog_name,
            namespace=dotted(old[:-1]),
            name=old[-1],
            new_namespace=dotted(new[:-1]),
            new_name=new[-1],
        )

    def _forget_name(self, event: Event, identifier: tuple[str, ...]) -> None:
        self._run("delete_name", stream=event.stream)
        self._run(
            "delete_iceberg_table",
            stream=event.stream,
            catalog=self.catalog_name,
            namespace=dotted(identifier[:-1]),
            name=identifier[-1],
        )

    def _share_again(self, event: Event, identifier: tuple[str, ...]) -> None:
        """Gives other engines the pointer back; where nothing is written out yet, it comes with the first file."""
        head = self._store.row(MODELS, "get_head", stream=event.stream)
        if head is None or head["metadata_location"] is None:
            return
        self._run(
            "put_iceberg_table",
            catalog=self.catalog_name,
            namespace=dotted(identifier[:-1]),
            name=identifier[-1],
            metadata_location=head["metadata_location"],
            iceberg_type="VIEW" if ev.is_view_stream(event.stream) else "TABLE",
        )

    def has_stream(self, stream: str) -> bool:
        """Whether a table or view ever had that stream."""
        return self._store.row(MODELS, "get_head", stream=stream) is not None

    def unused_stream(self, stream: str) -> str:
        """A stream for a table or view that is adopted: the one given, or one like it.

        The same table may have been here before, or still be under another name: two streams tell them apart.
        """
        return f"{stream}#{uuid.uuid4()}" if self.has_stream(stream) else stream

    def location_in_use(self, location: str) -> bool:
        return self._store.row(MODELS, "location_in_use", location=location) is not None

    # Manifests

    def list_manifests(self, stream: str, snapshot_id: int) -> tuple[ListedManifest, ...] | None:
        """The manifests of a snapshot in list order; None where this log did not make the snapshot."""
        rows = self._manifest_rows(stream, snapshot_id)
        return None if rows is None else tuple(listed for _, listed in rows)

    def manifests_of(self, stream: str, snapshot_ids: Iterable[int]) -> tuple[list[ListedManifest], set[int]]:
        """The manifests that any of the snapshots lists, each once, and the snapshots that this log made."""
        known, ids = set[int](), set[int]()
        for snapshot_id in snapshot_ids:
            listed = self._manifest_ids(stream, snapshot_id)
            if listed is not None:
                known.add(snapshot_id)
                ids.update(listed)
        return list(self._manifests(sorted(ids)).values()), known

    def _manifest_ids(self, stream: str, snapshot_id: int) -> array.array[int] | None:
        found = self._store.row(MODELS, "get_snapshot_manifests", stream=stream, snapshot_id=_signed(snapshot_id))
        if found is None:
            return None
        ids = array.array("q")
        ids.frombytes(found["manifest_ids"])
        return ids

    def _manifest_rows(self, stream: str, snapshot_id: int) -> list[tuple[int, ListedManifest]] | None:
        ids = self._manifest_ids(stream, snapshot_id)
        if ids is None:
            return None
        by_id = self._manifests(ids.tolist())
        return [(i, by_id[i]) for i in ids]

    def _manifests(self, ids: list[int]) -> dict[int, ListedManifest]:
        text = orjson.dumps(ids).decode()
        rows = self._store.rows(MODELS, "manifests_by_id", ids=text)
        return {r["manifest_id"]: _listed(r["record"], r["position"]) for r in rows}

    def has_list(self, stream: str, snapshot_id: int) -> bool:
        """Whether this log knows the manifest list of a snapshot."""
        return (
            self._store.row(MODELS, "get_snapshot_manifests", stream=stream, snapshot_id=_signed(snapshot_id))
            is not None
        )

    def manifest(self, stream: str, manifest_path: str) -> ListedManifest | None:
        """The newest record of a manifest by its path."""
        found = self._store.row(MODELS, "manifests_by_path", stream=stream, manifest_path=manifest_path)
        return None if found is None else _listed(found["record"], found["position"])

    def _run(self, query_name: str, /, **parameters: Any) -> None:
        self._store.execute(MODELS, query_name, **parameters)


def relocation_of(event: Event) -> Relocation:
    """The relocation that an event of a move or clone tells of."""
    payload = event.payload
    return Relocation(event.position, payload["from"], payload["to"], payload.get("shares-data", False))


@lru_cache(maxsize=20_000)
def _listed(record: str, position: int) -> ListedManifest:
    """The manifest of a row. Kept by what the row says, not by its id: a rolled back id is given out again."""
    return ListedManifest.from_dict(orjson.loads(record), position)


def _location(kind: str, payload: Mapping[str, Any]) -> str | None:
    """The location that an event gives its table."""
    adopted = (ev.TABLE_REGISTERED, ev.TABLE_ADOPTED, ev.TABLE_RESTORED, ev.VIEW_REGISTERED, ev.VIEW_ADOPTED)
    if kind in adopted:
        location: str = payload["location"] if "location" in payload else payload["metadata"]["location"]
        return location
    locations = [u["location"] for u in payload.get("updates", ()) if u["action"] == "set-location"]
    return locations[-1] if locations else None


def _signed(snapshot_id: int) -> int:
    """SQLite holds signed 64-bit integers; some writers made ids above them."""
    return snapshot_id - 2**64 if snapshot_id >= 2**63 else snapshot_id
