"""Deletes applied to the rows of data files. Spec: Row-level Deletes (D2 to D5)."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import evolve

import icecore.engine.data.read.apply_deletes as deletes_module
from icecore.engine.common.location import LocationMapping
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.read.apply_deletes import DeleteCache
from icecore.engine.data.read.file_sources import open_source
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.conform import conform
from icecore.engine.data.write.relocated_deletes import relocated_delete
from icecore.engine.errors import CorruptFileError, MissingFileError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec.content_file import DataFileContent
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import IdentityTransform
from icecore.engine.spec.types import IntegerType, LongType, NestedField, StringType, StructType, UUIDType
from icecore.engine.storage.file_io import Storage

from .reading import (
    content_file,
    data_file,
    deletion_vector,
    equality_deletes,
    position_deletes,
    rows,
    with_schema,
)

SCHEMA = Schema((NestedField(1, "id", LongType()), NestedField(2, "name", StringType())))


def numbered(path: Path, count: int = 10, **more: Any) -> Any:
    table = with_schema([{"id": i, "name": f"n{i}" if i % 3 else None} for i in range(count)], SCHEMA)
    return data_file(path, table, rows_per_group=4, **more)


def left(file: Any, *deletes: Any, **more: Any) -> list[int]:
    return [r["id"] for r in rows(file, SCHEMA, deletes=deletes, **more)]


def test_d3_position_deletes_of_several_files(tmp_path: Path) -> None:
    """Positions of other data files don't count; those of several delete files add up, doubles too."""
    file = numbered(tmp_path / "f.parquet")
    path = file.file_path
    first = position_deletes(tmp_path / "d1.parquet", [(path, 0), (path, 5), ("file:///elsewhere/f.parquet", 1)])
    second = position_deletes(tmp_path / "d2.parquet", [(path, 5), (path, 9), (path, 99)])
    assert left(file, first, second, batch_rows=3) == [1, 2, 3, 4, 6, 7, 8]
    assert left(file, position_deletes(tmp_path / "d3.parquet", [(path, i) for i in range(10)])) == []
    assert left(file, position_deletes(tmp_path / "d4.parquet", [])) == list(range(10))


@pytest.mark.parametrize(("old", "new"), [("/f.p", "//f.p"), ("/f.p", "/./f.p"), ("file:", "FILE:")])
def test_d3_a_path_that_is_spelled_otherwise_is_another_files(tmp_path: Path, old: str, new: str) -> None:
    """As Java and PyIceberg, which compare all of the text, have it; plans have the same key."""
    file = numbered(tmp_path / "f.parquet")
    path = f"file://{tmp_path}/f.parquet"
    assert left(file, position_deletes(tmp_path / "one.parquet", [(path, 0)])) == list(range(1, 10))
    other = path.replace(old, new)
    assert other != path
    assert left(file, position_deletes(tmp_path / "other.parquet", [(other, 0)])) == list(range(10))
    if new != "FILE:":
        assert left(evolve(file, file_path=other), position_deletes(tmp_path / "own.parquet", [(other, 0)])) == list(
            range(1, 10)
        )


def test_d3_splits_apply_deletes_by_position_in_the_file(tmp_path: Path) -> None:
    file = numbered(tmp_path / "f.parquet")
    deletes = position_deletes(tmp_path / "d.parquet", [(file.file_path, 1), (file.file_path, 8)])
    starts = [pq.read_metadata(tmp_path / "f.parquet").row_group(g).column(0).data_page_offset for g in range(3)]
    half = starts[1] - 1
    first = left(file, deletes, span=(0, half))
    assert first + left(file, deletes, span=(half, file.file_size_in_bytes - half)) == [0, 2, 3, 4, 5, 6, 7, 9]


@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "file:{}",
        "file://{}",
        "hdfs://nn:8020/warehouse/f.parquet",
        "/warehouse/f.parquet",
        "hdfs://other/warehouse/f.parquet",
    ],
)
def test_d3_paths_are_compared_after_mapping_and_without_scheme(tmp_path: Path, form: str) -> None:
    """The same file is the same however its path is written."""
    file = numbered(tmp_path / "f.parquet", location="/warehouse/f.parquet")
    mapping = {"hdfs://nn:8020/warehouse": str(tmp_path), "/warehouse": f"file://{tmp_path}"}
    storage = Storage(LocationMapping.of(mapping))
    deletes = position_deletes(tmp_path / "d.parquet", [(form.format(tmp_path / "f.parquet"), 3)])
    assert left(file, deletes, storage=storage) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_d3_columns_by_name_where_ids_are_missing(tmp_path: Path) -> None:
    file = numbered(tmp_path / "f.parquet")
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"pos": pa.array([2, None, 4]), "file_path": [file.file_path, file.file_path, None]}), path)
    assert left(file, content_file(path, DataFileContent.POSITION_DELETES)) == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    pq.write_table(pa.table({"pos": [2]}), path)
    with pytest.raises(CorruptFileError, match=r"d\.parquet: .*'file_path'"):
        left(file, content_file(path, DataFileContent.POSITION_DELETES))


def test_d5_deletion_vector_inside_a_file(tmp_path: Path) -> None:
    file = numbered(tmp_path / "f.parquet")
    vector = deletion_vector(tmp_path / "v.puffin", [0, 3, 9, 2**40])
    assert left(file, vector, batch_rows=2) == [1, 2, 4, 5, 6, 7, 8]


def test_d5_a_bare_vector_without_puffin_frame(tmp_path: Path) -> None:
    file = numbered(tmp_path / "f.parquet")
    vector = deletion_vector(tmp_path / "v.puffin", [4], before=b"")
    (tmp_path / "v.puffin").write_bytes((tmp_path / "v.puffin").read_bytes()[: vector.content_size_in_bytes])
    bare = evolve(vector, content_offset=None, content_size_in_bytes=None)
    assert left(file, bare) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_d5_broken_vectors_are_named(tmp_path: Path) -> None:
    file = numbered(tmp_path / "f.parquet")
    path = tmp_path / "v.puffin"
    vector = deletion_vector(path, [0, 3, 9])
    whole = path.read_bytes()
    for at in range(4, 4 + (vector.content_size_in_bytes or 0)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with pytest.raises(CorruptFileError, match=r"v\.puffin"):
            left(file, vector)
    path.write_bytes(whole[:20])
    with pytest.raises(CorruptFileError, match=r"v\.puffin"):
        left(file, vector)
    path.unlink()
    with pytest.raises(MissingFileError, match=r"v\.puffin"):
        left(file, vector)


def test_d5_a_vector_has_as_many_positions_as_its_entry_says(tmp_path: Path) -> None:
    """Java refuses another number too: one of both is wrong, and counts from metadata would be."""
    file = numbered(tmp_path / "f.parquet")
    vector = deletion_vector(tmp_path / "v.puffin", [0, 3, 9])
    with pytest.raises(CorruptFileError, match=r"v\.puffin.* should hold 4 positions, found 3"):
        left(file, evolve(vector, record_count=4))


def test_d2_a_file_has_one_vector(tmp_path: Path) -> None:
    """Which of two counts can't be told, so neither is applied by guessing."""
    file = numbered(tmp_path / "f.parquet")
    two = [deletion_vector(tmp_path / f"{n}.puffin", [n]) for n in range(2)]
    with pytest.raises(CorruptFileError, match=r"f\.parquet has 2 deletion vectors"):
        left(file, *two)


def keys(schema: Schema, **columns: list[Any]) -> pa.Table:
    fields = [f for f in schema_to_arrow(schema) if f.name in columns]
    return pa.table([pa.array(columns[f.name], f.type) for f in fields], schema=pa.schema(fields))


def test_d4_null_equals_null(tmp_path: Path) -> None:
    file = numbered(tmp_path / "f.parquet")
    deletes = equality_deletes(tmp_path / "e.parquet", keys(SCHEMA, name=["n1", None, "zz"]), [2])
    assert left(file, deletes) == [2, 4, 5, 7, 8]


def test_d4_all_columns_of_a_key_must_match(tmp_path: Path) -> None:
    """Delete files with other key columns work each for themselves; those with the same ones together."""
    file = numbered(tmp_path / "f.parquet")
    both = equality_deletes(tmp_path / "e1.parquet", keys(SCHEMA, id=[0, 1, 2], name=[None, "n2", "n2"]), [1, 2])
    ids = equality_deletes(tmp_path / "e2.parquet", keys(SCHEMA, id=[7]), [1])
    more = equality_deletes(tmp_path / "e3.parquet", keys(SCHEMA, id=[None, 8]), [1])
    assert left(file, both) == [1, 3, 4, 5, 6, 7, 8, 9]
    assert left(file, both, ids, more, batch_rows=2) == [1, 3, 4, 5, 6, 9]
    none = equality_deletes(tmp_path / "e4.parquet", keys(SCHEMA, id=[]), [1])
    assert left(file, none) == list(range(10))


def test_d4_key_columns_need_not_be_projected(tmp_path: Path) -> None:
    file = numbered(tmp_path / "f.parquet")
    deletes = equality_deletes(tmp_path / "e.parquet", keys(SCHEMA, id=[1, 4]), [1])
    names = Schema(SCHEMA.fields[1:])
    assert [r["name"] for r in rows(file, SCHEMA, deletes=[deletes], projection=names)] == [
        None, "n2", None, "n5", None, "n7", "n8", None,
    ]  # fmt: skip
    assert len(rows(file, SCHEMA, deletes=[deletes], projection=Schema(()))) == 8


def test_d4_dropped_columns_still_apply(tmp_path: Path) -> None:
    file = numbered(tmp_path / "f.parquet")
    deletes = equality_deletes(tmp_path / "e.parquet", keys(SCHEMA, name=["n5"]), [2])
    now = Schema(SCHEMA.fields[:1], 1)
    assert [r["id"] for r in rows(file, now, deletes=[deletes])] == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_d4_columns_added_later_are_read_by_the_projection_rules(tmp_path: Path) -> None:
    """A key column that the data file lacks is its default there, or the partition value, and may match."""
    file = numbered(tmp_path / "f.parquet", partition=(5,))
    now = Schema((*SCHEMA.fields, NestedField(3, "c", LongType(), initial_default=5)), 1)
    hit = equality_deletes(tmp_path / "e1.parquet", keys(now, id=[1, 2], c=[5, 6]), [1, 3])
    spec = PartitionSpec((PartitionField((9,), 1000, IdentityTransform(), "p"),))
    assert [r["id"] for r in rows(file, now, deletes=[hit], spec=spec)] == [0, *range(2, 10)]
    by_partition = Schema((*SCHEMA.fields, NestedField(9, "p", LongType())), 1)
    gone = equality_deletes(tmp_path / "e2.parquet", keys(by_partition, p=[5]), [9])
    assert rows(file, by_partition, deletes=[gone], spec=spec) == []


def test_d4_promoted_keys(tmp_path: Path) -> None:
    """Data and deletes written before and after int became long still meet."""
    old = Schema((NestedField(1, "id", IntegerType()),))
    file = data_file(tmp_path / "f.parquet", with_schema([{"id": 1}, {"id": 2}], old))
    deletes = equality_deletes(tmp_path / "e.parquet", keys(SCHEMA, id=[2, 2**40]), [1])
    before = equality_deletes(tmp_path / "e2.parquet", keys(old, id=[1]), [1])
    assert left(file, deletes) == [1]
    assert left(file, deletes, before) == []


def test_d4_keys_inside_structs_and_of_type_uuid(tmp_path: Path) -> None:
    u, v = uuid.uuid4(), uuid.uuid4()
    inner = StructType((NestedField(3, "x", LongType()), NestedField(4, "y", LongType())))
    schema = Schema((NestedField(1, "u", UUIDType()), NestedField(2, "s", inner)))
    data = pa.table(
        [
            pa.array([u.bytes, v.bytes, u.bytes], pa.binary(16)).cast(pa.uuid()),
            pa.array([{"x": 1, "y": 1}, {"x": 2, "y": 2}, None], pa.struct([("x", pa.int64()), ("y", pa.int64())])),
        ],
        names=["u", "s"],
    )
    file = data_file(tmp_path / "f.parquet", conform(data, schema))
    cut = Schema((NestedField(2, "s", StructType(inner.fields[:1])),))
    by_x = equality_deletes(tmp_path / "e1.parquet", with_schema([{"s": {"x": 2}}, {"s": None}], cut), [3])
    assert [r["u"] for r in rows(file, schema, deletes=[by_x])] == [u]
    of_u = conform(pa.table({"u": [str(u)]}), Schema(schema.fields[:1]))
    by_u = equality_deletes(tmp_path / "e2.parquet", of_u, [1])
    assert [r["s"] for r in rows(file, schema, deletes=[by_u])] == [{"x": 2, "y": 2}]
    dropped = Schema(schema.fields[:1], 1)
    assert [r["u"] for r in rows(file, dropped, deletes=[by_x])] == [u]


def test_d4_broken_equality_deletes_are_named(tmp_path: Path) -> None:
    file = numbered(tmp_path / "f.parquet")
    deletes = equality_deletes(tmp_path / "e.parquet", keys(SCHEMA, id=[1]), [1])
    for wrong, message in (
        ((2,), "lacks its key column 'name'"),
        ((77,), "equality id 77"),
        ((), "must have equality ids"),
    ):
        with pytest.raises(CorruptFileError, match=rf"e\.parquet: .*{message}"):
            left(file, evolve(deletes, equality_ids=wrong))
    (tmp_path / "e.parquet").unlink()
    with pytest.raises(MissingFileError, match=r"e\.parquet"):
        left(file, deletes)


def test_all_kinds_together(tmp_path: Path) -> None:
    file = numbered(tmp_path / "f.parquet", 20)
    deletes = [
        position_deletes(tmp_path / "p.parquet", [(file.file_path, 19)]),
        deletion_vector(tmp_path / "v.puffin", [0, 1]),
        equality_deletes(tmp_path / "e.parquet", keys(SCHEMA, id=[5]), [1]),
        equality_deletes(tmp_path / "n.parquet", keys(SCHEMA, name=["n7"]), [2]),
    ]
    assert left(file, *deletes, batch_rows=6) == [i for i in range(20) if i not in (0, 1, 5, 7, 19)]


def test_delete_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that share a cache share the delete files, from several threads as well."""
    files = [numbered(tmp_path / f"f{i}.parquet") for i in range(6)]
    positions = position_deletes(tmp_path / "p.parquet", [(f.file_path, i) for i, f in enumerate(files)])
    ids = equality_deletes(tmp_path / "e.parquet", keys(SCHEMA, id=[9]), [1])
    opened: list[str] = []

    def counting(storage: Storage, location: str, file_format: Any) -> Any:
        opened.append(location)
        return open_source(storage, location, file_format)

    monkeypatch.setattr(deletes_module, "open_source", counting)
    cache = DeleteCache()
    found: dict[int, list[int]] = {}

    def read(i: int) -> None:
        found[i] = left(files[i], positions, ids, cache=cache)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {i: [k for k in range(9) if k != i] for i in range(6)}
    assert sorted(opened) == sorted([positions.file_path, ids.file_path])


def test_sizes_that_manifests_get_wrong_lose_nothing(tmp_path: Path) -> None:
    """A file that is longer than its manifest says still gives all its rows, and all its deletes apply."""
    file = numbered(tmp_path / "f.parquet", 100)
    deletes = position_deletes(tmp_path / "d.parquet", [(file.file_path, 99)])
    small_file, small_deletes = evolve(file, file_size_in_bytes=10), evolve(deletes, file_size_in_bytes=1)
    assert left(small_file, small_deletes) == list(range(99))


def test_a_delete_file_without_an_ending_is_moved_into_its_folder(tmp_path: Path) -> None:
    """A dot in the folder's name is no ending: the file lay outside of where the table was copied to."""
    old, new = f"file://{tmp_path}/lake.v1", f"file://{tmp_path}/lake.v2"
    for name in ("lake.v1", "lake.v2"):
        (tmp_path / name).mkdir()
    file = position_deletes(tmp_path / "lake.v1" / "deletes", [(f"{old}/data", 1)])
    moved = relocated_delete(Storage(), Storage(), file, LocationMapping.of({old: new}))
    assert moved.file_path.startswith(f"{new}/deletes-") and moved.referenced_data_file == f"{new}/data"


def test_rows_are_counted_as_they_are_read(tmp_path: Path) -> None:
    """Positions that no row of the file has leave none out, negative ones neither."""
    file = numbered(tmp_path / "f.parquet", record_count=10)
    path = file.file_path
    deletes = (
        position_deletes(tmp_path / "d1.parquet", [(path, -2), (path, -1), (path, 0), (path, 5), (path, 10)]),
        position_deletes(tmp_path / "d2.parquet", [(path, 5), (path, 9), (path, 2**40), ("file:///elsewhere", 1)]),
    )
    task = FileScanTask(file, deletes, TRUE, 0, file.file_size_in_bytes, 7)
    assert DeleteCache().counted_rows(Storage(), [task]) == (len(left(file, *deletes)), []) == (7, [])
