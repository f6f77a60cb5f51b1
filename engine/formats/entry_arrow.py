"""The canonical entry: one Arrow schema for manifest entries wherever they are.

A manifest decodes to it, a commit stores it beside its event, a manifest is written from it and a segment is made of
it. It does not depend on the table: the partition tuple is a map from partition field id to binary single value (null
where the value is null), as bounds are maps from field id. Sequence numbers, snapshot ids and first row ids are as
written, so null where they are inherited (Spec: M2, RL3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.errors import ValidationError
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat, ManifestEntryStatus
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import PrimitiveType

COUNTS = pa.map_(pa.int32(), pa.int64())
BINARIES = pa.map_(pa.int32(), pa.binary())

ENTRY_SCHEMA = pa.schema(
    [
        pa.field("status", pa.int32(), nullable=False),
        ("snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("file_sequence_number", pa.int64()),
        pa.field("content", pa.int32(), nullable=False),
        pa.field("file_path", pa.string(), nullable=False),
        pa.field("file_format", pa.string(), nullable=False),
        pa.field("spec_id", pa.int32(), nullable=False),
        ("partition", BINARIES),
        pa.field("record_count", pa.int64(), nullable=False),
        pa.field("file_size_in_bytes", pa.int64(), nullable=False),
        ("column_sizes", COUNTS),
        ("value_counts", COUNTS),
        ("null_value_counts", COUNTS),
        ("nan_value_counts", COUNTS),
        ("lower_bounds", BINARIES),
        ("upper_bounds", BINARIES),
        ("key_metadata", pa.binary()),
        ("split_offsets", pa.list_(pa.int64())),
        ("equality_ids", pa.list_(pa.int32())),
        ("sort_order_id", pa.int32()),
        ("first_row_id", pa.int64()),
        ("referenced_data_file", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
    ]
)


def encode_partition(spec: PartitionSpec, schema: Schema, partition: Iterable[Any]) -> list[tuple[int, bytes | None]]:
    """A partition tuple as the entries of the canonical map. Raises ValidationError where it doesn't fit the spec."""
    values = tuple(partition)
    if len(values) != len(spec.fields):
        raise ValidationError(
            f"partition spec {spec.spec_id} has {len(spec.fields)} fields, found {len(values)} values"
        )
    return [
        (f.field_id, None if v is None else single_value.partition_to_bytes(f.result_type(schema), v))
        for f, v in zip(spec.fields, values, strict=True)
    ]


def decode_partition(
    spec: PartitionSpec, schema: Schema, entries: Iterable[tuple[int, bytes | None]] | None
) -> tuple[Any, ...]:
    """The partition tuple of a canonical map, in the order of the spec; what is not in the map is null."""
    found = dict(entries or ())
    data = ((t, found.get(i)) for i, t in partition_types(spec, schema))
    return tuple([None if d is None else single_value.from_bytes(t, d) for t, d in data])


def partition_keys(
    entries: pa.Table, specs: Mapping[int, PartitionSpec], schema: Schema
) -> list[tuple[int, tuple[bytes | None, ...]]]:
    """The spec id of each entry and the key of its partition, equal for equal partitions (SP5).

    The bytes in the entries may differ: they have the type that a column had when the manifest was written.
    """
    found = zip(entries["spec_id"].to_pylist(), entries["partition"].to_pylist(), strict=True)
    written = [(spec_id, tuple(partition or ())) for spec_id, partition in found]
    known = {(i, p): (i, specs[i].key(decode_partition(specs[i], schema, p), schema)) for i, p in set(written)}
    return [known[w] for w in written]


def partition_types(spec: PartitionSpec, schema: Schema) -> tuple[tuple[int, PrimitiveType], ...]:
    """The ids of a spec's fields and the types of their values."""
    return tuple((f.field_id, f.result_type(schema)) for f in spec.fields)


def files_to_arrow(
    files: Iterable[ContentFile], specs: Mapping[int, PartitionSpec], schema: Schema, *, status: int
) -> pa.Table:
    """Content files as canonical entries of one status, with null snapshot ids and sequence numbers, to be inherited.

    Raises ValidationError where a partition tuple doesn't fit its spec.
    """
    rows = []
    for f in files:
        if f.spec_id not in specs:
            raise ValidationError(f"{f.file_path}: there is no partition spec {f.spec_id}")
        rows.append(
            {
                "status": status,
                "content": int(f.content),
                "file_path": f.file_path,
                "file_format": str(f.file_format),
                "spec_id": f.spec_id,
                "partition": encode_partition(specs[f.spec_id], schema, f.partition),
                "record_count": f.record_count,
                "file_size_in_bytes": f.file_size_in_bytes,
                **{name: _pairs(getattr(f, name)) for name in METRICS},
                "key_metadata": f.key_metadata,
                "split_offsets": f.split_offsets,
                "equality_ids": f.equality_ids,
                "sort_order_id": f.sort_order_id,
                "first_row_id": f.first_row_id,
                "referenced_data_file": f.referenced_data_file,
                "content_offset": f.content_offset,
                "content_size_in_bytes": f.content_size_in_bytes,
            }
        )
    return pa.Table.from_pylist(rows, schema=ENTRY_SCHEMA)


COUNTS_OF_FIELDS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
BOUNDS = ("lower_bounds", "upper_bounds")
METRICS = (*COUNTS_OF_FIELDS, *BOUNDS)


def _pairs(mapping: Mapping[int, Any] | None) -> list[tuple[int, Any]] | None:
    return None if mapping is None else list(mapping.items())


def row_to_file(row: Mapping[str, Any], spec: PartitionSpec, schema: Schema) -> ContentFile:
    """The content file of one row of a canonical table (as from `to_pylist`); metrics columns may be absent."""
    offsets, equality_ids = row.get("split_offsets"), row.get("equality_ids")
    return ContentFile(
        DataFileContent(row["content"]),
        row["file_path"],
        FileFormat(row["file_format"].upper()),
        row["spec_id"],
        decode_partition(spec, schema, row.get("partition")),
        row["record_count"],
        row["file_size_in_bytes"],
        **{name: None if row.get(name) is None else dict(row[name]) for name in METRICS},
        key_metadata=row.get("key_metadata"),
        split_offsets=None if offsets is None else tuple(offsets),
        equality_ids=None if equality_ids is None else tuple(equality_ids),
        sort_order_id=row.get("sort_order_id"),
        first_row_id=row.get("first_row_id"),
        referenced_data_file=row.get("referenced_data_file"),
        content_offset=row.get("content_offset"),
        content_size_in_bytes=row.get("content_size_in_bytes"),
    )


def with_status(entries: pa.Table, status: ManifestEntryStatus, snapshot_id: int | None = None) -> pa.Table:
    """The entries under another status and, where given, another snapshot id."""
    rows = entries.num_rows
    out = entries.set_column(0, ENTRY_SCHEMA.field("status"), pa.repeat(pa.scalar(int(status), pa.int32()), rows))
    if snapshot_id is not None:
        out = out.set_column(1, ENTRY_SCHEMA.field("snapshot_id"), pa.repeat(pa.scalar(snapshot_id, pa.int64()), rows))
    return out if out.schema.equals(ENTRY_SCHEMA) else out.cast(ENTRY_SCHEMA)


def path_keys(locations: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Keys that are equal for all spellings of a location, made as `path_key` of sql/plan/deletes.sql makes them."""
    plain = pc.replace_substring_regex(locations, "^file:(//)?/", "/")
    return pc.replace_substring_regex(plain, "^s3[an]:", "s3:")
