"""The metadata tables that follow from a table's metadata alone: snapshots, history, refs, metadata log entries.

Names, order and types of columns are those of PyIceberg's `inspect`. Spec: Snapshots, Snapshot Log (MD1), Refs (R1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from icecore.engine.common.ids import signed
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot

_AT = pa.timestamp("ms")
SNAPSHOTS_OF_TABLE = pa.schema(
    [
        pa.field("committed_at", _AT, nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        ("parent_id", pa.int64()),
        ("operation", pa.string()),
        ("manifest_list", pa.string()),
        ("summary", pa.map_(pa.string(), pa.string())),
    ]
)
HISTORY = pa.schema(
    [
        pa.field("made_current_at", _AT, nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        ("parent_id", pa.int64()),
        pa.field("is_current_ancestor", pa.bool_(), nullable=False),
    ]
)
REFS_OF_TABLE = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("type", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("snapshot_id", pa.int64(), nullable=False),
        ("max_reference_age_in_ms", pa.int64()),
        ("min_snapshots_to_keep", pa.int32()),
        ("max_snapshot_age_in_ms", pa.int64()),
    ]
)
METADATA_LOG_ENTRIES = pa.schema(
    [
        pa.field("timestamp", _AT, nullable=False),
        pa.field("file", pa.string(), nullable=False),
        ("latest_snapshot_id", pa.int64()),
        ("latest_schema_id", pa.int32()),
        ("latest_sequence_number", pa.int64()),
    ]
)


def snapshots(metadata: TableMetadata) -> pa.Table:
    """A row for each snapshot, in the order of the metadata; the summary is without its operation."""
    return pa.Table.from_pylist([_snapshot_row(s) for s in metadata.snapshots], schema=SNAPSHOTS_OF_TABLE)


def _snapshot_row(snapshot: Snapshot) -> dict[str, Any]:
    summary: Mapping[str, str] | None = snapshot.summary
    return {
        "committed_at": snapshot.timestamp_ms,
        "snapshot_id": signed(snapshot.snapshot_id),
        "parent_id": signed(snapshot.parent_snapshot_id),
        "operation": snapshot.operation,
        "manifest_list": snapshot.manifest_list,
        "summary": None if summary is None else [(k, v) for k, v in summary.items() if k != "operation"],
    }


def history(metadata: TableMetadata) -> pa.Table:
    """A row for each time that a snapshot became current."""
    ancestors = {s.snapshot_id for s in metadata.ancestors(metadata.current_snapshot_id)}
    parents = {s.snapshot_id: s.parent_snapshot_id for s in metadata.snapshots}
    rows = [
        {
            "made_current_at": entry.timestamp_ms,
            "snapshot_id": signed(entry.snapshot_id),
            "parent_id": signed(parents.get(entry.snapshot_id)),
            "is_current_ancestor": entry.snapshot_id in ancestors,
        }
        for entry in metadata.snapshot_log
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY)


def refs(metadata: TableMetadata) -> pa.Table:
    """A row for each branch and tag."""
    rows = [
        {
            "name": name,
            "type": str(ref.type).upper(),
            "snapshot_id": signed(ref.snapshot_id),
            "max_reference_age_in_ms": ref.max_ref_age_ms,
            "min_snapshots_to_keep": ref.min_snapshots_to_keep,
            "max_snapshot_age_in_ms": ref.max_snapshot_age_ms,
        }
        for name, ref in metadata.refs.items()
    ]
    return pa.Table.from_pylist(rows, schema=REFS_OF_TABLE)


def metadata_log_entries(state: TableState) -> pa.Table:
    """A row for each metadata file that the metadata names, and for its own, with the snapshot that was current."""
    metadata = state.metadata
    files = [(entry.timestamp_ms, entry.metadata_file) for entry in metadata.metadata_log]
    if state.metadata_location is not None:
        files.append((metadata.last_updated_ms, state.metadata_location))
    rows = []
    for timestamp_ms, file in files:
        latest = _current_at(metadata, timestamp_ms)
        rows.append(
            {
                "timestamp": timestamp_ms,
                "file": file,
                "latest_snapshot_id": None if latest is None else signed(latest.snapshot_id),
                "latest_schema_id": None if latest is None else latest.schema_id,
                "latest_sequence_number": None if latest is None else latest.sequence_number,
            }
        )
    return pa.Table.from_pylist(rows, schema=METADATA_LOG_ENTRIES)


def _current_at(metadata: TableMetadata, timestamp_ms: int) -> Snapshot | None:
    """The snapshot that was current at a time by the snapshot log, where the table still has it."""
    before = (e.snapshot_id for e in reversed(metadata.snapshot_log) if e.timestamp_ms <= timestamp_ms)
    found = next(before, None)
    return None if found is None else metadata.snapshot_by_id(found)
