"""Parquet data files written from Arrow data. Spec: Writer Requirements (G3), Appendix A Parquet, Manifests (M4)."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import pyarrow_to_schema

import icecore.engine.data.write.write_rows as write_module
from icecore.engine.data.arrow.arrow_schema import arrow_to_schema, schema_to_arrow
from icecore.engine.data.file.schema_mark import schema_mark
from icecore.engine.data.write.conform import conform
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import StorageError, ValidationError
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import NullOrder, SortDirection, SortField, SortOrder
from icecore.engine.spec.transform import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
)
from icecore.engine.spec.types import DoubleType, LongType, NestedField, StringType, StructType, UnknownType, UUIDType
from icecore.engine.storage.file_io import Storage

SCHEMA = Schema(
    (
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType()),
        NestedField(3, "score", DoubleType()),
    )
)


def spec(*fields: tuple[int, Transform, str]) -> PartitionSpec:
    return PartitionSpec(
        tuple(PartitionField((source,), 1000 + i, t, name) for i, (source, t, name) in enumerate(fields)), 1
    )


def rows(n: int) -> pa.Table:
    return pa.table(
        {
            "id": np.arange(n),
            "name": pa.array([None if i % 10 == 0 else f"n{i % 7}" for i in range(n)]),
            "score": np.arange(n) / 3,
        }
    )


def write(data: object, folder: Path, schema: Schema = SCHEMA, **options: object) -> list[ContentFile]:
    arguments = {
        "schema": schema,
        "spec": UNPARTITIONED,
        "location": f"file://{folder}/data",
        "storage": Storage(durable=False),
        "properties": {},
        "file_prefix": "00000-abc",
        **options,
    }
    return write_data_files(data, **arguments)  # type: ignore[arg-type]


def local(file: ContentFile) -> str:
    return file.file_path.removeprefix("file://")


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_one_file_says_what_it_holds(tmp_path: Path) -> None:
    (file,) = write(rows(100), tmp_path)
    assert file.file_path == f"file://{tmp_path}/data/00000-abc-00000-{schema_mark(SCHEMA)}.parquet"
    assert file.record_count == 100
    assert file.file_size_in_bytes == os.path.getsize(local(file))
    assert (file.spec_id, file.partition, file.sort_order_id) == (0, (), None)
    footer = pq.read_metadata(local(file))
    assert file.column_sizes == {i + 1: footer.row_group(0).column(i).total_compressed_size for i in range(3)}
    assert file.split_offsets == (4,)
    assert footer.row_group(0).column(0).compression == "ZSTD"
    assert footer.row_group(0).column(0).physical_type == "INT64"
    assert pq.read_table(local(file)).to_pylist() == rows(100).to_pylist()


def test_nested_leaves_have_their_column_sizes(tmp_path: Path) -> None:
    data = pa.table(
        {"a": [1], "s": [{"x": 1, "l": ["q"]}], "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))}
    )
    schema = arrow_to_schema(data.schema)
    (file,) = write(data, tmp_path, schema)
    footer = pq.read_metadata(local(file)).row_group(0)
    by_path = {footer.column(i).path_in_schema: footer.column(i).total_compressed_size for i in range(5)}
    names = {
        "a": "a", "s.x": "s.x", "s.l.list.element": "s.l.element", "m.key_value.key": "m.key",
        "m.key_value.value": "m.value",
    }  # fmt: skip
    assert file.column_sizes == {schema.find_field(names[path]).field_id: size for path, size in by_path.items()}


def test_pyiceberg_and_duckdb_read_the_file(tmp_path: Path) -> None:
    """PyIceberg finds our schema by the ids in the file; DuckDB returns the rows, with uuid as uuid."""
    schema = Schema(
        (
            *SCHEMA.fields,
            NestedField(4, "u", UUIDType()),
            NestedField(5, "s", StructType((NestedField(6, "ns", UUIDType()),))),
        )
    )
    (file,) = write(rows(10), tmp_path, schema)
    theirs = pyarrow_to_schema(pq.read_schema(local(file)))
    assert [f.field_id for f in theirs.fields] == [1, 2, 3, 4, 5]
    assert [str(f.field_type) for f in theirs.fields] == [str(f.field_type) for f in schema.fields[:4]] + [
        "struct<6: ns: optional uuid>"
    ]
    assert [f.required for f in theirs.fields] == [True, False, False, False, False]
    found = duckdb.execute(f"SELECT sum(id), count(name), typeof(any_value(u)) FROM '{local(file)}'").fetchall()
    assert found == [(45, 9, "UUID")]


def test_g3_partitions_have_folders_and_keep_their_columns(tmp_path: Path) -> None:
    files = write(rows(50), tmp_path, spec=spec((2, IdentityTransform(), "name"), (1, TruncateTransform(25), "id_t")))
    assert sum(f.record_count for f in files) == 50
    by_partition = {f.partition: f for f in files}
    assert len(by_partition) == len(files) == 16
    nulls = by_partition[(None, 25)]
    assert nulls.file_path.startswith(f"file://{tmp_path}/data/name=null/id_t=25/00000-abc-")
    assert nulls.spec_id == 1
    assert pq.ParquetFile(local(nulls)).read().column_names == ["id", "name", "score"]
    assert pq.ParquetFile(local(nulls)).read().column("id").to_pylist() == [30, 40]


def test_special_partition_values_have_folders_of_their_own(tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2, 3], "name": ["a/b c", "ü", None], "score": [math.nan, -0.0, 0.0]})
    files = write(data, tmp_path, spec=spec((2, IdentityTransform(), "na me"), (3, IdentityTransform(), "score")))
    assert [f.file_path.split("/data/")[1] for f in files] == [
        f"na+me=a%2Fb+c/score=nan/00000-abc-00000-{schema_mark(SCHEMA)}.parquet",
        f"na+me=%C3%BC/score=-0.0/00000-abc-00001-{schema_mark(SCHEMA)}.parquet",
        f"na+me=null/score=0.0/00000-abc-00002-{schema_mark(SCHEMA)}.parquet",
    ]


def test_many_partitions_keep_few_files_open(tmp_path: Path) -> None:
    """A stream over more partitions than may be open at once loses nothing."""
    batches = rows(3000).to_batches(max_chunksize=500)
    files = write(iter(batches), tmp_path, spec=spec((1, BucketTransform(200), "b")))
    assert sum(f.record_count for f in files) == 3000
    assert len({f.file_path for f in files}) == len(files)
    assert files_below(tmp_path / "data") == sorted(f.file_path.split("/data/")[1] for f in files)


def test_columns_have_a_dictionary_where_it_is_less_than_their_values(tmp_path: Path) -> None:
    """What repeats has one, at any depth, in the next row or far away; what hardly does has none."""
    count = 20_000
    dice = np.random.default_rng(3)
    different = pa.array(np.arange(count))
    few = pa.array([f"n{i % 7}" for i in range(count)])
    offsets = pa.array(np.arange(count + 1, dtype=np.int32))
    data = pa.table(
        {
            "runs": np.arange(count) // 100,
            "half": dice.integers(0, count // 2, count),
            "most": dice.integers(0, 5 * count, count),
            "uuid": pa.array([i.to_bytes(16, "big") for i in range(count)], pa.uuid()),
            "nothing": pa.nulls(count, pa.int32()),
            "st": pa.StructArray.from_arrays([different, few], ["all", "few"]),
            "li": pa.ListArray.from_arrays(offsets, few),
            "ma": pa.MapArray.from_arrays(offsets, few, different),
        }
    )
    schema = arrow_to_schema(data.schema)
    (file,) = write(data, tmp_path, schema)
    group = pq.read_metadata(local(file)).row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    chosen = {c.path_in_schema for c in columns if c.has_dictionary_page}
    assert chosen == {"runs", "half", "st.few", "li.list.element", "ma.key_value.key"}
    assert pq.read_table(local(file)).equals(conform(data, schema), check_metadata=False)


def test_streams_write_what_tables_write(tmp_path: Path) -> None:
    table = rows(1000)
    reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=100)))
    for name, data in (("reader", reader), ("batches", table.to_batches(max_chunksize=10)), ("table", table)):
        (file,) = write(data, tmp_path / name)
        assert pq.read_table(local(file)).to_pylist() == table.to_pylist()
    one = write(table.to_batches()[0], tmp_path / "one")
    assert one[0].record_count == 1000


def test_streams_with_pieces_smaller_than_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds on memory change how files are cut, never which rows are in them."""
    monkeypatch.setattr(write_module, "_STREAM_PIECE_BYTES", 2000)
    monkeypatch.setattr(write_module, "_PENDING_BYTES", 3000)
    monkeypatch.setattr(write_module, "MAX_OPEN_FILES", 3)
    files = write(iter(rows(1000).to_batches(max_chunksize=50)), tmp_path, spec=spec((1, BucketTransform(7), "b")))
    ids = [i for f in files for i in pq.ParquetFile(local(f)).read().column("id").to_pylist()]
    assert sorted(ids) == list(range(1000))


def test_files_roll_at_the_target_size(tmp_path: Path) -> None:
    noise = pa.table({"id": np.random.default_rng(1).integers(0, 2**62, 100_000)})
    files = write(noise, tmp_path, properties={"write.target-file-size-bytes": "200000"})
    assert len(files) == 4
    assert all(200_000 <= f.file_size_in_bytes < 450_000 for f in files[:-1])
    assert sum(f.record_count for f in files) == 100_000
    assert [f.file_path.split("-")[-2] for f in files] == [f"{i:05d}" for i in range(4)]


def test_row_groups_are_bounded_and_split_offsets_say_where_they_start(tmp_path: Path) -> None:
    (file,) = write(rows(1000), tmp_path, properties={"write.parquet.row-group-limit": "300"})
    footer = pq.read_metadata(local(file))
    assert [footer.row_group(i).num_rows for i in range(footer.num_row_groups)] == [300, 300, 300, 100]
    assert file.split_offsets is not None
    assert len(file.split_offsets) == 4
    assert sorted(file.split_offsets) == list(file.split_offsets)
    assert file.lower_bounds is not None
    assert file.lower_bounds[1] == (0).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("codec", "found"), [("snappy", "SNAPPY"), ("gzip", "GZIP"), ("uncompressed", "UNCOMPRESSED"), ("lz4", "LZ4")]
)
def test_codec_property(codec: str, found: str, tmp_path: Path) -> None:
    (file,) = write(rows(10), tmp_path, properties={"write.parquet.compression-codec": codec})
    assert pq.read_metadata(local(file)).row_group(0).column(0).compression == found


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.parquet.compression-codec", "lzo"),
        ("write.parquet.compression-level", "high"),
        ("write.target-file-size-bytes", "0"),
        ("write.parquet.row-group-size-bytes", "128MB"),
    ],
)
def test_properties_that_make_no_sense_are_named(key: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=f"property {key}[ :].*(must be|expected)"):
        write(rows(1), tmp_path, properties={key: value})
    assert files_below(tmp_path) == []


def test_so1_rows_are_sorted(tmp_path: Path) -> None:
    """Nulls go where each field says; -NaN < -0 < 0 < Inf < NaN; equal rows keep their order."""
    data = pa.table(
        {
            "id": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            "name": ["b", None, "a", "a", "a", "a", "a", "a", "a", "a"],
            "score": [0.0, 1.0, math.nan, -0.0, 0.0, None, math.inf, -1.5, -2.5, -math.inf],
        }
    )
    ascending = SortOrder(
        (
            SortField((2,), IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),
            SortField((3,), IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST),
        ),
        4,
    )
    (file,) = write(data, tmp_path, sort_order=ascending)
    assert file.sort_order_id == 4
    assert pq.read_table(local(file)).column("id").to_pylist() == [1, 6, 10, 9, 8, 4, 5, 7, 3, 2]
    descending = SortOrder((SortField((3,), IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST),), 5)
    (file,) = write(data, tmp_path / "desc", sort_order=descending)
    assert pq.read_table(local(file)).column("id").to_pylist() == [3, 7, 2, 1, 5, 4, 8, 9, 10, 6]


def test_sorted_by_transform_inside_partitions(tmp_path: Path) -> None:
    day = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    data = pa.table({"ts": [day + dt.timedelta(hours=h) for h in (30, 1, 29, 0)], "k": [1, 1, 2, 2]})
    schema = arrow_to_schema(data.schema)
    order = SortOrder((SortField((1,), DayTransform()),), 1)
    files = write(data, tmp_path, schema, spec=spec((2, IdentityTransform(), "k")), sort_order=order)
    assert [pq.ParquetFile(local(f)).read().column("ts").to_pylist() for f in files] == [
        [day + dt.timedelta(hours=h) for h in hours] for hours in ((1, 30), (0, 29))
    ]


def test_presorted_rows_stay_as_they_are(tmp_path: Path) -> None:
    order = SortOrder((SortField((1,), IdentityTransform(), SortDirection.DESC),), 1)
    (file,) = write(rows(10), tmp_path, sort_order=order, presorted=True)
    assert file.sort_order_id == 1
    assert pq.read_table(local(file)).column("id").to_pylist() == list(range(10))


def test_no_rows_write_no_file(tmp_path: Path) -> None:
    assert write(rows(0), tmp_path) == []
    assert write([], tmp_path) == []
    assert files_below(tmp_path) == []


def test_an_error_half_way_deletes_what_was_written(tmp_path: Path) -> None:
    """The first batch is on disk when the second turns out to be wrong; nothing of it stays."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield rows(100).to_batches()[0]
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        write(batches(), tmp_path, properties={"write.parquet.row-group-limit": "10"})
    bad = [rows(100).to_batches()[0], pa.table({"id": ["x"]}).to_batches()[0]]
    with pytest.raises(ValidationError, match="one schema"):
        write(bad, tmp_path)
    assert files_below(tmp_path) == []


def test_an_error_after_files_were_finished_deletes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_module, "_STREAM_PIECE_BYTES", 1)
    monkeypatch.setattr(write_module, "_PENDING_BYTES", 1)
    monkeypatch.setattr(write_module, "MAX_OPEN_FILES", 1)
    seen: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        yield from rows(100).to_batches(max_chunksize=10)
        seen.append(len(files_below(tmp_path)))
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        write(batches(), tmp_path, spec=spec((1, TruncateTransform(10), "t")))
    assert seen == [10], "of ten partitions, nine of them finished"
    assert files_below(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"data/00000-abc-00000-s[0-9a-f]+\.parquet"):
        write(rows(1), tmp_path)


def test_unknown_transforms_are_not_written_with(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="unknown transform"):
        write(rows(1), tmp_path, spec=spec((1, UnknownTransform("zorder"), "z")))


def test_a_known_name_on_several_columns_is_not_written_with(tmp_path: Path) -> None:
    """PT6: what `bucket` makes of two columns is not told; by the first alone another reader would miss the rows."""
    field = {"source-ids": [1, 2], "field-id": 1000, "name": "b", "transform": "bucket[4]"}
    odd = PartitionSpec.from_dict({"spec-id": 3, "fields": [field]})
    with pytest.raises(ValidationError, match=r"spec 3 has an unknown transform.*: \[b: bucket\[4\]\(1, 2\)\]"):
        write(rows(1), tmp_path, spec=odd)
    term = {"source-ids": [1, 2], "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
    order = SortOrder.from_dict({"order-id": 5, "fields": [term]})
    with pytest.raises(
        ValidationError, match=r"order 5 has an unknown transform.*: \[identity\(1, 2\) asc nulls-first\]"
    ):
        write(rows(1), tmp_path, sort_order=order)
    assert (odd.fields[0].to_dict(), order.fields[0].to_dict()) == (field, term)


def test_t2_unknown_columns_are_not_stored(tmp_path: Path) -> None:
    """A column of type unknown is in no file, at any depth; its neighbours are."""
    inner = StructType((NestedField(3, "x", LongType()), NestedField(4, "nothing", UnknownType())))
    schema = Schema((NestedField(1, "u", UnknownType()), NestedField(2, "s", inner)))
    data = pa.table({"u": pa.nulls(2), "s": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())]))})
    (file,) = write(data, tmp_path, schema)
    assert pq.read_table(local(file)).to_pylist() == [{"s": {"x": 1}}, {"s": None}]
    assert file.value_counts == {3: 2}
    with pytest.raises(ValidationError, match="no column that a data file can store"):
        write(pa.table({"u": pa.nulls(1)}), tmp_path, Schema((NestedField(1, "u", UnknownType()),)))


def test_the_file_names_its_iceberg_schema(tmp_path: Path) -> None:
    (file,) = write(rows(1), tmp_path)
    stored = pq.read_metadata(local(file)).metadata[b"iceberg.schema"]

    assert Schema.from_dict(json.loads(stored)) == SCHEMA
    assert schema_to_arrow(SCHEMA).equals(pq.ParquetFile(local(file)).schema_arrow.remove_metadata())
