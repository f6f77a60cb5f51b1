"""Metadata objects of v1 to v3, whole, in each version's own form."""

from __future__ import annotations

import json
from typing import Any

from icecore.engine.spec.metadata import TableMetadata

X = {"id": 1, "name": "x", "required": True, "type": "long"}
Y = {"id": 2, "name": "y", "required": False, "type": "string"}
SCHEMA: dict[str, Any] = {"type": "struct", "schema-id": 0, "fields": [X]}
OTHER: dict[str, Any] = {"type": "struct", "schema-id": 1, "fields": [X, Y]}
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def snapshot(number: int, version: int = 2, parent: int | None = None) -> dict[str, Any]:
    out: dict[str, Any] = {"snapshot-id": number, "timestamp-ms": 1000 + number}
    if parent is not None:
        out["parent-snapshot-id"] = parent
    if version > 1:
        out["sequence-number"] = number
    out["summary"] = {"operation": "append", "added-records": "1"}
    out["manifest-list"] = f"s3://b/t/metadata/snap-{number}.avro"
    out["schema-id"] = 0
    if version > 2:
        out |= {"first-row-id": number - 1, "added-rows": 1}
    return out


def metadata(version: int) -> dict[str, Any]:
    """A full metadata object in the version's own form."""
    spec = [{"source-id": 1, "field-id": 1000, "name": "x_bucket", "transform": "bucket[4]"}]
    out: dict[str, Any] = {"format-version": version, "table-uuid": UUID, "location": "s3://b/t"}
    if version >= 2:
        out["last-sequence-number"] = 2
    out |= {"last-updated-ms": 1002, "last-column-id": 2}
    if version == 1:
        out["schema"] = OTHER
    out |= {"current-schema-id": 1, "schemas": [SCHEMA, OTHER]}
    if version == 1:
        out["partition-spec"] = spec
    out |= {"default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": spec}], "last-partition-id": 1000}
    order = {"transform": "identity", "source-id": 1, "direction": "desc", "null-order": "nulls-last"}
    out |= {"default-sort-order-id": 1, "sort-orders": [{"order-id": 1, "fields": [order]}]}
    out |= {"properties": {"a": "b"}, "current-snapshot-id": 2}
    if version >= 3:
        out["next-row-id"] = 2
        out["encryption-keys"] = [{"key-id": "k", "encrypted-key-metadata": "aGV5", "properties": {"p": "q"}}]
    out["refs"] = {
        "main": {"snapshot-id": 2, "type": "branch", "min-snapshots-to-keep": 3, "max-snapshot-age-ms": 5},
        "v1": {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 9},
    }
    out["snapshots"] = [snapshot(1, version), snapshot(2, version, 1)]
    blob = {"type": "ndv", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"ndv": "3"}}
    out["statistics"] = [{"snapshot-id": 1, "statistics-path": "s3://b/s.puffin", "file-size-in-bytes": 9,
        "file-footer-size-in-bytes": 4, "blob-metadata": [blob]}]  # fmt: skip
    out["partition-statistics"] = [{"snapshot-id": 1, "statistics-path": "s3://b/p", "file-size-in-bytes": 7}]
    out["snapshot-log"] = [{"timestamp-ms": 1001, "snapshot-id": 1}, {"timestamp-ms": 1002, "snapshot-id": 2}]
    out["metadata-log"] = [{"timestamp-ms": 1001, "metadata-file": "s3://b/t/metadata/00000-a.metadata.json"}]
    return out


def parse(obj: Any) -> TableMetadata:
    return TableMetadata.from_json(json.dumps(obj))
