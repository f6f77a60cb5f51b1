"""Write defaults: what Spark SQL inserts without a column is what `append` gives it, whatever the column's type."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.spec.types import (  # noqa: E402
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    Type,
    UUIDType,
)

INNER = StructType((NestedField(5, "q", DoubleType()), NestedField(6, "none", StringType())))
POINT = StructType(
    (NestedField(2, "x", IntegerType()), NestedField(3, "y's", StringType()), NestedField(4, "in", INNER))
)
DEFAULTS: dict[str, tuple[Type, Any]] = {
    "flag": (BooleanType(), False),
    "whole": (IntegerType(), -5),
    "least": (LongType(), -(2**63)),
    "single": (FloatType(), 1.1),
    "double": (DoubleType(), -1e300),
    "price": (DecimalType(38, 10), Decimal("-12345678901234567890.5")),
    "first": (DateType(), "0001-01-01"),
    "lost": (DateType(), "1582-10-10"),
    "clock": (TimeType(), "12:13:14.000005"),
    "local": (TimestampType(), "1582-10-10T01:02:03.000004"),
    "skipped": (TimestampType(), "2024-03-31T02:30:00"),
    "instant": (TimestamptzType(), "1899-12-31T23:59:59.999999+01:00"),
    "text": (StringType(), 'it\'s "x" ${y} \\n \U0001f600 `--'),
    "empty": (StringType(), ""),
    "uuid": (UUIDType(), UUID(int=5)),
    "fixed": (FixedType(3), b"\0\xff'"),
    "bytes": (BinaryType(), b""),
    "nanos": (TimestampNanoType(), "1969-12-31T23:59:59.123456000"),
    "nanos_tz": (TimestamptzNanoType(), "2024-01-01T00:00:00.123456+00:00"),
    "tags": (ListType(1, IntegerType()), [1, None]),
    "no_tags": (ListType(1, StringType()), []),
    "map": (MapType(1, StringType(), 2, UUIDType()), {"a'": UUID(int=6), "b": None}),
    "point": (POINT, {}),
    "without": (IntegerType(), None),
}
MERGE = "MERGE INTO lake.ns.t t USING (SELECT explode(array({})) AS id) s ON t.id = s.id WHEN NOT MATCHED"
INSERTS = {
    "columns": "INSERT INTO lake.ns.t (id) VALUES (1)",
    "by name": "INSERT INTO lake.ns.t BY NAME SELECT 1L AS id",
    "default": f"INSERT INTO lake.ns.t VALUES (1{', DEFAULT' * len(DEFAULTS)})",
    "of itself": "INSERT INTO lake.ns.t (id) SELECT count(*) + 1 FROM lake.ns.t",
    "overwrite": "INSERT OVERWRITE lake.ns.t (id) VALUES (1)",
    "merge": f"{MERGE.format('1L')} THEN INSERT (id) VALUES (id)",
    "merge default": f"{MERGE.format('1L')} THEN "
    f"INSERT (id, {', '.join(DEFAULTS)}) VALUES (s.id{', DEFAULT' * len(DEFAULTS)})",
    "merge of two": f"{MERGE.format('1L, 2L')} AND s.id = 1 THEN INSERT (id) VALUES (s.id) "
    "WHEN NOT MATCHED THEN INSERT (id, whole) VALUES (s.id, 3)",
}


@pytest.fixture
def table(named_lake: icecore.Catalog) -> Iterator[icecore.Table]:
    """A table of all types, each with a default."""
    made = named_lake.create_table("ns.t", pa.schema([("id", pa.int64())]), format_version=3)
    with made.update_schema() as update:
        for name, (t, default) in DEFAULTS.items():
            update.add_column(name, t, default_value=default)
    with made.update_schema() as update:
        update.set_default_value(("point", "x"), 7).set_default_value(("point", "y's"), "it's")
        update.set_default_value(("point", "in"), {}).set_default_value(("point", "in", "q"), 2.5)
    yield made
    named_lake.drop_table("ns.t")


def row(table: icecore.Table, id: int) -> dict[str, Any]:
    (found,) = table.refresh().scan(f"id = {id}").to_arrow().to_pylist()
    return {name: value for name, value in found.items() if name != "id"}


@pytest.mark.parametrize("statement", INSERTS.values(), ids=INSERTS)
def test_inserts_give_what_append_gives(spark: Any, table: icecore.Table, statement: str) -> None:
    spark.sql(statement)
    table.append([{"id": 100}])
    expected = row(table, 100)
    assert [name for name, value in expected.items() if value is None] == ["without"]
    assert row(table, 1) == expected


def test_dataframes_and_updates_give_what_append_gives(spark: Any, table: icecore.Table) -> None:
    table.append([{"id": 100}])
    one = spark.sql("SELECT 1L AS id")
    one.writeTo("lake.ns.t").append()
    one.selectExpr("id + 1 AS id").write.mode("append").saveAsTable("lake.ns.t")
    others = [f.name for f in table.schema().fields if f.name != "id"]
    nulls = {name: pa.nulls(1, table.scan().to_arrow().schema.field(name).type) for name in others}
    table.refresh().append(pa.table({"id": [3], **nulls}))
    spark.sql(f"UPDATE lake.ns.t SET {', '.join(f'{name} = DEFAULT' for name in others)} WHERE id = 3")
    assert [row(table, id) for id in (1, 2, 3)] == [row(table, 100)] * 3


def test_required_columns_get_theirs_and_a_new_one_counts(spark: Any, named_lake: icecore.Catalog) -> None:
    table = named_lake.create_table("ns.required", pa.schema([("id", pa.int64())]), format_version=3)
    with table.update_schema() as update:
        update.add_column("e", "int", required=True, default_value=42)
    spark.sql("INSERT INTO lake.ns.required (id) VALUES (1)")
    with table.refresh().update_schema() as update:
        update.set_default_value("e", 43)
    spark.sql("INSERT INTO lake.ns.required (id) VALUES (2)")
    assert spark.table("lake.ns.required").orderBy("id").collect() == [(1, 42), (2, 43)]


def test_reads_are_as_they_were(spark: Any, named_lake: icecore.Catalog, table: icecore.Table, tmp_path: Path) -> None:
    """A default of an insert is no row's: files without the column, and schemas that users take on, have none of it."""
    frame = spark.table("lake.ns.t")
    frame.select("id").write.parquet(str(tmp_path / "files"))
    spark.sql("SELECT 1L AS id").write.mode("append").parquet(str(tmp_path / "files"))
    (other,) = spark.read.schema(frame.schema).parquet(str(tmp_path / "files")).collect()
    assert [v for v in other if v is not None] == [1]
    copy = named_lake.create_table("ns.copy", frame.schema, format_version=3)
    assert [f.name for f in copy.schema().fields if (f.write_default, f.initial_default) != (None, None)] == []
    table.append(pa.table({"id": [5], "whole": pa.nulls(1, pa.int32())}))
    assert spark.sql("SELECT whole FROM lake.ns.t").collect() == [(None,)]


def test_nanoseconds_that_spark_lacks_are_refused(spark: Any, named_lake: icecore.Catalog) -> None:
    table = named_lake.create_table("ns.nanos", pa.schema([("id", pa.int64())]), format_version=3)
    with table.update_schema() as update:
        update.add_column("at", TimestampNanoType(), default_value="2024-01-01T00:00:00.123456789")
    with pytest.raises(Exception, match="a default of nanoseconds, which Spark lacks"):
        spark.sql("INSERT INTO lake.ns.nanos (id) VALUES (1)")
    one = spark.sql("SELECT 1L AS id")
    with pytest.raises(ValidationError, match="a default of nanoseconds"):
        table.spark.merge(one, on=["id"]).when_not_matched_insert_all().commit()
    assert table.refresh().scan().count() == 0
    spark.sql("INSERT INTO lake.ns.nanos VALUES (2, NULL)")
    table.refresh().append(one)
    assert row(table, 1)["at"].nanosecond == 789


def test_rows_of_two_clauses_keep_defaults_inside_of_structs(spark: Any, named_lake: icecore.Catalog) -> None:
    struct = pa.struct([("x", pa.int32()), ("y", pa.int32())])
    table = named_lake.create_table("ns.structs", pa.schema([("id", pa.int64()), ("st", struct)]), format_version=3)
    with table.update_schema() as update:
        update.set_default_value(("st", "x"), 7)
    source = spark.sql("SELECT explode(array(1L, 2L)) AS id, named_struct('y', 5) AS st")
    merge = table.refresh().spark.merge(source, on=["id"]).when_not_matched_insert_all("id = 1")
    merge.when_not_matched_insert({"id": "source.id", "st": "named_struct('x', 1, 'y', 2)"}).commit()
    assert [row(table, id)["st"] for id in (1, 2)] == [{"x": 7, "y": 5}, {"x": 1, "y": 2}]
