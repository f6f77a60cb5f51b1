"""`format("icecore")`: Spark reads by a Python data source what the engine reads."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections import Counter
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.data.spark_schema import spark_to_schema  # noqa: E402
from icecore.engine.spark.spark_types import schema_to_spark  # noqa: E402
from icecore.engine.spark_source.iceberg_source import IcecoreSource  # noqa: E402
from icecore.engine.spark_source.metadata_rows_of_table import INSPECTED  # noqa: E402

DAY = dt.date(2024, 1, 1)


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    """A table of three files, one a day."""
    columns = [("id", pa.int64()), ("day", pa.date32()), ("name", pa.string()), ("u", pa.uuid())]
    made = catalog.create_table("ns.t", pa.schema(columns), partition_spec=["day"], format_version=3)
    for day in range(3):
        made.append([row(day * 10 + i, day) for i in range(10)])
    return made


def row(i: int, day: int) -> dict[str, Any]:
    return {"id": i, "day": DAY + dt.timedelta(day), "name": f"n{i}", "u": uuid.UUID(int=i).bytes}


def read(spark: Any, warehouse: Path, name: str = "ns.t", **options: Any) -> Any:
    """A DataFrame; `_` stands for the dash in an option's name."""
    given = {key.replace("_", "-"): str(value) for key, value in options.items()}
    return spark.read.format("icecore").option("warehouse", str(warehouse)).options(**given).load(name)


def ids(frame: Any) -> list[int]:
    return sorted(r.id for r in frame.select("id").collect())


def test_rows_and_types_are_those_of_to_spark(spark: Any, catalog: icecore.Catalog, warehouse: Path) -> None:
    """Of every type that a table can have, nulls and nested ones among them."""
    made = catalog.create_table("ns.wide", wide_arrow(), format_version=3)
    texts = pa.schema([f.with_type(pa.string()) if f.name == "u" else f for f in wide_arrow()])
    texts = texts.set(10, pa.field("st", pa.struct([("a", pa.string()), ("l", pa.list_(pa.timestamp("ns")))])))
    made.append(pa.Table.from_pylist([wide_row(), {"id": 2}], texts))
    frame = read(spark, warehouse, "ns.wide")
    assert frame.schema == schema_to_spark(made.schema()) == made.scan().to_spark(spark).schema
    assert rows_of(frame) == rows_of(made.scan().to_spark(spark))
    assert len(rows_of(frame)) == 2


def test_variants(spark: Any, catalog: icecore.Catalog, warehouse: Path) -> None:
    made = catalog.create_table("ns.v", spark_to_schema(variants(spark).schema, format_version=3), format_version=3)
    made.append(variants(spark))
    frame = read(spark, warehouse, "ns.v")
    assert frame.schema == made.scan().to_spark(spark).schema
    assert sorted(r[0] for r in frame.selectExpr("to_json(v)").collect() if r[0]) == ["1", '{"a":[1,"x"]}']
    assert frame.where("v IS NULL").count() == 1


def variants(spark: Any) -> Any:
    return spark.sql(
        "SELECT parse_json(j) AS v, array(parse_json(j)) AS l FROM VALUES ('1'), (NULL), ('{\"a\":[1,\"x\"]}') AS t(j)"
    )


def rows_of(frame: Any) -> list[str]:
    return sorted(str(r.asDict(recursive=True)) for r in frame.collect())


def wide_arrow() -> pa.Schema:
    ns = pa.timestamp("ns")
    return pa.schema(
        [
            ("id", pa.int64()),
            ("dec", pa.decimal128(9, 2)),
            ("t", pa.time64("us")),
            ("ts", pa.timestamp("us")),
            ("tz", pa.timestamp("us", "UTC")),
            ("u", pa.uuid()),
            ("bin", pa.binary()),
            ("n", ns),
            ("nz", pa.timestamp("ns", "UTC")),
            ("fx", pa.binary(3)),
            ("st", pa.struct([("a", pa.uuid()), ("l", pa.list_(ns))])),
            ("m", pa.map_(pa.string(), pa.time64("us"))),
        ]
    )


def wide_row() -> dict[str, Any]:
    before = -1_500  # nanoseconds before 1970, whose microsecond is the one before
    return {
        "id": 1,
        "dec": decimal.Decimal("1.25"),
        "t": dt.time(1, 2, 3, 4),
        "ts": dt.datetime(1969, 12, 31, 23, 59),
        "tz": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        "u": str(uuid.UUID(int=7)),
        "bin": b"\0\1",
        "n": before,
        "nz": before,
        "fx": b"abc",
        "st": {"a": str(uuid.UUID(int=8)), "l": [before, None]},
        "m": {"k": dt.time(5), "none": None},
    }


@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_queries_over_one_frame_have_rows_of_their_own(
    spark: Any, warehouse: Path, table: icecore.Table, pushdown: str
) -> None:
    """Spark keeps the parts of a first query with filters that a source takes for the second one."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    try:
        frame = read(spark, warehouse)
        for condition, wanted in (
            ("id = 2", [2]),
            ("id IN (3, 17, NULL)", [3, 17]),
            ("NOT (id <=> 5)", [i for i in range(30) if i != 5]),
            ("name > 'n2'", [*range(3, 10), *range(20, 30)]),
            ("day > DATE '2024-01-02'", list(range(20, 30))),
        ):
            assert ids(frame.where(condition)) == wanted, condition
        assert frame.count() == 30
        assert ids(frame.where("id = 2").union(frame.where("id = 23"))) == [2, 23]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_the_option_filter_leaves_files_out(spark: Any, warehouse: Path, table: icecore.Table) -> None:
    assert read(spark, warehouse, split_size=1).rdd.getNumPartitions() == 3
    frame = read(spark, warehouse, split_size=1, filter="day = DATE '2024-01-02' AND name LIKE 'n1%' AND id <> 12")
    assert frame.rdd.getNumPartitions() == 1
    assert ids(frame) == [10, 11, 13, 14, 15, 16, 17, 18, 19]


def test_options_choose_columns_rows_and_snapshots(
    spark: Any, warehouse: Path, catalog: icecore.Catalog, table: icecore.Table
) -> None:
    first, second, _ = (s.snapshot_id for s in table.snapshots())
    with table.manage_snapshots() as refs:
        refs.create_tag(first, "one")
    assert ids(read(spark, warehouse, ref="one")) == list(range(10))
    assert ids(read(spark, warehouse, snapshot_id=second)) == list(range(20))
    assert ids(read(spark, warehouse, as_of=table.snapshots()[1].timestamp_ms)) == list(range(20))
    assert ids(read(spark, warehouse, position=catalog.position - 2)) == list(range(20))
    assert ids(read(spark, warehouse, start_snapshot_id=first)) == list(range(10, 30))
    assert ids(read(spark, warehouse, start_snapshot_id=first, end_snapshot_id=second)) == list(range(10, 20))
    narrow = read(spark, warehouse, columns="name, id, _pos", filter="id = 11 AND day > DATE '2024-01-01'")
    assert narrow.columns == ["name", "id", "_pos"]
    assert [tuple(r) for r in narrow.collect()] == [("n11", 11, 1)]
    given = spark.read.format("icecore").option("warehouse", str(warehouse)).schema("id BIGINT").load("ns.t")
    assert given.columns == ["id"] and ids(given) == list(range(30))


def test_a_frame_stays_on_its_snapshot(spark: Any, warehouse: Path, table: icecore.Table) -> None:
    """And on its schema, whatever is committed after it was made."""
    frame = read(spark, warehouse)
    with table.update_schema() as update:
        update.rename_column("name", "title")
    table.delete("id < 25")
    assert ids(frame) == list(range(30)) and frame.columns[2] == "name"
    assert frame.where("name = 'n3'").count() == 1
    assert read(spark, warehouse).columns[2] == "title"
    assert ids(read(spark, warehouse)) == [25, 26, 27, 28, 29]


def test_deletes_are_applied(spark: Any, warehouse: Path, table: icecore.Table) -> None:
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("id IN (1, 11)")
    assert sorted(set(table.files()["content"].to_pylist())) == ["data", "position_deletes"]
    assert ids(read(spark, warehouse)) == sorted(table.scan().to_arrow()["id"].to_pylist())


def counts(spark: Any, warehouse: Path, kinds: Iterable[str], **options: Any) -> Counter[str]:
    """The rows of metadata tables, in one query."""
    frames = [read(spark, warehouse, f"ns.t.{kind}", **options).selectExpr(f"'{kind}' AS kind") for kind in kinds]
    return Counter(r.kind for r in reduce(lambda a, b: a.union(b), frames).collect())


def test_metadata_tables(spark: Any, warehouse: Path, catalog: icecore.Catalog, table: icecore.Table) -> None:
    snapshots = read(spark, warehouse, "ns.t.snapshots")
    assert [r.operation for r in snapshots.collect()] == ["append"] * 3
    assert read(spark, warehouse, "ns.t.files").agg({"record_count": "sum"}).collect()[0][0] == 30
    known = {"history": 3, "log": 4, "manifests": 3, "partitions": 3, "refs": 1, "columns": 4}
    known["properties"] = len(table.properties)
    inspected = {kind: getattr(table.inspect, kind)().num_rows for kind in INSPECTED}
    found = counts(spark, warehouse, {**known, **inspected})
    assert {kind: found[kind] for kind in known} == known
    assert {kind: found[kind] for kind in inspected} == inspected
    metrics = read(spark, warehouse, "ns.t.files").selectExpr("max(readable_metrics.id.upper_bound)").collect()
    assert metrics[0][0] == 29
    position = catalog.position - 2
    earlier = {"snapshots": 1, "files": 1, "log": 2, "columns": 4}
    assert counts(spark, warehouse, earlier, position=position) == earlier
    catalog.create_table("ns.plain", pa.schema([("x", pa.int64())])).append([{"x": 1}])
    assert "partition" not in read(spark, warehouse, "ns.plain.files").columns
    assert read(spark, warehouse, "ns.plain.entries").selectExpr("data_file.record_count").collect() == [(1,)]


def test_mistakes_are_named(spark: Any, warehouse: Path, catalog: icecore.Catalog, table: icecore.Table) -> None:
    catalog.create_view("ns.v", "SELECT 1 AS id")
    for name, options, message in (
        ("ns.none", {}, "ns.none"),
        ("ns.v", {}, "is a view"),
        ("ns.t", {"snapshot": "1"}, "there is no option 'snapshot'"),
        ("ns.t", {"snapshot-id": "one"}, "must be a whole number"),
        ("ns.t", {"snapshot-id": "1", "ref": "main"}, "takes one of"),
        ("ns.t", {"columns": "nope"}, "nope"),
        ("ns.t.files", {"filter": "record_count = 1"}, "the metadata table ns.t.files has no option 'filter'"),
        ("ns.t.files", {"columns": "file_path"}, "has no option 'columns'"),
        ("ns.t.files", {"snapshot-id": "1"}, "has no option 'snapshot-id'"),
        ("ns.t.files", {"ref": "main"}, "has no option 'ref'"),
    ):
        with pytest.raises(icecore.IcecoreError, match=message):
            IcecoreSource({"warehouse": str(warehouse), "path": name, **options}).schema()
    # Spark hands on what the source says.
    with pytest.raises(Exception, match="there is no option 'snapshot'"):
        read(spark, warehouse, snapshot=1)
    with pytest.raises(Exception, match="the option 'warehouse' is needed"):
        spark.read.format("icecore").load("ns.t")


def test_a_default_warehouse_and_names_with_dots(spark: Any, warehouse: Path, catalog: icecore.Catalog) -> None:
    catalog.create_table(("ns", "a.b"), pa.schema([("id", pa.int64())])).append([{"id": 1}])
    icecore.spark.register(spark, warehouse=warehouse)
    try:
        assert ids(spark.read.format("icecore").load("ns.`a.b`")) == [1]
    finally:
        icecore.spark.register(spark)
