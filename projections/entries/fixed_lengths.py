"""Partition values of fixed length that have their length written before them, as bytes have.

Iceberg's Java writes them so into manifests whose schema says `fixed`, and reads them so (apache/iceberg#17501). By the
schema such records read as shifted by a byte: mostly they can't be read, but some can, with wrong values and counts.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
from attrs import evolve

from icecore.engine.formats.avro_blocks import AvroBlock
from icecore.engine.formats.manifest_layout import EntryLayout

_PAIRS = pa.list_(pa.struct([("key", pa.int32()), ("value", pa.binary())]))


def fixed_columns(layout: EntryLayout) -> dict[str, int]:
    """The partition columns of fixed length, which are neither decimals nor UUIDs, with their lengths."""
    kinds = {c.name: c.avro_type for c in layout.partition if isinstance(c.avro_type, dict)}
    return {n: t["size"] for n, t in kinds.items() if t["type"] == "fixed" and "logicalType" not in t}


def as_bytes(layout: EntryLayout) -> EntryLayout:
    """The layout with bytes as the type of the partition columns of fixed length."""
    names = fixed_columns(layout)
    columns = (evolve(c, avro_type={"type": "bytes"}) if c.name in names else c for c in layout.partition)
    return evolve(layout, partition=tuple(columns))


def type_as_bytes(layout: EntryLayout, column: str | None, stripped: Any) -> Any:
    """The type of a column as it is in the files, with bytes where it is one of fixed length."""
    if column not in fixed_columns(layout):
        return stripped
    return ["null" if t == "null" else "bytes" for t in stripped] if isinstance(stripped, list) else "bytes"


def reads(block: AvroBlock, types: Sequence[Any]) -> bool:
    """Whether the entries of a block use up its bytes as records of fields of these types.

    Polars is not used: it prints to the error stream what it can't read, even where the error is caught.
    """
    fields = [{"name": f"f{i}", "type": t} for i, t in enumerate(types)]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    stream = io.BytesIO(block.data)
    try:
        for _ in range(block.count):
            fastavro.schemaless_reader(stream, schema, None)
    except (EOFError, IndexError, ValueError, OverflowError, MemoryError, OSError):
        return False
    return stream.tell() == len(block.data)


def fit(entries: pa.Table, layout: EntryLayout) -> bool:
    """Whether entries that were read by `as_bytes` are what was written.

    They are if the values are as long as the layout says, and each file's number of rows is the value count of one of
    its columns, where there are value counts.
    """
    pairs = pc.list_flatten(entries["partition"].cast(_PAIRS))
    keys, lengths = pc.struct_field(pairs, "key"), pc.binary_length(pc.struct_field(pairs, "value"))
    ids = {c.name: c.field_id for c in layout.partition}
    for name, size in fixed_columns(layout).items():
        if pc.any(pc.and_(pc.equal(keys, ids[name]), pc.not_equal(lengths, size))).as_py():
            return False
    counted = zip(entries["record_count"].to_pylist(), entries["value_counts"].to_pylist(), strict=True)
    return all(rows >= 0 and (not counts or rows in dict(counts).values()) for rows, counts in counted)
