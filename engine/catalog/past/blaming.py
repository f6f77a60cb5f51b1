"""Blame of a table's files, partitions, columns, properties and refs: the commits that changed each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icecore.engine.catalog.catalog_handle import CatalogHandle
from icecore.engine.catalog.log_tools import sql
from icecore.engine.common.identifiers import IdentifierLike, identifier_tuple
from icecore.engine.errors import NoSuchTableError, ValidationError, name_text
from icecore.engine.events.event import is_view_stream, uuid_of_stream
from icecore.engine.log.names_at import streams_of_name
from icecore.engine.queries.named_queries import query

if TYPE_CHECKING:
    import pyarrow as pa

QUERIES = "projections/blame.sql"


def blame(
    catalog: CatalogHandle,
    identifier: IdentifierLike,
    *,
    file: str | None = None,
    partition: str | None = None,
    column: str | None = None,
    property: str | None = None,
    ref: str | None = None,
) -> pa.Table:
    """The commits that changed one thing of a table, the latest first, each with what it was before.

    The thing is a `file` by its path or the end of it, a `partition` as `day=2024-01-01/city=Oslo`, a `column` by any
    name that it had, a `property`, or a branch or tag (`ref`). A dropped table is found by the name that it had last.
    For rows see `Table.blame`. Raises NoSuchTableError, ValidationError.
    """
    given = {"file": file, "partition": partition, "column": column, "property": property, "ref": ref}
    [*chosen] = [(what, value) for what, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise ValidationError(f"blame() takes one of {', '.join(given)}")
    what, value = chosen[0]
    of_table = {"uuid": table_uuid_of(catalog, identifier), "value": value}
    return sql(catalog, query(QUERIES, what), of_table)


def table_uuid_of(catalog: CatalogHandle, identifier: IdentifierLike) -> str:
    """The UUID of the table of that name, else of the one that had it last. Raises NoSuchTableError."""
    return uuid_of_stream(stream_of_table(catalog, identifier))


def stream_of_table(catalog: CatalogHandle, identifier: IdentifierLike) -> str:
    """The stream of the table of that name, else of the one that had it last. Raises NoSuchTableError."""
    warehouse, name = catalog._warehouse, identifier_tuple(identifier)
    warehouse.repository.foreign.adopt_all_if_changed()
    found = [s for s in streams_of_name(warehouse.store, warehouse.models, name) if not is_view_stream(s)]
    if not found:
        raise NoSuchTableError(f"there was never a table {name_text(name)!r}")
    return found[-1]
