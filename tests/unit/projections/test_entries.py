"""Manifests of any writer decode by field id, fast and slow way alike, and broken ones only ever say so."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.errors import CorruptFileError
from icecore.engine.formats import avro_blocks
from icecore.engine.formats.avro_blocks import AvroBlock, write_long
from icecore.engine.formats.avro_schema import int_map
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.formats.manifest_avro import decode_manifest_fastavro
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.transform import IdentityTransform
from icecore.projections.entries import decode_entries
from icecore.projections.entries.decode_entries import decode_manifest, decode_manifests

SYNC = bytes(range(16))
Schema = dict[str, Any]


def record(name: str, *fields: Schema) -> Schema:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, field_id: int | None, avro_type: Any) -> Schema:
    return {"name": name, "type": avro_type, **({} if field_id is None else {"field-id": field_id})}


STATUS, SNAPSHOT = field("status", 0, "int"), field("snapshot_id", 1, ["null", "long"])
REQUIRED = (
    field("file_path", 100, "string"),
    field("file_format", 101, "string"),
    field("record_count", 103, "long"),
    field("file_size_in_bytes", 104, "long"),
)
FILE = {"file_path": "file:///a", "file_format": "parquet", "record_count": 3, "file_size_in_bytes": 9}


def entry_schema(*extra: Schema, partition: tuple[Schema, ...] = (), required: tuple[Schema, ...] = REQUIRED) -> Schema:
    data_file = record("r2", *required, field("partition", 102, record("r102", *partition)), *extra)
    return record("manifest_entry", STATUS, SNAPSHOT, field("data_file", 2, data_file))


def row(partition: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    return {"status": 1, "snapshot_id": 5, "data_file": {**FILE, "partition": partition or {}, **values}}


def container(schema: Schema, rows: list[dict[str, Any]], codec: str = "deflate", sync_interval: int = 16_000) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, codec, sync_interval, sync_marker=SYNC)
    return out.getvalue()


def decode(data: bytes, spec: PartitionSpec | None = None) -> list[dict[str, Any]]:
    """The rows that both decoders agree on."""
    fast = decode_manifest(data, where="m-7", spec_id=4, metadata_spec=spec)
    assert fast.schema == ENTRY_SCHEMA
    fast.validate(full=True)
    assert fast == decode_manifest_fastavro(data, where="m-7", spec_id=4, metadata_spec=spec)
    found: list[dict[str, Any]] = fast.to_pylist()
    return found


def decode_by_polars(data: bytes, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """As `decode`, where falling back would be an error."""
    rows = decode(data)
    with monkeypatch.context() as patch:
        patch.setattr(decode_entries, "decode_manifest_fastavro", None)
        decode_manifest(data, where="m-7", spec_id=4)
    return rows


def test_a_minimal_entry_takes_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = decode_by_polars(container(entry_schema(), [row()]), monkeypatch)
    expected = {"status": 1, "snapshot_id": 5, "content": 0, "spec_id": 4, "partition": [], **FILE}
    expected["file_format"] = "PARQUET"
    assert found == {name: expected.get(name) for name in ENTRY_SCHEMA.names}


def test_no_entries_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = entry_schema(field("lower_bounds", 125, ["null", int_map(126, 127, "bytes")]), partition=(PART_INT,))
    assert decode_by_polars(container(schema, []), monkeypatch) == []


PART_INT = field("x", 1000, ["null", "int"])


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


def test_fixed_partition_values_with_their_length_before_them_are_read() -> None:
    """Java writes them so, though its schema says fixed; by the schema the first has another number of rows.

    What is written by the schema stays, though a value of it begins as if its length were told.
    """
    counts = field("value_counts", 109, int_map(119, 120, "long"))
    fixed: Any = {"type": "fixed", "name": "f", "size": 2}

    def of_type(kind: Any) -> Schema:
        return entry_schema(counts, partition=(field("x", 1000, ["null", kind]),))

    def read(written: Any, values: list[bytes | None], rows: int) -> list[tuple[Any, int]]:
        entries = [row({"x": v}, record_count=rows, value_counts=[{"key": 1, "value": rows}]) for v in values]
        header = avro_blocks.read_header(data := container(of_type(written), entries), "m")
        blocks = avro_blocks.read_blocks(data, header, "m")
        file = avro_blocks.write_container(
            {"avro.schema": json.dumps(of_type(fixed))}, blocks, codec="null", sync_marker=SYNC
        )
        (found,) = decode_manifests([("m", file, 4)])
        return [(dict(e["partition"])[1000], e["record_count"]) for e in found.to_pylist()]

    assert read("bytes", [b"a\xd5"], 45) == [(b"a\xd5", 45)]
    assert read("bytes", [b"ab", None, b"cd"], 3) == [(b"ab", 3), (None, 3), (b"cd", 3)]
    assert read(fixed, [b"\x04b"], 8000) == [(b"\x04b", 8000)]


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


def pairs_of(key: Any, value: Any) -> Schema:
    return {"type": "array", "items": record("pair", field("key", 126, key), field("value", 127, value))}


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
    assert calls == [3, 1, 1]
    monkeypatch.setattr(decode_entries, "BYTES_AT_ONCE", 1)
    assert list(decode_manifests(several)) == wanted
    assert list(decode_manifests([])) == []


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


def test_spec_ids_are_not_mixed_up_among_manifests_written_alike() -> None:
    data = container(entry_schema(), [row()])
    found = list(decode_manifests([("m-0", data, 0), ("m-1", data, 3)]))
    assert [t["spec_id"].to_pylist() for t in found] == [[0], [3]]
