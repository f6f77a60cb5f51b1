"""A table in words and as JSON."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from attrs import frozen

from icecore.engine.common.text import number_in
from icecore.engine.errors import name_text
from icecore.engine.spec.transform import IdentityTransform, Transform

if TYPE_CHECKING:
    from icecore.engine.spec.partition import PartitionSpec
    from icecore.engine.spec.schema import Schema
    from icecore.engine.spec.snapshot import SnapshotRef
    from icecore.engine.spec.sort import SortOrder
    from icecore.engine.table.table import Table


@frozen
class TableText:
    """The text of a loaded table."""

    table: Table

    @property
    def name(self) -> str:
        """The name as text."""
        return name_text(self.table.name())

    def updated_at(self) -> dt.datetime:
        """The time of the last change."""
        return dt.datetime.fromtimestamp(self.table.metadata.last_updated_ms / 1000, dt.UTC)

    def partition(self) -> str:
        """The current spec in terms, as `create --partition` takes them."""
        return spec_text(self.table.spec(), self.table.schema())

    def total(self, what: str) -> int | None:
        """A total of the current snapshot's summary, such as `records`; None where its writer left it out."""
        snapshot = self.table.current_snapshot()
        if snapshot is None:
            return 0
        return number_in((snapshot.summary or {}).get(f"total-{what}", ""))

    def rows(self) -> int | None:
        """The rows of the current snapshot; None where that takes reading, as with delete files."""
        return self.total("records") if self.total("delete-files") == 0 else None

    def as_pairs(self) -> dict[str, Any]:
        """The description, name by name, in words."""
        table, schema = self.table, self.table.schema()
        snapshot = table.current_snapshot()
        nothing = "none yet"
        return {
            "table": self.name,
            "format": f"version {table.format_version}",
            "uuid": table.metadata.table_uuid or "none",
            "location": table.location(),
            "metadata": table.metadata_location or nothing,
            "columns": column_lines(schema),
            "partitioned by": self.partition(),
            "sorted by": order_text(table.sort_order(), schema),
            "properties": [f"{k} = {v}" for k, v in sorted(table.properties.items())] or "none",
            "snapshot": nothing if snapshot is None else f"{snapshot.snapshot_id} ({snapshot.operation})",
            "branches, tags": [_ref_text(n, r) for n, r in table.refs().items()] or "none",
            "files": self.total("data-files"),
            "delete files": self.total("delete-files"),
            "rows before deletes" if self.total("delete-files") else "rows": self.total("records"),
        }

    def as_dict(self) -> dict[str, Any]:
        """The description for programs; schema, spec, order and refs as in Iceberg's metadata files."""
        table = self.table
        snapshot = table.current_snapshot()
        return {
            "name": self.name,
            "kind": "table",
            "format_version": table.format_version,
            "uuid": table.metadata.table_uuid,
            "location": table.location(),
            "metadata_location": table.metadata_location,
            "updated_at": self.updated_at(),
            "schema": table.schema().to_dict(),
            "partition_spec": table.spec().to_dict(),
            "sort_order": table.sort_order().to_dict(),
            "properties": dict(table.properties),
            "current_snapshot": None if snapshot is None else snapshot.to_dict(table.format_version),
            "refs": {name: ref.to_dict() for name, ref in table.refs().items()},
            "totals": {w: self.total(w) for w in ("data-files", "delete-files", "records", "files-size")},
        }


def spec_text(spec: PartitionSpec, schema: Schema) -> str:
    """A spec in terms: `month(ts), bucket(8, id)`."""
    return ", ".join(_term(f.transform, f.source_ids, schema) for f in spec.fields) or "nothing"


def order_text(order: SortOrder, schema: Schema) -> str:
    """A sort order in terms: `ts DESC NULLS LAST`."""
    terms = (
        f"{_term(f.transform, f.source_ids, schema)} {f.direction.upper()} {f.null_order.replace('-', ' ').upper()}"
        for f in order.fields
    )
    return ", ".join(terms) or "nothing"


def column_lines(schema: Schema) -> list[str]:
    """One line for each top-level column: id, name, type, `not null`, comment."""
    width = max((len(f.name) for f in schema.fields), default=0)
    return [
        f"{f.field_id:>3}  {f.name:<{width}}  {f.field_type}{' not null' if f.required else ''}"
        f"{f'  -- {f.doc}' if f.doc else ''}"
        for f in schema.fields
    ]


def _term(transform: Transform, source_ids: tuple[int, ...], schema: Schema) -> str:
    known = ((i, schema.get_field(i) is not None) for i in source_ids)
    column = ", ".join(schema.name_of(i) if is_there else f"<dropped column {i}>" for i, is_there in known)
    if isinstance(transform, IdentityTransform):
        return column
    name, _, argument = str(transform).partition("[")
    return f"{name}({argument[:-1]}, {column})" if argument else f"{name}({column})"


def _ref_text(name: str, ref: SnapshotRef) -> str:
    return f"{ref.type} {name} -> {ref.snapshot_id}"
