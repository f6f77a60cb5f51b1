"""Table statistics: theta sketches of distinct values in Puffin files. Spec: Table Statistics (MD4), Puffin (PF1)."""

from __future__ import annotations

import datetime as dt
import json
import os
import struct
import sys
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from core_tables import local, make_table, rows

import icecore
from icecore.engine.data.arrow.arrow_values import to_array
from icecore.engine.errors import (
    CorruptFileError,
    MissingDependencyError,
    MissingFileError,
    NoSuchSnapshotError,
    ValidationError,
)
from icecore.engine.formats.puffin import Blob, decode_blob, decode_footer, write_puffin
from icecore.engine.spec import single_value
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import BlobMetadata, StatisticsFile
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
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from icecore.engine.statistics.theta_sketch import ThetaSketch, estimate_of, hashes_of, single_values

datasketches = pytest.importorskip("datasketches", reason="datasketches has no wheel for this Python")

CORPUS = Path(os.environ.get("ICECORE_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
THETA = "apache-datasketches-theta-v1"


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[icecore.Catalog]:
    with icecore.open(warehouse, actor="tester") as opened:
        opened.create_namespace("ns")
        yield opened


def sketch_of(iceberg_type: PrimitiveType, *arrays: pa.Array) -> ThetaSketch:
    sketch = ThetaSketch(iceberg_type)
    for array in arrays:
        sketch.add(array)
    return sketch


# Sketches

VALUES: tuple[tuple[PrimitiveType, list[Any]], ...] = (
    (BooleanType(), [True, False]),
    (IntegerType(), [0, -1, 2**31 - 1]),
    (LongType(), [0, -1, 2**63 - 1]),
    (FloatType(), [0.5, -2.25, float("inf")]),
    (DoubleType(), [0.1, -2.25, float("-inf")]),
    (DecimalType(9, 2), [Decimal("0.00"), Decimal("-1.28"), Decimal("1234567.89")]),
    (DecimalType(38, 3), [Decimal("1.000"), Decimal("-99999999999999999999999999999999999.999")]),
    (DateType(), [0, 19_000, -5]),
    (TimeType(), [0, 86_399_999_999]),
    (TimestampType(), [0, 1_700_000_000_000_000]),
    (TimestamptzType(), [-1, 1_700_000_000_000_000]),
    (TimestampNanoType(), [-1, 1_700_000_000_000_000_001]),
    (StringType(), ["a", "ü", "long text" * 5]),
    (UUIDType(), [uuid.UUID(int=0), uuid.UUID(int=2**127 + 5)]),
    (FixedType(3), [b"abc", b"\x00\x00\x00"]),
    (BinaryType(), [b"a", b"\xff\x00"]),
)


@pytest.mark.parametrize(("iceberg_type", "values"), VALUES, ids=lambda v: str(v)[:30])
def test_pf1_values_are_hashed_from_their_single_value_form(iceberg_type: PrimitiveType, values: list[Any]) -> None:
    array = to_array(iceberg_type, [*values, None, values[0]], with_ids=False)
    assert sorted(single_values(iceberg_type, array)) == sorted(single_value.to_bytes(iceberg_type, v) for v in values)
    sketch = sketch_of(iceberg_type, array)
    assert sketch.estimate() == len(values)
    stored = datasketches.compact_theta_sketch.deserialize(sketch.serialize())
    assert sorted(stored) == hashes_of(single_value.to_bytes(iceberg_type, v) for v in values).tolist()


def test_pf1_hashes_are_those_of_the_library() -> None:
    """The library hashes strings and longs by itself, in the bytes of their single-value form."""
    texts, numbers = [f"value {i}" for i in range(300)], [*range(-50, 50), 2**62, -(2**63)]
    by_library = datasketches.update_theta_sketch()
    for text in texts:
        by_library.update(text)
    assert hashes_of(t.encode() for t in texts).tolist() == sorted(by_library)
    by_library = datasketches.update_theta_sketch()
    for number in numbers:
        by_library.update(number)
    assert hashes_of(struct.pack("<q", n) for n in numbers).tolist() == sorted(by_library)


def test_pf1_what_is_counted_as_one() -> None:
    nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
    assert sketch_of(DoubleType(), pa.array([float("nan"), nan, 1.0])).estimate() == 2
    assert sketch_of(StringType(), pa.array(["", None, "a"])).estimate() == 1
    assert sketch_of(LongType(), pa.array([], pa.int64()), pa.nulls(5, pa.int64())).estimate() == 0


def test_pf1_many_values_are_estimated_whatever_their_order() -> None:
    """With 4096 entries the relative error has a standard deviation of 1.6 %."""
    values = pa.array(range(100_000), pa.int64())
    sketch = sketch_of(LongType(), *(values.slice(i, 9_999) for i in range(0, 100_000, 9_999)))
    assert abs(sketch.estimate() - 100_000) < 5_000
    backwards = sketch_of(LongType(), pa.array(range(99_999, -1, -1), pa.int64()), values)
    assert backwards.serialize() == sketch.serialize()
    assert sketch_of(LongType(), values.slice(0, 4096)).estimate() == 4096
    assert estimate_of(sketch.serialize(), "sketch") == sketch.estimate()


def test_pf1_a_broken_sketch_is_refused() -> None:
    data = sketch_of(LongType(), pa.array([1, 2, 3])).serialize()
    for broken in (b"", data[:7], data[:-1], b"\xff" * len(data)):
        with pytest.raises(CorruptFileError, match=r"x\.stats"):
            estimate_of(broken, "x.stats")


# Statistics of tables


def test_md4_statistics_are_computed_committed_and_read_back(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1, 2, 3))
    table.append(pa.table({"id": [3, 4], "name": [None, "n1"]}))
    file = table.compute_statistics(message="count them")
    assert file is not None
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert table.metadata.statistics == (file,)
    assert table.statistics() == {"id": 4, "name": 3}
    path = local(file.statistics_path)
    assert path.parent == local(table.metadata_location).parent
    assert path.name.startswith(f"{snapshot.snapshot_id}-")
    assert path.suffix == ".stats"
    data = path.read_bytes()
    footer = decode_footer(data, path.name)
    assert (file.file_size_in_bytes, file.file_footer_size_in_bytes) == (len(data), footer.footer_size_in_bytes)
    for stored, recorded in zip(footer.blobs, file.blob_metadata, strict=True):
        assert (stored.type, stored.fields) == (recorded.type, recorded.fields)
        assert (stored.snapshot_id, stored.sequence_number) == (snapshot.snapshot_id, snapshot.sequence_number)
        assert (stored.compression_codec, stored.properties) == ("zstd", recorded.properties)
        assert str(estimate_of(decode_blob(data, stored, "x"), "x")) == stored.properties["ndv"]
    written = json.loads(local(table.metadata_location).read_bytes())
    assert written["statistics"] == [file.to_dict()]


def test_md4_statistics_are_of_a_snapshot(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    assert table.compute_statistics() is None
    assert table.statistics() == {}
    table.append(rows(1, 2, 3))
    first = table.metadata.current_snapshot_id
    table.append(rows(4))
    table.compute_statistics(snapshot_id=first)
    assert table.statistics() == {}
    assert table.statistics(first) == {"id": 3, "name": 3}
    with table.update_schema() as update:
        update.rename_column("name", "title")
    table.delete("id < 4")
    table.compute_statistics(["title"])
    assert table.statistics() == {"title": 1}
    assert table.statistics(first) == {"id": 3, "name": 3}
    assert len(table.metadata.statistics) == 2
    for call in (table.statistics, lambda i: table.compute_statistics(snapshot_id=i)):
        with pytest.raises(NoSuchSnapshotError):
            call(5)


def test_md4_a_new_file_takes_the_place_of_the_old_one(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    table = make_table(catalog)
    table.append(rows(1, 2))
    table.compute_statistics()
    second = table.compute_statistics(["id", "id"])
    assert table.metadata.statistics == (second,)
    assert table.statistics() == {"id": 2}
    assert open_again().load_table("ns.t").statistics() == {"id": 2}


def test_md4_nested_columns_and_columns_without_statistics(catalog: icecore.Catalog) -> None:
    inner = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    schema = pa.schema([("id", pa.int64()), ("inner", inner)])
    table = catalog.create_table("ns.nested", schema)
    table.append(pa.table({"id": [1, 2, 3], "inner": [{"a": 5, "b": ["x"]}, None, {"a": 5, "b": []}]}, schema=schema))
    table.compute_statistics()
    assert table.statistics() == {"id": 3}
    table.compute_statistics(["inner.a", "id"])
    assert table.statistics() == {"inner.a": 1, "id": 3}
    before = table.metadata
    for column, message in (("inner", "struct"), ("inner.b.element", "element"), ("nope", "nope")):
        with pytest.raises(ValidationError, match=message):
            table.compute_statistics([column])
    assert table.metadata == before


def test_md4_deleted_rows_are_not_counted(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties={"write.delete.mode": "merge-on-read"}, format_version=3)
    table.append(rows(*range(50)))
    table.delete("id >= 20")
    table.compute_statistics()
    assert table.statistics() == {"id": 20, "name": 20}


def test_md4_statistics_are_set_and_removed(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    snapshot_id = table.metadata.current_snapshot_id
    assert snapshot_id is not None
    blob = BlobMetadata(THETA, snapshot_id, 1, (1,), {"ndv": "77"})
    foreign = StatisticsFile(snapshot_id, "s3://bucket/x.stats", 10, 5, (blob,), key_metadata="c2VjcmV0")
    with table.update_statistics() as update:
        update.set_statistics(foreign)
    assert table.statistics() == {"id": 77}
    assert "c2VjcmV0" not in repr(table.metadata.statistics)
    assert json.loads(local(table.metadata_location).read_bytes())["statistics"][0]["key-metadata"] == "c2VjcmV0"
    version = table.state.stream_version
    table.update_statistics().set_statistics(foreign).remove_statistics(12345).commit()
    assert table.state.stream_version == version, "what changes nothing makes no commit"
    table.update_statistics().remove_statistics(snapshot_id).commit()
    assert table.metadata.statistics == ()
    with pytest.raises(NoSuchSnapshotError, match="12345"):
        table.update_statistics().set_statistics(evolve(foreign, snapshot_id=12345)).commit()


def test_md4_numbers_that_metadata_leaves_out_are_read_from_the_file(catalog: icecore.Catalog, tmp_path: Path) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    snapshot_id = table.metadata.current_snapshot_id
    assert snapshot_id is not None
    sketch = sketch_of(LongType(), pa.array([1, 2, 3])).serialize()
    puffin = write_puffin(
        [
            Blob(THETA, (1,), snapshot_id, 1, sketch, "lz4"),
            Blob(THETA, (2,), snapshot_id, 1, sketch, None, {"ndv": "9"}),
            Blob("other", (1,), snapshot_id, 1, b"?"),
        ]
    )
    path = tmp_path / "trino.stats"
    path.write_bytes(puffin.data)
    blobs = tuple(BlobMetadata(b.type, snapshot_id, 1, b.fields) for b in puffin.footer.blobs)
    unknown = BlobMetadata(THETA, snapshot_id, 1, (999,), {"ndv": "4"})
    file = StatisticsFile(snapshot_id, str(path), len(puffin.data), 5, (*blobs, unknown))
    table.update_statistics().set_statistics(file).commit()
    assert table.statistics() == {"id": 3, "name": 9}
    path.write_bytes(puffin.data[:-1])
    with pytest.raises(CorruptFileError, match=r"trino\.stats"):
        table.statistics()
    path.unlink()
    with pytest.raises(MissingFileError, match=r"trino\.stats"):
        table.statistics()


def test_md4_a_lost_file_is_not_made_again_but_its_numbers_stay(catalog: icecore.Catalog) -> None:
    """Only rows can give a statistics file again; what table metadata says of it comes from the log."""
    table = make_table(catalog)
    table.append(rows(1))
    file = table.compute_statistics()
    assert file is not None
    local(file.statistics_path).unlink()
    again = catalog.load_table("ns.t")
    assert again.metadata.statistics == (file,)
    assert again.statistics() == {"id": 1, "name": 1}
    assert not local(file.statistics_path).exists()


def test_without_the_library_the_error_says_what_to_install(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(MissingDependencyError, match=r"icecore\[stats\]"):
        table.compute_statistics()
    assert table.metadata.statistics == ()


# Other writers


def tables_with_sketches() -> list[Any]:
    """Tables of the corpus whose statistics Trino or Impala wrote over all rows of their snapshot."""
    names = (
        "iceberg-cxx/all_trino_types",
        "iceberg-cxx/bucket_partitioning",
        "iceberg-cxx/no_partitioning",
        "iceberg-cxx/partition_evolution",
        "iceberg-cxx/partitioning_with_null_value",
        "iceberg-cxx/hour_timestamptz_partitioning",
        "impala/trino_nested_variant",
        "impala/iceberg_with_puffin_stats",
    )
    if not (CORPUS / "MANIFEST.json").exists():
        return []
    found = {f["id"]: f for f in json.loads((CORPUS / "MANIFEST.json").read_text())}
    return [pytest.param(found[name], id=name) for name in names]


@pytest.mark.parametrize("entry", tables_with_sketches())
def test_pf1_our_sketches_hold_the_hashes_of_those_that_other_engines_wrote(
    catalog: icecore.Catalog, entry: dict[str, Any]
) -> None:
    prefixes = entry["path_prefix_in_metadata"] or []
    table = catalog.register_table(
        "ns.other",
        str(CORPUS / entry["metadata_location_relative"]),
        location_mapping={p: str(CORPUS / entry["path"]) for p in prefixes},
    )
    compared = 0
    for file in table.metadata.statistics:
        data = local(table._repository.storage_of(table.state).resolve(file.statistics_path)).read_bytes()
        schema = table.scan(snapshot_id=file.snapshot_id).schema
        for blob in decode_footer(data, file.statistics_path).blobs:
            column = schema.find_field(blob.fields[0])
            values = table.scan(snapshot_id=file.snapshot_id, selected_fields=(column.name,)).to_arrow()
            assert isinstance(column.field_type, PrimitiveType)
            ours = sketch_of(column.field_type, *values.column(0).chunks)
            theirs = datasketches.compact_theta_sketch.deserialize(decode_blob(data, blob, "x"))
            mine = datasketches.compact_theta_sketch.deserialize(ours.serialize())
            assert sorted(mine) == sorted(theirs), column.name
            assert str(ours.estimate()) == blob.properties["ndv"]
            compared += 1
        assert table.statistics(file.snapshot_id)
    assert compared > 1


def test_dates_and_structs_of_a_schema_made_here(catalog: icecore.Catalog) -> None:
    schema = Schema(
        (
            NestedField(1, "day", DateType()),
            NestedField(2, "at", TimestamptzType()),
            NestedField(3, "code", FixedType(2)),
            NestedField(4, "who", UUIDType()),
            NestedField(5, "s", StructType((NestedField(6, "x", DecimalType(5, 1)),))),
        )
    )
    table = catalog.create_table("ns.typed", schema)
    day = dt.date(2024, 2, 29)
    at = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    table.append(
        pa.table(
            {
                "day": [day, None, day],
                "at": [at, at + dt.timedelta(microseconds=1), at],
                "code": pa.array([b"ab", b"cd", b"ef"], pa.binary(2)),
                "who": pa.array([uuid.UUID(int=1).bytes] * 3, pa.uuid()),
                "s": pa.array([{"x": Decimal("1.0")}, {"x": Decimal("2.5")}, None]),
            }
        )
    )
    table.compute_statistics(["day", "at", "code", "who", "s.x"])
    assert table.statistics() == {"day": 1, "at": 2, "code": 3, "who": 1, "s.x": 2}
