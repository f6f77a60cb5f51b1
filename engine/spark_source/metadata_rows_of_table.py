"""The metadata tables of a table, as `load("namespace.table.snapshots")` gives them."""

from __future__ import annotations

import pyarrow as pa

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.common.identifiers import Identifier
from icecore.engine.queries.named_queries import query, quote

INSPECTED = (
    "all_data_files",
    "all_delete_files",
    "all_entries",
    "all_files",
    "all_manifests",
    "commits",
    "data_files",
    "delete_files",
    "entries",
    "events",
    "file_history",
    "files",
    "history",
    "manifests",
    "metadata_log_entries",
    "partitions",
    "position_deletes",
    "property_history",
    "ref_history",
    "refs",
    "schema_history",
    "snapshots",
    "spec_history",
)
"""The metadata tables that `table.inspect` has."""
AUDITED = ("columns", "properties")
METADATA_TABLES = (*INSPECTED, *AUDITED, "log")
"""The names that can follow a table's name; for a table as of a position each has the rows of that time."""


def metadata_table(catalog: Catalog | CatalogAt, identifier: Identifier) -> tuple[Identifier, str] | None:
    """The table and the kind of metadata table that a name means; None where it means no metadata table."""
    if len(identifier) < 3 or identifier[-1].lower() not in METADATA_TABLES:
        return None
    if catalog.table_exists(identifier) or catalog.view_exists(identifier):
        return None
    return identifier[:-1], identifier[-1].lower()


def metadata_rows(catalog: Catalog | CatalogAt, identifier: Identifier, kind: str) -> pa.Table:
    """The rows of a metadata table. Raises NoSuchTableError."""
    table = catalog.load_table(identifier)
    if kind in INSPECTED:
        return _without_empty_structs(getattr(table.inspect, kind)())
    if kind == "log":
        return catalog.log(identifier)
    sql = query("projections/metadata_tables.sql", "of_table", audited=quote(kind))
    return catalog.sql(sql, {"namespace": ".".join(identifier[:-1]), "name": identifier[-1]})


def _without_empty_structs(rows: pa.Table) -> pa.Table:
    """The rows without structs that have no fields: Iceberg Java has no partition for a table without one."""
    for place, f in reversed(list(enumerate(rows.schema))):
        if f.type == pa.struct([]):
            rows = rows.remove_column(place)
        elif pa.types.is_struct(f.type) and any(child.type == pa.struct([]) for child in f.type):
            kept = [i for i, child in enumerate(f.type) if child.type != pa.struct([])]
            fields = [f.type.field(i) for i in kept]
            chunks = [
                pa.StructArray.from_arrays([c.flatten()[i] for i in kept], fields=fields) for c in rows[f.name].chunks
            ]
            column = pa.chunked_array(chunks, pa.struct(fields))
            rows = rows.set_column(place, pa.field(f.name, column.type), column)
    return rows
