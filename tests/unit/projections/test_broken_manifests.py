"""Broken manifests only ever say so: of wrong types, cut, with flipped bytes or wrong counts."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from foreign_manifests import (
    PART_INT,
    REQUIRED,
    SNAPSHOT,
    STATUS,
    SYNC,
    Schema,
    container,
    entry_schema,
    field,
    pairs_of,
    record,
    row,
)

from icecore.engine.errors import CorruptFileError
from icecore.engine.formats import avro_blocks
from icecore.engine.formats.avro_blocks import AvroBlock
from icecore.engine.formats.avro_schema import int_map
from icecore.engine.formats.manifest_avro import decode_manifest_fastavro
from icecore.projections.entries.decode_entries import decode_manifest, decode_manifests


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        (record("e", STATUS), [{"status": 1}]),
        ({"type": "array", "items": "long"}, []),
        (record("e", STATUS, SNAPSHOT, field("data_file", 2, "string")), []),
        (entry_schema(field("content", 134, "int")), [row(content=3)]),
        (entry_schema(), [row(), row(file_format="lance")]),
        (entry_schema(field("content", 134, "string")), [row(content="x")]),
        (entry_schema(field("again", 103, "long")), [row(again=1)]),
        (entry_schema(field("lower_bounds", 125, "bytes")), [row(lower_bounds=b"")]),
        (
            entry_schema(field("lower_bounds", 125, pairs_of("string", "bytes"))),
            [row(lower_bounds=[{"key": "x", "value": b""}])],
        ),
        (
            entry_schema(field("column_sizes", 108, pairs_of("int", "string"))),
            [row(column_sizes=[{"key": 1, "value": "x"}])],
        ),
        (entry_schema(field("sort_order_id", 140, "long")), [row(sort_order_id=2**40)]),
        (entry_schema(field("equality_ids", 135, {"type": "array", "items": "long"})), [row(equality_ids=[2**40])]),
        (entry_schema(partition=(field("x", 1000, {"type": "array", "items": "int"}),)), [row({"x": [1]})]),
        (entry_schema(partition=(PART_INT, field("y", 1000, "int"))), [row({"x": 1, "y": 1})]),
        (entry_schema(required=(field("file_path", 100, ["null", "string"]), *REQUIRED[1:])), [row(file_path=None)]),
    ],
    ids=[
        "no data file",
        "no record",
        "data file is a string",
        "unknown content",
        "unknown file format",
        "content is a string",
        "id twice",
        "map is bytes",
        "keys are no numbers",
        "counts are strings",
        "sort order too large",
        "equality id too large",
        "partition value is a list",
        "partition id twice",
        "no path",
    ],
)
@pytest.mark.parametrize("decoder", [decode_manifest, decode_manifest_fastavro])
def test_wrong_types_are_corrupt(schema: Schema, rows: list[dict[str, Any]], decoder: Any) -> None:
    with pytest.raises(CorruptFileError, match="m-7"):
        decoder(container(schema, rows), where="m-7", spec_id=0)


@pytest.mark.parametrize(
    "schema",
    [
        entry_schema(field("self", 9000, {"type": "array", "items": "manifest_entry"})),
        entry_schema(field("x", 9000, "nowhere")),
        {**entry_schema(), "fields": 5},
        {**entry_schema(), "fields": [{"type": "int"}]},
        {"type": "fixed", "name": "f"},
        7,
    ],
    ids=["type without end", "unknown name", "fields are a number", "no name", "no size", "a number"],
)
@pytest.mark.parametrize("decoder", [decode_manifest, decode_manifest_fastavro])
def test_schemas_that_are_none_are_corrupt(schema: Any, decoder: Any) -> None:
    data = avro_blocks.write_container({"avro.schema": json.dumps(schema)}, [], codec="null", sync_marker=SYNC)
    with pytest.raises(CorruptFileError, match="m-7"):
        decoder(data, where="m-7", spec_id=0)


GOOD_SCHEMA = entry_schema(
    field("lower_bounds", 125, ["null", int_map(126, 127, "bytes")]),
    field("split_offsets", 132, ["null", {"type": "array", "items": "long", "element-id": 133}]),
    partition=(PART_INT, field("y", 1001, ["null", "string"])),
)
GOOD_ROWS = [
    row({"x": i, "y": f"y{i}" if i % 2 else None}, lower_bounds=[{"key": 1, "value": bytes(8)}], split_offsets=[4])
    for i in range(12)
]


def outcome(data: bytes) -> pa.Table | None:
    try:
        return decode_manifest(data, where="m-7", spec_id=0)
    except CorruptFileError as e:
        assert "m-7" in str(e)
        return None


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_cut_file_is_corrupt(codec: str) -> None:
    good = container(GOOD_SCHEMA, GOOD_ROWS, codec)
    end_of_header = avro_blocks.read_header(good, "m").length
    # Cut right after the header it is a manifest without entries, which the bytes alone can't tell.
    assert [cut for cut in range(len(good)) if outcome(good[:cut]) is not None] == [end_of_header]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_flipped_bytes_never_raise_anything_else(codec: str) -> None:
    good = container(GOOD_SCHEMA, GOOD_ROWS, codec)
    corrupt = sum(
        outcome(good[:i] + bytes([good[i] ^ mask]) + good[i + 1 :]) is None
        for i in range(len(good))
        for mask in ((0x01, 0x80) if i % 3 else (0xFF,))
    )
    assert corrupt > len(good) // 4


def test_a_wrong_number_of_entries_is_corrupt() -> None:
    """A count that is too low or too high is found, also where the following bytes would decode."""
    good = container(GOOD_SCHEMA, GOOD_ROWS, "null")
    header = avro_blocks.read_header(good, "m")
    (block,) = avro_blocks.read_blocks(good, header, "m")
    for count in (0, 1, 11, 13, 24, 2**34, 2**62):
        data = avro_blocks.write_container(
            {"avro.schema": header.metadata["avro.schema"]},
            [AvroBlock(count, block.data)],
            codec="null",
            sync_marker=SYNC,
        )
        for decoder in (decode_manifest, decode_manifest_fastavro):
            with pytest.raises(CorruptFileError, match="m-7"):
                decoder(data, where="m-7", spec_id=0)


def test_the_error_names_the_manifest_that_is_damaged_among_several() -> None:
    schema = entry_schema()
    good = container(schema, [row(), row()], "null")
    # One block says that it has a record less, the next one that it has a record more: together they would fit.
    start = good.index(SYNC) + len(SYNC)
    assert good[start] == 4
    less, more = (good[:start] + bytes([count]) + good[start + 1 :] for count in (2, 6))
    with pytest.raises(CorruptFileError, match="m-1"):
        list(decode_manifests([("m-0", good, 0), ("m-1", less, 0), ("m-2", more, 0)]))
    with pytest.raises(CorruptFileError, match="m-2"):
        list(decode_manifests([("m-0", good, 0), ("m-1", good, 0), ("m-2", b"Obj\x01", 0)]))
