"""Partition statistics, computed in SQL and counted again in Python. Spec: Partition Statistics File (MD4, MD5)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from core_tables import local
from partition_counts import check_counts, computed, spec

import icecore
from icecore.engine.data.write.position_delete_writer import write_equality_deletes
from icecore.engine.errors import NoSuchSnapshotError, ValidationError
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import PartitionStatisticsFile
from icecore.engine.spec.transform import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    UnknownTransform,
    VoidTransform,
)
from icecore.engine.spec.types import (
    DateType,
    DecimalType,
    LongType,
    NestedField,
    StringType,
)
from icecore.engine.storage.file_io import Storage
from icecore.projections.inspect.partition_statistics import (
    partition_stats_schema,
    unified_partition_type,
)

SCHEMA = Schema((NestedField(1, "id", LongType()), NestedField(2, "name", StringType())))
MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}


BY_NAME = spec((2, IdentityTransform(), "name"))


@pytest.fixture
def catalog(warehouse: Path) -> Iterator[icecore.Catalog]:
    with icecore.open(warehouse, actor="tester") as opened:
        opened.create_namespace("ns")
        yield opened


def named(**ids_by_name: list[int]) -> pa.Table:
    pairs = [(i, None if name == "null" else name) for name, ids in ids_by_name.items() for i in ids]
    return pa.table({"id": [i for i, _ in pairs], "name": pa.array([n for _, n in pairs], pa.string())})


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


def test_sp5_partitions_of_the_past_have_the_type_of_then(catalog: icecore.Catalog) -> None:
    """Entries are kept as the table's latest schema types them, which may be wider than the one that is asked."""
    schema = Schema((NestedField(1, "n", DecimalType(9, 2)),))
    table = catalog.create_table("ns.t", schema, partition_spec=spec((1, IdentityTransform(), "n")))
    table.append([{"n": Decimal("1.50")}, {"n": Decimal("-9999999.99")}])
    then = catalog.position
    table.update_schema().update_column("n", DecimalType(12, 2)).commit()
    table.append([{"n": Decimal("1000000000.50")}])
    assert table.partitions().num_rows == 3
    found = catalog.at(then).load_table("ns.t").partitions()
    assert found.schema.field("partition").type.field("n").type == pa.decimal128(9, 2)
    assert {r["n"] for r in found["partition"].to_pylist()} == {Decimal("1.50"), Decimal("-9999999.99")}
    assert catalog.at(then).sql("FROM partitions").num_rows == 2


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
