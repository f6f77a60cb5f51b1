"""The state of a table and its fold over the events of its stream.

`fold` is pure: it reads no file, no clock and no randomness, so that a replay on another day gives the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from attrs import evolve, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.location import LocationMapping
from icecore.engine.common.text import short_repr
from icecore.engine.errors import CorruptLogError, IcecoreError
from icecore.engine.events.event import Event
from icecore.engine.events.table_events import (
    TableAdopted,
    TableCommitted,
    TableCreated,
    TableDropped,
    TableEvent,
    TableFilesDeleted,
    TableMaterialized,
    TablePurged,
    TableRegistered,
    TableRelocated,
    TableRenamed,
    TableRestored,
    TableUndropped,
    read_table_event,
)
from icecore.engine.metadata.metadata_builder import MetadataBuilder
from icecore.engine.properties.data_locations import data_folder, folder_at
from icecore.engine.properties.table_properties import (
    COMMIT_SCHEME,
    FILE_SYSTEM,
    MATERIALIZE,
    METADATA_COMPRESSION,
    METADATA_PATH,
    PREVIOUS_VERSIONS_MAX,
    check_values,
)
from icecore.engine.spec.metadata import TableMetadata

_ALWAYS_CHECKED = (COMMIT_SCHEME.name, MATERIALIZE.name, METADATA_COMPRESSION.name)


def check_properties(properties: Mapping[str, str]) -> None:
    """Raises ValidationError for a property value with which the table's files can't be written."""
    check_values({name: properties[name] for name in _ALWAYS_CHECKED if name in properties})


@frozen
class TableState:
    """A table as of one version of its stream.

    `metadata` is what the next metadata file says. `metadata_location` is the file of the latest materialized version,
    None before the first; `metadata_version` is its number. `pending` is true where commits came after it that are to
    be written out later (`icecore.materialize = manual`). `purged_at` is the position of the event that let all files
    of a dropped table go.
    """

    __repr__ = short_repr

    stream: str
    stream_version: int
    position: int
    event_hash: str
    identifier: Identifier
    metadata: TableMetadata
    metadata_location: str | None
    metadata_version: int
    location_mapping: LocationMapping = LocationMapping()
    dropped: bool = False
    pending: bool = False
    purged_at: int | None = None


def metadata_folder(location: str, properties: Mapping[str, str]) -> str:
    """The folder of metadata files (MD7): `write.metadata.path`, absolute or relative to the table's location."""
    return folder_at(location, METADATA_PATH.find(properties), "metadata")


def metadata_file_name(version: int, event_id: str, properties: Mapping[str, str]) -> str:
    """The name of a metadata file, which follows from the event and the table's commit scheme (MD7)."""
    gz = ".gz" if METADATA_COMPRESSION.or_default(properties) == "gzip" else ""
    if COMMIT_SCHEME.or_default(properties) == FILE_SYSTEM:
        return f"v{version}{gz}.metadata.json"
    return f"{version:05d}-{event_id}{gz}.metadata.json"


def previous_versions_max(properties: Mapping[str, str]) -> int:
    """The most earlier metadata files that the metadata log names, at least one (MD2)."""
    return max(1, PREVIOUS_VERSIONS_MAX.or_default(properties))


TableChange = (
    TableCommitted
    | TableMaterialized
    | TableAdopted
    | TableRestored
    | TableRelocated
    | TableRenamed
    | TableDropped
    | TableUndropped
    | TableFilesDeleted
    | TablePurged
)
"""An event of a table that is there."""


class TableFold:
    """The fold of one table's events, one after another."""

    def __init__(self, base: TableState | None = None) -> None:
        self._state = base
        self._builder = MetadataBuilder(base.metadata) if base else MetadataBuilder()

    def apply(self, event: Event) -> None:
        """Applies the next event. Raises CorruptLogError where it does not follow the one before."""
        expected = (self._state.stream_version if self._state else 0) + 1
        if event.stream_version != expected:
            raise CorruptLogError(
                f"position {event.position}: version {event.stream_version} of {event.stream}, expected {expected}"
            )
        try:
            self._state = self._next(event, read_table_event(event))
        except CorruptLogError:
            raise
        except (IcecoreError, LookupError, TypeError, ValueError, AttributeError) as e:
            what = str(e) if isinstance(e, IcecoreError) else f"{type(e).__name__} {e}"
            raise CorruptLogError(f"position {event.position}: the {event.kind} event can't be applied: {what}") from e

    def state(self) -> TableState | None:
        """The state after all events so far; None before the first."""
        return None if self._state is None else evolve(self._state, metadata=self._builder.build())

    @property
    def metadata_log(self) -> tuple[str, ...]:
        """The earlier metadata files that the state names, without building it."""
        return self._builder.metadata_log

    @property
    def metadata_location(self) -> str | None:
        """The metadata file of the latest materialized version."""
        return None if self._state is None else self._state.metadata_location

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's present properties."""
        return self._builder.properties

    @property
    def location(self) -> str:
        """The table's present location."""
        return self._builder.location

    def _next(self, event: Event, change: TableEvent) -> TableState:
        match change:
            case TableCreated():
                return self._created(event, change)
            case TableRegistered():
                return self._registered(event, change)
            case _ if self._state is None:
                raise CorruptLogError(f"position {event.position}: {event.kind} before the table was created")
            case _:
                return self._changed(event, change, self._state)

    def _changed(self, event: Event, change: TableChange, state: TableState) -> TableState:
        match change:
            case TableCommitted():
                return self._committed(event, change, state)
            case TableMaterialized():
                self._log_previous(state)
                return self._materialized(event, state)
            case TableAdopted():
                return self._adopted(event, change, state)
            case TableRestored():
                return self._restored(event, change, state)
            case TableRelocated():
                return self._relocated(event, change, state)
            case TableRenamed():
                return _moved(state, event, identifier=change.identifier)
            case TableDropped():
                return _moved(state, event, dropped=True)
            case TableUndropped():
                return _moved(state, event, identifier=change.identifier, dropped=False)
            case TableFilesDeleted():
                return _moved(state, event)
            case TablePurged():
                return _moved(state, event, purged_at=event.position)
            case _:
                assert_never(change)

    def _created(self, event: Event, change: TableCreated) -> TableState:
        self._builder = MetadataBuilder()
        self._builder.apply(change.updates, event.recorded_at_ms)
        first = TableState(
            event.stream,
            event.stream_version,
            event.position,
            event.hash,
            change.identifier,
            self._builder.build(),
            metadata_location=None,
            metadata_version=self._first_version() - 1,
        )
        return self._materialized(event, first) if change.materialize else evolve(first, pending=True)

    def _first_version(self) -> int:
        return 1 if COMMIT_SCHEME.or_default(self._builder.properties) == FILE_SYSTEM else 0

    def _registered(self, event: Event, change: TableRegistered) -> TableState:
        self._builder = MetadataBuilder(change.metadata)
        return TableState(
            event.stream,
            event.stream_version,
            event.position,
            event.hash,
            change.identifier,
            change.metadata,
            change.metadata_location,
            change.metadata_version,
            change.location_mapping,
        )

    def _committed(self, event: Event, change: TableCommitted, state: TableState) -> TableState:
        if change.materialize:
            self._log_previous(state, change.previous_versions_max)
        self._builder.apply(change.updates, event.recorded_at_ms)
        return self._materialized(event, state) if change.materialize else _moved(state, event, pending=True)

    def _adopted(self, event: Event, change: TableAdopted, state: TableState) -> TableState:
        """The table as another engine's metadata file has it."""
        metadata = change.metadata(state.metadata.table_uuid)
        self._builder = MetadataBuilder(metadata)
        return _moved(
            state,
            event,
            metadata=metadata,
            metadata_location=change.metadata_location,
            metadata_version=change.metadata_version,
            pending=False,
        )

    def _restored(self, event: Event, change: TableRestored, state: TableState) -> TableState:
        """The log's own metadata again; its next file follows the other engine's, and says so (MD2, MD3)."""
        self._log_previous(state)
        metadata = evolve(
            change.metadata,
            metadata_log=self._builder.build().metadata_log,
            last_updated_ms=event.recorded_at_ms,
        )
        self._builder = MetadataBuilder(metadata)
        return self._materialized(event, evolve(state, metadata=metadata))

    def _relocated(self, event: Event, change: TableRelocated, state: TableState) -> TableState:
        """The same snapshots with manifest lists of the new folder."""
        self._log_previous(state)
        lists = change.manifest_lists
        metadata = self._builder.build()
        snapshots = tuple(
            evolve(s, manifest_list=lists[str(s.snapshot_id)], manifests=None) if str(s.snapshot_id) in lists else s
            for s in metadata.snapshots
        )
        self._builder = MetadataBuilder(evolve(metadata, snapshots=snapshots))
        return self._materialized(event, state)

    def _log_previous(self, state: TableState, limit: int | None = None) -> None:
        if state.metadata_location is None:
            return
        limit = previous_versions_max(self._builder.properties) if limit is None else limit
        self._builder.log_previous_metadata(self._builder.last_updated_ms, state.metadata_location, limit)

    def _materialized(self, event: Event, state: TableState) -> TableState:
        version = state.metadata_version + 1
        folder = metadata_folder(self._builder.location, self._builder.properties)
        name = metadata_file_name(version, event.event_id, self._builder.properties)
        location = f"{folder}/{name}"
        return _moved(state, event, metadata_location=location, metadata_version=version, pending=False)


def _moved(state: TableState, event: Event, **changes: Any) -> TableState:
    """The state as of an event, with what that changes of it."""
    return evolve(state, stream_version=event.stream_version, position=event.position, event_hash=event.hash, **changes)


def fold(state: TableState | None, events: Iterable[Event]) -> TableState | None:
    """The state after the events. Raises CorruptLogError where they can't follow."""
    batch = list(events)
    if not batch:
        return state
    folding = TableFold(state)
    for event in batch:
        folding.apply(event)
    return folding.state()


def state_to_dict(state: TableState) -> dict[str, Any]:
    """The JSON object of a checkpoint."""
    return {
        "stream": state.stream,
        "stream-version": state.stream_version,
        "position": state.position,
        "event-hash": state.event_hash,
        "identifier": list(state.identifier),
        "metadata": state.metadata.to_dict(),
        "metadata-location": state.metadata_location,
        "metadata-version": state.metadata_version,
        "location-mapping": state.location_mapping.to_dict(),
        "dropped": state.dropped,
        "pending": state.pending,
        **({} if state.purged_at is None else {"purged-at": state.purged_at}),
    }


def state_from_dict(obj: Mapping[str, Any]) -> TableState:
    """The state of a checkpoint's JSON object."""
    return TableState(
        obj["stream"],
        obj["stream-version"],
        obj["position"],
        obj["event-hash"],
        tuple(obj["identifier"]),
        TableMetadata.from_dict(obj["metadata"]),
        obj["metadata-location"],
        obj["metadata-version"],
        LocationMapping.of(obj["location-mapping"]),
        obj["dropped"],
        obj["pending"],
        obj.get("purged-at"),
    )


def is_file_system(state: TableState) -> bool:
    """Whether the names of a table's metadata files tell its versions, as `HadoopCatalog` has it (MD7)."""
    return COMMIT_SCHEME.or_default(state.metadata.properties) == FILE_SYSTEM


def version_names(version: int) -> tuple[str, ...]:
    """The names under which a version of a file system table may lie (MD7)."""
    return (f"v{version}.metadata.json", f"v{version}.gz.metadata.json", f"v{version}.metadata.json.gz")


def folders_of(state: TableState) -> list[str]:
    """The folders of a table: its location, and those of its data and metadata where they are elsewhere."""
    metadata = state.metadata
    location = metadata.location.rstrip("/")
    others = (data_folder(location, metadata.properties), metadata_folder(location, metadata.properties))
    return [location, *(f for f in dict.fromkeys(others) if not f.startswith(location + "/"))]
