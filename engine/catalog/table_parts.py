"""The parts of commits that create, register and replace tables, alone or in a transaction of the catalog."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Protocol

from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.location import LocationMapping, given_location, to_uri
from icecore.engine.data.given_schema import PartitionSpecLike, SchemaLike, SortOrderLike
from icecore.engine.events import event as ev
from icecore.engine.evolution.create_table import creation_payload, creation_updates
from icecore.engine.evolution.replace_table import replaced_table
from icecore.engine.foreign.register import registration_payload
from icecore.engine.foreign.table_folder import moved_from, newest_metadata
from icecore.engine.joint_commit.joint_tables import NewTable
from icecore.engine.properties.string_properties import string_properties
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage


class Locations(Protocol):
    """The source of locations for new tables."""

    def new_location(self, identifier: Identifier, table_uuid: str, location: str | None) -> str: ...


def new_table(
    locations: Locations,
    name: Identifier,
    schema: SchemaLike,
    *,
    partition_spec: PartitionSpecLike | None,
    sort_order: SortOrderLike | None,
    location: str | None,
    properties: Mapping[str, str] | None,
    format_version: int,
    of_client: bool = False,
) -> NewTable:
    """An empty table. Field ids are assigned anew. Raises ValidationError."""
    table_uuid = str(uuid.uuid4())
    where = locations.new_location(name, table_uuid, location)
    parts = schema, partition_spec, sort_order, properties or {}, format_version
    updates = creation_updates(table_uuid, where, *parts, of_client=of_client)
    return NewTable(name, ev.table_stream(table_uuid), ev.TABLE_CREATED, creation_payload(name, updates))


def replacement(
    schema: SchemaLike,
    *,
    partition_spec: PartitionSpecLike | None,
    sort_order: SortOrderLike | None,
    location: str | None,
    properties: Mapping[str, str] | None,
    format_version: int | None,
) -> ChangeMetadata:
    """The change that makes a table empty under another schema, spec and order. Raises ValidationError."""
    where = None if location is None else given_location(location)
    return replaced_table(schema, partition_spec, sort_order, where, string_properties(properties), format_version)


def registered_table(
    repository: Repository, name: Identifier, metadata_location: str, location_mapping: Mapping[str, str] | None
) -> NewTable:
    """A table of another engine, by its metadata file or its folder; see `table_folder`.

    Raises MissingFileError, CorruptFileError, UnsupportedFormatVersionError, ForbiddenLocationError.
    """
    # The file may lie elsewhere than the folder that was given says, and both may be mapped to another place.
    rules, mapping = repository.location_rules, LocationMapping.of(location_mapping)
    rules.check_inside(mapping.resolve(to_uri(metadata_location)), "metadata file")
    location = to_uri(newest_metadata(metadata_location, Storage()))
    rules.check_inside(mapping.resolve(location), "metadata file")
    payload, table_uuid = registration_payload(name, location, location_mapping, Storage())
    if location_mapping is None:
        metadata = TableMetadata.from_dict(payload["metadata"])
        payload["location-mapping"] = moved_from(metadata, location, Storage()).to_dict()
    stream = repository.models.unused_stream(ev.table_stream(table_uuid))
    return NewTable(name, stream, ev.TABLE_REGISTERED, payload)
