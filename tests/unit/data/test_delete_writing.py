"""Deletion vectors, position and equality delete files written. Spec: Delete Formats (D1 to D5, SO2)."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile as PeerPuffinFile

import icecore.engine.data.read.deletion_vector as vector_module
import icecore.engine.data.write.position_delete_writer as module
from icecore.engine.data.file.puffin_file import read_footer
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.deletion_vector import decode_deletion_vector, encode_deletion_vector
from icecore.engine.data.write.deletion_vector_writer import DeletedRows, write_deletion_vectors
from icecore.engine.data.write.position_delete_writer import write_equality_deletes, write_position_deletes
from icecore.engine.errors import (
    CorruptFileError,
    FileExistsInStorageError,
    MissingFileError,
    StorageError,
    ValidationError,
)
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import DoubleType, ListType, LongType, NestedField, StringType, StructType
from icecore.engine.storage.file_io import Storage

PATH_ID, POS_ID = 2147483546, 2147483545
INNER = StructType((NestedField(5, "a", LongType()), NestedField(6, "b", StringType())))
SCHEMA = Schema(
    (
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType()),
        NestedField(3, "score", DoubleType()),
        NestedField(4, "inner", INNER),
        NestedField(7, "tags", ListType(8, StringType())),
    )
)
BY_NAME = PartitionSpec((PartitionField((2,), 1000, IdentityTransform(), "name"),), 3)
positions = st.lists(st.integers(0, 2**40) | st.integers(0, 200_000), max_size=200)


def deleted(storage: Storage, path: str, files: list[ContentFile]) -> list[int]:
    found: list[int] = DeleteCache().deleted_positions(storage, path, files).tolist()
    return found


def position_deletes(storage: Storage, folder: Path, deletes: dict[str, Any], **settings: Any) -> list[ContentFile]:
    defaults: dict[str, Any] = {
        "spec": UNPARTITIONED,
        "partition": (),
        "schema": SCHEMA,
        "properties": {},
        "file_prefix": "x",
        "format_version": 2,
    }
    return write_position_deletes(storage, str(folder), deletes, **(defaults | settings))


def equality_deletes(folder: Path, data: pa.Table, ids: list[int], **settings: Any) -> ContentFile:
    defaults: dict[str, Any] = {
        "schema": SCHEMA,
        "spec": UNPARTITIONED,
        "partition": (),
        "properties": {},
        "file_prefix": "x",
        "format_version": 2,
    }
    return write_equality_deletes(Storage(), str(folder), data, ids, **(defaults | settings))


# Deletion vectors


@given(positions)
def test_d5_a_vector_holds_what_was_put_in_however_it_is_given(values: list[int]) -> None:
    blob = encode_deletion_vector(values)
    assert decode_deletion_vector(blob, "blob").tolist() == sorted(set(values))
    assert encode_deletion_vector(np.array(values, dtype=np.int64)) == blob
    assert encode_deletion_vector(pyroaring.BitMap64(values)) == blob
    assert encode_deletion_vector(iter(values)) == blob


def test_d5_the_layout_of_a_vector() -> None:
    blob = encode_deletion_vector([3, 2**33 + 1, 2**33])
    (length,) = struct.unpack_from(">I", blob)
    assert length == len(blob) - 8
    assert blob[4:8] == b"\xd1\xd3\x39\x64"
    assert struct.unpack_from("<Q", blob, 8) == (2,)
    assert struct.unpack_from("<I", blob, 16) == (0,)
    first = pyroaring.BitMap.deserialize(blob[20:])
    assert list(first) == [3]
    second = 20 + len(pyroaring.BitMap([3]).serialize())
    assert struct.unpack_from("<I", blob, second) == (2,)
    assert struct.unpack(">I", blob[-4:]) == (zlib.crc32(blob[4:-4]),)


def test_d5_a_given_bitmap_is_left_as_it_was() -> None:
    bitmap = pyroaring.BitMap64(range(1000))
    before = bitmap.serialize()
    encode_deletion_vector(bitmap)
    assert bitmap.serialize() == before


@pytest.mark.parametrize("bad", [[-1], [2**63], [0.5], np.array([-3]), pyroaring.BitMap64([2**63])])
def test_d5_what_is_no_position_is_refused(bad: Any) -> None:
    with pytest.raises(ValidationError, match="position"):
        encode_deletion_vector(bad)


def test_d5_every_flip_and_cut_of_a_vector_is_found() -> None:
    blob = encode_deletion_vector([1, 5, 2**32 + 9, *range(100, 300)])
    for i in range(len(blob)):
        with pytest.raises(CorruptFileError, match=r"^dv\.puffin"):
            decode_deletion_vector(blob[:i], "dv.puffin")
        for bit in range(8):
            broken = bytearray(blob)
            broken[i] ^= 1 << bit
            with pytest.raises(CorruptFileError, match=r"^dv\.puffin"):
                decode_deletion_vector(bytes(broken), "dv.puffin")


def test_d5_one_file_holds_the_vectors_of_many_data_files(tmp_path: Path) -> None:
    location = str(tmp_path / "data" / "d.puffin")
    deletes = {
        "s3://b/2.parquet": DeletedRows([5, 1, 5], 3, ("x",)),
        "s3://b/1.parquet": DeletedRows(np.arange(70_000), 0, ()),
        "s3://b/0.parquet": DeletedRows([], 0, ()),
    }
    files = write_deletion_vectors(Storage(), location, deletes)
    assert [f.referenced_data_file for f in files] == ["s3://b/1.parquet", "s3://b/2.parquet"]
    assert [f.record_count for f in files] == [70_000, 2]
    assert [(f.spec_id, f.partition) for f in files] == [(0, ()), (3, ("x",))]
    footer = read_footer(Storage(), location)
    for f, blob in zip(files, footer.blobs, strict=True):
        assert f.is_deletion_vector
        assert (f.content, f.file_format) == (DataFileContent.POSITION_DELETES, FileFormat.PUFFIN)
        assert f.file_size_in_bytes == footer.file_size_in_bytes == (tmp_path / "data" / "d.puffin").stat().st_size
        assert (f.content_offset, f.content_size_in_bytes) == (blob.offset, blob.length)
        assert (blob.type, blob.snapshot_id, blob.sequence_number) == ("deletion-vector-v1", -1, -1)
        assert (blob.compression_codec, blob.fields) == (None, (2147483645,))
        assert blob.properties == {
            "referenced-data-file": f.referenced_data_file,
            "cardinality": str(f.record_count),
        }
        assert f.sort_order_id is None
    assert deleted(Storage(), "s3://b/2.parquet", files[1:]) == [1, 5]
    assert deleted(Storage(), "s3://b/1.parquet", files[:1]) == list(range(70_000))


def test_d5_pyiceberg_reads_the_vectors(tmp_path: Path) -> None:
    path = tmp_path / "d.puffin"
    write_deletion_vectors(Storage(), str(path), {"file:///a.parquet": DeletedRows([2, 2**32 + 7], 0, ())})
    (vector,) = deletion_vectors_from_puffin_file(PeerPuffinFile(path.read_bytes()))
    assert vector.referenced_data_file == "file:///a.parquet"
    assert vector.to_vector().to_pylist() == [2, 2**32 + 7]


def test_d5_nothing_deleted_is_no_file_and_an_old_file_stays(tmp_path: Path) -> None:
    location = str(tmp_path / "d.puffin")
    assert write_deletion_vectors(Storage(), location, {"a": DeletedRows([], 0, ())}) == []
    assert not (tmp_path / "d.puffin").exists()
    write_deletion_vectors(Storage(), location, {"a": DeletedRows([1], 0, ())})
    with pytest.raises(FileExistsInStorageError):
        write_deletion_vectors(Storage(), location, {"a": DeletedRows([2], 0, ())})
    assert list(tmp_path.iterdir()) == [tmp_path / "d.puffin"]


# Position delete files


def test_d3_a_file_for_each_data_file(tmp_path: Path) -> None:
    long = "file:///warehouse/a/rather/long/path/that/is/never/truncated/00001.parquet"
    files = position_deletes(Storage(), tmp_path, {"file:///z.parquet": [3], long: [9, 2, 2], "file:///none": []})
    assert [f.referenced_data_file for f in files] == [long, "file:///z.parquet"]
    first = files[0]
    assert first.file_path == f"{tmp_path}/x-00000-deletes.parquet"
    assert (first.content, first.file_format) == (DataFileContent.POSITION_DELETES, FileFormat.PARQUET)
    assert (first.record_count, first.sort_order_id, first.equality_ids) == (2, None, None)
    assert first.lower_bounds == {PATH_ID: long.encode(), POS_ID: struct.pack("<q", 2)}
    assert first.upper_bounds == {PATH_ID: long.encode(), POS_ID: struct.pack("<q", 9)}
    assert first.value_counts == {PATH_ID: 2, POS_ID: 2}
    assert first.file_size_in_bytes == Path(first.file_path).stat().st_size
    stored = pq.read_table(first.file_path)
    assert stored.to_pylist() == [{"file_path": long, "pos": 2}, {"file_path": long, "pos": 9}]
    ids = [pq.ParquetFile(first.file_path).schema_arrow.field(i).metadata[b"PARQUET:field_id"] for i in range(2)]
    assert ids == [b"2147483546", b"2147483545"]
    assert not any(f.nullable for f in stored.schema)
    assert pq.read_metadata(first.file_path).metadata[b"delete-type"] == b"position"


def test_d3_a_file_for_a_partition_is_sorted_by_path_and_position(tmp_path: Path) -> None:
    deletes: dict[str, Any] = {"file:///c": [1, 0], "file:///a": np.arange(5), "file:///b": pyroaring.BitMap64([7])}
    (file,) = position_deletes(
        Storage(), tmp_path, deletes, granularity="partition", spec=BY_NAME, partition=("y z",), file_prefix="p"
    )
    assert file.file_path == f"{tmp_path}/name=y+z/p-00000-deletes.parquet"
    assert (file.spec_id, file.partition, file.referenced_data_file) == (3, ("y z",), None)
    rows = [(r["file_path"], r["pos"]) for r in pq.read_table(file.file_path).to_pylist()]
    assert rows == sorted((path, int(p)) for path, ps in deletes.items() for p in ps)
    assert (file.lower_bounds or {})[PATH_ID] == b"file:///a"
    assert (file.upper_bounds or {})[PATH_ID] == b"file:///c"
    assert deleted(Storage(), "file:///c", [file]) == [0, 1]
    (single,) = position_deletes(Storage(), tmp_path / "s", {"file:///q": [1]}, granularity="partition")
    assert single.referenced_data_file == "file:///q"


def test_d3_large_deletes_roll_at_the_target_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS_AT_ONCE", 1000)
    values = np.random.default_rng(1).choice(10**9, 20_000, replace=False)
    properties = {"write.delete.target-file-size-bytes": "20000", "write.delete.parquet.compression-codec": "gzip"}
    files = position_deletes(Storage(), tmp_path, {"file:///a": values}, properties=properties)
    assert len(files) > 2
    assert all(f.referenced_data_file == "file:///a" for f in files)
    assert deleted(Storage(), "file:///a", files) == sorted(values.tolist())
    assert pq.ParquetFile(files[0].file_path).metadata.row_group(0).column(0).compression == "GZIP"


@pytest.mark.parametrize("format_version", [1, 3])
def test_d1_position_delete_files_are_for_v2_alone(tmp_path: Path, format_version: int) -> None:
    with pytest.raises(ValidationError, match=f"found {format_version}"):
        position_deletes(Storage(), tmp_path, {"file:///a": [1]}, format_version=format_version)
    assert list(tmp_path.iterdir()) == []


def test_d3_a_negative_position_and_a_wrong_partition_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="-1"):
        position_deletes(Storage(), tmp_path, {"file:///a": [-1]})
    with pytest.raises(ValidationError, match="spec 3 has 1 fields, found 0"):
        position_deletes(Storage(), tmp_path, {"file:///a": [1]}, spec=BY_NAME)


def test_d3_an_error_leaves_no_file(tmp_path: Path) -> None:
    class Full(Storage):
        opened = 0

        def open_output(self, location: str) -> pa.NativeFile:
            self.opened += 1
            if self.opened == 2:
                raise StorageError(f"can't write {location}: no space left")
            return super().open_output(location)

    storage = Full()
    with pytest.raises(StorageError, match="no space"):
        position_deletes(storage, tmp_path, {"file:///a": [1], "file:///b": [1]})
    assert list(tmp_path.iterdir()) == []


# Equality delete files


def test_d4_an_equality_delete_file(tmp_path: Path) -> None:
    data = pa.table({"name": ["b", None, "a long name that is truncated"], "id": [3, 1, 2]})
    file = equality_deletes(tmp_path, data, [2], spec=BY_NAME, partition=(None,), format_version=3)
    assert file.file_path == f"{tmp_path}/name=null/x-00000-deletes.parquet"
    assert (file.content, file.equality_ids) == (DataFileContent.EQUALITY_DELETES, (2,))
    assert (file.spec_id, file.partition, file.record_count) == (3, (None,), 3)
    assert (file.sort_order_id, file.referenced_data_file) == (None, None)
    assert file.null_value_counts == {1: 0, 2: 1}
    assert file.lower_bounds == {1: struct.pack("<q", 1), 2: b"a long name that"}
    stored = pq.read_table(file.file_path)
    assert stored.column_names == ["id", "name"]
    assert stored.to_pylist() == data.select(["id", "name"]).to_pylist()
    key_values = pq.read_metadata(file.file_path).metadata
    assert (key_values[b"delete-type"], key_values[b"delete-field-ids"]) == (b"equality", b"2")


def test_d4_keys_inside_structs(tmp_path: Path) -> None:
    data = pa.table({"inner": pa.array([{"b": "z"}, None, {"b": "a"}])})
    file = equality_deletes(tmp_path, data, [6])
    assert pq.read_table(file.file_path).to_pylist() == [{"inner": {"b": "z"}}, {"inner": None}, {"inner": {"b": "a"}}]
    assert file.value_counts == {6: 3}


@pytest.mark.parametrize(
    ("data", "ids", "settings", "message"),
    [
        ({"score": [1.0]}, [3], {}, "double"),
        ({"tags": [["a"]]}, [8], {}, "inside a list"),
        ({"inner": [{"a": 1, "b": "x"}]}, [4], {}, "'inner' of type struct"),
        ({"id": [1]}, [2], {}, "lacks its key column 'name'"),
        ({"inner": [{"a": 1}]}, [6], {}, r"inner\.b"),
        ({"id": [1]}, [], {}, "must have equality ids"),
        ({"id": [1]}, [99], {}, "99"),
        ({"id": pa.array([], pa.int64())}, [1], {}, "without rows"),
        ({"id": [1], "other": [2]}, [1], {}, "other"),
        ({"id": pa.array([None], pa.int64())}, [1], {}, "id"),
        ({"id": [1]}, [1], {"format_version": 1}, "format version 1"),
    ],
)
def test_d4_what_can_not_be_an_equality_delete(
    tmp_path: Path, data: dict[str, Any], ids: list[int], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        equality_deletes(tmp_path, pa.table(data), ids, **settings)
    assert list(tmp_path.iterdir()) == []


def test_d5_a_vector_is_read_again_once_its_file_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is kept by the file as it is, unless it changed so lately that its times might not tell."""
    location, read = str(tmp_path / "d.puffin"), []
    blob = vector_module._blob

    def noted(storage: Storage, d: ContentFile) -> bytes:
        read.append(d.file_path)
        return blob(storage, d)

    monkeypatch.setattr(vector_module, "_blob", noted)
    files = write_deletion_vectors(Storage(), location, {"s3://b/1.parquet": DeletedRows([5, 1], 0, ())})
    monkeypatch.setattr(vector_module, "SETTLED_NS", 10**18)
    assert [deleted(Storage(), "s3://b/1.parquet", files) for _ in range(2)] == [[1, 5]] * 2
    assert len(read) == 2
    monkeypatch.setattr(vector_module, "SETTLED_NS", -(10**18))
    assert [deleted(Storage(), "s3://b/1.parquet", files) for _ in range(3)] == [[1, 5]] * 3
    assert len(read) == 3
    kept = DeleteCache().deleted_positions(Storage(), "s3://b/1.parquet", files)
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 7
    with pytest.raises(CorruptFileError, match="should hold 3 positions"):
        deleted(Storage(), "s3://b/1.parquet", [evolve(f, record_count=3) for f in files])
    data = Path(location).read_bytes()
    Path(location).write_bytes(bytes(8) + data[8:])
    # The clock of a file system may not have ticked since it was written.
    os.utime(location, ns=(1, 1))
    with pytest.raises(CorruptFileError):
        deleted(Storage(), "s3://b/1.parquet", files)
    Path(location).unlink()
    with pytest.raises(MissingFileError):
        deleted(Storage(), "s3://b/1.parquet", files)
