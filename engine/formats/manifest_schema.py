"""The Avro schema of manifests, one shape for each format version. Spec: Manifests (M4), Appendix A Avro (M7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from icecore.engine.formats import avro_schema
from icecore.engine.formats.avro_schema import array, field, int_map
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.types import PrimitiveType

ENTRY_NAME = "manifest_entry"
# Columns of the canonical entry that manifests of a version don't have.
UNSUPPORTED_IN = {
    1: ("content_offset", "content_size_in_bytes", "first_row_id", "equality_ids", "referenced_data_file"),
    2: ("content_offset", "content_size_in_bytes", "first_row_id"),
    3: (),
}


def entry_avro_schema(spec: PartitionSpec, types: Iterable[PrimitiveType], format_version: int) -> dict[str, Any]:
    """The Avro schema of a manifest's entries (M4, M7), given the result types of the spec's fields."""
    head = [field("status", 0, "int"), field("snapshot_id", 1, "long", optional=format_version > 1)]
    if format_version > 1:
        head += [
            field("sequence_number", 3, "long", optional=True),
            field("file_sequence_number", 4, "long", optional=True),
        ]
    partition = {"type": "record", "name": "r102", "fields": _partition_fields(spec, types)}
    data_file = {"type": "record", "name": "r2", "fields": _data_file_fields(partition, format_version)}
    return {"type": "record", "name": ENTRY_NAME, "fields": [*head, field("data_file", 2, data_file)]}


def _partition_fields(spec: PartitionSpec, types: Iterable[PrimitiveType]) -> list[dict[str, Any]]:
    taken: set[str] = set()
    return avro_schema.record_fields(
        field(f.name, f.field_id, avro_schema.avro_type(result, taken), optional=True)
        for f, result in zip(spec.fields, types, strict=True)
    )


def _data_file_fields(partition: dict[str, Any], format_version: int) -> list[dict[str, Any]]:
    head = [field("content", 134, "int")] if format_version > 1 else []
    head += [
        field("file_path", 100, "string"),
        field("file_format", 101, "string"),
        field("partition", 102, partition),
        field("record_count", 103, "long"),
        field("file_size_in_bytes", 104, "long"),
    ]
    if format_version == 1:
        head.append(field("block_size_in_bytes", 105, "long"))
    tail = [
        ("column_sizes", 108, int_map(117, 118, "long")),
        ("value_counts", 109, int_map(119, 120, "long")),
        ("null_value_counts", 110, int_map(121, 122, "long")),
        ("nan_value_counts", 137, int_map(138, 139, "long")),
        ("lower_bounds", 125, int_map(126, 127, "bytes")),
        ("upper_bounds", 128, int_map(129, 130, "bytes")),
        ("key_metadata", 131, "bytes"),
        ("split_offsets", 132, array(133, "long")),
        ("equality_ids", 135, array(136, "int")),
        ("sort_order_id", 140, "int"),
        ("first_row_id", 142, "long"),
        ("referenced_data_file", 143, "string"),
        ("content_offset", 144, "long"),
        ("content_size_in_bytes", 145, "long"),
    ]
    skipped = UNSUPPORTED_IN[format_version]
    return head + [field(n, i, t, optional=True) for n, i, t in tail if n not in skipped]
