"""Entries, and manifests of them as the engine writes them, with partition values of every type."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, files_to_arrow
from icecore.engine.formats.manifest_avro import write_manifest
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat, ManifestContent
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import BucketTransform, DayTransform, IdentityTransform, VoidTransform, YearTransform
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

SYNC = bytes(range(16))
INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda n: single_value.unscaled_to_decimal(n, scale))


VALUES: list[tuple[PrimitiveType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), INTS),
    (LongType(), LONGS),
    (FloatType(), st.floats(width=32)),
    (DoubleType(), st.floats()),
    (DateType(), INTS),
    (TimeType(), LONGS),
    (TimestampType(), LONGS),
    (TimestamptzType(), LONGS),
    (StringType(), st.text(st.characters(exclude_categories=["Cs"]))),
    (UUIDType(), st.uuids()),
    (BinaryType(), st.binary()),
    (FixedType(3), st.binary(min_size=3, max_size=3)),
    (FixedType(3), st.binary(min_size=3, max_size=3)),
    (UUIDType(), st.uuids()),
    (DecimalType(4, 2), decimals(4, 2)),
    (DecimalType(18, 0), decimals(18, 0)),
    (DecimalType(38, 10), decimals(38, 10)),
]
NANOS: list[tuple[PrimitiveType, st.SearchStrategy[Any]]] = [
    (TimestampNanoType(), LONGS),
    (TimestamptzNanoType(), LONGS),
]
# Some names are no Avro names, and two become the same one.
NAMES = {0: "a b", 1: "a_x20b", 2: "1st", 3: "größe", 4: "x.y😀"}


def identity_table(values: list[tuple[PrimitiveType, Any]]) -> tuple[Schema, PartitionSpec]:
    """A schema with a column of each type, and a spec with the identity of each."""
    names = [NAMES.get(i, f"c{i}") for i in range(len(values))]
    schema = Schema(tuple(NestedField(i + 1, n, t) for i, (n, (t, _)) in enumerate(zip(names, values, strict=True))), 4)
    fields = (PartitionField((i + 1,), 1000 + i, IdentityTransform(), n) for i, n in enumerate(names))
    return schema, PartitionSpec(tuple(fields), 7)


def with_column(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    index = ENTRY_SCHEMA.get_field_index(name)
    return table.set_column(index, ENTRY_SCHEMA.field(name), pa.array(values, ENTRY_SCHEMA.field(name).type))


def files_table(files: list[ContentFile], spec: PartitionSpec, schema: Schema, version: int) -> pa.Table:
    """Entries as a manifest of the version has them: v1 carries the snapshot id, v3 may carry first row ids."""
    table = files_to_arrow(files, {spec.spec_id: spec}, schema, status=1)
    count = len(files)
    table = with_column(
        table, "snapshot_id", [17] * count if version == 1 else [None if i % 2 else i for i in range(count)]
    )
    return with_column(table, "first_row_id", [i * 10 for i in range(count)]) if version == 3 else table


def write(table: pa.Table, spec: PartitionSpec, schema: Schema, version: int = 2, **options: Any) -> bytes:
    content = options.pop("content", ManifestContent.DATA)
    return write_manifest(
        table, spec=spec, schema=schema, content=content, format_version=version, sync_marker=SYNC, **options
    )


SIMPLE = Schema(
    (NestedField(1, "id", LongType()), NestedField(2, "ts", TimestampType()), NestedField(3, "s", StringType()))
)
BY_DAY = PartitionSpec(
    (
        PartitionField((2,), 1000, DayTransform(), "ts_day"),
        PartitionField((1,), 1001, BucketTransform(16), "id_bucket"),
        PartitionField((2,), 1002, YearTransform(), "ts_year"),
        PartitionField((3,), 1003, VoidTransform(), "s_void"),
    ),
    7,
)


def data_file(**changes: Any) -> ContentFile:
    values: dict[str, Any] = {
        "content": DataFileContent.DATA,
        "file_path": "file:///w/a.parquet",
        "file_format": FileFormat.PARQUET,
        "spec_id": 7,
        "partition": (19_000, 3, 52, None),
        "record_count": 5,
        "file_size_in_bytes": 100,
        "split_offsets": (4, 50),
        "sort_order_id": 0,
        "lower_bounds": {1: b"\x01"},
        "value_counts": {1: 5, 2: 5},
    }
    return ContentFile(**{**values, **changes})


DV = data_file(
    content=DataFileContent.POSITION_DELETES,
    file_format=FileFormat.PUFFIN,
    referenced_data_file="file:///w/a.parquet",
    content_offset=4,
    content_size_in_bytes=40,
)
EQUALITY = data_file(content=DataFileContent.EQUALITY_DELETES, equality_ids=(1, 3))


def entry(changes: dict[str, Any], f: ContentFile | None = None) -> pa.Table:
    table = files_to_arrow([f or data_file()], {7: BY_DAY}, SIMPLE, status=1)
    for name, value in changes.items():
        table = with_column(table, name, [value])
    return table
