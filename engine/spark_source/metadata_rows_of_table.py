"""The metadata tables of a table, as `load("namespace.table.snapshots")` gives them."""

from __future__ import annotations

import pyarrow as pa

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.catalog.catalog_at import CatalogAt
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ValidationError
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.table.table import Table

_AUDITED = ("columns", "files", "manifests", "properties", "refs", "snapshots")
METADATA_TABLES = (*_AUDITED, "history", "log", "partitions")
"""What can stand behind a table's name; each is of the table as it is now."""


def metadata_table(catalog: Catalog | CatalogAt, identifier: Identifier) -> tuple[Identifier, str] | None:
    """The table whose metadata a name means, and which; None where it means a table or view itself."""
    if len(identifier) < 3 or identifier[-1].lower() not in METADATA_TABLES:
        return None
    if catalog.table_exists(identifier) or catalog.view_exists(identifier):
        return None
    return identifier[:-1], identifier[-1].lower()


def metadata_rows(catalog: Catalog | CatalogAt, identifier: Identifier, kind: str) -> pa.Table:
    """The rows of a metadata table. Raises NoSuchTableError, ValidationError for metadata of the past."""
    if isinstance(catalog, CatalogAt):
        raise ValidationError(f"metadata tables are of the present: there is no {kind!r} of a position")
    table = catalog.load_table(identifier)
    match kind:
        case "partitions":
            return table.partitions()
        case "history":
            return _history(table)
        case "log":
            return catalog.log(identifier)
        case _:
            sql = query("projections/metadata_tables.sql", "of_table", audited=quote(kind))
            return catalog.sql(sql, {"namespace": ".".join(identifier[:-1]), "name": identifier[-1]})


def _history(table: Table) -> pa.Table:
    metadata = table.metadata
    current = metadata.current_snapshot()
    ancestors = set() if current is None else {s.snapshot_id for s in metadata.ancestors(current.snapshot_id)}
    parents = {s.snapshot_id: s.parent_snapshot_id for s in metadata.snapshots}
    entries = [
        {
            "made_current_at": entry.timestamp_ms,
            "snapshot_id": entry.snapshot_id,
            "parent_id": parents.get(entry.snapshot_id),
            "is_current_ancestor": entry.snapshot_id in ancestors,
        }
        for entry in table.history()
    ]
    fields = [
        ("made_current_at", pa.timestamp("ms", "UTC")),
        ("snapshot_id", pa.int64()),
        ("parent_id", pa.int64()),
        ("is_current_ancestor", pa.bool_()),
    ]
    return pa.Table.from_pylist(entries, pa.schema(fields))
