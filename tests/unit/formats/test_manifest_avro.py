"""Manifests round trip in every format version, in blocks of any number, and are read by PyIceberg."""

from __future__ import annotations

import io
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
from own_manifests import (
    BY_DAY,
    DV,
    EQUALITY,
    INTS,
    LONGS,
    NANOS,
    SIMPLE,
    VALUES,
    data_file,
    entry,
    files_table,
    identity_table,
    write,
)

from icecore.engine.formats import avro_blocks
from icecore.engine.formats.avro_blocks import AvroBlock
from icecore.engine.formats.avro_schema import Stripper, resolve
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA, decode_partition, files_to_arrow
from icecore.engine.formats.manifest_avro import decode_manifest_fastavro, read_manifest_header
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat, ManifestContent
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import LongType, NestedField
from icecore.projections.entries.decode_entries import decode_manifest

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
    raw = fastavro.parse_schema(Stripper("m").strip(resolve(avro_schema, "m")))
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


def test_blocks_hold_several_entries_of_some_64_kib() -> None:
    files = [data_file(file_path=f"file:///w/{i:05}.parquet") for i in range(2000)]
    table = files_table(files, BY_DAY, SIMPLE, 2)
    written = write(table, BY_DAY, SIMPLE)
    blocks = [(b.num_records, len(b.bytes_.getvalue())) for b in fastavro.block_reader(io.BytesIO(written))]
    assert sum(n for n, _ in blocks) == 2000
    assert all(64 * 1024 <= size < 66 * 1024 for _, size in blocks[:-1]) and len(blocks) > 1
    assert both_decoders(written) == table


def test_D1_delete_files_and_deletion_vectors_round_trip() -> None:
    table = files_to_arrow([DV, EQUALITY], {7: BY_DAY}, SIMPLE, status=1)
    written = write(table, BY_DAY, SIMPLE, 3, content=ManifestContent.DELETES)
    assert read_manifest_header(written).content is ManifestContent.DELETES
    assert both_decoders(written) == table


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
