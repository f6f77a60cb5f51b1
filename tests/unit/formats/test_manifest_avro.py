"""Manifests round trip in every format version, are what the spec says in Avro, and are read by PyIceberg."""

from __future__ import annotations

import io
import json
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.errors import CorruptFileError, UnsupportedFormatVersionError, ValidationError
from icecore.engine.formats import avro_blocks
from icecore.engine.formats.avro_blocks import AvroBlock
from icecore.engine.formats.avro_schema import Stripper, resolve
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, decode_partition, files_to_arrow
from icecore.engine.formats.manifest_avro import decode_manifest_fastavro, read_manifest_header, write_manifest
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat, ManifestContent
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
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
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icecore.projections.entries.decode_entries import decode_manifest

SYNC = bytes(range(16))
INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda n: single_value.unscaled_to_decimal(n, scale))


VALUES: list[tuple[PrimitiveType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), INTS),
    (LongType(), LONGS),
    (FloatType(), st.floats(width=32)),
    (DoubleType(), st.floats()),
    (DateType(), INTS),
    (TimeType(), LONGS),
    (TimestampType(), LONGS),
    (TimestamptzType(), LONGS),
    (StringType(), st.text(st.characters(exclude_categories=["Cs"]))),
    (UUIDType(), st.uuids()),
    (BinaryType(), st.binary()),
    (FixedType(3), st.binary(min_size=3, max_size=3)),
    (FixedType(3), st.binary(min_size=3, max_size=3)),
    (UUIDType(), st.uuids()),
    (DecimalType(4, 2), decimals(4, 2)),
    (DecimalType(18, 0), decimals(18, 0)),
    (DecimalType(38, 10), decimals(38, 10)),
]
NANOS: list[tuple[PrimitiveType, st.SearchStrategy[Any]]] = [
    (TimestampNanoType(), LONGS),
    (TimestamptzNanoType(), LONGS),
]
# Some names are no Avro names, and two become the same one.
NAMES = {0: "a b", 1: "a_x20b", 2: "1st", 3: "größe", 4: "x.y😀"}


def identity_table(values: list[tuple[PrimitiveType, Any]]) -> tuple[Schema, PartitionSpec]:
    """A schema with a column of each type, and a spec with the identity of each."""
    names = [NAMES.get(i, f"c{i}") for i in range(len(values))]
    schema = Schema(tuple(NestedField(i + 1, n, t) for i, (n, (t, _)) in enumerate(zip(names, values, strict=True))), 4)
    fields = (PartitionField((i + 1,), 1000 + i, IdentityTransform(), n) for i, n in enumerate(names))
    return schema, PartitionSpec(tuple(fields), 7)


METRICS = st.none() | st.dictionaries(st.integers(0, 2**31 - 1), LONGS, max_size=3)
BOUNDS = st.none() | st.dictionaries(st.integers(0, 2**31 - 1), st.binary(max_size=20), max_size=3)


@st.composite
def data_files(draw: st.DrawFn, partition: st.SearchStrategy[tuple[Any, ...]], spec_id: int) -> ContentFile:
    return ContentFile(
        DataFileContent.DATA,
        draw(st.text(st.characters(exclude_categories=["Cs"]), min_size=1)),
        draw(st.sampled_from([FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO])),
        spec_id,
        draw(partition),
        draw(LONGS),
        draw(LONGS),
        draw(METRICS),
        draw(METRICS),
        draw(METRICS),
        draw(METRICS),
        draw(BOUNDS),
        draw(BOUNDS),
        draw(st.none() | st.binary()),
        draw(st.none() | st.lists(LONGS, max_size=3).map(tuple)),
        sort_order_id=draw(st.none() | INTS),
    )


def with_column(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    index = ENTRY_SCHEMA.get_field_index(name)
    return table.set_column(index, ENTRY_SCHEMA.field(name), pa.array(values, ENTRY_SCHEMA.field(name).type))


def files_table(files: list[ContentFile], spec: PartitionSpec, schema: Schema, version: int) -> pa.Table:
    """Entries as a manifest of the version has them: v1 carries the snapshot id, v3 may carry first row ids."""
    table = files_to_arrow(files, {spec.spec_id: spec}, schema, status=1)
    count = len(files)
    table = with_column(
        table, "snapshot_id", [17] * count if version == 1 else [None if i % 2 else i for i in range(count)]
    )
    return with_column(table, "first_row_id", [i * 10 for i in range(count)]) if version == 3 else table


def write(table: pa.Table, spec: PartitionSpec, schema: Schema, version: int = 2, **options: Any) -> bytes:
    content = options.pop("content", ManifestContent.DATA)
    return write_manifest(
        table, spec=spec, schema=schema, content=content, format_version=version, sync_marker=SYNC, **options
    )


def both_decoders(data: bytes, spec_id: int = 7) -> pa.Table:
    fast = decode_manifest(data, where="m.avro", spec_id=spec_id)
    assert fast.schema == ENTRY_SCHEMA
    fast.validate(full=True)
    assert fast == decode_manifest_fastavro(data, where="m.avro", spec_id=spec_id)
    return fast


@examples(30, new=420)
@given(data=st.data(), version=st.sampled_from([1, 2, 3]))
def test_M4_M7_entries_round_trip_with_every_partition_type(data: st.DataObject, version: int) -> None:
    values = VALUES + (NANOS if version == 3 else [])
    chosen = data.draw(st.lists(st.sampled_from(range(len(values))), unique=True, max_size=6))
    types = [values[i] for i in chosen]
    schema, spec = identity_table(types)
    partition = st.tuples(*(st.none() | v for _, v in types))
    files = data.draw(st.lists(data_files(partition, spec.spec_id), max_size=6))
    codec = data.draw(st.sampled_from(["null", "deflate", "snappy", "zstandard"]))
    table = files_table(files, spec, schema, version)
    written = write(table, spec, schema, version, codec=codec)
    assert both_decoders(written) == table
    assert written == write(table, spec, schema, version, codec=codec)
    header = avro_blocks.read_header(written, "m")
    for block in avro_blocks.read_blocks(written, header, "m"):
        assert block.data == encoded_by_fastavro(header.schema, block)
    # Few entries are encoded one by one, more by columns, whose numbers are encoded one by one or by numpy.
    for times in (9, 65):
        many = write(pa.concat_tables([table] * times), spec, schema, version, codec="null")
        assert records(many) == records(written) * times


def records(manifest: bytes) -> bytes:
    """The bytes of all records of a manifest."""
    blocks = avro_blocks.read_blocks(manifest, avro_blocks.read_header(manifest, "m"), "m")
    return b"".join(bytes(block.data) for block in blocks)


def encoded_by_fastavro(avro_schema: Any, block: AvroBlock) -> bytes:
    """The block's records as fastavro encodes them."""
    raw = fastavro.parse_schema(Stripper().strip(resolve(avro_schema, "m")))
    stream, out = io.BytesIO(block.data), io.BytesIO()
    for _ in range(block.count):
        fastavro.schemaless_writer(out, raw, fastavro.schemaless_reader(stream, raw, None))
    return out.getvalue()


def test_many_entries_in_several_batches_and_with_many_metrics() -> None:
    files = [
        data_file(
            file_path=f"file:///w/{i}.parquet",
            value_counts={j: 10**j for j in range(i % 12)} if i % 5 else None,
            lower_bounds={j: b"x" * j for j in range(i % 7)},
            split_offsets=None if i % 3 else tuple(range(i % 4)),
        )
        for i in range(9000)
    ]
    table = files_table(files, BY_DAY, SIMPLE, 2)
    written = write(pa.concat_tables([table.slice(0, 5), table.slice(5)]), BY_DAY, SIMPLE)
    assert decode_manifest(written, where="m", spec_id=7) == table
    blocks = list(avro_blocks.read_blocks(written, avro_blocks.read_header(written, "m"), "m"))
    assert all(64 * 1024 <= len(b.data) < 65 * 1024 for b in blocks[:-1])
    assert write(table.slice(100, 300), BY_DAY, SIMPLE) == write(table.slice(100, 300).combine_chunks(), BY_DAY, SIMPLE)
    assert decode_manifest(write(table.slice(100, 300), BY_DAY, SIMPLE), where="m", spec_id=7) == table.slice(100, 300)


SIMPLE = Schema(
    (NestedField(1, "id", LongType()), NestedField(2, "ts", TimestampType()), NestedField(3, "s", StringType()))
)
BY_DAY = PartitionSpec(
    (
        PartitionField((2,), 1000, DayTransform(), "ts_day"),
        PartitionField((1,), 1001, BucketTransform(16), "id_bucket"),
        PartitionField((2,), 1002, YearTransform(), "ts_year"),
        PartitionField((3,), 1003, VoidTransform(), "s_void"),
    ),
    7,
)


def data_file(**changes: Any) -> ContentFile:
    values: dict[str, Any] = {
        "content": DataFileContent.DATA,
        "file_path": "file:///w/a.parquet",
        "file_format": FileFormat.PARQUET,
        "spec_id": 7,
        "partition": (19_000, 3, 52, None),
        "record_count": 5,
        "file_size_in_bytes": 100,
        "split_offsets": (4, 50),
        "sort_order_id": 0,
        "lower_bounds": {1: b"\x01"},
        "value_counts": {1: 5, 2: 5},
    }
    return ContentFile(**{**values, **changes})


def field_ids(avro_type: Any) -> dict[int, Any]:
    """All field, element, key and value ids of an Avro schema with the name and the type that they stand at."""
    out: dict[int, Any] = {}
    match avro_type:
        case list():
            for branch in avro_type:
                out |= field_ids(branch)
        case {"type": "record", "fields": fields}:
            for f in fields:
                out |= {f["field-id"]: (f["name"], f["type"])} | field_ids(f["type"])
        case {"type": "array", "items": items}:
            out |= {avro_type["element-id"]: ("element", items)} if "element-id" in avro_type else {}
            out |= field_ids(items)
    return out


V2_ONLY = {3, 4, 134, 135, 136, 143}
V3_ONLY = {142, 144, 145}
COMMON = {
    0,
    1,
    2,
    100,
    101,
    102,
    103,
    104,
    140,
    131,
    132,
    133,
    108,
    117,
    118,
    109,
    119,
    120,
    110,
    121,
    122,
    137,
    138,
    139,
}
COMMON |= {125, 126, 127, 128, 129, 130}
PARTITION = {1000, 1001, 1002, 1003}


@pytest.mark.parametrize(
    ("version", "extra"), [(1, {105}), (2, V2_ONLY), (3, V2_ONLY | V3_ONLY)], ids=["v1", "v2", "v3"]
)
def test_M4_each_version_has_its_field_ids_and_no_others(version: int, extra: set[int]) -> None:
    written = write(files_table([data_file()], BY_DAY, SIMPLE, version), BY_DAY, SIMPLE, version)
    schema = read_manifest_header(written).avro_schema
    assert field_ids(schema).keys() == COMMON | PARTITION | extra
    ids = field_ids(schema)
    assert ids[1][1] == ("long" if version == 1 else ["null", "long"])
    assert ids[1000] == ("ts_day", ["null", {"type": "int", "logicalType": "date"}])
    assert ids[1002] == ("ts_year", ["null", "int"])
    assert ids[108][1][1]["logicalType"] == "map"


def test_M7_logical_types_of_partition_values() -> None:
    schema, spec = identity_table([*VALUES, *NANOS])
    table = files_table([], spec, schema, 3)
    ids = field_ids(read_manifest_header(write(table, spec, schema, 3)).avro_schema)
    found = {1000 + i: ids[1000 + i][1][1] for i in range(len(VALUES + NANOS))}
    assert found[1006] == {"type": "long", "logicalType": "time-micros"}
    assert found[1007] == {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}
    assert found[1008] == {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}
    assert found[1010] == {"type": "fixed", "size": 16, "name": "uuid_fixed", "logicalType": "uuid"}
    assert found[1011] == "bytes"
    assert found[1012] == {"type": "fixed", "size": 3, "name": "fixed_3"}
    decimal = {"type": "fixed", "logicalType": "decimal"}
    assert found[1015] == {**decimal, "size": 2, "name": "decimal_4_2", "precision": 4, "scale": 2}
    assert found[1017] == {**decimal, "size": 16, "name": "decimal_38_10", "precision": 38, "scale": 10}
    assert found[1018] == {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False}
    assert found[1019] == {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}


def test_M7_names_that_avro_forbids_are_sanitized_beside_the_original() -> None:
    schema, spec = identity_table(VALUES)
    written = write(files_table([], spec, schema, 2), spec, schema)
    entry = read_manifest_header(written).avro_schema
    data_file_type = next(f for f in entry["fields"] if f["name"] == "data_file")["type"]
    partition = next(f for f in data_file_type["fields"] if f["name"] == "partition")["type"]["fields"]
    assert [(f["name"], f.get("iceberg-field-name")) for f in partition[:6]] == [
        ("a_x20b", "a b"),
        ("a_x20b_1001", "a_x20b"),
        ("_1st", "1st"),
        ("größe", None),
        ("x_x2Ey_xD83D_xDE00", "x.y😀"),
        ("c5", None),
    ]


def test_M1_PT7_header_metadata() -> None:
    written = write(files_table([], BY_DAY, SIMPLE, 2), BY_DAY, SIMPLE, extra_metadata={"made-by": "me"})
    metadata = fastavro.reader(io.BytesIO(written)).metadata
    assert json.loads(metadata["partition-spec"]) == BY_DAY.fields_to_list()
    assert json.loads(metadata["schema"]) == SIMPLE.to_dict()
    assert {k: metadata[k] for k in ("schema-id", "partition-spec-id", "format-version", "content", "made-by")} == {
        "schema-id": "0",
        "partition-spec-id": "7",
        "format-version": "2",
        "content": "data",
        "made-by": "me",
    }
    header = read_manifest_header(written)
    assert (header.schema, header.spec_fields, header.spec_id) == (SIMPLE, BY_DAY.fields, 7)
    assert (header.format_version, header.content) == (2, ManifestContent.DATA)


def test_blocks_hold_several_entries_of_some_64_kib() -> None:
    files = [data_file(file_path=f"file:///w/{i:05}.parquet") for i in range(2000)]
    table = files_table(files, BY_DAY, SIMPLE, 2)
    written = write(table, BY_DAY, SIMPLE)
    blocks = [(b.num_records, len(b.bytes_.getvalue())) for b in fastavro.block_reader(io.BytesIO(written))]
    assert sum(n for n, _ in blocks) == 2000
    assert all(64 * 1024 <= size < 66 * 1024 for _, size in blocks[:-1]) and len(blocks) > 1
    assert both_decoders(written) == table


DV = data_file(
    content=DataFileContent.POSITION_DELETES,
    file_format=FileFormat.PUFFIN,
    referenced_data_file="file:///w/a.parquet",
    content_offset=4,
    content_size_in_bytes=40,
)
EQUALITY = data_file(content=DataFileContent.EQUALITY_DELETES, equality_ids=(1, 3))


def test_D1_delete_files_and_deletion_vectors_round_trip() -> None:
    table = files_to_arrow([DV, EQUALITY], {7: BY_DAY}, SIMPLE, status=1)
    written = write(table, BY_DAY, SIMPLE, 3, content=ManifestContent.DELETES)
    assert read_manifest_header(written).content is ManifestContent.DELETES
    assert both_decoders(written) == table


def entry(changes: dict[str, Any], f: ContentFile | None = None) -> pa.Table:
    table = files_to_arrow([f or data_file()], {7: BY_DAY}, SIMPLE, status=1)
    for name, value in changes.items():
        table = with_column(table, name, [value])
    return table


@pytest.mark.parametrize(
    ("table", "version", "content", "words"),
    [
        (entry({}), 1, ManifestContent.DATA, "snapshot id"),
        (entry({}), 1, ManifestContent.DELETES, "no delete manifests"),
        (entry({"status": 0}), 2, ManifestContent.DATA, "sequence numbers"),
        (entry({"status": 2, "sequence_number": 3}), 2, ManifestContent.DATA, "sequence numbers"),
        (entry({"spec_id": 0}), 2, ManifestContent.DATA, "partition spec 7, found spec_id 0"),
        (entry({"status": 3}), 2, ManifestContent.DATA, "status"),
        (entry({"first_row_id": 1}), 2, ManifestContent.DATA, "first_row_id"),
        (entry({"partition": [(999, b"")]}), 2, ManifestContent.DATA, r"partition field \[999\]"),
        (entry({"partition": [(1000, b"12")]}), 2, ManifestContent.DATA, "not a binary value"),
        (entry({}, EQUALITY), 2, ManifestContent.DATA, "content 2"),
        (entry({}), 2, ManifestContent.DELETES, "content 0"),
        (entry({"equality_ids": None}, EQUALITY), 2, ManifestContent.DELETES, "equality_ids"),
        (entry({"content_offset": None}, DV), 3, ManifestContent.DELETES, "deletion vector"),
        (entry({"content_offset": None, "content_size_in_bytes": None}, DV), 2, ManifestContent.DELETES, "version 3"),
    ],
)
def test_M2_M4_D1_what_a_manifest_can_not_hold_is_refused(
    table: pa.Table, version: int, content: ManifestContent, words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        write(table, BY_DAY, SIMPLE, version, content=content)


def test_G1_unknown_versions_codecs_and_transforms_are_refused() -> None:
    with pytest.raises(UnsupportedFormatVersionError):
        write(entry({}), BY_DAY, SIMPLE, 4)
    with pytest.raises(ValidationError, match="codec"):
        write(entry({}), BY_DAY, SIMPLE, codec="lzo")
    unknown = PartitionSpec((PartitionField((1,), 1000, UnknownTransform("zorder"), "z"),), 7)
    with pytest.raises(ValidationError, match="unknown transform"):
        write(ENTRY_SCHEMA.empty_table(), unknown, SIMPLE)


def test_values_of_a_partition_whose_source_column_is_gone_are_kept_as_they_are() -> None:
    spec = PartitionSpec((PartitionField((99,), 1000, IdentityTransform(), "gone"),), 7)
    table = entry({"partition": [(1000, b"\xff\xfe\x00\x00")]})
    assert both_decoders(write(table, spec, SIMPLE)) == table


def test_T10_a_value_from_before_a_promotion_is_written_as_the_wider_type() -> None:
    schema = Schema((NestedField(1, "id", LongType()),))
    spec = PartitionSpec((PartitionField((1,), 1000, IdentityTransform(), "id"),), 7)
    table = entry({"partition": [(1000, b"\x05\x00\x00\x00")]})
    found = both_decoders(write(table, spec, schema))["partition"][0].as_py()
    assert found == [(1000, b"\x05" + bytes(7))]


def test_header_without_keys_says_what_the_columns_show() -> None:
    entry_schema = read_manifest_header(write(entry({}), BY_DAY, SIMPLE)).avro_schema
    out = io.BytesIO()
    fastavro.writer(out, entry_schema, [])
    header = read_manifest_header(out.getvalue())
    assert (header.schema, header.schema_id, header.spec_fields, header.spec_id) == (None, None, None, None)
    assert (header.format_version, header.content) == (2, ManifestContent.DATA)


@pytest.mark.parametrize("key", ["schema", "partition-spec", "partition-spec-id", "format-version"])
def test_header_that_is_not_what_it_says_is_corrupt(key: str) -> None:
    data = write(entry({}), BY_DAY, SIMPLE, extra_metadata={key: "{x"})
    with pytest.raises(CorruptFileError, match=r"m\.avro"):
        read_manifest_header(data, "m.avro")


@pytest.mark.parametrize("version", [1, 2])
def test_pyiceberg_reads_what_we_write(version: int, tmp_path: Path) -> None:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import DataFileContent as TheirContent
    from pyiceberg.manifest import ManifestContent as TheirManifestContent
    from pyiceberg.manifest import ManifestFile as TheirManifest

    values = [
        True,
        -5,
        2**40,
        1.5,
        -2.25,
        -10,
        5,
        -(10**15),
        10**15,
        "ä",
        uuid.UUID(int=5),
        b"\x00\xff",
        b"abc",
        b"xyz",
    ]
    values += [uuid.UUID(int=2**127), Decimal("-1.28"), Decimal(10**17), Decimal("12345678901234567890.0123456789")]
    schema, spec = identity_table(VALUES)
    files = [
        data_file(
            file_path=f"file:///w/{i}.parquet",
            partition=tuple(None if (i + j) % 4 == 0 else v for j, v in enumerate(values)),
            column_sizes={1: 5} if i % 2 else None,
            nan_value_counts={4: i},
            upper_bounds={1: b"\x01", 2: b""},
            key_metadata=b"k" if i % 3 else None,
        )
        for i in range(12)
    ]
    table = files_table(files, spec, schema, version)
    path = tmp_path / "m.avro"
    path.write_bytes(write(table, spec, schema, version))
    manifest = TheirManifest.from_args(
        manifest_path=str(path),
        manifest_length=path.stat().st_size,
        partition_spec_id=7,
        added_snapshot_id=99,
        sequence_number=3,
        content=TheirManifestContent.DATA,
    )
    found = manifest.fetch_manifest_entry(PyArrowFileIO())
    assert len(found) == len(files)
    for theirs, ours, row in zip(found, files, table.to_pylist(), strict=True):
        f = theirs.data_file
        assert theirs.status == 1
        assert theirs.snapshot_id == (99 if row["snapshot_id"] is None else row["snapshot_id"])
        assert f.content == TheirContent.DATA
        assert (f.file_path, f.record_count, f.file_size_in_bytes) == (ours.file_path, 5, 100)
        assert [f.partition[i] for i in range(len(values))] == list(decode_partition(spec, schema, row["partition"]))
        assert f.column_sizes == ours.column_sizes and f.nan_value_counts == ours.nan_value_counts
        assert f.lower_bounds == {1: b"\x01"} and f.upper_bounds == {1: b"\x01", 2: b""}
        assert (f.key_metadata, f.split_offsets, f.sort_order_id) == (ours.key_metadata, [4, 50], 0)


def test_unpartitioned_entries_round_trip() -> None:
    table = files_to_arrow([data_file(spec_id=0, partition=())], {0: UNPARTITIONED}, SIMPLE, status=1)
    found = both_decoders(write(table, UNPARTITIONED, SIMPLE), spec_id=0)
    assert found == table and found["partition"].to_pylist() == [[]]
