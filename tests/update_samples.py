"""One update of each action, as the JSON that events hold."""

from __future__ import annotations

from typing import Any

_SCHEMA = {
    "type": "struct",
    "schema-id": 1,
    "identifier-field-ids": [1],
    "fields": [{"id": 1, "name": "a", "required": True, "type": "long"}],
}
_FIELD = {"source-id": 1, "field-id": 1000, "name": "a_bucket", "transform": "bucket[4]"}
_SORT_FIELD = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
_PUFFIN = {
    "snapshot-id": 7,
    "statistics-path": "s3://b/t/metadata/7.puffin",
    "file-size-in-bytes": 9,
    "file-footer-size-in-bytes": 3,
    "blob-metadata": [],
}
_PARTITION_STATISTICS = {"snapshot-id": 7, "statistics-path": "s3://b/t/metadata/7.parquet", "file-size-in-bytes": 9}

METADATA_UPDATES: list[dict[str, Any]] = [
    {"action": "assign-uuid", "uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1"},
    {"action": "upgrade-format-version", "format-version": 2},
    {"action": "add-schema", "schema": _SCHEMA},
    {"action": "set-location", "location": "s3://b/t"},
    {"action": "set-properties", "updates": {"a": "1"}},
    {"action": "remove-properties", "removals": ["b"]},
]
TABLE_UPDATES: list[dict[str, Any]] = [
    *METADATA_UPDATES,
    {"action": "set-current-schema", "schema-id": 1},
    {"action": "add-spec", "spec": {"spec-id": 1, "fields": [_FIELD]}},
    {"action": "set-default-spec", "spec-id": 1},
    {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [_SORT_FIELD]}},
    {"action": "set-default-sort-order", "sort-order-id": 1},
    {
        "action": "add-snapshot",
        "snapshot": {
            "snapshot-id": 7,
            "parent-snapshot-id": 6,
            "sequence-number": 2,
            "timestamp-ms": 1000,
            "summary": {"operation": "append"},
            "manifest-list": "s3://b/t/metadata/snap-7.avro",
            "schema-id": 1,
        },
    },
    {"action": "set-snapshot-ref", "ref-name": "main", "snapshot-id": 7, "type": "branch", "max-ref-age-ms": 5},
    {"action": "remove-snapshots", "snapshot-ids": [6]},
    {"action": "remove-snapshot-ref", "ref-name": "dev"},
    {"action": "set-statistics", "snapshot-id": 7, "statistics": _PUFFIN},
    {"action": "remove-statistics", "snapshot-id": 7},
    {"action": "set-partition-statistics", "partition-statistics": _PARTITION_STATISTICS},
    {"action": "remove-partition-statistics", "snapshot-id": 7},
    {"action": "remove-partition-specs", "spec-ids": [0]},
    {"action": "remove-schemas", "schema-ids": [0]},
    {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "aGV5"}},
    {"action": "remove-encryption-key", "key-id": "k"},
]
VIEW_UPDATES: list[dict[str, Any]] = [
    *METADATA_UPDATES,
    {
        "action": "add-view-version",
        "view-version": {
            "version-id": 1,
            "schema-id": 1,
            "timestamp-ms": 1000,
            "summary": {"engine-name": "e"},
            "default-namespace": ["ns"],
            "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
        },
    },
    {"action": "set-current-view-version", "view-version-id": 1},
]
