"""ORC and Avro data and delete files. Spec: Manifests (M4, M5), D3, D4."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.arrow_values import from_array, to_array
from icecore.engine.data.file.schema_mark import schema_mark
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.file_options import data_file_options, delete_file_options
from icecore.engine.data.write.position_delete_writer import write_equality_deletes, write_position_deletes
from icecore.engine.errors import StorageError, ValidationError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec.content_file import FileFormat
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import NullOrder, SortDirection, SortField, SortOrder
from icecore.engine.spec.transform import BucketTransform, IdentityTransform
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    Type,
)
from icecore.engine.storage.file_io import Storage

from .reading import rows
from .writing import SCHEMA, local, numbered, write

FORMATS = pytest.mark.parametrize("file_format", ["orc", "avro"])
ALL_FORMATS = pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])


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


# Pairs of names that Avro's rules, or paths with dots, would make one.
PAIRS_OF_NAMES = [("a-b", "a_x2Db"), ("s.x", "s"), ("l._elem.x", "l")]


@ALL_FORMATS
@pytest.mark.parametrize("names", [pair[::step] for pair in PAIRS_OF_NAMES for step in (1, -1)])
@pytest.mark.parametrize("micros", [5, 10**17])
def test_names_that_a_format_takes_for_one(
    tmp_path: Path, file_format: str, names: tuple[str, str], micros: int
) -> None:
    """Each column keeps its own values, also where ORC's times are beyond what Arrow reads."""
    inner = (
        NestedField(11, "x", LongType()),
        NestedField(12, "a-b", LongType()),
        NestedField(13, "a_x2Db", LongType()),
    )
    kinds: dict[str, tuple[Type, Any]] = {
        "s": (StructType(inner), {"x": 1, "a-b": 2, "a_x2Db": 3}),
        "l": (ListType(14, StructType(inner)), [{"x": 1, "a-b": 2, "a_x2Db": 3}]),
    }
    chosen = {n: kinds.get(n, (LongType(), i)) for i, n in enumerate(names)}
    fields = [NestedField(i, n, t) for i, (n, (t, _)) in enumerate(chosen.items(), 1)]
    schema = Schema((*fields, NestedField(5, "ts", TimestampType())))
    row = {n: v for n, (_, v) in chosen.items()} | {"ts": micros}
    data = pa.Table.from_pylist([row], schema=schema_to_arrow(schema))
    (file,) = write(data, tmp_path, file_format, schema)
    for wanted in (schema, *(schema.select((f.name,)) for f in schema.fields if "." not in f.name)):
        task = FileScanTask(file, (), TRUE, 0, file.file_size_in_bytes, 0)
        [batch] = read_task(task, projection=wanted, table_schema=schema, specs={0: UNPARTITIONED}, storage=Storage())
        assert pa.Table.from_batches([batch]).equals(data.select(batch.schema.names))


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
