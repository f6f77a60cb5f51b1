"""The read models that follow the log in the same SQLite transaction: names, heads and manifest lists.

Each is a projection of the events: `apply` takes one event in, and dropping the tables and applying all events again
gives the same rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

import orjson

from icecore.engine.common.stored_json import stored_json
from icecore.engine.common.text import names_like, shown_text
from icecore.engine.errors import (
    CorruptLogError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    name_text,
)
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.events.event_facts import given_locations
from icecore.engine.events.manifest_changes import ManifestChanges, changes_of
from icecore.engine.events.name_events import Dropped, Named, Renamed, Undropped, became_of, read_name_event, taken_text
from icecore.engine.events.namespace_events import (
    NamespaceCreated,
    NamespaceDropped,
    NamespaceEvent,
    NamespacePropertiesUpdated,
    read_namespace_event,
)
from icecore.engine.events.relocated_manifests import RelocatedManifests
from icecore.engine.events.relocation import Relocation
from icecore.engine.log.lock.standing import Standing
from icecore.engine.log.manifest_models import ManifestModels
from icecore.engine.log.sqlite_file import SETTINGS, run_script
from icecore.engine.log.store import MODELS, SCHEMA, EventStore
from icecore.engine.log.table_folders import TableFolders
from icecore.engine.queries.named_queries import query

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATOR = "."
Names: TypeAlias = tuple[tuple[str, ...], ...]
AFTER_SEPARATOR = "/"
"""The character that comes right after the separator."""
MINIMAL_PROPERTIES = {"exists": "true"}


def dotted(namespace: tuple[str, ...]) -> str:
    """A namespace as dotted text."""
    return SEPARATOR.join(namespace)


class ReadModels(ManifestModels):
    """The read models of one log."""

    def __init__(self, store: EventStore) -> None:
        super().__init__(store)
        self._catalog_name: str | None = None
        self.folders = TableFolders(store)

    # Following the log

    def apply(self, event: Event, entries: pa.Table | None = None) -> None:
        """Applies one event, inside of a write transaction. `entries` are its content files, if they are at hand."""
        payload = event.payload
        match change := read_name_event(event.kind, payload):
            case Named(identifier):
                self._put_name(event, identifier)
            case Renamed(before, identifier):
                self._rename(event, before, identifier)
            case Dropped(identifier):
                self._forget_name(event, identifier)
            case Undropped(identifier):
                self._put_name(event, identifier)
                self._share_again(event, identifier)
            case None:
                pass
            case _:
                assert_never(change)
        if event.kind in ev.RELOCATING:
            self._store.relocate(Relocation.from_dict(event.payload, event.position))
        changes: Mapping[int, ManifestChanges] = {}
        if event.stream != ev.CATALOG_STREAM:
            changes = changes_of(payload, event.position)
            self._advance(event, payload, changes)
        elif (namespace := read_namespace_event(event.kind, payload)) is not None:
            self._follow_namespace(namespace)
        if event.kind == ev.TABLE_PURGED:
            # It is at its location no more, and no file of it is to be there.
            self._run("forget_location", stream=event.stream)
            self._run("forget_files", stream=event.stream)
            self._run("forget_kept_files", stream=event.stream)
        if event.kind == ev.TABLE_RELOCATED:
            self._replace_manifests(event, RelocatedManifests.from_dict(payload, event.position))
        self.folders.apply(event, changes, entries)

    def replay(self) -> list[str]:
        """Rebuilds the read models from all events, inside of a write transaction, with `end_replay` after it.

        The published files of each stream are set aside until then; rows of other catalogs in `iceberg_tables` stay.
        Returns the streams of tables and views, in the order of the log.
        """
        from icecore.engine.log.deletion_content import note_removed_orphans_of

        connection = self._store.connection()
        connection.execute(query(SETTINGS, "make_indexes_again"))
        for name in ("read_models", "set_read_models_aside", "read_models"):
            run_script(connection, query(SCHEMA, name))
        self.folders.begin()
        for name in ("clear_iceberg_tables", "clear_iceberg_namespaces"):
            self._run(name, catalog=self.catalog_name)
        for event in self._store.naming_events():
            if event.kind in ev.RELOCATING:
                # Events before a move or clone are read with its folders.
                self._store.relocate(Relocation.from_dict(event.payload, event.position))
        streams = []
        for event in self._store.events():
            self.apply(event)
            note_removed_orphans_of(self._store, event)
            if event.stream != ev.CATALOG_STREAM and event.stream_version == 1:
                streams.append(event.stream)
        return streams

    def end_replay(self) -> None:
        """Drops the rows that the replay set aside."""
        run_script(self._store.connection(), query(SCHEMA, "forget_read_models_aside"))

    def _follow_namespace(self, change: NamespaceEvent) -> None:
        match change:
            case NamespaceCreated():
                self._put_namespace(change.namespace, change.properties)
            case NamespacePropertiesUpdated():
                self._put_namespace(change.namespace, change.applied(self.namespace_properties(change.namespace)))
            case NamespaceDropped():
                name = dotted(change.namespace)
                self._run("delete_namespace", name=name)
                self._run("delete_iceberg_namespace", catalog=self.catalog_name, namespace=name)
            case _:
                assert_never(change)

    def _advance(self, event: Event, payload: Mapping[str, Any], changes: Mapping[int, ManifestChanges]) -> None:
        locations = given_locations(event.kind, payload)
        self._run(
            "put_head",
            stream=event.stream,
            stream_version=event.stream_version,
            position=event.position,
            location=locations[-1] if locations else None,
        )
        self._follow_lists(event, payload, changes)
        self._follow_kept(event, payload)

    # Names

    @property
    def catalog_name(self) -> str:
        """The catalog's name in `iceberg_tables`."""
        if self._catalog_name is None:
            # It is set once, with the warehouse.
            self._catalog_name = self._store.warehouse_value("catalog-name")
        return self._catalog_name or "icecore"

    def _put_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str]) -> None:
        name = dotted(namespace)
        self._run("put_namespace", name=name, properties=orjson.dumps(dict(properties)).decode())
        self._run("delete_iceberg_namespace", catalog=self.catalog_name, namespace=name)
        for key, value in (MINIMAL_PROPERTIES | dict(properties)).items():
            self._run("put_iceberg_namespace", catalog=self.catalog_name, namespace=name, key=key, value=value)

    def namespace_properties(self, namespace: tuple[str, ...]) -> dict[str, str]:
        """The properties of a namespace, none of one that is only implied. Raises NoSuchNamespaceError."""
        found = self._store.row(MODELS, "get_namespace", name=dotted(namespace))
        if found is None:
            if self.inner_namespaces(namespace, limit=1):
                return {}
            more = self._became_of(namespace, "namespace")
            raise NoSuchNamespaceError(f"Namespace does not exist: {name_text(namespace)}", *more)
        return stored_json(found["properties"], dict, f"the row of the namespace {name_text(namespace)!r}")

    def namespaces(self) -> list[tuple[str, ...]]:
        """All namespaces."""
        return [tuple(r["name"].split(SEPARATOR)) for r in self._store.rows(MODELS, "list_namespaces")]

    def inner_namespaces(self, namespace: tuple[str, ...], after: str = "", limit: int = -1) -> list[str]:
        """The levels directly inside of a namespace, or at the top, after the one `after`; a `limit` of -1 is no limit.

        They are in the order of their names with a dot at the end, which is that of the log's index.
        """
        prefix = dotted((*namespace, "")) if namespace else ""
        # All text comes before a blob.
        before = dotted(namespace) + AFTER_SEPARATOR if namespace else b""
        key = prefix + after + AFTER_SEPARATOR if after else prefix
        rows = self._store.rows(MODELS, "inner_namespaces", prefix=prefix, after=key, before=before, limit=limit)
        return [r["level"] for r in rows]

    def is_implied(self, namespace: tuple[str, ...]) -> bool:
        """Whether a namespace was never created, and is there because of those inside of it."""
        is_made = self._store.row(MODELS, "get_namespace", name=dotted(namespace)) is not None
        return not is_made and bool(self.inner_namespaces(namespace, limit=1))

    def check_new_namespace(self, namespace: tuple[str, ...]) -> None:
        """Raises NamespaceAlreadyExistsError; one that is only implied can be created still."""
        if self._store.row(MODELS, "get_namespace", name=dotted(namespace)) is not None:
            given = self._store.event_that_gave(orjson.dumps(list(namespace)).decode())
            raise NamespaceAlreadyExistsError(taken_text(namespace, "namespace", "namespace", None, given))

    def check_empty(self, namespace: tuple[str, ...]) -> None:
        """Raises NamespaceNotEmptyError naming one of the things inside, NoSuchNamespaceError."""
        self.namespace_properties(namespace)
        names = self.names_after(namespace, "table", limit=1) + self.names_after(namespace, "view", limit=1)
        inside = names or [dotted((*namespace, level)) for level in self.inner_namespaces(namespace, limit=1)]
        if inside:
            raise NamespaceNotEmptyError(f"Namespace {name_text(namespace)} is not empty. It holds {inside[0]!r}")
        name = dotted(namespace)
        below = name + SEPARATOR
        shared = self._store.row(MODELS, "iceberg_table_below", catalog=self.catalog_name, namespace=name, below=below)
        if shared is not None:
            outer, inner = map(shown_text, shared)
            found = name_text((*outer.split(SEPARATOR), inner))
            raise NamespaceNotEmptyError(f"Namespace {name} is not empty. Another engine made {found!r} in it")

    def names_in(self, namespace: tuple[str, ...], kind: str | None = None) -> list[tuple[str, str]]:
        """(name, stream) of the tables or views directly in a namespace."""
        rows = self._store.rows(MODELS, "names_in", namespace=dotted(namespace))
        return [(r["name"], r["stream"]) for r in rows if kind in (None, r["kind"])]

    def names_after(self, namespace: tuple[str, ...], kind: str, after: str = "", limit: int = -1) -> list[str]:
        """The names of tables or views directly in a namespace, in order, after the one `after`; -1 is no limit."""
        found = dotted(namespace)
        rows = self._store.rows(MODELS, "names_after", namespace=found, kind=kind, after=after, limit=limit)
        return [r["name"] for r in rows]

    def all_names(self) -> list[tuple[tuple[str, ...], str, str]]:
        """(identifier, kind, stream) of everything that has a name."""
        rows = self._store.rows(MODELS, "all_names")
        return [((*r["namespace"].split(SEPARATOR), r["name"]), r["kind"], r["stream"]) for r in rows]

    def find(self, identifier: tuple[str, ...]) -> tuple[str, str] | None:
        """(kind, stream) of the table or view of that name."""
        found = self._store.row(MODELS, "get_name", namespace=dotted(identifier[:-1]), name=identifier[-1])
        return None if found is None else (found["kind"], found["stream"])

    def table_stream(self, identifier: tuple[str, ...], found: tuple[str, str] | None = None) -> str:
        """The stream of the table of that name; `found` is as by `find`, where it was. Raises NoSuchTableError."""
        found = found or self.find(identifier)
        if found is None or found[0] != "table":
            more = (" (it is a view)",) if found else self._became_of(identifier, "table")
            raise NoSuchTableError(f"Table does not exist: {name_text(identifier)}", *more)
        return found[1]

    def stream(self, identifier: tuple[str, ...]) -> str:
        """The stream of the table or view of that name. Raises NoSuchTableError."""
        found = self.find(identifier)
        if found is None:
            more = self._became_of(identifier, "table", "view")
            raise NoSuchTableError(f"Table or view does not exist: {name_text(identifier)}", *more)
        return found[1]

    def view_stream(self, identifier: tuple[str, ...], found: tuple[str, str] | None = None) -> str:
        """The stream of the view of that name; `found` is as by `find`, where it was. Raises NoSuchViewError."""
        found = found or self.find(identifier)
        if found is None or found[0] != "view":
            more = (" (it is a table)",) if found else self._became_of(identifier, "view")
            raise NoSuchViewError(f"View does not exist: {name_text(identifier)}", *more)
        return found[1]

    def _became_of(self, name: tuple[str, ...], *kinds: str) -> tuple[str, Names, Names]:
        """The words for what became of a name, and the namespaces that they tell of; or which names are like it."""
        took = (event for kind in kinds if (event := self._store.event_that_took(kind, name)) is not None)
        last = max(took, key=lambda event: event.position, default=None)
        if last is None:
            return "", (), self._namespaces_like(name) if "namespace" in kinds else self._like(name, *kinds)
        head = self._store.row(MODELS, "get_head", stream=last.stream)
        return *became_of(last, is_last=head is not None and head["position"] == last.position), ()

    def _like(self, name: tuple[str, ...], *kinds: str) -> Names:
        """The names like one that nothing ever had; only a few are compared, as clients may try many unknown names."""
        asked = {"namespace": dotted(name[:-1]), "name": name[-1]}
        rows = [r for which in ("names_elsewhere", "names_like") for r in self._store.rows(MODELS, which, **asked)]
        return names_like(name, ((*r["namespace"].split(SEPARATOR), r["name"]) for r in rows if r["kind"] in kinds))

    def _namespaces_like(self, name: tuple[str, ...]) -> Names:
        rows = self._store.rows(MODELS, "namespaces_like", name=dotted(name), level=name[-1])
        return names_like(name, (tuple(r["name"].split(SEPARATOR)) for r in rows))

    def check_new_name(
        self, identifier: tuple[str, ...], *, kind: str = "table", before: tuple[str, ...] | None = None
    ) -> None:
        """Checks that a name is free for what is a `table` or `view`; `before` is the name that it has already.

        Raises NoSuchNamespaceError, TableAlreadyExistsError.
        """
        self.namespace_properties(identifier[:-1])
        taken = self.find(identifier)
        if taken is not None:
            given = self._store.event_that_gave(taken[1])
            raise TableAlreadyExistsError(taken_text(identifier, taken[0], kind, before, given))
        namespace, name = dotted(identifier[:-1]), identifier[-1]
        shared = self._store.row(MODELS, "get_iceberg_table", catalog=self.catalog_name, namespace=namespace, name=name)
        if shared is not None:
            raise TableAlreadyExistsError(
                f"{taken_text(identifier, 'table', kind, before)}; another engine made it in iceberg_tables: its "
                f"metadata is {shared['metadata_location']}, which can be registered under another name"
            )

    def identifier_of(self, stream: str) -> tuple[str, ...] | None:
        """The name of a stream; None where it has none."""
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
        """Restores the pointer for other engines; where no file is written yet, it comes with the first."""
        head = self._store.row(MODELS, "get_head", stream=event.stream)
        if head is None or head["metadata_location"] is None:
            return
        self.share(event.stream, identifier, head["metadata_location"])

    def share(self, stream: str, identifier: tuple[str, ...], metadata_location: str) -> None:
        """Names the metadata file of a table or view in the row that other engines read."""
        self._run(
            "put_iceberg_table",
            catalog=self.catalog_name,
            namespace=dotted(identifier[:-1]),
            name=identifier[-1],
            metadata_location=metadata_location,
            iceberg_type="VIEW" if ev.is_view_stream(stream) else "TABLE",
        )

    def find_standing(self, stream: str) -> Standing | None:
        """The standing of a stream; None where the read models don't know it."""
        row = self._store.row(MODELS, "standing", stream=stream, catalog=self.catalog_name)
        return None if row is None else Standing.of(row, SEPARATOR)

    def find_standing_of(self, identifier: tuple[str, ...]) -> Standing | None:
        """The standing of the table or view of a name; None where there is none."""
        name = {"namespace": dotted(identifier[:-1]), "name": identifier[-1]}
        row = self._store.row(MODELS, "standing_of_name", catalog=self.catalog_name, **name)
        return None if row is None else Standing.of(row, SEPARATOR)

    def standing(self, stream: str) -> Standing:
        """The standing of a stream. Raises CorruptLogError where the read models don't know it."""
        found = self.find_standing(stream)
        if found is None:
            raise CorruptLogError(f"the read models know no stream {stream}; rebuild the warehouse")
        return found

    def has_stream(self, stream: str) -> bool:
        """Whether a table or view ever had that stream."""
        return self._store.row(MODELS, "get_head", stream=stream) is not None

    def unused_stream(self, stream: str) -> str:
        """A stream for a table or view that is adopted: the one given, or one like it.

        The same table may have been here before, or still be under another name: two streams tell them apart.
        """
        return f"{stream}#{uuid.uuid4()}" if self.has_stream(stream) else stream

    def location_in_use(self, location: str) -> bool:
        """Whether a table or view has that location."""
        return self._store.row(MODELS, "location_in_use", location=location) is not None
