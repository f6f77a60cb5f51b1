"""The rows of the audit tables about the metadata of tables: columns, properties, snapshots and refs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import pyarrow as pa

from icecore.engine.common.ids import signed
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.table.table import Table
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.audited_tables import TEXT_MAP
from icecore.projections.history.logged_tables import NAMED

_AT = pa.timestamp("ms", "UTC")


COLUMNS = pa.schema(
    [
        *NAMED,
        ("field_id", pa.int32()),
        ("column_name", pa.string()),
        ("type", pa.string()),
        ("required", pa.bool_()),
        ("doc", pa.string()),
    ]
)


def columns(of: AuditedRows) -> pa.Table:
    """The rows of `columns`."""

    def rows(table: Table) -> Iterator[dict[str, Any]]:
        schema = table.schema()
        for field_id in sorted(schema.field_ids):
            f = schema.find_field(field_id)
            yield {
                "field_id": field_id,
                "column_name": schema.name_of(field_id),
                "type": str(f.field_type),
                "required": f.required,
                "doc": f.doc,
            }

    return of.of(COLUMNS, rows)


PROPERTIES = pa.schema([*NAMED, ("key", pa.string()), ("value", pa.string())])


def properties(of: AuditedRows) -> pa.Table:
    """The rows of `properties`."""

    def rows(table: Table) -> Iterator[dict[str, Any]]:
        for key, value in sorted(table.properties.items()):
            yield {"key": key, "value": value}

    return of.of(PROPERTIES, rows)


SNAPSHOTS = pa.schema(
    [
        *NAMED,
        ("snapshot_id", pa.int64()),
        ("parent_snapshot_id", pa.int64()),
        ("parent_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("committed_at", _AT),
        ("operation", pa.string()),
        ("schema_id", pa.int32()),
        ("manifest_list", pa.string()),
        ("summary", TEXT_MAP),
        ("is_current_ancestor", pa.bool_()),
        ("is_kept_by_ref", pa.bool_()),
    ]
)


def snapshots(of: AuditedRows) -> pa.Table:
    """The rows of `snapshots`."""

    def rows(table: Table) -> Iterator[dict[str, Any]]:
        m = table.metadata
        current = {s.snapshot_id for s in m.ancestors(m.current_snapshot_id)}
        kept = _kept(m, current)
        for s in m.snapshots:
            yield {
                "snapshot_id": signed(s.snapshot_id),
                "parent_snapshot_id": signed(s.parent_snapshot_id),
                "parent_id": signed(s.parent_snapshot_id),
                "sequence_number": s.sequence_number,
                "committed_at": s.timestamp_ms,
                "operation": s.operation,
                "schema_id": s.schema_id,
                "manifest_list": s.manifest_list,
                "summary": list((s.summary or {}).items()),
                "is_current_ancestor": s.snapshot_id in current,
                "is_kept_by_ref": s.snapshot_id in kept,
            }

    return of.of(SNAPSHOTS, rows)


def _kept(metadata: TableMetadata, known: set[int]) -> set[int]:
    """The snapshots that a branch or tag leads to, each looked at once."""
    found = set(known)
    for ref in metadata.refs.values():
        for s in takewhile(lambda s: s.snapshot_id not in found, metadata.ancestors(ref.snapshot_id)):
            found.add(s.snapshot_id)
    return found


REFS = pa.schema(
    [
        *NAMED,
        ("ref", pa.string()),
        ("type", pa.string()),
        ("snapshot_id", pa.int64()),
        ("min_snapshots_to_keep", pa.int32()),
        ("max_snapshot_age_ms", pa.int64()),
        ("max_ref_age_ms", pa.int64()),
        ("max_reference_age_in_ms", pa.int64()),
        ("max_snapshot_age_in_ms", pa.int64()),
    ]
)


def refs(of: AuditedRows) -> pa.Table:
    """The rows of `refs`."""

    def rows(table: Table) -> Iterator[dict[str, Any]]:
        for name, ref in table.refs().items():
            yield {
                "ref": name,
                "type": str(ref.type),
                "snapshot_id": signed(ref.snapshot_id),
                "min_snapshots_to_keep": ref.min_snapshots_to_keep,
                "max_snapshot_age_ms": ref.max_snapshot_age_ms,
                "max_ref_age_ms": ref.max_ref_age_ms,
                "max_reference_age_in_ms": ref.max_ref_age_ms,
                "max_snapshot_age_in_ms": ref.max_snapshot_age_ms,
            }

    return of.of(REFS, rows)
