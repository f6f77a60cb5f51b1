"""Programs written for PyIceberg: each call that its guide shows, its own values. Each gives what it found."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotNaN,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetPropertiesUpdate, SetSnapshotRefUpdate
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

CITIES = pa.table(
    {
        "city": ["Amsterdam", "San Francisco", "Drachten", None],
        "lat": [52.371807, 37.773972, 53.11254, float("nan")],
        "inhabitants": pa.array([921402, 808988, None, 2103000], pa.int64()),
        "founded": [dt.datetime(1275, 10, 27), dt.datetime(1776, 6, 29), None, dt.datetime(2020, 1, 1, 12)],
    }
)
BIDS = Schema(
    NestedField(field_id=1, name="datetime", field_type=TimestampType(), required=True),
    NestedField(field_id=2, name="symbol", field_type=StringType(), required=True),
    # 4 is used twice, as in the guide: PyIceberg gives out new ids anyway.
    NestedField(field_id=4, name="ask", field_type=DoubleType(), required=False),
    NestedField(
        5, "details", StructType(NestedField(field_id=4, name="by", field_type=StringType(), required=False)), False
    ),
    NestedField(6, "tags", ListType(7, StringType(), False), False),
    NestedField(8, "more", MapType(9, StringType(), 10, LongType(), False), False),
)


def shape(table: Any) -> Any:
    """Schema, spec and order of a table as values that both sides can have."""
    fields = [(f.field_id, f.name, str(f.field_type).replace(" ", ""), f.required) for f in table.schema().fields]
    spec = [(f.source_id, f.name, str(f.transform)) for f in table.spec().fields]
    order = [(f.source_id, str(f.transform), f.direction.value, f.null_order.value) for f in table.sort_order().fields]
    return fields, spec, order


def rows(table: Any, **options: Any) -> list[str]:
    """The rows as texts, sorted, so that NaN equals itself."""
    return sorted(map(str, table.scan(**options).to_arrow().to_pylist()))


def namespaces(catalog: Any) -> Any:
    catalog.create_namespace_if_not_exists("docs")
    catalog.create_namespace("other", {"owner": "a", "gone": "b"})
    catalog.update_namespace_properties("other", removals={"gone"}, updates={"owner": "iceberg"})
    properties = catalog.load_namespace_properties("other")
    there = [catalog.namespace_exists(n) for n in ("docs", "other", "neither")]
    catalog.drop_namespace("other")
    return there, properties["owner"], "gone" in properties, catalog.list_namespaces()


def create(catalog: Any) -> Any:
    table = catalog.create_table(
        identifier="docs.bids",
        schema=BIDS,
        partition_spec=PartitionSpec(PartitionField(source_id=1, field_id=1000, transform="day", name="datetime_day")),
        sort_order=SortOrder(SortField(source_id=2, transform="identity", direction=SortDirection.DESC)),
    )
    again = catalog.create_table_if_not_exists("docs.bids", BIDS)
    new = catalog.create_table_if_not_exists("docs.asks", pa.schema([pa.field("x", pa.int64(), nullable=False)]))
    names = [[f.name for f in again.schema().fields], [f.name for f in new.schema().fields]]
    nested = [table.schema().find_field(n).field_type for n in ("details.by", "tags.element", "more.value")]
    fields, spec, order = shape(table)
    return [(n, r) for _, n, _, r in fields], spec, order, names, list(map(str, nested)), catalog.list_tables("docs")


def create_in_a_transaction(catalog: Any) -> Any:
    schema = pa.schema([pa.field("symbol", pa.string())])
    with catalog.create_table_transaction(identifier="docs.t", schema=schema) as changes:
        with changes.update_schema() as update:
            update.add_column(path="new_column", field_type=StringType())
        with changes.update_spec() as update:
            update.add_identity("symbol")
        changes.set_properties(test_a="test_aa", test_b="test_b")
    table = catalog.load_table(("docs", "t"))
    return shape(table), {k: v for k, v in table.properties.items() if k.startswith("test")}


def names_of_tables(catalog: Any) -> Any:
    catalog.create_table("docs.a", CITIES.schema).append(CITIES)
    location = catalog.load_table("docs.a").metadata_location
    catalog.rename_table(from_identifier="docs.a", to_identifier="docs.b")
    there = [catalog.table_exists(n) for n in ("docs.a", "docs.b")]
    catalog.register_table(identifier="docs.a", metadata_location=location)
    catalog.drop_table("docs.b")
    return there, catalog.list_tables("docs"), rows(catalog.load_table("docs.a"))


def write(catalog: Any) -> Any:
    table = catalog.create_table("docs.cities", schema=CITIES.schema)
    table.append(df=CITIES, snapshot_properties={"abc": "def"})
    seen = [rows(table), table.metadata.snapshots[-1].summary["abc"], len(table.history())]
    table.append(CITIES.slice(0, 1))
    table.delete(delete_filter="city == 'Drachten'")
    seen.append(rows(table))
    table.overwrite(df=CITIES.slice(1, 1), overwrite_filter=EqualTo("city", "Amsterdam"))
    seen.append(rows(table))
    table.delete(EqualTo("CITY", "San Francisco"), case_sensitive=False)
    seen.append(rows(table))
    table.overwrite(CITIES.slice(0, 2))
    return [*seen, rows(table)]


def stream(catalog: Any) -> Any:
    table = catalog.create_table("docs.cities", schema=CITIES.schema)
    table.append(pa.RecordBatchReader.from_batches(CITIES.schema, iter(CITIES.to_batches())))
    return sum(len(batch) for batch in table.scan().to_arrow_batch_reader()), rows(table)


def partitions_replaced(catalog: Any) -> Any:
    schema = Schema(NestedField(1, "city", StringType()), NestedField(2, "lat", DoubleType()))
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1001, transform=IdentityTransform(), name="by_city"))
    table = catalog.create_table("docs.cities", schema=schema, partition_spec=spec)
    table.append(CITIES.select(["city", "lat"]))
    table.dynamic_partition_overwrite(df=pa.table({"city": ["Amsterdam"], "lat": [1.0]}))
    return rows(table), shape(table)


def upsert(catalog: Any) -> Any:
    schema = Schema(
        NestedField(1, "city", StringType(), required=True),
        NestedField(2, "inhabitants", IntegerType(), required=True),
        identifier_field_ids=[1],
    )
    table = catalog.create_table("docs.cities", schema=schema)
    arrow = pa.schema([pa.field("city", pa.string(), nullable=False), pa.field("inhabitants", pa.int32(), False)])
    table.append(pa.table({"city": ["Drachten", "Paris"], "inhabitants": [45019, 2103000]}, schema=arrow))
    new = pa.table({"city": ["Drachten", "Berlin", "Paris"], "inhabitants": [45505, 3432000, 2103000]}, schema=arrow)
    told = table.upsert(df=new)
    return told.rows_updated, told.rows_inserted, rows(table)


def filters(catalog: Any) -> Any:
    table = catalog.create_table("docs.cities", schema=CITIES.schema)
    table.append(CITIES)
    conditions = [
        AlwaysTrue(),
        AlwaysFalse(),
        EqualTo("city", "Drachten"),
        NotEqualTo("city", "Drachten"),
        In("inhabitants", [921402, 808988]),
        IsNull("city"),
        NotNull("founded"),
        IsNaN("lat"),
        NotNaN("lat"),
        StartsWith("city", "San"),
        GreaterThan("inhabitants", 808988),
        GreaterThanOrEqual("founded", dt.datetime(1776, 6, 29)),
        LessThan("founded", "1800-01-01T00:00:00"),
        LessThanOrEqual("inhabitants", 921402),
        And(NotNull("city"), Or(EqualTo("lat", 53.11254), LessThan("inhabitants", 900000))),
        Not(IsNull("city")),
        "inhabitants > 900000 and city is not null",
    ]
    return [rows(table, row_filter=c) for c in conditions]


def narrowed(catalog: Any) -> Any:
    table = catalog.create_table("docs.cities", schema=CITIES.schema)
    table.append(CITIES)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "b1").commit()
    table.append(CITIES)
    scan = table.scan().use_ref("b1").filter(NotNull("city")).filter("inhabitants > 1").select("city", "inhabitants")
    insensitive = table.scan(selected_fields=("CITY",), row_filter="Inhabitants > 900000", case_sensitive=False)
    return [
        sorted(scan.to_arrow().to_pylist(), key=str),
        scan.select("city").to_arrow().column_names,
        sorted(insensitive.to_arrow().to_pylist(), key=str),
        table.scan().with_case_sensitive(False).filter("CITY = 'Drachten'").to_arrow().num_rows,
        table.scan(limit=3).to_arrow().num_rows,
        table.scan(row_filter="city = 'Drachten'").update(limit=1).to_arrow().num_rows,
        len(list(table.scan().plan_files())),
        table.scan("city = 'Drachten'").to_duckdb(table_name="d").execute("SELECT count(*) FROM d").fetchall(),
        len(table.scan().to_pandas()),
    ]


def evolve(catalog: Any) -> Any:
    table = catalog.create_table("docs.bids", schema=Schema(NestedField(1, "symbol", StringType(), required=True)))
    with table.update_schema() as update:
        update.add_column("retries", IntegerType(), "Number of retries")
        update.add_column("details", StructType())
    with table.update_schema() as update:
        update.add_column(("details", "confirmed_by"), StringType(), "Name of the exchange")
        update.add_column("bid", IntegerType())
    with table.update_schema() as update:
        update.rename_column("retries", "num_retries")
        update.rename_column(("details", "confirmed_by"), "processed_by")
        update.move_first("bid")
        update.move_after("symbol", "details")
        update.update_column("bid", field_type=LongType())
        update.update_column("symbol", required=False)
        update.update_column("symbol", doc="Name of the share")
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column(("details", "processed_by"))
        update.add_column("ts", TimestampType(), required=False)
    with table.update_schema(case_sensitive=False) as update:
        update.rename_column("NUM_RETRIES", "tries")
    with table.update_schema() as update:
        update.union_by_name(Schema(NestedField(1, "symbol", StringType()), NestedField(10, "population", LongType())))
    with table.update_spec() as update:
        update.add_field("tries", BucketTransform(16), "bucketed")
        update.add_field("ts", DayTransform(), "day_ts")
        update.add_identity("symbol")
    with table.transaction() as changes, changes.update_spec() as update:
        update.remove_field("symbol")
        update.rename_field("bucketed", "sharded")
    with table.update_sort_order() as update:
        update.desc("ts", DayTransform(), NullOrder.NULLS_FIRST)
        update.asc("symbol", IdentityTransform(), NullOrder.NULLS_LAST)
    docs = [f.doc for f in table.schema().fields]
    return shape(table), docs, len(table.schemas()), len(table.specs()), table.last_partition_id()


def properties(catalog: Any) -> Any:
    table = catalog.create_table("docs.t", schema=CITIES.schema)
    with table.transaction() as changes:
        changes.set_properties(abc="def")
    seen = [table.properties.get("abc")]
    with table.transaction() as changes:
        changes.remove_properties("abc")
    seen.append(table.properties.get("abc"))
    table = table.transaction().set_properties({"abc": "ghi"}).commit_transaction()
    seen.append(table.properties.get("abc"))
    with table.transaction() as changes:
        changes.upgrade_table_version(2)
    table = table.transaction().remove_properties("abc").commit_transaction()
    return [*seen, table.properties.get("abc"), table.format_version, table.name_mapping()]


def refs(catalog: Any) -> Any:
    table = catalog.create_table("docs.t", schema=CITIES.schema)
    for _ in range(3):
        table.append(CITIES.slice(0, 1))
    first, second, last = (s.snapshot_id for s in table.snapshots())
    table.manage_snapshots().create_tag(first, "tag1").create_tag(snapshot_id=second, tag_name="tag2").commit()
    with table.manage_snapshots() as changes:
        changes.create_branch(snapshot_id=second, branch_name="dev", max_ref_age_ms=604800000, min_snapshots_to_keep=10)
        changes.create_tag(snapshot_id=last, tag_name="v1", max_ref_age_ms=604800000)
    table.manage_snapshots().remove_tag("tag2").commit()
    seen = [
        (n, str(r.snapshot_ref_type.value if hasattr(r, "snapshot_ref_type") else r.type.value), r.max_ref_age_ms)
        for n, r in sorted(table.refs().items())
    ]
    dev = table.snapshot_by_name("dev").snapshot_id == second, table.snapshot_by_name("none")
    at = table.snapshots()[1].timestamp_ms
    then = [table.snapshot_as_of_timestamp(at).snapshot_id == second, table.snapshot_as_of_timestamp(0)]
    then.append(table.snapshot_as_of_timestamp(at, inclusive=False).snapshot_id == first)
    table.manage_snapshots().remove_branch("dev").remove_tag("tag1").rollback_to_snapshot(first).commit()
    with table.maintenance.expire_snapshots() as expire:
        expire.by_id(second)
    return seen, dev, then, sorted(table.refs()), len(table.snapshots()), rows(table), table.last_sequence_number


def committed(catalog: Any) -> Any:
    table = catalog.create_table("docs.t", schema=CITIES.schema)
    table.append(CITIES)
    head = table.current_snapshot().snapshot_id
    updates = (
        SetPropertiesUpdate(updates={"abc": "def"}),
        SetSnapshotRefUpdate(ref_name="v1", type="tag", snapshot_id=head),
    )
    relied = AssertTableUUID(uuid=table.metadata.table_uuid), AssertRefSnapshotId(ref="main", snapshot_id=head)
    told = catalog.commit_table(table, relied, updates)
    with pytest.raises(Exception, match=r"(?i)requirement failed.* main"):
        catalog.commit_table(table, (AssertRefSnapshotId(ref="main", snapshot_id=1),), updates)
    now = catalog.load_table("docs.t")
    seen = told.metadata.properties["abc"], told.metadata_location == now.metadata_location, sorted(now.refs())
    return *seen, table.properties.get("abc")


def files_added(catalog: Any) -> Any:
    table = catalog.create_table("docs.t", schema=CITIES.schema)
    path = f"{table.location().removeprefix('file://')}-existing.parquet"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(CITIES, path)
    table.add_files(file_paths=[f"file://{path}"], snapshot_properties={"abc": "def"}, check_duplicate_files=True)
    return rows(table), table.name_mapping() is not None, table.metadata.snapshots[-1].summary["abc"]


PROGRAMS = [
    namespaces,
    create,
    create_in_a_transaction,
    names_of_tables,
    write,
    stream,
    partitions_replaced,
    upsert,
    filters,
    narrowed,
    evolve,
    properties,
    refs,
    committed,
    files_added,
]
