"""Schemas of Spark are taken wherever a schema or a type is, and nothing else needs PySpark for that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as T

import icecore
from icecore.engine.errors import ValidationError

STRUCT = T.StructType(
    [
        T.StructField("id", T.LongType(), False, {"comment": "the key"}),
        T.StructField("name", T.VarcharType(9)),
        T.StructField("at", T.TimestampType()),
        T.StructField("st", T.StructType([T.StructField("d", T.DecimalType(9, 2)), T.StructField("b", T.ByteType())])),
        T.StructField("l", T.ArrayType(T.TimestampNTZType(), False)),
        T.StructField("m", T.MapType(T.StringType(), T.DateType())),
    ]
)
COLUMNS = [
    "  1: id: optional long",
    "  2: name: optional string",
    "  3: at: optional timestamptz",
    "  4: st: optional struct<7: d: decimal(9, 2), 8: b: int>",
    "  5: l: optional list<timestamp>",
    "  6: m: optional map<string, date>",
]


def columns_of(table: Any) -> list[str]:
    return str(table.schema()).splitlines()[1:-1]


def test_tables_are_created_from_spark_schemas(catalog: icecore.Catalog) -> None:
    """By themselves and in transactions, with terms for spec and order."""
    one = catalog.create_table("ns.one", STRUCT, partition_spec=["month(at)"], sort_order=["name DESC"])
    with catalog.transaction() as transaction:
        transaction.create_table("ns.two", STRUCT)
    two = catalog.load_table("ns.two")
    three = catalog.create_or_replace_table("ns.three", STRUCT)
    assert columns_of(one) == columns_of(two) == columns_of(three) == COLUMNS
    assert one.schema().find_field("id").doc == "the key"
    assert [f.name for f in one.spec().fields] == ["at_month"]
    with pytest.raises(ValidationError, match="not supported until v3"):
        catalog.create_table("ns.four", T.StructType([T.StructField("v", T.VariantType())]))
    catalog.create_table("ns.four", T.StructType([T.StructField("v", T.VariantType())]), format_version=3)
    with pytest.raises(ValidationError, match=r"'c\.element': Spark type interval"):
        catalog.create_table("ns.five", T.StructType([T.StructField("c", T.ArrayType(T.DayTimeIntervalType()))]))


def test_tables_are_replaced_and_evolved_by_spark_schemas(catalog: icecore.Catalog) -> None:
    """Columns of the same name keep their ids; a single type may be Spark's too."""
    table = catalog.create_table("ns.t", STRUCT)
    catalog.replace_table("ns.t", T.StructType([T.StructField("x", T.LongType()), STRUCT["at"]]))
    table.refresh()
    assert columns_of(table) == ["  12: x: optional long", "  3: at: optional timestamptz"]
    with table.update_schema() as update:
        update.union_by_name(T.StructType([STRUCT["name"]]))
        update.add_column("tags", T.ArrayType(T.StringType()))
    assert columns_of(table)[2:] == ["  13: name: optional string", "  14: tags: optional list<string>"]
    with pytest.raises(ValidationError, match="Iceberg, Arrow, Spark or PyIceberg type, or a text, found 5"):
        table.update_schema().add_column("y", 5)


def test_views_take_spark_schemas(catalog: icecore.Catalog) -> None:
    view = catalog.create_view("ns.v", "SELECT 1 AS x", schema=T.StructType([T.StructField("x", T.IntegerType())]))
    assert columns_of(view) == ["  1: x: optional int"]


def test_what_is_no_schema_is_refused(catalog: icecore.Catalog) -> None:
    """A type that is no struct neither; of something that has a schema, it is that which is wanted."""

    class DataFrame:
        @property
        def schema(self) -> T.StructType:
            return STRUCT

    for given, said in (
        (T.LongType(), "found LongType$"),
        ("id long", "found str$"),
        (DataFrame(), "found DataFrame: give its schema"),
    ):
        with pytest.raises(ValidationError, match=f"icecore, pyarrow, Spark or PyIceberg schema, {said}"):
            catalog.create_table("ns.t", given)


def test_schemas_of_others_load_no_pyspark(tmp_path: Path) -> None:
    script = (
        "import sys, icecore, pyarrow as pa\n"
        f"catalog = icecore.open({str(tmp_path / 'w')!r}); catalog.create_namespace('ns')\n"
        "catalog.create_table('ns.t', pa.schema([('id', pa.int64())])).append([{'id': 1}])\n"
        "print([m for m in sys.modules if m.startswith('pyspark')])\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["[]"]
