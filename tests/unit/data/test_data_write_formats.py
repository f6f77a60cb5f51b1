"""ORC and Avro data and delete files. Spec: Appendix A (M7), Manifests (M4, M5), D3, D4."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from icecore.engine.data.arrow.arrow_values import from_array, to_array
from icecore.engine.data.file.schema_mark import schema_mark
from icecore.engine.data.orc.orc_tail import read_tail
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.file_options import data_file_options, delete_file_options
from icecore.engine.data.write.position_delete_writer import write_equality_deletes, write_position_deletes
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import StorageError, ValidationError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.formats.avro_blocks import read_header
from icecore.engine.spec.content_file import ContentFile, FileFormat
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import NullOrder, SortDirection, SortField, SortOrder
from icecore.engine.spec.transform import BucketTransform, IdentityTransform
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)
from icecore.engine.storage.file_io import Storage

from .reading import content_file, rows

FORMATS = pytest.mark.parametrize("file_format", ["orc", "avro"])
ALL_FORMATS = pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
SCHEMA = Schema((
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "score", DoubleType()),
))  # fmt: skip
EVERY = Schema((
    NestedField(1, "bo", BooleanType(), True), NestedField(2, "i", IntegerType()), NestedField(3, "l", LongType()),
    NestedField(4, "f", FloatType()), NestedField(5, "d", DoubleType()), NestedField(6, "dec", DecimalType(9, 2)),
    NestedField(7, "day", DateType()), NestedField(8, "t", TimeType()), NestedField(9, "ts", TimestampType()),
    NestedField(10, "tz", TimestamptzType()), NestedField(11, "ns", TimestampNanoType()),
    NestedField(12, "nz", TimestamptzNanoType()), NestedField(13, "s", StringType(), doc="text"),
    NestedField(14, "u", UUIDType()), NestedField(15, "fx", FixedType(3)), NestedField(16, "bi", BinaryType()),
    NestedField(17, "st", StructType((NestedField(18, "a-b", IntegerType(), True),))),
    NestedField(19, "li", ListType(20, StringType(), True)),
    NestedField(21, "ms", MapType(22, StringType(), 23, LongType())),
    NestedField(
        24, "mi", MapType(25, IntegerType(), 26, StructType((NestedField(27, "x", DecimalType(38, 0)),)), True)
    ),
))  # fmt: skip


def numbered(n: int) -> pa.Table:
    names = [None if i % 10 == 0 else f"n{i % 7}" for i in range(n)]
    return pa.table({"id": np.arange(n), "name": pa.array(names, pa.string()), "score": np.arange(n) / 3})


def write(
    data: Any, folder: Path, file_format: str, schema: Schema = SCHEMA, properties: dict[str, str] | None = None,
    **more: Any,
) -> list[ContentFile]:  # fmt: skip
    return write_data_files(
        data,
        schema=schema,
        spec=more.pop("spec", UNPARTITIONED),
        location=f"file://{folder}/data",
        storage=Storage(durable=False),
        properties={"write.format.default": file_format, **(properties or {})},
        file_prefix="00000-abc",
        **more,
    )


def local(file: ContentFile) -> Path:
    return Path(file.file_path.removeprefix("file://"))


@pytest.mark.parametrize("name", ["orc", "ORC", " Avro ", "PARQUET"])
def test_the_property_names_the_format(tmp_path: Path, name: str) -> None:
    (file,) = write(numbered(5), tmp_path, name)
    assert file.file_format is FileFormat(name.strip().upper())
    assert local(file).name == f"00000-abc-00000-{schema_mark(SCHEMA)}.{name.strip().lower()}"
    assert file.file_size_in_bytes == local(file).stat().st_size
    assert [r["id"] for r in rows(file, SCHEMA)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "key, value",
    [
        ("write.format.default", "csv"),
        ("write.orc.compression-codec", "lzo"),
        ("write.orc.compression-strategy", "best"),
        ("write.orc.stripe-size-bytes", "0"),
        ("write.avro.compression-codec", "brotli"),
        ("write.avro.compression-level", "10"),
        ("write.avro.compression-level", "high"),
    ],
)
def test_wrong_properties_are_named(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ValidationError, match=f"property {key}[ :].*{value}"):
        write(numbered(5), tmp_path, key.split(".")[1] if key.count(".") == 2 else "avro", properties={key: value})
    assert not (tmp_path / "data").exists()


def test_delete_files_have_properties_of_their_own() -> None:
    assert delete_file_options({}).file_format is FileFormat.PARQUET
    assert delete_file_options({"write.format.default": "orc"}).file_format is FileFormat.ORC
    properties = {
        "write.format.default": "orc", "write.delete.format.default": "avro", "write.target-file-size-bytes": "1",
        "write.avro.compression-codec": "zstd", "write.delete.avro.compression-codec": "snappy",
    }  # fmt: skip
    options = delete_file_options(properties)
    assert (options.file_format, options.target_file_size, options.codec) == (FileFormat.AVRO, 64 * 2**20, "snappy")
    assert data_file_options({**properties, "write.format.default": "Avro"}).codec == "zstandard"
    with pytest.raises(ValidationError, match=r"write\.delete\.format\.default.*xml"):
        delete_file_options({"write.delete.format.default": "xml"})


@ALL_FORMATS
def test_m4_metrics_are_those_of_the_rows(tmp_path: Path, file_format: str) -> None:
    """Counts and bounds are the same in each format; sizes come from ORC's own streams, Avro has none."""
    (file,) = write(numbered(100), tmp_path, file_format)
    (peer,) = write(numbered(100), tmp_path / "peer", "parquet")
    assert file.record_count == 100
    for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
        assert getattr(file, name) == getattr(peer, name)
    assert (file.column_sizes is None) == (file.split_offsets is None) == (file_format == "avro")
    if file_format == "orc":
        assert file.split_offsets == (3,)
        assert file.column_sizes is not None
        assert sorted(file.column_sizes) == [1, 2, 3]
        assert 0 < sum(file.column_sizes.values()) < file.file_size_in_bytes


def test_orc_types_have_the_attributes_of_the_spec(tmp_path: Path) -> None:
    (file,) = write(pa.table({"bo": [True]}), tmp_path, "orc", EVERY)
    found = {f.name: (str(f.type), {k.decode(): v.decode() for k, v in f.metadata.items()})
             for f in pyarrow.orc.ORCFile(local(file)).schema}  # fmt: skip
    expected = {
        "bo": ("bool", {"iceberg.required": "true"}),
        "l": ("int64", {"iceberg.long-type": "LONG"}),
        "t": ("int64", {"iceberg.long-type": "TIME"}),
        "ts": ("timestamp[ns]", {"iceberg.timestamp-unit": "MICROS"}),
        "tz": ("timestamp[ns, tz=UTC]", {"iceberg.timestamp-unit": "MICROS"}),
        "ns": ("timestamp[ns]", {"iceberg.timestamp-unit": "NANOS"}),
        "nz": ("timestamp[ns, tz=UTC]", {"iceberg.timestamp-unit": "NANOS"}),
        "dec": ("decimal128(9, 2)", {}),
        "u": ("binary", {"iceberg.binary-type": "UUID"}),
        "fx": ("binary", {"iceberg.binary-type": "FIXED", "iceberg.length": "3"}),
        "bi": ("binary", {"iceberg.binary-type": "BINARY"}),
    }
    for name, (t, attributes) in expected.items():
        ids = {"iceberg.id": str(EVERY.find_field(name).field_id), "iceberg.required": "false"}
        assert found[name] == (t, {**ids, **attributes}), name
    nested = pyarrow.orc.ORCFile(local(file)).schema
    inner = nested.field("mi").type.item_field
    assert inner.metadata[b"iceberg.id"] == b"26"
    assert inner.type.field(0).metadata[b"iceberg.id"] == b"27"
    assert nested.field("mi").type.key_field.metadata[b"iceberg.id"] == b"25"
    assert nested.field("li").type.value_field.metadata == {b"iceberg.id": b"20", b"iceberg.required": b"true"}


def test_m7_avro_schemas_are_those_of_the_spec(tmp_path: Path) -> None:
    (file,) = write(pa.table({"bo": [True]}), tmp_path, "avro", EVERY)
    with local(file).open("rb") as f:
        header = fastavro.reader(f)
        schema, metadata = json.loads(header.metadata["avro.schema"]), header.metadata
    assert (schema["name"], metadata["avro.codec"]) == ("table", "deflate")
    assert Schema.from_dict(json.loads(metadata["iceberg.schema"])) == EVERY
    types = {f["field-id"]: f["type"] for f in schema["fields"]}
    assert types[1] == "boolean"
    assert types[2] == ["null", "int"]
    assert schema["fields"][1]["default"] is None
    assert schema["fields"][12]["doc"] == "text"
    named = {i: t[1] for i, t in types.items() if isinstance(t, list)}
    times = {"type": "long", "logicalType": "timestamp-micros"}
    assert named[6] == {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9,
                        "scale": 2}  # fmt: skip
    assert (named[7], named[8]) == (
        {"type": "int", "logicalType": "date"},
        {"type": "long", "logicalType": "time-micros"},
    )
    assert (named[9], named[10]) == ({**times, "adjust-to-utc": False}, {**times, "adjust-to-utc": True})
    assert named[12] == {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}
    assert named[14] == {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
    assert named[15] == {"type": "fixed", "name": "fixed_3", "size": 3}
    assert named[17] == {"type": "record", "name": "r17", "fields": [
        {"name": "a_x2Db", "iceberg-field-name": "a-b", "type": "int", "field-id": 18}]}  # fmt: skip
    assert named[19] == {"type": "array", "items": "string", "element-id": 20}
    assert named[21] == {"type": "map", "values": ["null", "long"], "key-id": 22, "value-id": 23}
    pair = named[24]["items"]
    assert (named[24]["logicalType"], pair["name"]) == ("map", "k25_v26")
    assert [(f["name"], f["field-id"]) for f in pair["fields"]] == [("key", 25), ("value", 26)]


def test_fastavro_reads_what_the_schema_says(tmp_path: Path) -> None:
    """A reader that knows nothing of Iceberg gets decimals, times and maps of every key."""
    data = pa.table({
        "bo": [True, False], "dec": pa.array([Decimal("-12345.67"), None], pa.decimal128(9, 2)),
        "ms": pa.array([[("a", 1), ("b", None)], []], pa.map_(pa.string(), pa.int64())),
        "st": pa.array([{"a-b": 5}, None], pa.struct([("a-b", pa.int32())])),
        "day": pa.array([0, -1], pa.int32()).cast(pa.date32()),
    })  # fmt: skip
    (file,) = write(data, tmp_path, "avro", EVERY)
    with local(file).open("rb") as f:
        one, two = fastavro.reader(f)
    assert (one["dec"], one["ms"], one["st"], str(one["day"])) == (
        Decimal("-12345.67"), {"a": 1, "b": None}, {"a_x2Db": 5}, "1970-01-01"
    )  # fmt: skip
    assert (two["dec"], two["ms"], two["st"], str(two["day"])) == (None, {}, None, "1969-12-31")


CODECS = [("gzip", "deflate"), ("zstd", "zstandard"), ("snappy", "snappy"), ("uncompressed", "null")]


@pytest.mark.parametrize("codec, name", CODECS)
def test_avro_codecs(tmp_path: Path, codec: str, name: str) -> None:
    (file,) = write(numbered(20_000), tmp_path, "avro", properties={"write.avro.compression-codec": codec})
    assert read_header(local(file).read_bytes(), "f").codec == name
    if codec != "zstd":
        # fastavro needs one more package for zstd.
        with local(file).open("rb") as f:
            assert sum(b.num_records for b in fastavro.block_reader(f)) == 20_000
    assert len(rows(file, SCHEMA)) == 20_000


def test_avro_levels(tmp_path: Path) -> None:
    sizes = []
    for level in ("1", "9"):
        (file,) = write(numbered(20_000), tmp_path / level, "avro", properties={"write.avro.compression-level": level})
        sizes.append(file.file_size_in_bytes)
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize("codec", ["zlib", "GZIP", "zstd", "snappy", "lz4", "none"])
def test_orc_codecs(tmp_path: Path, codec: str) -> None:
    """The tail is understood under every codec, so the stripes are known."""
    properties = {"write.orc.compression-codec": codec, "write.orc.stripe-size-bytes": "65536"}
    (file,) = write(numbered(60_000), tmp_path, "orc", properties=properties)
    orc = pyarrow.orc.ORCFile(local(file))
    assert orc.compression.lower().removeprefix("un").removesuffix("compressed") in (
        codec.replace("GZIP", "zlib"),
        "",
        "none",
    )
    with pa.memory_map(str(local(file))) as source:
        stripes = read_tail(source, "f").stripes
    assert len(stripes) == orc.nstripes
    assert file.split_offsets == tuple(s.offset for s in stripes)
    assert sum(s.rows for s in stripes) == 60_000
    assert [r["id"] for r in rows(file, SCHEMA)] == list(range(60_000))


def test_orc_stripes_belong_to_the_range_where_they_start(tmp_path: Path) -> None:
    properties = {"write.orc.stripe-size-bytes": "65536", "write.orc.compression-codec": "none"}
    (file,) = write(numbered(100_000), tmp_path, "orc", properties=properties)
    assert file.split_offsets is not None
    assert len(file.split_offsets) > 2
    ends = [*file.split_offsets[1:], file.file_size_in_bytes]
    starts = [0, *file.split_offsets[1:]]
    schema = Schema((SCHEMA.fields[0], NestedField(2147483645, "_pos", LongType())))
    parts = [rows(file, schema, span=(a, b - a)) for a, b in zip(starts, ends, strict=True)]
    assert all(parts)
    assert [r for p in parts for r in p] == [{"id": i, "_pos": i} for i in range(100_000)]
    counts = [
        len(rows(file, SCHEMA, span=(a, b - a), projection=Schema(()))) for a, b in zip(starts, ends, strict=True)
    ]
    assert counts == [len(p) for p in parts]


@ALL_FORMATS
def test_times_that_nanoseconds_cannot_hold(tmp_path: Path, file_format: str) -> None:
    """Microseconds reach 290,000 years, in ORC too, where Arrow's reader stops at the year 2262."""
    schema = Schema((
        NestedField(1, "ts", TimestampType()), NestedField(2, "i", IntegerType(), True),
        NestedField(
            3, "n", ListType(4, StructType((NestedField(5, "z", TimestamptzType()), NestedField(6, "d", DateType()))))
        ),
        NestedField(7, "m", MapType(8, StringType(), 9, DecimalType(20, 3))),
    ))  # fmt: skip
    times = [0, -(10**6), 2**63 - 1, -9_223_372_036_854_000_000, 253_402_300_799_999_999, None]
    inner: list[Any] = [None, [], [{5: t, 6: 2**31 - 1} for t in times], [None], [{5: None, 6: None}], None]
    maps = [[("k", Decimal("1.500")), ("n", None)], [], None, [], [], []]
    values: list[list[Any]] = [times, list(range(6)), inner, maps]
    columns = [to_array(f.field_type, v) for f, v in zip(schema.fields, values, strict=True)]
    data = pa.table(columns, ["ts", "i", "n", "m"])
    (file,) = write(data, tmp_path, file_format, schema)
    projection = Schema((*schema.fields, NestedField(2147483645, "_pos", LongType())))
    task = FileScanTask(file, (), TRUE, 0, file.file_size_in_bytes, 1)
    found = pa.Table.from_batches(
        read_task(
            task, projection=projection, table_schema=schema, specs={0: UNPARTITIONED}, storage=Storage(), batch_rows=4
        )
    )
    assert from_array(TimestampType(), found["ts"].combine_chunks()) == times
    assert found["_pos"].to_pylist() == list(range(6))
    for name in ("i", "n", "m"):
        assert found[name].combine_chunks().equals(data[name].combine_chunks().cast(found.schema.field(name).type)), (
            name
        )


@pytest.mark.parametrize("t, value, text", [
    (TimestampType(), -1, "1969-12-31T23:59:59.999999"), (TimestamptzType(), -1_500_000, "1969-12-31T23:59:58.500000"),
    (TimestampNanoType(), -1, "1969-12-31T23:59:59.999999999"), (TimestamptzNanoType(), -(2**63), "1677-09-21"),
])  # fmt: skip
def test_orc_refuses_times_that_its_readers_disagree_on(
    tmp_path: Path, t: PrimitiveType, value: int, text: str
) -> None:
    schema = Schema((NestedField(1, "s", StructType((NestedField(2, "t", t),))),))
    data = pa.table([pa.StructArray.from_arrays([to_array(t, [None, 0, value])], names=["t"])], names=["s"])
    with pytest.raises(ValidationError, match=rf"column 's\.t': {text}.* can't be written to ORC"):
        write(data, tmp_path, "orc", schema)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_avro_columns_without_values_are_read_as_nulls(tmp_path: Path) -> None:
    """Java writes a column of type unknown as Avro's null, in no union."""
    path = tmp_path / "f.avro"
    fields = [{"name": "i", "type": "int", "field-id": 1}, {"name": "u", "type": "null", "field-id": 2}]
    with path.open("wb") as f:
        fastavro.writer(f, {"type": "record", "name": "table", "fields": fields}, [{"i": 5, "u": None}])
    schema = Schema((NestedField(1, "i", IntegerType(), True), NestedField(2, "u", UnknownType())))
    assert rows(content_file(path, file_format="AVRO"), schema) == [{"i": 5, "u": None}]


@FORMATS
def test_files_roll_at_the_target_size(tmp_path: Path, file_format: str) -> None:
    data = pa.table({"id": np.arange(100_000), "name": [f"{i * 7919 % 99991}" for i in range(100_000)]})
    properties = {
        "write.target-file-size-bytes": "130000", "write.avro.compression-codec": "none",
        "write.orc.compression-codec": "none",
    }  # fmt: skip
    files = write(data.to_reader(7_000), tmp_path, file_format, properties=properties)
    assert len(files) > 3
    assert all(100_000 < f.file_size_in_bytes < 500_000 for f in files[:-1])
    found = [[r["id"] for r in rows(f, SCHEMA)] for f in files]
    assert [i for ids in found for i in ids] == list(range(100_000))
    for f, ids in zip(files, found, strict=True):
        assert f.lower_bounds is not None
        assert int.from_bytes(f.lower_bounds[1], "little") == min(ids)
        assert f.record_count == len(ids)


@FORMATS
def test_partitions_and_order(tmp_path: Path, file_format: str) -> None:
    spec = PartitionSpec(
        (
            PartitionField((2,), 1000, IdentityTransform(), "name"),
            PartitionField((1,), 1001, BucketTransform(2), "b"),
        )
    )  # fmt: skip
    order = SortOrder((SortField((1,), IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),), 3)
    files = write(numbered(500), tmp_path, file_format, spec=spec, sort_order=order)
    seen = []
    for f in files:
        ids = [r["id"] for r in rows(f, SCHEMA, spec=spec)]
        assert ids == sorted(ids, reverse=True)
        assert {r["name"] for r in rows(f, SCHEMA, spec=spec)} == {f.partition[0]}
        assert f.sort_order_id == 3
        seen += ids
    assert sorted(seen) == list(range(500))


@FORMATS
def test_an_error_leaves_no_file(tmp_path: Path, file_format: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from numbered(100).to_batches()
        raise OSError("the source broke")

    with pytest.raises(OSError, match="the source broke"):
        write(batches(), tmp_path, file_format)
    bad = pa.table({"id": pa.array([1, None], pa.int64())})
    with pytest.raises(ValidationError, match="'id' is required"):
        write([b for t in (numbered(10).select(["id"]), bad) for b in t.to_batches()], tmp_path, file_format)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@FORMATS
def test_a_full_disk_is_a_storage_error(tmp_path: Path, file_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, path: str) -> None:
            self.file = open(path, "wb")  # noqa: SIM115

        def write(self, data: Any) -> int:
            raise OSError(28, "No space left on device")

        def tell(self) -> int:
            return 0

        def flush(self) -> None: ...

        def close(self) -> None:
            self.file.close()

        @property
        def closed(self) -> bool:
            return False

    def open_output(self: Storage, location: str) -> Any:
        path = self.local_path(location)
        assert path is not None
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return Full(path)

    monkeypatch.setattr(Storage, "open_output", open_output)
    with pytest.raises(StorageError, match="00000-abc"):
        write(numbered(100), tmp_path, file_format)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_avro_maps_with_a_key_twice_are_refused(tmp_path: Path) -> None:
    twice = pa.array([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64()))
    schema = Schema((NestedField(1, "m", MapType(2, StringType(), 3, LongType())),))
    with pytest.raises(ValidationError, match="key twice"):
        write(pa.table({"m": twice}), tmp_path, "avro", schema)
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


@FORMATS
def test_d3_d4_delete_files(tmp_path: Path, file_format: str) -> None:
    """Position and equality deletes in the delete format apply to data of the data format."""
    (file,) = write(numbered(20), tmp_path, "parquet")
    common: dict[str, Any] = {
        "spec": UNPARTITIONED, "partition": (), "schema": SCHEMA, "format_version": 2,
        "properties": {"write.delete.format.default": file_format},
    }  # fmt: skip
    storage = Storage(durable=False)
    (positions,) = write_position_deletes(
        storage, f"file://{tmp_path}", {file.file_path: [3, 1, 19]}, file_prefix="p", **common
    )
    equal = write_equality_deletes(
        storage, f"file://{tmp_path}", pa.table({"name": ["n5", None]}), [2], file_prefix="e", **common
    )
    assert {positions.file_format, equal.file_format} == {FileFormat(file_format.upper())}
    assert local(positions).name == f"p-00000-deletes.{file_format}"
    assert positions.referenced_data_file == file.file_path
    kept = [i for i in range(20) if i not in (3, 1, 19) and i % 10 and i % 7 != 5]
    assert [r["id"] for r in rows(file, SCHEMA, deletes=[positions, equal])] == kept
