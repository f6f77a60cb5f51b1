"""Tables that a client of a server creates, or stages: then it gets their metadata for a later commit to create them.

A staged table is not stored and does not reserve its name: of two clients the first commit wins. Spec: the REST
document's `stage-create`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from icecore.engine.catalog.catalog_handle import CatalogHandle, check_new_name, commit, table_of
from icecore.engine.catalog.table_parts import new_table
from icecore.engine.common.identifiers import IdentifierLike, identifier_tuple
from icecore.engine.common.ids import now_ms
from icecore.engine.data.given_schema import PartitionSpecLike, SchemaLike, SortOrderLike
from icecore.engine.joint_commit.joint_tables import NewTable, provisional_state
from icecore.engine.metadata.fold import metadata_folder
from icecore.engine.properties.data_locations import data_folder
from icecore.engine.spec.metadata import DEFAULT_FORMAT_VERSION, TableMetadata
from icecore.engine.table.table import Table


def create_client_table(catalog: CatalogHandle, identifier: IdentifierLike, schema: SchemaLike, **asked: Any) -> Table:
    """A new table; values of properties are not checked, as a client may read others. Raises as `create_table`."""
    part = _client_table(catalog, identifier, schema, **asked)
    commit(catalog, part, None, None, dry_run=False, idempotency_key=None)
    return table_of(catalog, part.stream)


def stage_table(catalog: CatalogHandle, identifier: IdentifierLike, schema: SchemaLike, **asked: Any) -> TableMetadata:
    """The metadata of a new table with ids and a location of its own; its folders on a local disk are made.

    Clients write its first files there before they commit. Raises as `create_table`, and StorageError.
    """
    repository = catalog._warehouse.repository
    repository.check_writable()
    part = _client_table(catalog, identifier, schema, **asked)
    state = provisional_state(part.stream, part.kind, part.payload, now_ms())
    repository.locations.check_ahead(state)
    where, given = state.metadata.location.rstrip("/"), state.metadata.properties
    for folder in (metadata_folder(where, given), data_folder(where, given)):
        repository.storage.make_folder(folder)
    return state.metadata


def _client_table(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    schema: SchemaLike,
    *,
    partition_spec: PartitionSpecLike | None = None,
    sort_order: SortOrderLike | None = None,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> NewTable:
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    name = identifier_tuple(identifier)
    check_new_name(catalog, name, None)
    return new_table(
        catalog,
        name,
        schema,
        partition_spec=partition_spec,
        sort_order=sort_order,
        location=location,
        properties=properties,
        format_version=DEFAULT_FORMAT_VERSION,
        of_client=True,
    )
