"""The reader of table metadata's JSON: defaults, checks and the old forms of v1.

Spec: Appendix C Table Metadata and Snapshots (MD1, MD7, MD8, G1, G5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from icecore.engine.common.json_reader import get, get_list, get_str_map, unknown
from icecore.engine.errors import UnsupportedFormatVersionError, ValidationError
from icecore.engine.spec.partition import INITIAL_SPEC_ID, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import (
    MAIN_BRANCH,
    EncryptedKey,
    MetadataLogEntry,
    PartitionStatisticsFile,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    SnapshotRefType,
    StatisticsFile,
)
from icecore.engine.spec.sort import UNSORTED, SortOrder

WHERE = "table metadata"
NO_SNAPSHOT = -1
SUPPORTED_FORMAT_VERSIONS = (1, 2, 3)

_KNOWN = frozenset(
    {
        "format-version",
        "table-uuid",
        "location",
        "last-updated-ms",
        "last-column-id",
        "schema",
        "schemas",
        "current-schema-id",
        "partition-spec",
        "partition-specs",
        "default-spec-id",
        "last-partition-id",
        "sort-orders",
        "default-sort-order-id",
        "last-sequence-number",
        "properties",
        "current-snapshot-id",
        "snapshots",
        "snapshot-log",
        "metadata-log",
        "refs",
        "statistics",
        "partition-statistics",
        "next-row-id",
        "encryption-keys",
    }
)

T = TypeVar("T")


def metadata_fields(obj: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `TableMetadata` from a metadata file's JSON object.

    Raises UnsupportedFormatVersionError for a version above 3, ValidationError for anything else that is wrong.
    """
    version = get(obj, "format-version", int, WHERE)
    if version not in SUPPORTED_FORMAT_VERSIONS:
        raise UnsupportedFormatVersionError(f"{WHERE} has format version {version}; supported are 1, 2 and 3")
    schemas, current_schema_id = _schemas(obj, version)
    specs, default_spec_id = _specs(obj, version)
    orders, default_order_id = _sort_orders(obj, version)
    snapshots = _each(obj, "snapshots", Snapshot.from_dict)
    _check_unique("snapshot", [s.snapshot_id for s in snapshots])
    last_sequence_number = _required_from(2, version, obj, "last-sequence-number", int, 0)
    _check_snapshots(snapshots, version, last_sequence_number)
    current = get(obj, "current-snapshot-id", int, WHERE, None)
    current = None if current == NO_SNAPSHOT else current
    highest_partition_id = max(s.last_assigned_field_id for s in specs)
    return {
        "format_version": version,
        "table_uuid": _required_from(2, version, obj, "table-uuid", str),
        "location": get(obj, "location", str, WHERE).rstrip("/"),
        "last_updated_ms": get(obj, "last-updated-ms", int, WHERE),
        "last_column_id": get(obj, "last-column-id", int, WHERE),
        "schemas": schemas,
        "current_schema_id": current_schema_id,
        "partition_specs": specs,
        "default_spec_id": default_spec_id,
        "last_partition_id": _required_from(2, version, obj, "last-partition-id", int, highest_partition_id),
        "sort_orders": orders,
        "default_sort_order_id": default_order_id,
        "last_sequence_number": last_sequence_number,
        "properties": get_str_map(obj, "properties", WHERE, {}),
        "current_snapshot_id": current,
        "snapshots": snapshots,
        "snapshot_log": _each(obj, "snapshot-log", SnapshotLogEntry.from_dict),
        "metadata_log": _each(obj, "metadata-log", MetadataLogEntry.from_dict),
        "refs": _refs(obj, current),
        "statistics": _each(obj, "statistics", StatisticsFile.from_dict),
        "partition_statistics": _each(obj, "partition-statistics", PartitionStatisticsFile.from_dict),
        # Early v3 writers left next-row-id out; an upgrade starts with 0 (RL7), and no id is given twice (RL4).
        "next_row_id": get(obj, "next-row-id", int, WHERE, _rows_numbered(snapshots)) if version >= 3 else None,
        "encryption_keys": _each(obj, "encryption-keys", EncryptedKey.from_dict),
        "extra": unknown(obj, _KNOWN),
    }


def _required_from(since: int, version: int, obj: dict[str, Any], key: str, kind: type[T], default: Any = None) -> Any:
    """A field that is required from one format version on, and has a default before."""
    return get(obj, key, kind, WHERE) if version >= since else get(obj, key, kind, WHERE, default)


def _each(obj: dict[str, Any], key: str, parse: Callable[[Any], T]) -> tuple[T, ...]:
    return tuple(parse(item) for item in get_list(obj, key, WHERE, default=[]))


def _check_unique(what: str, ids: list[int]) -> None:
    repeated = {i for i in ids if ids.count(i) > 1} if len(set(ids)) != len(ids) else None
    if repeated:
        raise ValidationError(f"{WHERE}: {what} ids repeat: {sorted(repeated)}")


def _rows_numbered(snapshots: tuple[Snapshot, ...]) -> int:
    return max(((s.first_row_id or 0) + (s.added_rows or 0) for s in snapshots), default=0)


def _check_snapshots(snapshots: tuple[Snapshot, ...], version: int, last: int) -> None:
    """Raises ValidationError for a snapshot without manifests, or with a sequence number above the table's (L3).

    The first would be read as empty; after the second, the next snapshot would not get a higher number.
    """
    for s in snapshots:
        if s.manifest_list is None and s.manifests is None:
            raise ValidationError(f"{WHERE}: snapshot {s.snapshot_id} has neither manifest-list nor manifests")
        if version > 1 and s.sequence_number > last:
            raise ValidationError(
                f"{WHERE}: snapshot {s.snapshot_id} has sequence number {s.sequence_number}, above the "
                f"last-sequence-number {last}"
            )


def _schemas(obj: dict[str, Any], version: int) -> tuple[tuple[Schema, ...], int]:
    listed = get_list(obj, "schemas", WHERE, default=None) if version == 1 else get_list(obj, "schemas", WHERE)
    if listed:
        schemas = tuple(Schema.from_dict(s, default_id=i) for i, s in enumerate(listed))
        _check_unique("schema", [s.schema_id for s in schemas])
        if version == 1 and obj.get("current-schema-id") is None:
            raise ValidationError(f"{WHERE} has schemas but lacks current-schema-id")
        return schemas, get(obj, "current-schema-id", int, WHERE)
    if version > 1:
        raise ValidationError(f"{WHERE}: schemas must not be empty")
    only = Schema.from_dict(get(obj, "schema", dict, WHERE))
    return (only,), only.schema_id


def _specs(obj: dict[str, Any], version: int) -> tuple[tuple[PartitionSpec, ...], int]:
    if version > 1:
        listed = get_list(obj, "partition-specs", WHERE)
        if not listed:
            raise ValidationError(f"{WHERE}: partition-specs must not be empty")
        specs = tuple(PartitionSpec.from_dict(s) for s in listed)
        _check_unique("partition spec", [s.spec_id for s in specs])
        return specs, get(obj, "default-spec-id", int, WHERE)
    if obj.get("partition-specs") is not None:
        specs = tuple(PartitionSpec.from_dict(s) for s in get_list(obj, "partition-specs", WHERE))
        if specs:
            latest = max(s.spec_id for s in specs)
            return specs, get(obj, "default-spec-id", int, WHERE, latest)
    only = PartitionSpec.from_fields(get_list(obj, "partition-spec", WHERE), INITIAL_SPEC_ID)
    return (only,), only.spec_id


def _sort_orders(obj: dict[str, Any], version: int) -> tuple[tuple[SortOrder, ...], int]:
    if version == 1 and obj.get("sort-orders") is None:
        return (UNSORTED,), UNSORTED.order_id
    orders = _each(obj, "sort-orders", SortOrder.from_dict) if "sort-orders" in obj else None
    _check_unique("sort order", [o.order_id for o in orders or ()])
    if orders is None:
        raise ValidationError(f"{WHERE} lacks the required field 'sort-orders'")
    default = get(obj, "default-sort-order-id", int, WHERE, 0 if version == 1 else ...)
    if default is ...:
        raise ValidationError(f"{WHERE} lacks the required field 'default-sort-order-id'")
    if default == UNSORTED.order_id and all(o.order_id != UNSORTED.order_id for o in orders):
        orders = (UNSORTED, *orders)
    return orders, default


def _refs(obj: dict[str, Any], current: int | None) -> dict[str, SnapshotRef]:
    refs = {name: SnapshotRef.from_dict(r, name) for name, r in get(obj, "refs", dict, WHERE, {}).items()}
    if current is not None and MAIN_BRANCH not in refs:
        refs[MAIN_BRANCH] = SnapshotRef(current, SnapshotRefType.BRANCH)
    return refs
