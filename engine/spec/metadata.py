"""Table metadata, v1 to v3, as a value with lookups.

Spec: Table Metadata (MD1 to MD8), Refs (R1). How its JSON is read is in `metadata_json.py`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any

import orjson
from attrs import define, field

from icecore.engine.common.compressed_json import decompress
from icecore.engine.common.growing_json import JoinedJson
from icecore.engine.common.json_reader import loads
from icecore.engine.common.text import short_repr
from icecore.engine.errors import NoSuchSnapshotError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.spec.metadata_json import NO_SNAPSHOT, SUPPORTED_FORMAT_VERSIONS, WHERE, metadata_fields
from icecore.engine.spec.partition import PARTITION_FIELD_ID_START, PartitionSpec
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
from icecore.engine.spec.types import NestedField, walk

DEFAULT_FORMAT_VERSION = 2

_SCHEMAS: JoinedJson[Schema] = JoinedJson(attrgetter("json"))
_SNAPSHOTS_OF_V1: JoinedJson[Snapshot] = JoinedJson(lambda s: s.to_json(False))
_SNAPSHOTS: JoinedJson[Snapshot] = JoinedJson(lambda s: s.to_json(True))
_SNAPSHOT_LOGS: JoinedJson[SnapshotLogEntry] = JoinedJson(attrgetter("json"))
_METADATA_LOGS: JoinedJson[MetadataLogEntry] = JoinedJson(attrgetter("json"))


@define(frozen=True, slots=False)
class TableMetadata:
    """Table metadata. Times are milliseconds since the epoch; `extra` keeps fields we don't know.

    Raises ValidationError where ids point nowhere or refs disagree with the current snapshot.
    """

    __repr__ = short_repr

    format_version: int
    table_uuid: str | None
    location: str
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: int
    last_partition_id: int = PARTITION_FIELD_ID_START - 1
    sort_orders: tuple[SortOrder, ...] = (UNSORTED,)
    default_sort_order_id: int = 0
    last_sequence_number: int = 0
    properties: Mapping[str, str] = field(factory=dict)
    current_snapshot_id: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    refs: Mapping[str, SnapshotRef] = field(factory=dict)
    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    next_row_id: int | None = None
    encryption_keys: tuple[EncryptedKey, ...] = ()
    extra: Mapping[str, Any] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.format_version not in SUPPORTED_FORMAT_VERSIONS:
            raise UnsupportedFormatVersionError(
                f"table metadata has format version {self.format_version}; supported are 1, 2 and 3"
            )
        self.schema()
        self.spec()
        self.sort_order()
        if self.current_snapshot_id is not None and self.current_snapshot_id not in self.snapshots_by_id:
            raise ValidationError(f"current-snapshot-id {self.current_snapshot_id} is not among the snapshots")
        for name, ref in self.refs.items():
            if ref.snapshot_id not in self.snapshots_by_id:
                raise ValidationError(f"ref {name!r} points at snapshot {ref.snapshot_id}, which is not there")
        main = self.refs.get(MAIN_BRANCH)
        if main is not None and main.type is not SnapshotRefType.BRANCH:
            raise ValidationError("the ref 'main' must be a branch")
        if (main.snapshot_id if main else None) != self.current_snapshot_id:
            raise ValidationError(
                f"current-snapshot-id is {self.current_snapshot_id}, but the branch main is at "
                f"{main.snapshot_id if main else None}"
            )

    @classmethod
    def of_snapshots(cls, by_id: dict[int, Snapshot], **fields: Any) -> TableMetadata:
        """Metadata of snapshots that are indexed by id already, so that a commit need not index a long history."""
        made = cls.__new__(cls)
        made.__dict__["snapshots_by_id"] = by_id
        made.__init__(snapshots=tuple(by_id.values()), **fields)  # type: ignore[misc]  # on an object made just above
        return made

    @cached_property
    def _schemas_by_id(self) -> dict[int, Schema]:
        return {s.schema_id: s for s in self.schemas}

    @cached_property
    def specs(self) -> dict[int, PartitionSpec]:
        """All partition specs by id."""
        return {s.spec_id: s for s in self.partition_specs}

    @cached_property
    def snapshots_by_id(self) -> Mapping[int, Snapshot]:
        """All snapshots by id, in their order."""
        return {s.snapshot_id: s for s in self.snapshots}

    @cached_property
    def all_fields(self) -> Schema:
        """Every primitive field that any schema of the table ever had, flat, with its latest type.

        The names are made up, since a name may have been used twice: the schema is for look-ups by id, as for metrics
        and for partition values of dropped columns.
        """
        found: dict[int, NestedField] = {}
        for schema in (*(s for s in self.schemas if s.schema_id != self.current_schema_id), self.schema()):
            for f in walk(schema.fields):
                if f.field_type.is_primitive:
                    found[f.field_id] = NestedField(f.field_id, f"f{f.field_id}", f.field_type)
        return Schema(tuple(found.values()))

    def schema(self) -> Schema:
        """The current schema."""
        return self.schema_by_id(self.current_schema_id)

    def schema_by_id(self, schema_id: int) -> Schema:
        """The schema of that id. Raises ValidationError where there is none."""
        found = self._schemas_by_id.get(schema_id)
        if found is None:
            raise ValidationError(f"there is no schema {schema_id}; there are {sorted(self._schemas_by_id)}")
        return found

    def spec(self) -> PartitionSpec:
        """The default partition spec."""
        return self.spec_by_id(self.default_spec_id)

    def spec_by_id(self, spec_id: int) -> PartitionSpec:
        """The partition spec of that id. Raises ValidationError where there is none."""
        found = self.specs.get(spec_id)
        if found is None:
            raise ValidationError(f"there is no partition spec {spec_id}; there are {sorted(self.specs)}")
        return found

    def sort_order(self) -> SortOrder:
        """The default sort order."""
        return self.sort_order_by_id(self.default_sort_order_id)

    def sort_order_by_id(self, order_id: int) -> SortOrder:
        """The sort order of that id. Raises ValidationError where there is none."""
        for order in self.sort_orders:
            if order.order_id == order_id:
                return order
        raise ValidationError(f"there is no sort order {order_id}; there are {[o.order_id for o in self.sort_orders]}")

    def current_snapshot(self) -> Snapshot | None:
        """The current snapshot; None for an empty table."""
        return None if self.current_snapshot_id is None else self.snapshots_by_id[self.current_snapshot_id]

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of that id; None where it is not in the metadata."""
        return self.snapshots_by_id.get(snapshot_id)

    def find_snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot of that id. Raises NoSuchSnapshotError."""
        found = self.snapshot_by_id(snapshot_id)
        if found is None:
            raise NoSuchSnapshotError(f"there is no snapshot {snapshot_id}")
        return found

    def snapshot_or_current(self, snapshot_id: int | None) -> Snapshot | None:
        """The snapshot of that id, by default the current one. Raises NoSuchSnapshotError."""
        return self.current_snapshot() if snapshot_id is None else self.find_snapshot(snapshot_id)

    def snapshot_by_ref(self, name: str) -> Snapshot | None:
        """The head of a branch or a tag's snapshot; None for `main` of an empty table. Raises NoSuchSnapshotError."""
        ref = self.refs.get(name)
        if ref is None:
            if name == MAIN_BRANCH:
                return None
            known = ", ".join(sorted(self.refs)) or "none"
            raise NoSuchSnapshotError(f"there is no branch or tag {name!r}; there are: {known}")
        return self.snapshots_by_id[ref.snapshot_id]

    def head_for_commit(self, branch: str) -> Snapshot | None:
        """The head of the branch that a commit goes to; None if `main` is empty and the branch is `main` or a new one.

        Raises NoSuchSnapshotError for another unknown branch.
        """
        is_first = branch not in self.refs and MAIN_BRANCH not in self.refs
        return None if is_first else self.snapshot_by_ref(branch)

    def snapshot_as_of(self, timestamp_ms: int) -> Snapshot:
        """The snapshot that was current at a time, by the snapshot log (SP8). Raises NoSuchSnapshotError."""
        found: int | None = None
        for entry in self.snapshot_log:
            if entry.timestamp_ms <= timestamp_ms:
                found = entry.snapshot_id
        if found is None:
            first = next((f"the first was at {_time(e.timestamp_ms)}" for e in self.snapshot_log), "there was none yet")
            raise NoSuchSnapshotError(f"no snapshot was current at {_time(timestamp_ms)}: {first}")
        return self.find_snapshot(found)

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """A snapshot and its ancestors, newest first, as far as they are still there."""
        seen: set[int] = set()
        current = None if snapshot_id is None else self.snapshot_by_id(snapshot_id)
        while current is not None and current.snapshot_id not in seen:
            seen.add(current.snapshot_id)
            yield current
            parent = current.parent_snapshot_id
            current = None if parent is None else self.snapshot_by_id(parent)

    def is_ancestor(self, ancestor_id: int, snapshot_id: int | None) -> bool:
        """Whether one snapshot is another or one of its ancestors."""
        return any(s.snapshot_id == ancestor_id for s in self.ancestors(snapshot_id))

    @classmethod
    def from_json(cls, data: bytes | str) -> TableMetadata:
        """Parses a metadata file, gzip-compressed or not.

        Raises UnsupportedFormatVersionError for a version above 3, ValidationError for anything else that is wrong.
        """
        return cls.from_dict(loads(decompress(data), WHERE))

    @classmethod
    def from_dict(cls, obj: dict[str, Any]) -> TableMetadata:
        """The metadata of a metadata file's JSON object. Raises as `from_json` does."""
        return cls(**metadata_fields(obj))

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of a metadata file, in the version's own form (MD8)."""
        snapshots = [s.to_dict(self.format_version) for s in self.snapshots]
        logs = [e.to_dict() for e in self.snapshot_log], [e.to_dict() for e in self.metadata_log]
        return self._to_dict([s.to_dict() for s in self.schemas], snapshots, *logs)

    def to_json(self) -> bytes:
        """The bytes of a metadata file, uncompressed; the same value gives the same bytes.

        Most of a file is a long history that never changes. The JSON of a snapshot, schema or log entry is made once,
        and the joined lists of a table's last metadata file are kept for its next one. Raises ValidationError.
        """
        try:
            joined = _SNAPSHOTS_OF_V1 if self.format_version == 1 else _SNAPSHOTS
            snapshots = joined.of(self.table_uuid, self.snapshots)
            snapshot_log = _SNAPSHOT_LOGS.of(self.table_uuid, self.snapshot_log)
            metadata_log = _METADATA_LOGS.of(self.table_uuid, self.metadata_log)
            lists = _SCHEMAS.of(self.table_uuid, self.schemas), snapshots, snapshot_log, metadata_log
            return orjson.dumps(self._to_dict(*map(orjson.Fragment, lists)))
        except orjson.JSONEncodeError as e:
            raise ValidationError(f"{WHERE} can't be written as JSON: {e}") from e

    def _to_dict(self, schemas: Any, snapshots: Any, snapshot_log: Any, metadata_log: Any) -> dict[str, Any]:
        """The JSON object, around four lists that are given as objects or as JSON already."""
        v = self.format_version
        out: dict[str, Any] = {"format-version": v}
        if self.table_uuid is not None:
            out["table-uuid"] = self.table_uuid
        out["location"] = self.location
        if v >= 2:
            out["last-sequence-number"] = self.last_sequence_number
        out["last-updated-ms"] = self.last_updated_ms
        out["last-column-id"] = self.last_column_id
        if v == 1:
            out["schema"] = self.schema().to_dict()
        out["current-schema-id"] = self.current_schema_id
        out["schemas"] = schemas
        if v == 1:
            out["partition-spec"] = self.spec().fields_to_list()
        out["default-spec-id"] = self.default_spec_id
        out["partition-specs"] = [s.to_dict() for s in self.partition_specs]
        out["last-partition-id"] = self.last_partition_id
        out["default-sort-order-id"] = self.default_sort_order_id
        out["sort-orders"] = [o.to_dict() for o in self.sort_orders]
        out["properties"] = dict(self.properties)
        if self.current_snapshot_id is not None:
            out["current-snapshot-id"] = self.current_snapshot_id
        elif v < 3:
            out["current-snapshot-id"] = NO_SNAPSHOT
        if self.next_row_id is not None:
            out["next-row-id"] = self.next_row_id
        if self.encryption_keys:
            out["encryption-keys"] = [k.to_dict() for k in self.encryption_keys]
        out["refs"] = {name: ref.to_dict() for name, ref in self.refs.items()}
        out["snapshots"] = snapshots
        out["statistics"] = [s.to_dict() for s in self.statistics]
        out["partition-statistics"] = [s.to_dict() for s in self.partition_statistics]
        out["snapshot-log"] = snapshot_log
        out["metadata-log"] = metadata_log
        return out | dict(self.extra)


def _time(timestamp_ms: int) -> str:
    """A time in ISO 8601 and in ms since the epoch; beyond the range of `datetime` in ms only."""
    try:
        found = dt.datetime.fromtimestamp(timestamp_ms / 1000, dt.UTC).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return f"{found.removesuffix('+00:00')}Z ({timestamp_ms} ms)"
