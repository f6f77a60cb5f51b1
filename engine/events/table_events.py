"""The events of a table as values: `TableEvent` is the closed union of them, read of their payloads.

`event.py` says what the payload of each kind holds. The manifests of new snapshots are read where they are asked for,
by `changes_of`, and the relocated ones by `RelocatedManifests`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.location import LocationMapping
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, read_by_kind
from icecore.engine.events.files_of_others import adopted_metadata
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.table_update import TableUpdate, read_table_updates


@frozen
class TableCreated:
    """A new table; `materialize` is false where its metadata files are written by hand."""

    identifier: Identifier
    updates: tuple[TableUpdate, ...]
    materialize: bool = True


@frozen
class TableRegistered:
    """A table that another engine made, as its metadata file has it."""

    identifier: Identifier
    metadata: TableMetadata
    metadata_location: str
    metadata_version: int
    location_mapping: LocationMapping


VERSIONS_MAX = "previous-versions-max"


@frozen
class TableCommitted:
    """A commit; `materialize` is false where its metadata file is written by hand, later.

    `previous_versions_max` is the length of the metadata log where the commit changes it (MD2).
    """

    updates: tuple[TableUpdate, ...]
    materialize: bool = True
    previous_versions_max: int | None = None


@frozen
class TableMaterialized:
    """The metadata of the moment is written out, by hand."""


@frozen
class TableAdopted:
    """A commit of another engine; `payload` holds its metadata file."""

    metadata_location: str
    metadata_version: int
    payload: Mapping[str, Any] = field(repr=False)

    def metadata(self, table_uuid: str | None) -> TableMetadata:
        """The metadata of the file; `table_uuid` is for v1 files, which may lack it (G1). Raises CorruptLogError."""
        return adopted_metadata(self.payload, table_uuid)


@frozen
class TableRestored:
    """The log's metadata goes on over a commit of another engine."""

    metadata: TableMetadata


@frozen
class TableRelocated:
    """A move or clone of the warehouse gave snapshots, by id, manifest lists in the new folder."""

    manifest_lists: Mapping[str, str]


@frozen
class TableRenamed:
    """The table has another name."""

    identifier: Identifier


@frozen
class TableDropped:
    """The table has no name any more; its files stay."""


@frozen
class TableUndropped:
    """A dropped table has a name again."""

    identifier: Identifier


@frozen
class TableFilesDeleted:
    """Files that the table does not need any more are deleted."""


@frozen
class TablePurged:
    """All files of a dropped table are deleted."""


TableEvent = (
    TableCreated
    | TableRegistered
    | TableCommitted
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


def read_table_event(event: Event) -> TableEvent:
    """An event of a table as a value.

    Raises CorruptLogError where a table has no events of that kind; ValidationError, LookupError, TypeError or
    ValueError where its payload is not one of its kind.
    """
    return read_by_kind(event, _READERS)


def _created(payload: Mapping[str, Any]) -> TableCreated:
    return TableCreated(tuple(payload["identifier"]), _updates(payload), payload.get("materialize", True))


def _committed(payload: Mapping[str, Any]) -> TableCommitted:
    return TableCommitted(_updates(payload), payload.get("materialize", True), payload.get(VERSIONS_MAX))


def _updates(payload: Mapping[str, Any]) -> tuple[TableUpdate, ...]:
    return tuple(read_table_updates(payload["updates"]))


def _registered(payload: Mapping[str, Any]) -> TableRegistered:
    return TableRegistered(
        tuple(payload["identifier"]),
        TableMetadata.from_dict(payload["metadata"]),
        payload["metadata-location"],
        payload["metadata-version"],
        LocationMapping.of(payload.get("location-mapping")),
    )


_READERS: dict[str, Callable[[Mapping[str, Any]], TableEvent]] = {
    ev.TABLE_CREATED: _created,
    ev.TABLE_REGISTERED: _registered,
    ev.TABLE_COMMITTED: _committed,
    ev.TABLE_MATERIALIZED: lambda _: TableMaterialized(),
    ev.TABLE_ADOPTED: lambda p: TableAdopted(p["metadata-location"], p["metadata-version"], p),
    ev.TABLE_RESTORED: lambda p: TableRestored(TableMetadata.from_dict(p["metadata"])),
    ev.TABLE_RELOCATED: lambda p: TableRelocated(p["manifest-lists"]),
    ev.TABLE_RENAMED: lambda p: TableRenamed(tuple(p["to"])),
    ev.TABLE_DROPPED: lambda _: TableDropped(),
    ev.TABLE_UNDROPPED: lambda p: TableUndropped(tuple(p["identifier"])),
    ev.TABLE_FILES_DELETED: lambda _: TableFilesDeleted(),
    ev.TABLE_PURGED: lambda _: TablePurged(),
}
