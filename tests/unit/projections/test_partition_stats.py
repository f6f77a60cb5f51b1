"""Partition statistics, computed in SQL and counted again in Python. Spec: Partition Statistics File (MD4, MD5)."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import random
import struct
import uuid
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from core_tables import local

import icecore
from icecore.engine.data.write.position_delete_writer import write_equality_deletes
from icecore.engine.errors import NoSuchSnapshotError, ValidationError
from icecore.engine.formats.entry_arrow import decode_partition
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import PartitionStatisticsFile
from icecore.engine.spec.transform import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
)
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    UUIDType,
)
from icecore.engine.storage.file_io import Storage
from icecore.projections.inspect.partition_statistics import (
    partition_stats_schema,
    read_partition_stats,
    unified_partition_type,
)

CORPUS = Path(os.environ.get("ICECORE_CORPUS", Path(__file__).parents[4] / "shared" / "corpus"))
SCHEMA = Schema((NestedField(1, "id", LongType()), NestedField(2, "name", StringType())))
MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}
COUNTS = (
    "data_record_count",
    "data_file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
    "dv_count",
)


def spec(*fields: tuple[int, Transform, str], spec_id: int = 0) -> PartitionSpec:
    return PartitionSpec(
        tuple(PartitionField((source,), 1000 + i, t, name) for i, (source, t, name) in enumerate(fields)), spec_id
    )


BY_NAME = spec((2, IdentityTransform(), "name"))


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[icecore.Catalog]:
    with icecore.open(warehouse, actor="tester") as opened:
        opened.create_namespace("ns")
        yield opened


def named(**ids_by_name: list[int]) -> pa.Table:
    pairs = [(i, None if name == "null" else name) for name, ids in ids_by_name.items() for i in ids]
    return pa.table({"id": [i for i, _ in pairs], "name": pa.array([n for _, n in pairs], pa.string())})


def computed(table: icecore.Table) -> list[dict[str, Any]]:
    """The rows of the file that is computed and committed now."""
    assert table.compute_partition_statistics() is not None
    found = table.partition_statistics()
    assert found is not None
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def recount(table: icecore.Table) -> dict[tuple[int, tuple[Any, ...]], dict[str, int]]:
    """The counts of live files by spec and partition tuple, in plain Python."""
    counts: dict[tuple[int, tuple[Any, ...]], dict[str, int]] = defaultdict(lambda: dict.fromkeys(COUNTS, 0))
    for entries in table.live_entries():
        for row in entries.to_pylist():
            partition = decode_partition(table.specs()[row["spec_id"]], table.metadata.all_fields, row["partition"])
            of = counts[row["spec_id"], tuple(comparable(v) for v in partition)]
            match row["content"], row["file_format"]:
                case 0, _:
                    of["data_record_count"] += row["record_count"]
                    of["data_file_count"] += 1
                    of["total_data_file_size_in_bytes"] += row["file_size_in_bytes"]
                case 1, file_format:
                    of["position_delete_record_count"] += row["record_count"]
                    of["dv_count" if file_format == "PUFFIN" else "position_delete_file_count"] += 1
                case _:
                    of["equality_delete_record_count"] += row["record_count"]
                    of["equality_delete_file_count"] += 1
    return dict(counts)


def comparable(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, float) else value


def internal(value: Any) -> Any:
    """A value as Arrow gives it in the form in which partition tuples hold it."""
    match value:
        case dt.datetime():
            return int((value - dt.datetime(1970, 1, 1, tzinfo=value.tzinfo)) / dt.timedelta(microseconds=1))
        case dt.date():
            return (value - dt.date(1970, 1, 1)).days
        case _:
            return comparable(value)


def check_counts(table: icecore.Table, rows: list[dict[str, Any]]) -> None:
    """The rows that have live files are those of the recount; others have nothing."""
    expected = recount(table)
    unified = unified_partition_type(table.metadata).fields
    for row in rows:
        of_spec = table.specs()[row["spec_id"]]
        values = {f.field_id: row["partition"][f.name] for f in unified}
        assert all(values[i] is None for i in values.keys() - {f.field_id for f in of_spec.fields})
        key = (row["spec_id"], tuple(internal(values[f.field_id]) for f in of_spec.fields))
        found = {name: row[name] or 0 for name in COUNTS}
        assert found == expected.pop(key, dict.fromkeys(COUNTS, 0)), key
    assert not expected


def test_md5_counts_by_partition_nulls_first(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_NAME)
    table.append(named(b=[1, 2], null=[3], a=[4]))
    first = table.current_snapshot()
    table.append(named(b=[5]))
    second = table.current_snapshot()
    assert first is not None
    assert second is not None
    rows = computed(table)
    check_counts(table, rows)
    assert [r["partition"]["name"] for r in rows] == [None, "a", "b"]
    assert [r["total_record_count"] for r in rows] == [1, 1, 3]
    assert [r["last_updated_snapshot_id"] for r in rows] == [first.snapshot_id, first.snapshot_id, second.snapshot_id]
    assert [r["last_updated_at"] for r in rows] == [first.timestamp_ms, first.timestamp_ms, second.timestamp_ms]


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_md5_the_file_has_the_ids_and_columns_of_its_version(catalog: icecore.Catalog, format_version: int) -> None:
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_NAME, format_version=format_version)
    table.append(named(a=[1]))
    file = table.compute_partition_statistics()
    assert file is not None
    path = local(file.statistics_path)
    assert path.stat().st_size == file.file_size_in_bytes
    assert path.parent == local(table.metadata_location).parent
    stored = pq.read_schema(path)
    ids = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in stored}
    assert ids == {
        "partition": 1,
        "spec_id": 2,
        "data_record_count": 3,
        "data_file_count": 4,
        "total_data_file_size_in_bytes": 5,
        "position_delete_record_count": 6,
        "position_delete_file_count": 7,
        "equality_delete_record_count": 8,
        "equality_delete_file_count": 9,
        "total_record_count": 10,
        "last_updated_at": 11,
        "last_updated_snapshot_id": 12,
    } | ({"dv_count": 13} if format_version == 3 else {})
    assert stored.field("partition").type.field(0).metadata[b"PARQUET:field_id"] == b"1000"
    optional = {ids[f.name] for f in stored if f.nullable}
    assert optional == ({10, 11, 12} if format_version == 3 else {6, 7, 8, 9, 10, 11, 12})
    wide = {3, 5, 6, 8, 10, 11, 12}
    assert all(f.type == (pa.int64() if ids[f.name] in wide else pa.int32()) for f in list(stored)[1:])
    written = json.loads(local(table.metadata_location).read_bytes())
    assert written["partition-statistics"] == [file.to_dict()]


def test_md5_position_deletes_leave_the_number_of_rows_unknown(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_NAME, properties=MERGE_ON_READ)
    table.append(named(a=[1, 2, 3], b=[4, 5, 6]))
    table.delete("id = 2")
    rows = computed(table)
    check_counts(table, rows)
    assert [(r["position_delete_record_count"], r["position_delete_file_count"]) for r in rows] == [(1, 1), (0, 0)]
    assert [r["total_record_count"] for r in rows] == [None, 3]
    assert [r["dv_count"] for r in rows] == [None, None]
    last = table.current_snapshot()
    assert last is not None
    assert [r["last_updated_snapshot_id"] == last.snapshot_id for r in rows] == [True, False]


def test_md5_deletion_vectors_are_counted_off(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_NAME, properties=MERGE_ON_READ, format_version=3)
    table.append(named(a=[1, 2, 3], b=[4, 5, 6]))
    table.append(named(a=[7, 8]))
    table.delete("id IN (2, 3, 8)")
    rows = computed(table)
    check_counts(table, rows)
    assert [(r["position_delete_record_count"], r["position_delete_file_count"]) for r in rows] == [(3, 0), (0, 0)]
    assert [r["dv_count"] for r in rows] == [2, 0]
    assert [r["total_record_count"] for r in rows] == [2, 3]
    assert table.scan("name = 'a'").to_arrow().num_rows == 2


def test_md5_position_deletes_from_before_an_upgrade_count_too(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_NAME, properties=MERGE_ON_READ)
    table.append(named(a=[1, 2, 3], b=[4, 5, 6]))
    table.delete("id IN (2, 5)")
    table.upgrade(3)
    table.append(named(a=[7, 8]))
    table.delete("id = 8")
    rows = computed(table)
    check_counts(table, rows)
    assert [(r["position_delete_record_count"], r["position_delete_file_count"], r["dv_count"]) for r in rows] == [
        (2, 1, 1),
        (1, 1, 0),
    ]
    assert [r["total_record_count"] for r in rows] == [None, None]


def test_md5_equality_deletes_of_a_partition(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_NAME)
    table.append(named(a=[1, 2, 3], b=[4, 5, 6]))
    table.delete_keys(pa.table({"id": [1], "name": ["a"]}), ("id", "name"))
    rows = computed(table)
    check_counts(table, rows)
    assert [r["partition"]["name"] for r in rows] == ["a", "b"]
    deletes = [(r["equality_delete_record_count"], r["equality_delete_file_count"]) for r in rows]
    assert deletes == [(1, 1), (0, 0)]
    assert [r["total_record_count"] for r in rows] == [None, 3]


def test_md5_a_global_equality_delete_may_delete_rows_of_any_partition(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA)
    with table.update_spec() as update:
        update.add_field("name", "identity", "name")
    table.append(named(a=[1, 2, 3], b=[4, 5, 6]))
    assert [r["total_record_count"] for r in computed(table)] == [3, 3]
    delete = write_equality_deletes(
        Storage(),
        f"{table.location()}/data",
        pa.table({"id": [2]}),
        [1],
        schema=table.schema(),
        spec=table.specs()[0],
        partition=(),
        properties={},
        file_prefix="global",
        format_version=2,
    )
    with table.transaction() as transaction:
        transaction.row_delta((), [delete])
    assert table.scan().count() == 5
    rows = computed(table)
    check_counts(table, rows)
    assert [(r["spec_id"], r["partition"]["name"]) for r in rows] == [(0, None), (1, "a"), (1, "b")]
    assert [r["equality_delete_record_count"] for r in rows] == [1, 0, 0]
    assert [r["total_record_count"] for r in rows] == [None, None, None]


def test_md5_a_partition_that_was_emptied_keeps_the_time_of_it(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_NAME)
    table.append(named(a=[1], b=[2]))
    table.delete("name = 'a'")
    emptied = table.current_snapshot()
    assert emptied is not None
    rows = computed(table)
    check_counts(table, rows)
    assert [(r["partition"]["name"], r["data_file_count"], r["total_record_count"]) for r in rows] == [
        ("a", 0, 0),
        ("b", 1, 1),
    ]
    assert rows[0]["last_updated_snapshot_id"] == emptied.snapshot_id


def test_md5_the_unified_type_has_every_field_ever(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_NAME)
    table.append(named(a=[1, 2], b=[3]))
    with table.update_spec() as update:
        update.add_field("id", "bucket[4]", "shard")
    table.append(named(a=[1, 2, 9, 10], null=[3]))
    with table.update_spec() as update:
        update.remove_field("name")
    table.append(named(a=[1]))
    rows = computed(table)
    check_counts(table, rows)
    assert {r["spec_id"] for r in rows} == {0, 1, 2}
    unified = unified_partition_type(table.metadata)
    assert [(f.field_id, f.name) for f in unified.fields] == [(1000, "name"), (1001, "shard")]
    keys = [(r["partition"]["name"], r["partition"]["shard"]) for r in rows]
    assert keys == sorted(keys, key=lambda k: [(v is not None, v) for v in k])
    assert sum(r["total_record_count"] for r in rows) == table.scan().count()


def test_md5_a_field_that_v1_made_void_keeps_its_type() -> None:
    schema = Schema((NestedField(1, "d", DateType()), NestedField(2, "x", LongType())))
    fields = (
        PartitionField((1,), 1000, VoidTransform(), "d"),
        PartitionField((2,), 1001, IdentityTransform(), "x"),
    )
    metadata = icecore.TableMetadata(
        1,
        str(uuid.uuid4()),
        "/t",
        0,
        2,
        (schema,),
        0,
        (spec((1, DayTransform(), "d_day")), PartitionSpec(fields, 1)),
        1,
    )
    found = unified_partition_type(metadata).fields
    assert [(f.field_id, f.name, f.field_type) for f in found] == [
        (1000, "d", DateType()),
        (1001, "x", LongType()),
    ]


def test_md5_fields_of_one_name_and_unknown_transforms() -> None:
    schema = Schema((NestedField(1, "d", LongType()),))

    def metadata(*specs: PartitionSpec) -> icecore.TableMetadata:
        return icecore.TableMetadata(2, str(uuid.uuid4()), "/t", 0, 1, (schema,), 0, specs, specs[-1].spec_id)

    one = PartitionSpec((PartitionField((1,), 1000, IdentityTransform(), "p"),), 0)
    two = PartitionSpec((PartitionField((1,), 1001, BucketTransform(4), "p"),), 1)
    names = [f.name for f in unified_partition_type(metadata(one, two)).fields]
    assert names == ["p_1000", "p"]
    assert partition_stats_schema(metadata(one, two)).fields[0].required
    odd = PartitionSpec((PartitionField((1,), 1000, UnknownTransform("zorder"), "p"),), 0)
    with pytest.raises(ValidationError, match="zorder"):
        unified_partition_type(metadata(odd))


def test_md5_tables_and_snapshots_without_partitions(catalog: icecore.Catalog) -> None:
    plain = catalog.create_table("ns.plain", SCHEMA, partition_spec=UNPARTITIONED)
    plain.append(named(a=[1]))
    with pytest.raises(ValidationError, match="no partitions"):
        plain.compute_partition_statistics()
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_NAME)
    assert table.compute_partition_statistics() is None
    assert table.partition_statistics() is None
    table.append(named(a=[1]))
    with pytest.raises(NoSuchSnapshotError):
        table.compute_partition_statistics(snapshot_id=17)


def test_md4_at_most_one_file_for_a_snapshot(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=BY_NAME)
    table.append(named(a=[1]))
    first = table.metadata.current_snapshot_id
    assert first is not None
    table.append(named(b=[1]))
    older = table.compute_partition_statistics(snapshot_id=first)
    table.compute_partition_statistics()
    newer = table.compute_partition_statistics()
    assert list(table.metadata.partition_statistics) == [older, newer]
    found = table.partition_statistics(first)
    assert found is not None
    assert [r["partition"]["name"] for r in found.to_pylist()] == ["a"]
    table.update_statistics().remove_partition_statistics(first).remove_partition_statistics(99).commit()
    assert list(table.metadata.partition_statistics) == [newer]
    with pytest.raises(NoSuchSnapshotError):
        table.update_statistics().set_partition_statistics(PartitionStatisticsFile(5, "/x.parquet", 1)).commit()


def test_md5_partition_values_of_many_types(catalog: icecore.Catalog) -> None:
    """Random rows partitioned by everything that has a file, counted in SQL, in Python and by reading the rows."""
    schema = Schema(
        (
            NestedField(1, "day", DateType()),
            NestedField(2, "at", TimestamptzType()),
            NestedField(3, "amount", DecimalType(9, 2)),
            NestedField(4, "who", UUIDType()),
            NestedField(5, "score", DoubleType()),
            NestedField(6, "text", StringType()),
        )
    )
    fields = (
        (1, IdentityTransform(), "day"),
        (2, DayTransform(), "at_day"),
        (3, TruncateTransform(100), "amount_trunc"),
        (4, BucketTransform(3), "who_bucket"),
        (4, IdentityTransform(), "who"),
        (5, IdentityTransform(), "score"),
        (6, TruncateTransform(1), "text_trunc"),
    )
    table = catalog.create_table("ns.t", schema, partition_spec=spec(*fields))
    rng = random.Random(7)

    def pick(*values: Any) -> list[Any]:
        return [rng.choice([None, *values]) for _ in range(60)]

    for _ in range(2):
        table.append(
            pa.table(
                {
                    "day": pa.array(pick(dt.date(1969, 12, 31), dt.date(2024, 2, 29)), pa.date32()),
                    "at": pa.array(pick(dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC)), pa.timestamp("us", "UTC")),
                    "amount": pa.array(pick(Decimal("1.05"), Decimal("-0.01")), pa.decimal128(9, 2)),
                    "who": pa.array(pick(uuid.UUID(int=9).bytes, uuid.UUID(int=2**127).bytes), pa.uuid()),
                    "score": pa.array(pick(0.0, -0.0, math.nan, 1.5), pa.float64()),
                    "text": pa.array(pick("ü1", "ü2", "a"), pa.string()),
                }
            )
        )
    rows = computed(table)
    check_counts(table, rows)
    assert len(rows) > 60
    assert sum(r["total_record_count"] for r in rows) == 120 == table.scan().to_arrow().num_rows
    at = [r["partition"]["at_day"] for r in rows if r["partition"]["at_day"] is not None]
    assert set(at) == {dt.date(2020, 1, 1)}
    days = [r["partition"]["day"] for r in rows]
    assert days == sorted(days, key=lambda d: (d is not None, d))


@pytest.mark.skipif(not (CORPUS / "MANIFEST.json").exists(), reason="no corpus of real tables: set ICECORE_CORPUS")
def test_md5_a_file_without_ids_and_with_a_wrong_size_in_metadata() -> None:
    folder = CORPUS / "duckdb-iceberg" / "table_partition_statistics_bad_size" / "metadata"
    schema = Schema((NestedField(1, "id", LongType()), NestedField(2, "region", StringType())))
    by_region = spec((2, IdentityTransform(), "region"), spec_id=1)
    metadata = icecore.TableMetadata(2, str(uuid.uuid4()), "/t", 0, 2, (schema,), 0, (by_region,), 1)
    file = PartitionStatisticsFile(1002, str(folder / "partition-stats-bad-size.parquet"), -5)
    (row,) = read_partition_stats(file, metadata, Storage()).to_pylist()
    assert row["partition"] == {"region": "oops"}
    assert (row["spec_id"], row["data_record_count"], row["data_file_count"]) == (1, 1, 1)
    assert (row["total_data_file_size_in_bytes"], row["dv_count"], row["total_record_count"]) == (11, None, None)


@pytest.mark.skipif(not (CORPUS / "MANIFEST.json").exists(), reason="no corpus of real tables: set ICECORE_CORPUS")
@pytest.mark.parametrize(
    "name",
    [
        "iceberg-cxx/hour_timestamptz_partitioning",
        "iceberg-cxx/partition_evolution",
        "iceberg-cxx/bucket_partitioning",
        "iceberg-cxx/partitioning_with_null_value",
    ],
)
def test_md5_tables_of_other_writers(catalog: icecore.Catalog, name: str) -> None:
    from icecore.projections.inspect.partition_statistics import compute_partition_stats

    entry = next(f for f in json.loads((CORPUS / "MANIFEST.json").read_text()) if f["id"] == name)
    table = catalog.register_table(
        "ns.other",
        str(CORPUS / entry["metadata_location_relative"]),
        location_mapping={p: str(CORPUS / entry["path"]) for p in entry["path_prefix_in_metadata"] or []},
    )
    snapshot = table.current_snapshot()
    assert snapshot is not None
    rows = compute_partition_stats(table._planner, table.state, snapshot).to_pylist()
    check_counts(table, [r | {"dv_count": r.get("dv_count", 0)} for r in rows])
    totals = [r["total_record_count"] for r in rows]
    if None not in totals:
        assert sum(totals) == entry["expected"]["rows"]
