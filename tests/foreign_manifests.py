"""Manifests as any writer may make them, and their entries, which both decoders agree on."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.formats.manifest_avro import decode_manifest_fastavro
from icecore.engine.spec.partition import PartitionSpec
from icecore.projections.entries import decode_entries
from icecore.projections.entries.decode_entries import decode_manifest

SYNC = bytes(range(16))
Schema = dict[str, Any]


def record(name: str, *fields: Schema) -> Schema:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, field_id: int | None, avro_type: Any) -> Schema:
    return {"name": name, "type": avro_type, **({} if field_id is None else {"field-id": field_id})}


STATUS, SNAPSHOT = field("status", 0, "int"), field("snapshot_id", 1, ["null", "long"])
REQUIRED = (
    field("file_path", 100, "string"),
    field("file_format", 101, "string"),
    field("record_count", 103, "long"),
    field("file_size_in_bytes", 104, "long"),
)
FILE = {"file_path": "file:///a", "file_format": "parquet", "record_count": 3, "file_size_in_bytes": 9}


def entry_schema(*extra: Schema, partition: tuple[Schema, ...] = (), required: tuple[Schema, ...] = REQUIRED) -> Schema:
    data_file = record("r2", *required, field("partition", 102, record("r102", *partition)), *extra)
    return record("manifest_entry", STATUS, SNAPSHOT, field("data_file", 2, data_file))


def row(partition: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    return {"status": 1, "snapshot_id": 5, "data_file": {**FILE, "partition": partition or {}, **values}}


def container(schema: Schema, rows: list[dict[str, Any]], codec: str = "deflate", sync_interval: int = 16_000) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec, sync_interval, sync_marker=SYNC)
    return out.getvalue()


def decode(data: bytes, spec: PartitionSpec | None = None) -> list[dict[str, Any]]:
    """The rows that both decoders agree on."""
    fast = decode_manifest(data, where="m-7", spec_id=4, metadata_spec=spec)
    assert fast.schema == ENTRY_SCHEMA
    fast.validate(full=True)
    assert fast == decode_manifest_fastavro(data, where="m-7", spec_id=4, metadata_spec=spec)
    found: list[dict[str, Any]] = fast.to_pylist()
    return found


def decode_by_polars(data: bytes, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """As `decode`, where falling back would be an error."""
    rows = decode(data)
    with monkeypatch.context() as patch:
        patch.setattr(decode_entries, "decode_manifest_fastavro", None)
        decode_manifest(data, where="m-7", spec_id=4)
    return rows


PART_INT = field("x", 1000, ["null", "int"])


def pairs_of(key: Any, value: Any) -> Schema:
    return {"type": "array", "items": record("pair", field("key", 126, key), field("value", 127, value))}
