"""Data and delete files of every format are read alike. Spec: Appendix A, Deletion Vectors (D5)."""

from __future__ import annotations

import datetime as dt
import json
import struct
import uuid
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pyroaring
import pytest

import icecore.engine.data.read.file_sources as sources_module
from icecore.engine.data.arrow.arrow_schema import FIELD_ID_KEY, schema_to_arrow
from icecore.engine.data.parquet.duckdb_reader import DuckDBParquet
from icecore.engine.data.read.deletion_vector import decode_deletion_vector, encode_deletion_vector
from icecore.engine.data.read.file_sources import DuckDBSource, ParquetSource, open_source
from icecore.engine.data.write.conform import conform
from icecore.engine.errors import CorruptFileError, MissingFileError, ValidationError
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icecore.engine.storage.file_io import Storage

from .reading import POS_FIELD, content_file, data_file, rows

SCHEMA = Schema((
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "s", StructType((NestedField(4, "x", IntegerType()), NestedField(5, "y", StringType())))),
    NestedField(6, "l", ListType(7, DoubleType())),
    NestedField(8, "m", MapType(9, StringType(), 10, LongType())),
    NestedField(11, "d", DecimalType(9, 2)),
    NestedField(12, "day", DateType()),
    NestedField(13, "ts", TimestampType()),
))  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a", "s": {"x": 1, "y": "q"}, "l": [1.0, None], "m": [("k", 1)], "d": Decimal("1.50"),
     "day": dt.date(2024, 1, 1), "ts": dt.datetime(2024, 1, 1, 1)},
    {"id": 2, "name": None, "s": None, "l": None, "m": None, "d": None, "day": None, "ts": None},
    {"id": 3, "name": "", "s": {"x": None, "y": None}, "l": [], "m": [], "d": Decimal("-0.01"),
     "day": dt.date(1969, 12, 31), "ts": dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)},
]  # fmt: skip


def orc_ids(t: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(t):
        return pa.struct([orc_field(f) for f in t])
    if pa.types.is_map(t):
        return pa.map_(orc_field(t.key_field), orc_field(t.item_field))
    return pa.list_(orc_field(t.value_field)) if pa.types.is_list(t) else t


def orc_field(f: pa.Field) -> pa.Field:
    return pa.field(f.name, orc_ids(f.type), f.nullable, metadata={"iceberg.id": f.metadata[FIELD_ID_KEY]})


def orc_file(path: Path, table: pa.Table, content: DataFileContent = DataFileContent.DATA, **more: Any) -> ContentFile:
    schema = pa.schema([orc_field(f) for f in table.schema])
    pyarrow.orc.write_table(table.cast(schema), path, **more.pop("options", {}))
    return content_file(path, content, file_format="ORC", **more)


def avro_field(name: str, field_id: int, avro_type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None, "field-id": field_id}


AVRO = {
    "type": "record",
    "name": "table",
    "fields": [
        {"name": "id", "type": "int", "field-id": 1},
        avro_field("name", 2, "string"),
        avro_field(
            "s", 3,
            {"type": "record", "name": "r3", "fields": [avro_field("x", 4, "int"), avro_field("y", 5, "string")]},
        ),
        avro_field("l", 6, {"type": "array", "items": ["null", "double"], "element-id": 7}),
        avro_field("m", 8, {"type": "map", "values": ["null", "long"], "key-id": 9, "value-id": 10}),
        avro_field(
            "d", 11,
            {"type": "fixed", "size": 4, "name": "dec", "logicalType": "decimal", "precision": 9, "scale": 2},
        ),
        avro_field("day", 12, {"type": "int", "logicalType": "date"}),
        avro_field("ts", 13, {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}),
    ],
}  # fmt: skip


def avro_file(
    path: Path, schema: dict[str, Any], records: list[dict[str, Any]], content: DataFileContent = DataFileContent.DATA,
    **more: Any,
) -> ContentFile:  # fmt: skip
    with path.open("wb") as f:
        fastavro.writer(f, fastavro.parse_schema(schema), records, codec="deflate", sync_interval=50)
    return content_file(path, content, file_format="AVRO", **more)


def table(schema: Schema = SCHEMA, data: list[dict[str, Any]] | None = None) -> pa.Table:
    return pa.Table.from_pylist(ROWS if data is None else data, schema=schema_to_arrow(schema))


def of_format(kind: str, path: Path) -> ContentFile:
    if kind == "parquet":
        return data_file(path, table())
    if kind == "orc":
        return orc_file(path, table())
    # fastavro takes a naive datetime for local time; the offset makes it the instant that is meant.
    utc = [{**r, "m": r["m"] and dict(r["m"]), "ts": r["ts"] and r["ts"].replace(tzinfo=dt.UTC)} for r in ROWS]
    return avro_file(path, AVRO, [{**r, "m": dict(r["m"]) if r["m"] is not None else None} for r in utc])


FORMATS = pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])


@FORMATS
def test_rows_come_back(tmp_path: Path, kind: str) -> None:
    """All types, nested ones and nulls, the same from each format."""
    assert rows(of_format(kind, tmp_path / "f"), SCHEMA) == ROWS
    assert rows(of_format(kind, tmp_path / "f"), SCHEMA, batch_rows=1) == ROWS


@FORMATS
def test_columns_are_found_by_id(tmp_path: Path, kind: str) -> None:
    now = Schema((
        NestedField(13, "id", TimestampType()),
        NestedField(3, "struct", StructType((NestedField(5, "x", StringType()), NestedField(4, "y", LongType())))),
        NestedField(20, "new", StringType(), initial_default="n"),
        NestedField(2147483645, "_pos", LongType()),
    ))  # fmt: skip
    assert rows(of_format(kind, tmp_path / "f"), now, batch_rows=2) == [
        {"id": r["ts"], "struct": r["s"] and {"x": r["s"]["y"], "y": r["s"]["x"]}, "new": "n", "_pos": i}
        for i, r in enumerate(ROWS)
    ]
    assert rows(of_format(kind, tmp_path / "f"), now, projection=Schema(())) == [{}, {}, {}]


@FORMATS
def test_splits_give_every_row_once(tmp_path: Path, kind: str) -> None:
    file = of_format(kind, tmp_path / "f")
    half = file.file_size_in_bytes // 2
    cut = [(0, half), (half, file.file_size_in_bytes - half)]
    assert [r for span in cut for r in rows(file, SCHEMA, span=span)] == ROWS


@FORMATS
def test_broken_files_are_named(tmp_path: Path, kind: str) -> None:
    """Files cut anywhere, or with bytes changed, raise an error of ours that names the file, or are still readable.

    More places, and other changes, are those of the broken files of a seed.
    """
    path = tmp_path / "f.data"
    file = of_format(kind, path)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, max(1, len(whole) // 20)):
        path.write_bytes(whole[:length])
        if kind == "avro" and rows_or_error(file) is not None:
            continue
        with pytest.raises(CorruptFileError, match=r"f\.data"):
            rows(file, SCHEMA)
    for at in range(0, len(whole), max(1, len(whole) // 20)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        rows_or_error(file)
    path.unlink()
    with pytest.raises(MissingFileError, match=r"f\.data"):
        rows(file, SCHEMA)


def rows_or_error(file: ContentFile) -> list[dict[str, Any]] | None:
    try:
        return rows(file, SCHEMA)
    except (CorruptFileError, ValidationError) as e:
        assert "f.data" in str(e)
        return None


def path_field(location: str) -> tuple[pa.Field, list[str]]:
    return pa.field("file_path", pa.string(), nullable=False, metadata={FIELD_ID_KEY: b"2147483546"}), [location] * 2


@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_delete_files_of_other_formats(tmp_path: Path, kind: str) -> None:
    """Position and equality deletes in ORC and Avro apply to a Parquet file."""
    file = data_file(tmp_path / "f.parquet", table())
    key = Schema(SCHEMA.fields[1:2])
    if kind == "orc":
        field, paths = path_field(file.file_path)
        places = pa.table([pa.array(paths), pa.array([0, 5])], schema=pa.schema([field, POS_FIELD]))
        positions = orc_file(tmp_path / "p", places, DataFileContent.POSITION_DELETES)
        names = orc_file(
            tmp_path / "e", table(key, [{"name": None}]), DataFileContent.EQUALITY_DELETES, equality_ids=(2,)
        )
    else:
        fields = [
            {"name": "file_path", "type": "string", "field-id": 2147483546},
            {"name": "pos", "type": "long", "field-id": 2147483545},
        ]
        records = [{"file_path": file.file_path, "pos": i} for i in (0, 5)]
        positions = avro_file(
            tmp_path / "p", {"type": "record", "name": "d", "fields": fields}, records, DataFileContent.POSITION_DELETES
        )
        keys = {"type": "record", "name": "k", "fields": [avro_field("name", 2, "string")]}
        names = avro_file(tmp_path / "e", keys, [{"name": None}], DataFileContent.EQUALITY_DELETES, equality_ids=(2,))
    assert [r["id"] for r in rows(file, SCHEMA, deletes=[positions])] == [2, 3]
    assert [r["id"] for r in rows(file, SCHEMA, deletes=[names])] == [1, 3]
    assert [r["id"] for r in rows(file, SCHEMA, deletes=[names, positions])] == [3]


def test_orc_positions_count_through_stripes(tmp_path: Path) -> None:
    schema = Schema((SCHEMA.fields[0], NestedField(2147483645, "_pos", LongType())))
    data = table(Schema(SCHEMA.fields[:2]), [{"id": i, "name": f"{i}" * 40} for i in range(20_000)])
    options = {"stripe_size": 65536, "batch_size": 100, "dictionary_key_size_threshold": 0.0}
    file = orc_file(tmp_path / "f", data, options=options)
    assert pyarrow.orc.ORCFile(tmp_path / "f").nstripes > 1
    assert rows(file, schema) == [{"id": i, "_pos": i} for i in range(20_000)]


def test_orc_files_without_ids_are_read_by_the_tables_names(tmp_path: Path) -> None:
    pyarrow.orc.write_table(
        table().replace_schema_metadata(None).cast(schema_to_arrow(SCHEMA, with_ids=False)), tmp_path / "f"
    )
    assert rows(content_file(tmp_path / "f", file_format="ORC"), SCHEMA) == ROWS


def test_orc_stores_times_and_uuids_as_plain_numbers_and_bytes(tmp_path: Path) -> None:
    u = uuid.uuid4()
    schema = Schema(
        (NestedField(1, "t", TimeType()), NestedField(2, "u", UUIDType()), NestedField(3, "f", FixedType(2)))
    )
    fields = [
        pa.field(n, t, metadata={"iceberg.id": str(i)})
        for i, (n, t) in enumerate((("t", pa.int64()), ("u", pa.binary()), ("f", pa.binary())), start=1)
    ]
    plain = pa.table([pa.array([1]), pa.array([u.bytes]), pa.array([b"ab"])], schema=pa.schema(fields))
    pyarrow.orc.write_table(plain, tmp_path / "f")
    file = content_file(tmp_path / "f", file_format="ORC")
    assert rows(file, schema) == [{"t": dt.time(0, 0, 0, 1), "u": u, "f": b"ab"}]


def test_avro_types_beside_those_of_all_formats(tmp_path: Path) -> None:
    """Maps with keys of any type, uuids, times, zones and sanitized names; times beyond Python's years."""
    u = uuid.uuid4()
    pair = {"type": "record", "name": "k2_v3", "fields": [
        {"name": "key", "type": "int", "field-id": 2}, {"name": "value", "type": "string", "field-id": 3}]}  # fmt: skip
    schema = {
        "type": "record",
        "name": "table",
        "fields": [
            avro_field("m", 1, {"type": "array", "logicalType": "map", "items": pair}),
            avro_field("u", 4, {"type": "fixed", "size": 16, "name": "uuid_fixed", "logicalType": "uuid"}),
            avro_field("t", 5, {"type": "long", "logicalType": "time-micros"}),
            avro_field("z", 6, {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}),
            {**avro_field("a_x2Db", 7, {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 1}),
             "iceberg-field-name": "a-b"},
            avro_field("u2", 8, "uuid_fixed"),
        ],
    }  # fmt: skip
    raw = json.loads(json.dumps(schema), object_hook=lambda o: {k: v for k, v in o.items() if k != "logicalType"})
    record = {
        "m": [{"key": 1, "value": "one"}, {"key": 2, "value": "two"}], "u": u.bytes, "t": 1, "z": 2**62,
        "a_x2Db": (-12345).to_bytes(4, "big", signed=True), "u2": u.bytes,
    }  # fmt: skip
    with (tmp_path / "f").open("wb") as f:
        fastavro.writer(f, fastavro.parse_schema(raw), [record])
    data = (tmp_path / "f").read_bytes()
    header, written = json.dumps(schema).encode(), fastavro.reader((tmp_path / "f").open("rb")).metadata["avro.schema"]
    old = written.encode()
    assert data.count(old) == 1
    (tmp_path / "f").write_bytes(data.replace(long_bytes(len(old)) + old, long_bytes(len(header)) + header))
    expected = Schema((
        NestedField(1, "m", MapType(2, IntegerType(), 3, StringType())),
        NestedField(4, "u", UUIDType()),
        NestedField(5, "t", TimeType()),
        NestedField(7, "a-b", DecimalType(20, 1)),
        NestedField(8, "u2", UUIDType()),
    ))  # fmt: skip
    file = content_file(tmp_path / "f", file_format="AVRO")
    assert rows(file, expected) == [
        {"m": [(1, "one"), (2, "two")], "u": u, "t": dt.time(0, 0, 0, 1), "a-b": Decimal("-1234.5"), "u2": u}
    ]
    source = open_source(Storage(), file.file_path, FileFormat.AVRO)
    (batch,) = source.batches(frozenset(), 0, 10**6, 10)
    assert batch.columns["z"].type == pa.timestamp("us", "UTC")
    assert batch.columns["z"].cast(pa.int64()).to_pylist() == [2**62]


def long_bytes(value: int) -> bytes:
    """A length as Avro encodes it."""
    rest, out = value << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def test_avro_times_with_zone(tmp_path: Path) -> None:
    zoned = avro_field("z", 1, {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True})
    moment = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    file = avro_file(tmp_path / "f", {"type": "record", "name": "t", "fields": [zoned]}, [{"z": moment}])
    assert rows(file, Schema((NestedField(1, "z", TimestamptzType()),))) == [{"z": moment}]


def test_avro_unions_that_are_no_iceberg_type_are_named(tmp_path: Path) -> None:
    union = {"name": "u", "type": ["null", "int", "string"], "field-id": 1}
    file = avro_file(tmp_path / "f", {"type": "record", "name": "t", "fields": [union]}, [{"u": 1}])
    with pytest.raises(CorruptFileError, match="union"):
        rows(file, Schema((NestedField(1, "u", IntegerType()),)))


def test_duckdb_reads_parquet_as_arrow_does(tmp_path: Path) -> None:
    """The way for files that Arrow refuses gives the same columns, ids and rows."""
    u = uuid.uuid4()
    schema = Schema((*SCHEMA.fields, NestedField(30, "u", UUIDType())))
    data = conform(table(), schema).drop_columns(["u"])
    data = conform(data.append_column("u", pa.array([str(u), None, str(u)])), schema)
    file = data_file(tmp_path / "f.parquet", data)
    arrow, duck = ParquetSource(Storage(), file.file_path), DuckDBSource(str(tmp_path / "f.parquet"), file.file_path)
    assert shape(duck.fields) == shape(arrow.fields)
    expected = [{**r, "u": x} for r, x in zip(ROWS, (u, None, u), strict=True)]
    assert rows(file, schema) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources_module, "ParquetSource", refuse)
        assert rows(file, schema, batch_rows=2) == expected
        half = file.file_size_in_bytes // 2
        assert rows(file, schema, span=(half, half)) == []


def refuse(storage: Storage, location: str) -> ParquetSource:
    raise pa.ArrowInvalid("Logical type Null cannot be applied to group node")


def shape(fields: Any) -> list[Any]:
    return [(f.name, f.field_id, f.first_leaf, f.leaves, shape(f.children)) for f in fields]


def test_duckdb_reads_lists_of_two_levels(tmp_path: Path) -> None:
    """Old writers made the repeated field the element itself; its id is there."""
    plain = pa.field(
        "l", pa.list_(pa.field("element", pa.int64(), metadata={FIELD_ID_KEY: b"2"})), metadata={FIELD_ID_KEY: b"1"}
    )
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([pa.array([[1, 2]], plain.type)], schema=pa.schema([plain])), path)
    (field,) = DuckDBParquet(str(path), "f").fields
    assert (field.field_id, field.children[0].field_id, field.children[0].name) == (1, 2, "element")


def test_a_format_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="PUFFIN"):
        open_source(Storage(), "file:///x.puffin", FileFormat.PUFFIN)


@pytest.mark.parametrize("positions", [[], [0], [5, 1, 3, 3], [2**33, 0, 2**32 - 1], list(range(100_000))])
def test_d5_vectors_round_trip(positions: list[int]) -> None:
    blob = encode_deletion_vector(np.array(positions, dtype=np.int64))
    assert decode_deletion_vector(blob, "x").tolist() == sorted(set(positions))


def test_d5_layout_byte_by_byte() -> None:
    """Length, magic, bitmap count and first key, and checksum lie where the spec says."""
    blob = encode_deletion_vector(np.array([3, 2**32 + 1]))
    assert struct.unpack(">I", blob[:4]) == (len(blob) - 8,)
    assert blob[4:8] == bytes.fromhex("d1d33964")
    assert struct.unpack("<qI", blob[8:20]) == (2, 0)
    assert struct.unpack(">I", blob[-4:]) == (zlib.crc32(blob[4:-4]),)
    inner = pyroaring.BitMap([3]).serialize()
    assert blob[20 : 20 + len(inner)] == inner


def test_d5_wrong_positions_are_refused() -> None:
    with pytest.raises(ValidationError, match="negative"):
        encode_deletion_vector(np.array([-1]))
    body = bytes.fromhex("d1d33964") + pyroaring.BitMap64([2**63]).serialize()
    blob = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
    with pytest.raises(CorruptFileError, match="position 9223372036854775808"):
        decode_deletion_vector(blob, "v")
