"""The entries of an event in the form that the manifests of a format version can have.

Commits are checked before they are accepted, so only the rules of v1 should ever be needed here. But logs of earlier
releases hold entries that no manifest can have, and their tables must stay usable. Spec: Manifests (M2, M4).
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.errors import UnwritableCommitError
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, METRICS
from icecore.engine.formats.manifest_schema import UNSUPPORTED_IN
from icecore.engine.spec.content_file import DataFileContent, ManifestEntryStatus, ManifestFile
from icecore.engine.spec.metadata import TableMetadata


def encoded_manifest(
    entries: pa.Table, manifest: ManifestFile, metadata: TableMetadata, sync_marker: bytes, position: int
) -> bytes:
    """The bytes of a manifest that an event makes.

    Deleted entries that can't be written are left out. Raises UnwritableCommitError, naming the event's position and
    what is wrong, where a live entry can't be written.
    """
    from icecore.engine.formats.manifest_avro import write_manifest

    def write(some: pa.Table) -> bytes:
        return write_manifest(
            some,
            spec=metadata.spec_by_id(manifest.partition_spec_id),
            schema=metadata.schema(),
            all_fields=metadata.all_fields,
            content=manifest.content,
            format_version=metadata.format_version,
            sync_marker=sync_marker,
        )

    written = for_writing(entries, manifest, metadata.format_version)
    try:
        return write(written)
    except Exception as e:
        # All is in memory by now, so any error is about the entries.
        reason = e
    try:
        return write(_without_lost(written, write))
    except Exception as e:
        raise UnwritableCommitError(f"position {position}: {reason}", position, str(reason)) from e


def for_writing(entries: pa.Table, manifest: ManifestFile, format_version: int) -> pa.Table:
    """Entries as a manifest of that format version writes them.

    A v1 entry can't inherit its snapshot id (M2). Data files lose fields that only later versions or delete files have.
    """
    if format_version == 1:
        filled = pc.fill_null(entries["snapshot_id"], manifest.added_snapshot_id)
        entries = _with(entries, "snapshot_id", filled)
    is_data = pc.equal(entries["content"], int(DataFileContent.DATA))
    for name in UNSUPPORTED_IN[format_version]:
        column = entries[name]
        if column.null_count < len(column):
            kept = pc.if_else(is_data, pa.scalar(None, column.type), column)
            entries = _with(entries, name, kept)
    return _without_null_metrics(entries)


def _without_null_metrics(entries: pa.Table) -> pa.Table:
    """The entries without metrics that are null, and without offsets where one is null."""
    for name in METRICS:
        column = entries[name]
        if any(chunk.items.null_count for chunk in column.chunks):
            known = [pairs and [p for p in pairs if p[1] is not None] for pairs in column.to_pylist()]
            entries = _with(entries, name, pa.chunked_array([pa.array(known, column.type)]))
    offsets = entries["split_offsets"]
    if any(chunk.values.null_count for chunk in offsets.chunks):
        known = [None if values and None in values else values for values in offsets.to_pylist()]
        entries = _with(entries, "split_offsets", pa.chunked_array([pa.array(known, offsets.type)]))
    return entries


def _without_lost(entries: pa.Table, write: Callable[[pa.Table], bytes]) -> pa.Table:
    """The entries without deleted ones that can't be written."""
    writable = []
    for row, status in enumerate(entries["status"].to_pylist()):
        if status == ManifestEntryStatus.DELETED:
            try:
                write(entries.slice(row, 1))
            except Exception:
                # As above: the entry itself is what can't be written.
                continue
        writable.append(row)
    return entries.take(pa.array(writable, pa.int64()))


def _with(entries: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return entries.set_column(ENTRY_SCHEMA.get_field_index(name), ENTRY_SCHEMA.field(name), column)
