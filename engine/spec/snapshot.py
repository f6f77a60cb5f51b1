"""Snapshots, refs, the two logs of table metadata, and statistics files, with their JSON.

Spec: Snapshots, Snapshot Retention Policy, Table Metadata Fields (L3 to L5, R1, MD2, MD4, MD6).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import orjson
from attrs import field, frozen

from icecore.engine.common.identifiers import checked_number
from icecore.engine.common.json_reader import get, get_list, get_str_map, keys_of, unknown
from icecore.engine.common.text import short_repr
from icecore.engine.errors import ValidationError

MAIN_BRANCH = "main"
INITIAL_SEQUENCE_NUMBER = 0


class Operation(enum.StrEnum):
    """The `operation` of a snapshot's summary (L4)."""

    APPEND = "append"
    REPLACE = "replace"
    OVERWRITE = "overwrite"
    DELETE = "delete"


@frozen
class Snapshot:
    """The state of a table at one time. `timestamp_ms` is milliseconds since the epoch.

    `manifests` holds the manifest paths of a v1 snapshot that has no manifest list. `summary` includes `operation`
    where the writer gave one.
    """

    __repr__ = short_repr

    snapshot_id: int
    timestamp_ms: int
    parent_snapshot_id: int | None = None
    sequence_number: int = INITIAL_SEQUENCE_NUMBER
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    summary: Mapping[str, str] | None = None
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    @property
    def operation(self) -> str | None:
        """The `operation` of the summary; None where the writer gave none."""
        return None if self.summary is None else self.summary.get("operation")

    def to_dict(self, format_version: int) -> dict[str, Any]:
        out: dict[str, Any] = {"snapshot-id": self.snapshot_id}
        if self.parent_snapshot_id is not None:
            out["parent-snapshot-id"] = self.parent_snapshot_id
        if format_version > 1:
            out["sequence-number"] = self.sequence_number
        out["timestamp-ms"] = self.timestamp_ms
        if self.summary is not None:
            out["summary"] = dict(self.summary)
        if self.manifest_list is not None:
            out["manifest-list"] = self.manifest_list
        elif self.manifests is not None:
            out["manifests"] = list(self.manifests)
        optional = {
            "schema-id": self.schema_id,
            "first-row-id": self.first_row_id,
            "added-rows": self.added_rows,
            "key-id": self.key_id,
        }
        return out | {k: v for k, v in optional.items() if v is not None} | dict(self.extra)

    def to_json(self, with_sequence_number: bool) -> bytes:
        """The bytes of its JSON, made once for all metadata files of versions after 1."""
        return self._json if with_sequence_number else orjson.dumps(self.to_dict(1))

    @cached_property
    def _json(self) -> bytes:
        return orjson.dumps(self.to_dict(2))

    @classmethod
    def from_dict(cls, obj: Any) -> Snapshot:
        """The snapshot of a JSON object. Raises ValidationError where it is none."""
        where = f"snapshot {obj.get('snapshot-id')}" if isinstance(obj, Mapping) else "snapshot"
        manifests = get_list(obj, "manifests", where, default=None)
        parent = get(obj, "parent-snapshot-id", int, where, None)
        return cls(
            get(obj, "snapshot-id", int, where),
            get(obj, "timestamp-ms", int, where),
            parent_snapshot_id=None if parent == -1 else parent,
            sequence_number=get(obj, "sequence-number", int, where, INITIAL_SEQUENCE_NUMBER),
            manifest_list=get(obj, "manifest-list", str, where, None),
            manifests=None if manifests is None else tuple(manifests),
            summary=None if obj.get("summary") is None else get_str_map(obj, "summary", where),
            schema_id=get(obj, "schema-id", int, where, None),
            first_row_id=get(obj, "first-row-id", int, where, None),
            added_rows=get(obj, "added-rows", int, where, None),
            key_id=get(obj, "key-id", str, where, None),
            extra=unknown(obj, _SNAPSHOT_KEYS),
        )


_SNAPSHOT_KEYS = keys_of(Snapshot)


def _number(value: Any) -> Any:
    """The number as an int; numpy's whole numbers, as columns of frames hold them, are taken too."""
    return None if value is None else checked_number(value, "a snapshot id, age or count")


class SnapshotRefType(enum.StrEnum):
    """The `type` of a ref."""

    BRANCH = "branch"
    TAG = "tag"


@frozen
class SnapshotRef:
    """A branch or tag. Ages are in milliseconds; the first two settings are for branches only (R1)."""

    snapshot_id: int = field(converter=_number)
    type: SnapshotRefType
    min_snapshots_to_keep: int | None = field(default=None, converter=_number)
    max_snapshot_age_ms: int | None = field(default=None, converter=_number)
    max_ref_age_ms: int | None = field(default=None, converter=_number)
    extra: Mapping[str, Any] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        tag_settings = (self.min_snapshots_to_keep, self.max_snapshot_age_ms)
        if self.type is SnapshotRefType.TAG and any(s is not None for s in tag_settings):
            raise ValidationError("a tag can't have min-snapshots-to-keep or max-snapshot-age-ms")
        for name in ("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms"):
            value = getattr(self, name)
            bits = 31 if name == "min_snapshots_to_keep" else 63
            if value is not None and not 0 < value < 2**bits:
                raise ValidationError(
                    f"{name.replace('_', '-')} must be positive and at most {2**bits - 1}, found {value}"
                )

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"snapshot-id": self.snapshot_id, "type": str(self.type)}
        optional = {
            "min-snapshots-to-keep": self.min_snapshots_to_keep,
            "max-snapshot-age-ms": self.max_snapshot_age_ms,
            "max-ref-age-ms": self.max_ref_age_ms,
        }
        return out | {k: v for k, v in optional.items() if v is not None} | dict(self.extra)

    @classmethod
    def from_dict(cls, obj: Any, name: str = "") -> SnapshotRef:
        """The ref of a JSON object. Raises ValidationError where it is none; `name` is for the message."""
        where = f"ref {name!r}"
        kind = get(obj, "type", str, where)
        try:
            ref_type = SnapshotRefType(kind.lower())
        except ValueError as e:
            raise ValidationError(f"{where}: type must be branch or tag, found {kind!r}") from e
        is_branch = ref_type is SnapshotRefType.BRANCH
        return cls(
            get(obj, "snapshot-id", int, where),
            ref_type,
            get(obj, "min-snapshots-to-keep", int, where, None) if is_branch else None,
            get(obj, "max-snapshot-age-ms", int, where, None) if is_branch else None,
            get(obj, "max-ref-age-ms", int, where, None),
            unknown(obj, _REF_KEYS),
        )


_REF_KEYS = keys_of(SnapshotRef) | {"action", "ref-name"}
"""The keys of a ref, and of the update that sets a ref, whose JSON has them beside the ref's own."""


@frozen
class SnapshotLogEntry:
    """A change of the current snapshot, in the snapshot log: the snapshot and the time at which it became current."""

    timestamp_ms: int
    snapshot_id: int
    extra: Mapping[str, Any] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"timestamp-ms": self.timestamp_ms, "snapshot-id": self.snapshot_id, **self.extra}

    @cached_property
    def json(self) -> bytes:
        """The bytes of its JSON."""
        return orjson.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, obj: Any) -> SnapshotLogEntry:
        """The entry of a JSON object. Raises ValidationError where it is none."""
        where = "snapshot-log entry"
        known = frozenset({"timestamp-ms", "snapshot-id"})
        return cls(get(obj, "timestamp-ms", int, where), get(obj, "snapshot-id", int, where), unknown(obj, known))


@frozen
class MetadataLogEntry:
    """An earlier metadata file in the metadata log, and the time at which it was written."""

    timestamp_ms: int
    metadata_file: str
    extra: Mapping[str, Any] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"timestamp-ms": self.timestamp_ms, "metadata-file": self.metadata_file, **self.extra}

    @cached_property
    def json(self) -> bytes:
        """The bytes of its JSON."""
        return orjson.dumps(self.to_dict())

    @classmethod
    def from_dict(cls, obj: Any) -> MetadataLogEntry:
        """The entry of a JSON object. Raises ValidationError where it is none."""
        where = "metadata-log entry"
        known = frozenset({"timestamp-ms", "metadata-file"})
        return cls(get(obj, "timestamp-ms", int, where), get(obj, "metadata-file", str, where), unknown(obj, known))


@frozen
class BlobMetadata:
    """A Puffin blob as table metadata describes it (MD4)."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: tuple[int, ...]
    properties: Mapping[str, str] = field(factory=dict)
    extra: Mapping[str, Any] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "type": self.type,
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "fields": list(self.fields),
        }
        if self.properties:
            out["properties"] = dict(self.properties)
        return out | dict(self.extra)

    @classmethod
    def from_dict(cls, obj: Any) -> BlobMetadata:
        """The blob metadata of a JSON object. Raises ValidationError where it is none."""
        where = "blob-metadata"
        return cls(
            get(obj, "type", str, where),
            get(obj, "snapshot-id", int, where),
            get(obj, "sequence-number", int, where),
            tuple(get_list(obj, "fields", where)),
            get_str_map(obj, "properties", where, {}),
            unknown(obj, _BLOB_KEYS),
        )


_BLOB_KEYS = keys_of(BlobMetadata)


@frozen
class StatisticsFile:
    """A Puffin file with table statistics of one snapshot (MD4). `key_metadata` is base64."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    blob_metadata: tuple[BlobMetadata, ...]
    key_metadata: str | None = field(default=None, repr=False)
    extra: Mapping[str, Any] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "snapshot-id": self.snapshot_id,
            "statistics-path": self.statistics_path,
            "file-size-in-bytes": self.file_size_in_bytes,
            "file-footer-size-in-bytes": self.file_footer_size_in_bytes,
        }
        if self.key_metadata is not None:
            out["key-metadata"] = self.key_metadata
        return {**out, "blob-metadata": [b.to_dict() for b in self.blob_metadata], **self.extra}

    @classmethod
    def from_dict(cls, obj: Any) -> StatisticsFile:
        """The statistics file of a JSON object. Raises ValidationError where it is none."""
        where = "statistics"
        return cls(
            get(obj, "snapshot-id", int, where),
            get(obj, "statistics-path", str, where),
            get(obj, "file-size-in-bytes", int, where),
            get(obj, "file-footer-size-in-bytes", int, where),
            tuple(BlobMetadata.from_dict(b) for b in get_list(obj, "blob-metadata", where)),
            get(obj, "key-metadata", str, where, None),
            unknown(obj, _STATISTICS_KEYS),
        )


_STATISTICS_KEYS = keys_of(StatisticsFile)


@frozen
class PartitionStatisticsFile:
    """A file with statistics by partition of one snapshot (MD4, MD5)."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    extra: Mapping[str, Any] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "snapshot-id": self.snapshot_id,
            "statistics-path": self.statistics_path,
            "file-size-in-bytes": self.file_size_in_bytes,
            **self.extra,
        }

    @classmethod
    def from_dict(cls, obj: Any) -> PartitionStatisticsFile:
        """The partition statistics file of a JSON object. Raises ValidationError where it is none."""
        where = "partition-statistics"
        return cls(
            get(obj, "snapshot-id", int, where),
            get(obj, "statistics-path", str, where),
            get(obj, "file-size-in-bytes", int, where),
            unknown(obj, frozenset({"snapshot-id", "statistics-path", "file-size-in-bytes"})),
        )


@frozen
class EncryptedKey:
    """A key of an encrypted table (MD6). The key material never shows in a repr."""

    key_id: str
    encrypted_key_metadata: str = field(repr=False)
    encrypted_by_id: str | None = None
    properties: Mapping[str, str] = field(factory=dict, repr=False)
    extra: Mapping[str, Any] = field(factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"key-id": self.key_id, "encrypted-key-metadata": self.encrypted_key_metadata}
        if self.encrypted_by_id is not None:
            out["encrypted-by-id"] = self.encrypted_by_id
        if self.properties:
            out["properties"] = dict(self.properties)
        return out | dict(self.extra)

    @classmethod
    def from_dict(cls, obj: Any) -> EncryptedKey:
        """The key of a JSON object. Raises ValidationError where it is none."""
        where = "encryption key"
        return cls(
            get(obj, "key-id", str, where),
            get(obj, "encrypted-key-metadata", str, where),
            get(obj, "encrypted-by-id", str, where, None),
            get_str_map(obj, "properties", where, {}),
            unknown(obj, _KEY_KEYS),
        )


_KEY_KEYS = keys_of(EncryptedKey)
