"""Partition values of entries decode to single values from every Avro type, however a writer said it (M9)."""

from __future__ import annotations

import json
import struct
from typing import Any
from unittest.mock import Mock

import polars as pl
import pytest
from budgets import examples
from foreign_manifests import SYNC, Schema, container, decode, decode_by_polars, entry_schema, field, row
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.formats import avro_blocks
from icecore.engine.formats.avro_schema import int_map
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema as TableSchema
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import LongType, NestedField
from icecore.projections.entries.decode_entries import decode_manifest, decode_manifests
from icecore.projections.entries.wide_entries import widen

SPEC = PartitionSpec((PartitionField((1,), 1005, IdentityTransform(), "a b"),), 4)


@pytest.mark.parametrize("name", ["a_x20b"])
def test_partition_fields_without_ids_take_them_from_the_spec(name: str) -> None:
    data = container(entry_schema(partition=(field(name, None, "long"),)), [row({name: 5})])
    assert decode(data, SPEC)[0]["partition"] == [(1005, struct.pack("<q", 5))]
    with pytest.raises(CorruptFileError, match=r"m-7.*no field id"):
        decode_manifest(data, where="m-7", spec_id=4)


@pytest.mark.parametrize(
    ("avro_type", "value", "expected"),
    [
        ("int", -5, struct.pack("<i", -5)),
        ("long", 2**40, struct.pack("<q", 2**40)),
        ("boolean", True, b"\x01"),
        ("float", 1.5, struct.pack("<f", 1.5)),
        ("double", -0.0, struct.pack("<d", -0.0)),
        ("string", "ä", "ä".encode()),
        ("bytes", b"\xff", b"\xff"),
        ("null", None, None),
        ({"type": "int", "logicalType": "date"}, 19_000, struct.pack("<i", 19_000)),
        ({"type": "int", "logicalType": "time-millis"}, 7, struct.pack("<q", 7000)),
        ({"type": "long", "logicalType": "timestamp-millis"}, -7, struct.pack("<q", -7000)),
        ({"type": "long", "logicalType": "timestamp-micros"}, 2**62, struct.pack("<q", 2**62)),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 5, struct.pack("<q", 5)),
        ({"type": "fixed", "name": "f", "size": 2}, b"ab", b"ab"),
        ({"type": "string", "logicalType": "uuid"}, "00000000-0000-0000-0000-000000000005", bytes(15) + b"\x05"),
        ({"type": "fixed", "name": "f", "size": 3, "logicalType": "decimal"}, b"\x00\x00\x80", b"\x00\x80"),
        ({"type": "fixed", "name": "f", "size": 3, "logicalType": "decimal"}, b"\xff\xff\x80", b"\x80"),
        ({"type": "fixed", "name": "f", "size": 20, "logicalType": "decimal"}, bytes(20), b"\x00"),
        ({"type": "bytes", "logicalType": "decimal"}, b"\x00\x05", b"\x05"),
    ],
    ids=str,
)
@pytest.mark.parametrize("union", [None, "null first", "null last"])
def test_M9_partition_values_of_every_avro_type(
    avro_type: Any, value: Any, expected: bytes | None, union: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = {k: v for k, v in avro_type.items() if k != "logicalType"} if isinstance(avro_type, dict) else avro_type
    if union is not None and avro_type == "null":
        return

    def wrap(t: Any) -> Any:
        return t if union is None else ["null", t] if union == "null first" else [t, "null"]

    values = [value, value] if union is None else [value, None, value]
    plain_data = container(entry_schema(partition=(field("x", 1000, wrap(plain)),)), [row({"x": v}) for v in values])
    # The records are written as raw values; the header then says what they mean.
    header = avro_blocks.read_header(plain_data, "m")
    schema = entry_schema(partition=(field("x", 1000, wrap(avro_type)),))
    data = avro_blocks.write_container(
        {"avro.schema": json.dumps(schema)},
        avro_blocks.read_blocks(plain_data, header, "m"),
        codec="null",
        sync_marker=SYNC,
    )
    found = [r["partition"] for r in decode_by_polars(data, monkeypatch)]
    assert found == [[(1000, None if v is None else expected)] for v in values]


def test_fixed_partition_values_with_their_length_before_them_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java writes them so, though its schema says fixed; by the schema the first has another number of rows.

    What is written by the schema stays, though a value of it begins as if its length were told, and polars, which says
    on the error stream what it can't read, is not asked to read it otherwise.
    """
    counts = field("value_counts", 109, int_map(119, 120, "long"))
    fixed: Any = {"type": "fixed", "name": "f", "size": 2}

    def of_type(kind: Any) -> Schema:
        return entry_schema(counts, partition=(field("x", 1000, ["null", kind]),))

    def manifest(written: Any, values: list[bytes | None], rows: int) -> tuple[str, bytes, int]:
        entries = [row({"x": v}, record_count=rows, value_counts=[{"key": 1, "value": rows}]) for v in values]
        header = avro_blocks.read_header(data := container(of_type(written), entries), "m")
        blocks = avro_blocks.read_blocks(data, header, "m")
        file = avro_blocks.write_container(
            {"avro.schema": json.dumps(of_type(fixed))}, blocks, codec="null", sync_marker=SYNC
        )
        return "m", file, 4

    def read(written: Any, values: list[bytes | None], rows: int) -> list[tuple[Any, int]]:
        (found,) = decode_manifests([manifest(written, values, rows)])
        return [(dict(e["partition"])[1000], e["record_count"]) for e in found.to_pylist()]

    assert read("bytes", [b"a\xd5"], 45) == [(b"a\xd5", 45)]
    assert read("bytes", [b"ab", None, b"cd"], 3) == [(b"ab", 3), (None, 3), (b"cd", 3)]
    assert read(fixed, [b"\x04b"], 8000) == [(b"\x04b", 8000)]
    both = decode_manifests([manifest("bytes", [b"ab"], 3), manifest(fixed, [b"\x02b"], 3)])
    assert [t["partition"].to_pylist() for t in both] == [[[(1000, b"ab")]], [[(1000, b"\x02b")]]]

    by_polars = Mock(wraps=pl.read_avro)
    monkeypatch.setattr(pl, "read_avro", by_polars)
    for value in (b"\x1d\x1d", b"\x9a\x9a", b"zz"):
        assert read(fixed, [value, None], 45) == [(value, 45), (None, 45)]
    assert by_polars.call_count == 3


@examples(30, new=350)
@given(st.lists(st.none() | st.binary(min_size=5, max_size=5)))
def test_M9_decimals_get_the_fewest_bytes(values: list[bytes | None]) -> None:
    decimal = {"type": "fixed", "name": "f", "size": 5}
    rows = [row({"x": v}) for v in values]
    data = container(entry_schema(partition=(field("x", 1000, ["null", decimal]),)), rows, "null")
    # The header of the same length says that it is a decimal: the precision does not matter to the bytes.
    header = avro_blocks.read_header(data, "m")
    schema = entry_schema(partition=(field("x", 1000, ["null", {**decimal, "logicalType": "decimal"}]),))
    data = avro_blocks.write_container(
        {"avro.schema": json.dumps(schema)},
        avro_blocks.read_blocks(data, header, "m"),
        codec="null",
        sync_marker=SYNC,
    )
    for found, v in zip(decode(data), values, strict=True):
        number = None if v is None else int.from_bytes(v, "big", signed=True)
        shortest = (
            None
            if number is None
            else number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
        )
        assert found["partition"] == [(1000, shortest)]


@pytest.mark.parametrize("partition", [["null", "int"], "int", {"type": "array", "items": "int"}], ids=str)
def test_something_else_for_the_empty_tuple_is_none(partition: Any) -> None:
    """BigQuery's manifests, written again by DuckDB, have a null there, as Java allows."""
    schema = entry_schema()
    data_file = schema["fields"][2]["type"]["fields"]
    next(f for f in data_file if f["name"] == "partition")["type"] = partition
    value = None if isinstance(partition, list) else 5 if partition == "int" else [5]
    data = container(schema, [{**row(), "data_file": {**row()["data_file"], "partition": value}}])
    assert decode(data)[0]["partition"] == []
    with pytest.raises(CorruptFileError, match="partition must be a record"):
        decode_manifest(data, where="m-7", spec_id=4, metadata_spec=SPEC)
    schema_of_a = TableSchema((NestedField(1, "a", LongType()),))
    entries = decode_manifest(data, where="m-7", spec_id=4)
    with pytest.raises(ValidationError, match="an entry of partition spec 4 has no partition values"):
        widen(entries, schema=schema_of_a, specs={4: SPEC})
    assert widen(entries, schema=schema_of_a, specs={4: PartitionSpec((), 4)}).table.num_rows == 1
