"""Columns of shredded variants made by hand, and what a Parquet file with one is read as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import NestedField, Type, VariantType

from .reading import content_file, rows
from .variants import Value, metadata

NULL: Value = ("null", None)
EMPTY = metadata([])


def one(t: Type) -> Schema:
    return Schema((NestedField(1, "v", t),))


def with_id(array: pa.Array, **types: Any) -> pa.Table:
    f = pa.field("v", array.type, metadata={"PARQUET:field_id": "1"}, **types)
    return pa.table([array], schema=pa.schema([f]))


def read(array: pa.Array, folder: Path, *, store_schema: bool = False) -> list[dict[str, bytes] | None]:
    """What a Parquet file with the array as its column is read as."""
    path = folder / "f.parquet"
    pq.write_table(with_id(array), path, store_schema=store_schema)
    return [r["v"] for r in rows(content_file(path), one(VariantType()))]


def group(typed: pa.DataType | None, value: bool = True) -> pa.DataType:
    fields = [pa.field("value", pa.binary())] if value else []
    return pa.struct([*fields, *([] if typed is None else [pa.field("typed_value", typed)])])


def variant(typed: pa.DataType | None, value: bool = True) -> pa.DataType:
    return pa.struct([pa.field("metadata", pa.binary(), nullable=False), *group(typed, value)])


def required(name: str, t: pa.DataType) -> pa.Field:
    return pa.field(name, t, nullable=False)


OBJECT = pa.struct([required("a", group(pa.int32())), required("b", group(pa.string()))])
AB = metadata(["a", "b"])
