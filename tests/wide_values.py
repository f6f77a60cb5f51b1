"""Entries, and values of all types, for the tests of wide entries."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.spec import single_value
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform
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
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icecore.projections.entries.wide_entries import widen


def entries(*rows: dict[str, Any]) -> pa.Table:
    defaults: dict[str, Any] = {
        "status": 1,
        "content": 0,
        "file_path": "file:///a",
        "file_format": "PARQUET",
        "spec_id": 0,
        "partition": [],
        "record_count": 10,
        "file_size_in_bytes": 100,
    }
    return pa.Table.from_pylist([{**defaults, **r} for r in rows], schema=ENTRY_SCHEMA)


def identity_spec(*types: PrimitiveType, spec_id: int = 0) -> tuple[Schema, PartitionSpec]:
    schema = Schema(tuple(NestedField(i + 1, f"c{i + 1}", t) for i, t in enumerate(types)))
    fields = (PartitionField((i + 1,), 1000 + i, IdentityTransform(), f"c{i + 1}") for i in range(len(types)))
    return schema, PartitionSpec(tuple(fields), spec_id)


INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda n: single_value.unscaled_to_decimal(n, scale))


TYPES: dict[PrimitiveType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    IntegerType(): INTS,
    LongType(): LONGS,
    FloatType(): st.floats(width=32),
    DoubleType(): st.floats(),
    DateType(): INTS,
    TimeType(): LONGS,
    TimestampType(): LONGS,
    TimestamptzType(): LONGS,
    TimestampNanoType(): LONGS,
    StringType(): st.text(st.characters(exclude_categories=["Cs"])),
    UUIDType(): st.uuids(),
    BinaryType(): st.binary(),
    FixedType(3): st.binary(min_size=3, max_size=3),
    **{DecimalType(p, s): decimals(p, s) for p, s in ((1, 0), (4, 2), (18, 3), (19, 0), (38, 10))},
}


def plain(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


def key_of(iceberg_type: PrimitiveType, value: bytes | None, spec_id: int = 0) -> bytes:
    schema, spec = identity_spec(iceberg_type, spec_id=spec_id)
    table = entries({"spec_id": spec_id, "partition": [(1000, value)]})
    key: bytes = widen(table, schema=schema, specs={spec_id: spec}).table["partition_key"][0].as_py()
    return key
