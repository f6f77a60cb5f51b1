"""Manifests of any writer decode by field id, fast and slow way alike, each alone or many at once."""

from __future__ import annotations

import json
import struct
import tracemalloc
from typing import Any

import pytest
from foreign_manifests import (
    FILE,
    PART_INT,
    REQUIRED,
    SYNC,
    container,
    decode,
    decode_by_polars,
    entry_schema,
    field,
    pairs_of,
    record,
    row,
)

from icecore.engine.formats import avro_blocks
from icecore.engine.formats.avro_blocks import AvroBlock, write_long
from icecore.engine.formats.avro_schema import int_map
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.projections.entries import decode_entries
from icecore.projections.entries.decode_entries import decode_manifest, decode_manifests


def test_a_minimal_entry_takes_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = decode_by_polars(container(entry_schema(), [row()]), monkeypatch)
    expected = {"status": 1, "snapshot_id": 5, "content": 0, "spec_id": 4, "partition": [], **FILE}
    expected["file_format"] = "PARQUET"
    assert found == {name: expected.get(name) for name in ENTRY_SCHEMA.names}


def test_no_entries_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = entry_schema(field("lower_bounds", 125, ["null", int_map(126, 127, "bytes")]), partition=(PART_INT,))
    assert decode_by_polars(container(schema, []), monkeypatch) == []


def test_what_manifests_hold_is_copied_once_to_be_decoded() -> None:
    """Beside the blocks themselves there is one copy of their bytes, for polars: others take memory that is new."""
    rows = [row(file_path=f"{i:06d}" + "x" * 4000) for i in range(500)]
    data = container(entry_schema(), rows, "null", 64_000)
    size = sum(len(b.data) for b in avro_blocks.read_blocks(data, avro_blocks.read_header(data, "m"), "m"))
    decode_manifest(data, where="m", spec_id=0)
    tracemalloc.start()
    try:
        decode_manifest(data, where="m", spec_id=0)
        # Polars reads it in pieces, of which one is as large as half of it.
        assert tracemalloc.get_traced_memory()[1] < 2.6 * size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz"])
@pytest.mark.parametrize("sync_interval", [1, 500, 1_000_000])
def test_every_codec_and_block_size(codec: str, sync_interval: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(record_count=i, partition={"x": i % 7 or None}) for i in range(60)]
    data = container(entry_schema(partition=(PART_INT,)), rows, codec, sync_interval)
    found = decode_by_polars(data, monkeypatch)
    assert [r["record_count"] for r in found] == list(range(60))
    assert [r["partition"] for r in found] == [[(1000, struct.pack("<i", i % 7) if i % 7 else None)] for i in range(60)]


def test_M4_ids_count_and_names_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = (
        field("file_format", 100, "string"),
        field("file_path", 101, "string"),
        field("file_size_in_bytes", 103, "long"),
        field("record_count", 104, "long"),
    )
    values = {"file_format": "file:///a", "file_path": "orc", "file_size_in_bytes": 3, "record_count": 9}
    # A field of a known name but a foreign id is none of ours.
    schema = entry_schema(field("content", 9134, "int"), required=swapped)
    rows = [{"status": 1, "snapshot_id": None, "data_file": {**values, "partition": {}, "content": 2}}]
    (found,) = decode_by_polars(container(schema, rows), monkeypatch)
    assert {k: found[k] for k in FILE} == {**FILE, "file_format": "ORC"}
    assert found["content"] == 0


def test_names_count_where_the_ids_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tuple(field(f["name"], None, f["type"]) for f in REQUIRED)
    pairs = int_map(0, 0, "long")
    pairs["items"]["fields"] = [field("value", None, "long"), field("key", None, "int")]
    data_file = record("r2", *bare, field("value_counts", None, ["null", pairs]))
    schema = record("e", field("status", None, "int"), field("data_file", None, data_file))
    rows = [{"status": 2, "data_file": {**FILE, "value_counts": [{"key": 1, "value": 7}]}}]
    (found,) = decode_by_polars(container(schema, rows), monkeypatch)
    assert (found["status"], found["file_path"], found["value_counts"]) == (2, "file:///a", [(1, 7)])


@pytest.mark.parametrize(
    "avro_type",
    [
        ["null", int_map(126, 127, "bytes")],
        [int_map(126, 127, "bytes"), "null"],
        ["null", pairs_of("long", "bytes")],
        ["null", {"type": "map", "values": "bytes"}],
        [
            "null",
            {
                "type": "array",
                "items": [
                    "null",
                    record("pair", field("key", None, ["null", "int"]), field("value", None, ["null", "bytes"])),
                ],
            },
        ],
    ],
    ids=["as specified", "null last", "long keys", "avro map", "everything nullable"],
)
def test_M7_maps_in_every_shape(avro_type: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    is_map = any(b["type"] == "map" for b in avro_type if b != "null")

    def written(pairs: list[tuple[int, bytes]] | None) -> Any:
        if pairs is None:
            return None
        return {str(k): v for k, v in pairs} if is_map else [{"key": k, "value": v} for k, v in pairs]

    values = [[(1, b"\xff"), (2, b"")], None, [], [(3, b"abc")]]
    schema = entry_schema(field("lower_bounds", 125, avro_type))
    found = decode_by_polars(container(schema, [row(lower_bounds=written(v)) for v in values]), monkeypatch)
    assert [r["lower_bounds"] for r in found] == values


def test_entries_of_a_map_without_key_or_value_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = record("pair", field("key", None, ["null", "int"]), field("value", None, ["null", "long"]))
    schema = entry_schema(field("value_counts", 109, ["null", {"type": "array", "items": ["null", pair]}]))
    some = [{"key": 1, "value": None}, None, {"key": None, "value": 3}, {"key": 4, "value": 5}]
    rows = [row(value_counts=v) for v in (some, None, [None], [{"key": 9, "value": 1}])]
    found = decode_by_polars(container(schema, rows), monkeypatch)
    assert [r["value_counts"] for r in found] == [[(4, 5)], None, [], [(9, 1)]]


@pytest.mark.parametrize("ids", [(119, 120), (None, None)])
def test_M4_fields_that_the_spec_does_not_have_are_left_out_of_a_map_entry(ids: tuple[int | None, int | None]) -> None:
    pair = record("pair", field("note", 900, "string"), field("key", ids[0], "int"), field("value", ids[1], "long"))
    schema = entry_schema(field("value_counts", 109, ["null", {"type": "array", "items": pair}]))
    rows = [row(value_counts=[{"note": "x", "key": k, "value": k + 1} for k in (3, 8)])]
    [found] = decode(container(schema, rows))
    assert found["value_counts"] == [(3, 4), (8, 9)]


def test_arrays_in_blocks_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Avro lets a writer give the size of an array's block after a negative count."""
    schema = entry_schema(field("split_offsets", 132, {"type": "array", "items": "long", "element-id": 133}))
    text = [write_long(len(t)) + t for t in (b"file:///a", b"PARQUET")]
    items = b"".join(write_long(i) for i in (4, 50, 600))
    sized = write_long(-2) + write_long(2) + items[:2] + write_long(1) + items[2:] + b"\x00"
    head = write_long(1) + b"\x00"
    one = head + b"".join(text) + write_long(3) + write_long(9) + sized
    data = avro_blocks.write_container(
        {"avro.schema": json.dumps(schema)}, [AvroBlock(2, one * 2)], codec="null", sync_marker=SYNC
    )
    assert [r["split_offsets"] for r in decode_by_polars(data, monkeypatch)] == [[4, 50, 600]] * 2


@pytest.mark.parametrize("avro_type", [["null", "string"], ["string", "null"]], ids=str)
def test_a_path_may_be_one_that_could_be_null(avro_type: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the schema alone: where one is null the manifest is damaged."""
    required = (field("file_path", 100, avro_type), *REQUIRED[1:])
    (found,) = decode_by_polars(container(entry_schema(required=required), [row()]), monkeypatch)
    assert found["file_path"] == FILE["file_path"]


def test_unknown_fields_of_any_type_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = record(
        "inner", field("a", 1, "string"), field("b", 2, {"type": "enum", "name": "en", "symbols": ["U", "V"]})
    )
    schema = entry_schema(
        field("u1", 9001, {"type": "map", "values": inner}),
        field("u2", 9002, ["null", inner["name"]]),
        field("u3", 9003, "null"),
        field("u4", 9004, {"type": "array", "items": {"type": "fixed", "name": "fx", "size": 3}}),
        field("content", 134, "int"),
    )
    value = {"a": "x", "b": "V"}
    rows = [
        row(u1={"k": value}, u2=value, u3=None, u4=[b"abc"], content=1),
        row(u1={}, u2=None, u3=None, u4=[], content=2),
    ]
    assert [r["content"] for r in decode_by_polars(container(schema, rows), monkeypatch)] == [1, 2]


@pytest.mark.parametrize("kind", ["union of three", "nullable data_file", "lone null"])
def test_what_polars_can_not_read_is_read_all_the_same(kind: str) -> None:
    schema = entry_schema(field("sort_order_id", 140, ["null", "int"]))
    rows = [row(sort_order_id=3)]
    if kind == "union of three":
        schema["fields"][1] = field("snapshot_id", 1, ["null", "int", "long"])
    elif kind == "nullable data_file":
        schema["fields"][2]["type"] = ["null", schema["fields"][2]["type"]]
    else:
        schema["fields"][1] = field("snapshot_id", 1, ["null"])
        rows[0]["snapshot_id"] = None
    (found,) = decode(container(schema, rows))
    assert (found["sort_order_id"], found["file_path"]) == (3, "file:///a")


def test_manifests_that_were_written_alike_are_decoded_at_once_and_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    by_long, by_text = (entry_schema(partition=(field("p", 1000, kind),)) for kind in ("long", "string"))
    rows = [row({"p": i}, file_path=f"f{i}", record_count=i) for i in range(9)]
    texts = [row({"p": "x"}, file_path="t")]
    files = [
        container(by_long, rows[:4]),
        container(by_long, []),
        container(by_long, rows[4:], "null", 40),
        container(by_text, texts),
        container(by_long, rows[:1]),
    ]
    several = [(f"m-{i}", data, 4) for i, data in enumerate(files)]
    wanted = [decode_manifest(data, where=where, spec_id=4) for where, data, _ in several]
    calls: list[int] = []
    read = decode_entries._decode

    def counted(run: Any, *rest: Any) -> Any:
        calls.append(len(run))
        return read(run, *rest)

    monkeypatch.setattr(decode_entries, "_decode", counted)
    found = list(decode_manifests(several))
    assert found == wanted
    assert [t.num_rows for t in found] == [4, 0, 5, 1, 1]
    assert sorted(calls) == [1, 1, 3]  # threads take them in any order
    monkeypatch.setattr(decode_entries, "BYTES_AT_ONCE", 1)
    assert list(decode_manifests(several)) == wanted
    assert list(decode_manifests([])) == []


def test_spec_ids_are_not_mixed_up_among_manifests_written_alike() -> None:
    data = container(entry_schema(), [row()])
    found = list(decode_manifests([("m-0", data, 0), ("m-1", data, 3)]))
    assert [t["spec_id"].to_pylist() for t in found] == [[0], [3]]
