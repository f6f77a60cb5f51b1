"""The partition tuples of decoded entry records in the canonical form: maps of binary single values."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.formats.arrays import to_mask
from icecore.engine.formats.binary_columns import (
    from_matrix,
    from_suffixes,
    gather,
    interleave,
    little_endian,
    minimal_lengths,
    to_arrays,
)
from icecore.engine.formats.entry_arrow import BINARIES
from icecore.engine.formats.manifest_layout import EntryLayout, PartitionColumn
from icecore.engine.spec import single_value


def chunk_of(table: pa.Table, name: str) -> pa.Array:
    """A column of a table that is in one piece."""
    column = table[name]
    return column.chunk(0) if column.num_chunks else pa.nulls(0, column.type)


def partition_column(table: pa.Table, layout: EntryLayout, count: int) -> pa.MapArray:
    """The partition tuples: every row has all the fields of the record, null where the value is null."""
    fields = layout.partition
    values = [_encode(c, chunk_of(table, c.name) if c.name in table.column_names else None, count) for c in fields]
    width = len(fields)
    offsets = np.arange(0, count * width + 1, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    keys = np.tile(np.array([c.field_id for c in fields], np.int32), count)
    items = interleave(values, count) if fields else pa.array([], pa.binary())
    return pa.MapArray.from_arrays(pa.array(offsets), pa.array(keys, pa.int32()), items, type=BINARIES)


def _encode(column: PartitionColumn, values: pa.Array | None, count: int) -> pa.Array:  # noqa: C901  # one case a type
    """The binary single values of a column of raw Avro values."""
    if values is None:
        return pa.nulls(count, pa.binary())
    plain = column.avro_type
    logical = plain.get("logicalType")
    valid = to_mask(values.is_valid())
    match plain["type"], logical:
        case ("int", "time-millis") | ("long", "timestamp-millis" | "local-timestamp-millis"):
            return _numbers(pc.multiply_checked(values, 1000), "<i8", valid)
        case "int", _:
            return _numbers(values.cast(pa.int32()), "<i4", valid)
        case "long", _:
            return _numbers(values, "<i8", valid)
        case "boolean", _:
            return _numbers(values.cast(pa.uint8()), "u1", valid)
        case "float", _:
            return _numbers(values, "<f4", valid)
        case "double", _:
            return _numbers(values, "<f8", valid)
        case "string", "uuid":
            return _each(values, lambda v: uuid.UUID(v).bytes)
        case "fixed", "decimal" if plain["size"] > 0:
            return _decimals(values.cast(pa.binary()), plain["size"], valid)
        case "bytes", "decimal":
            return _each(values, lambda v: single_value.signed_big_endian(int.from_bytes(v, "big", signed=True)))
        case "bytes" | "string" | "fixed", _:
            return values.cast(pa.binary())
        case kind, _:
            raise ValueError(f"partition field {column.field_id} has Avro type {kind}")


def _numbers(values: pa.Array, dtype: str, valid: Any) -> pa.Array:
    filled = values.fill_null(0) if values.null_count else values
    return from_matrix(little_endian(filled.to_numpy(zero_copy_only=False).astype(dtype, copy=False)), valid)


def _decimals(values: pa.Array, size: int, valid: Any) -> pa.Array:
    offsets, data = to_arrays(values)
    matrix = np.zeros((len(values), size), np.uint8)
    matrix[valid] = gather(data, offsets[:-1][valid], size)
    return from_suffixes(matrix, np.where(valid, minimal_lengths(matrix), 0), valid)


def _each(values: pa.Array, convert: Callable[[Any], bytes]) -> pa.Array:
    """The values converted one by one, each distinct one once, for the rare types without a columnar way."""
    encoded = values.dictionary_encode()
    distinct = pa.array([convert(v) for v in encoded.dictionary.to_pylist()], pa.binary())
    return distinct.take(encoded.indices)
