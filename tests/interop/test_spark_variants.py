"""Variants that Spark writes, shredded or not, are read as Spark reads them. Spec: T1, Appendix A Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import LongType, NestedField, StructType, VariantType  # noqa: E402

SCHEMA = Schema((
    NestedField(1, "id", LongType()),
    NestedField(2, "v", VariantType()),
    NestedField(3, "s", StructType((NestedField(4, "v", VariantType()),))),
))  # fmt: skip
OBJECT = """to_variant_object(named_struct(
    'a', id, 'b', concat('s', id), 'c', named_struct('d', cast(id as double) / 3, 'e', array(id, id + 1)),
    'n', cast(null as int), 'ts', timestamp'2024-01-01 00:00:00.123456', 'dec', cast(id as decimal(20, 2)) / 3,
    'bin', cast('x' as binary), 'm', array(named_struct('p', 1), named_struct('p', cast(id as int)))))"""
ROWS = f"""SELECT id, CASE id % 7 WHEN 3 THEN null WHEN 4 THEN parse_json('null') WHEN 5 THEN parse_json('"text"')
    WHEN 6 THEN to_variant_object(named_struct('a', date'2020-01-01', 'z', array(1, 2), 'b', map('k', 1.5D)))
    ELSE {OBJECT} END AS v, named_struct('v', parse_json(concat('{{"a": ', id, ', "q": [true]}}'))) AS s
    FROM range(0, 50)"""
FULL = """a bigint, b string, c struct<d: double, e: array<bigint>>, ts timestamp, dec decimal(38, 6), bin binary,
    m array<struct<p: int>>"""
TOLD = ("id", "to_json(v) AS v", "schema_of_variant(v) AS t", "to_json(s.v) AS s")


@pytest.mark.parametrize(
    "shape", [FULL, "a int, c struct<n: int, d: decimal(10, 3)>, q string", "array<bigint>", "string", None]
)
def test_what_spark_shredded_says_the_same_when_we_wrote_it_whole(
    spark: Any, catalog: icecore.Catalog, tmp_path: Path, shape: str | None
) -> None:
    """Spark's file is added and read by us; what we make of it is stored whole, and Spark finds the same in both."""
    rows, path = spark.sql(ROWS), tmp_path / "theirs"
    option = "spark.sql.variant.forceShreddingSchemaForTest"
    spark.conf.set("spark.sql.variant.writeShredding.enabled", str(shape is not None).lower())
    try:
        if shape is not None:
            spark.conf.set(option, shape)
        rows.coalesce(1).write.parquet(str(path))
    finally:
        spark.conf.unset(option)
        spark.conf.unset("spark.sql.variant.writeShredding.enabled")
    (file,) = path.glob("*.parquet")
    assert ("typed_value" in str(pq.ParquetFile(file).schema)) is (shape is not None)
    added = catalog.create_table("ns.added", SCHEMA, format_version=3)
    added.add_files([file.as_uri()])
    own = catalog.create_table("ns.own", SCHEMA, format_version=3)
    own.append(added.scan().to_arrow())
    told = sorted(map(tuple, rows.selectExpr(*TOLD).collect()))
    for table in (added, own):
        assert sorted(map(tuple, table.scan().to_spark(spark).selectExpr(*TOLD).collect())) == told


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_spark_writes_variants_into_every_format(spark: Any, catalog: icecore.Catalog, file_format: str) -> None:
    """By way of our own tasks, whole, and with the counts of variants; Spark reads them back."""
    table = catalog.create_table("ns.t", SCHEMA, format_version=3, properties={"write.format.default": file_format})
    rows = spark.sql(ROWS).coalesce(1)
    table.append(rows)
    told = sorted(map(tuple, rows.selectExpr(*TOLD).collect()))
    assert sorted(map(tuple, table.scan().to_spark(spark).selectExpr(*TOLD).collect())) == told
    (entry,) = [e for entries in table.live_entries() for e in entries.to_pylist()]
    assert [dict(entry[m])[2] for m in ("value_counts", "null_value_counts")] == [50, 7]
    assert table.scan(row_filter="v IS NULL").count() == 7
