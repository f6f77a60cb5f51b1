"""Columns of any name: Spark writes and reads them as the engine does, under other rules for case too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from pyspark.sql import types as T  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.data.spark_schema import spark_to_schema  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402

CASE_SENSITIVE = "spark.sql.caseSensitive"
HOSTILE = ["a.b", "back`tick", "quo'te", 'dou"ble', "sp ace", "per%cent", "\U0001f600", "com,ma", "k=v", "_metadata"]
HOSTILE += ["Name", "name", "__icecore_0", "__icecore_pos", "f1", "c0", "helper0"]
INNER = T.StructType([T.StructField(n, T.StringType()) for n in ("in.ner", "_metadata", "`", "Case", "case")])
OTHER_METADATA = T.StructType([T.StructField("row_index", T.LongType())])
ROWS = 30


@pytest.fixture
def case_sensitive(spark: Any) -> Iterator[None]:
    spark.conf.set(CASE_SENSITIVE, "true")
    yield
    spark.conf.unset(CASE_SENSITIVE)


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def same_in_spark(spark: Any, table: icecore.Table, row_filter: str | None = None, **scan: Any) -> int:
    """Compares a scan by Spark with the engine's own, names too, and gives the number of rows."""
    mine = table.scan(row_filter, **scan).to_arrow()
    theirs = table.scan(row_filter, **scan).to_spark(spark).toArrow()
    assert theirs.column_names == mine.column_names
    assert sorted_rows(theirs) == sorted_rows(mine)
    return int(mine.num_rows)


def hostile_frame(spark: Any) -> Any:
    struct = T.StructType(
        [
            T.StructField("id", T.LongType()),
            *(T.StructField(n, T.StringType()) for n in HOSTILE),
            T.StructField("x.y", INNER),
            T.StructField("_METADATA", OTHER_METADATA),
            T.StructField("l.l", T.ArrayType(INNER)),
        ]
    )
    inner = [tuple(f"{n}{i % 4}" for n in INNER.names) for i in range(ROWS)]
    rows = [(i, *(f"{n}{i % 3}" for n in HOSTILE), inner[i], (i,), [inner[i]]) for i in range(ROWS)]
    return spark.createDataFrame(rows, struct)


# Partitions are of what is written, and versions of how deletes are: neither knows of the other.
@pytest.mark.parametrize(("format_version", "partitioned"), [(2, True), (3, False)])
@pytest.mark.usefixtures("case_sensitive")
def test_names_of_any_characters(
    spark: Any, catalog: icecore.Catalog, format_version: int, *, partitioned: bool
) -> None:
    """Dots, quotes, case, Spark's own `_metadata` and the names that scans take for themselves, beside deletes."""
    df = hostile_frame(spark)
    properties = {"write.delete.mode": "merge-on-read"}
    table = catalog.create_table(
        "ns.t", spark_to_schema(df.schema), format_version=format_version, properties=properties
    )
    if partitioned:
        with table.update_spec() as spec:
            spec.add_field("a.b", "identity", "p=a.b")
            spec.add_field("_metadata", "bucket[2]", "_m")
            spec.add_field("x.y.in.ner", "truncate[3]", "p'%")
        with table.update_sort_order() as order:
            order.asc("back`tick", "identity").desc("x.y.in.ner", "bucket[4]")
    table.append(df)
    assert sorted_rows(table.scan().to_arrow()) == sorted_rows(df.toArrow())
    table.delete("id IN (3, 4, 5)")
    assert "position_deletes" in [f["content"] for f in table.files().to_pylist()]
    assert same_in_spark(spark, table) == ROWS - 3
    wanted = """ "a.b" = 'a.b1' AND "_metadata" IS NOT NULL AND "x.y.in.ner" <> 'in.ner1' AND "Name" <> 'Name0' """
    assert same_in_spark(spark, table, wanted) == 6
    assert same_in_spark(spark, table, wanted, selected_fields=("__icecore_pos", "_pos", "_file", "x.y.`")) == 6


TEXT, LIKE_METADATA = pa.string(), pa.struct([("file_path", pa.string()), ("row_index", pa.int64())])


# Each name under each rule for case that it is another one by; which type a column has is nothing to that rule.
@pytest.mark.parametrize(
    ("name", "of", "case"),
    [
        ("_metadata", TEXT, "true"),
        ("_Metadata", LIKE_METADATA, "false"),
        ("_Metadata", TEXT, "true"),
        ("__icecore_path", LIKE_METADATA, "true"),
        ("_tmp_metadata_row_index", pa.int64(), "false"),
    ],
)
def test_columns_named_as_sparks_own(
    spark: Any, catalog: icecore.Catalog, tmp_path: Path, of: pa.DataType, name: str, case: str
) -> None:
    """In files with field ids and without, beside deletes by position."""
    properties = {"write.delete.mode": "merge-on-read"}
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64()), (name, of)]), properties=properties)
    texts: list[Any] = [f"m{i}" for i in range(10)]
    structs = [{"file_path": str(i), "row_index": i} for i in range(10)]
    values = texts if of == TEXT else structs if of == LIKE_METADATA else list(range(0, 70, 7))
    rows = pa.table({"id": list(range(10)), name: pa.array(values, of)})
    table.append(rows)
    pq.write_table(rows, tmp_path / "added.parquet")
    table.add_files([str(tmp_path / "added.parquet")])
    table.delete("id IN (3, 4, 5)")
    spark.conf.set(CASE_SENSITIVE, case)
    try:
        assert same_in_spark(spark, table) == 14
        assert same_in_spark(spark, table, "id > 2", selected_fields=("_pos", "id", "_file")) == 8
        table.append(table.scan("id = 9").to_spark(spark))
        assert same_in_spark(spark, table, f'"{name}" IS NOT NULL', selected_fields=("id",)) == 16
    finally:
        spark.conf.unset(CASE_SENSITIVE)


def test_names_that_differ_by_case_where_case_does_not_matter(spark: Any, catalog: icecore.Catalog) -> None:
    """The table's columns are told by place and id, whatever the session takes for one name."""
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("ID", pa.int64()), ("v", pa.string())]))
    table.append(spark.range(5).selectExpr("id", "-id AS ID", "'x' AS v"))
    assert same_in_spark(spark, table) == 5
    assert table.scan('"ID" = -3').to_arrow()["id"].to_pylist() == [3]
    assert same_in_spark(spark, table, "\"ID\" = -3 AND v = 'x'") == 1


def test_a_name_that_spark_would_put_a_variable_into_is_an_error(spark: Any, catalog: icecore.Catalog) -> None:
    """Within backticks too: `a${x}` read the column `a`, and an update wrote its values."""
    table = catalog.create_table("ns.t", pa.schema([("a", pa.int64()), ("a${x}", pa.int64())]))
    table.append([{"a": 1, "a${x}": 10}])
    for use in (lambda: table.scan().to_spark(spark), lambda: table.spark.update({"a": "a + 1"}, where="a = 1")):
        with pytest.raises(ValidationError, match=r"spark\.sql\.variable\.substitute"):
            use()
    spark.conf.set("spark.sql.variable.substitute", "false")
    try:
        assert [tuple(r) for r in table.scan().to_spark(spark).collect()] == [(1, 10)]
    finally:
        spark.conf.unset("spark.sql.variable.substitute")


def test_names_are_no_patterns(either_way: Any, catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Where the session takes names in backticks for patterns of names, a column is the one that is so called."""
    spark = either_way
    inner = pa.struct([("p q", pa.int32())])
    kinds = {"f": pa.float64(), "s": inner, "l": pa.list_(inner)}
    columns = pa.schema([(f"{n}{dot}x", kind) for n, kind in kinds.items() for dot in ("X", ".")])
    row = {"fXx": 2.0, "f.x": 1.0, "sXx": {"p q": 2}, "s.x": {"p q": 1}, "lXx": [{"p q": 2}], "l.x": [{"p q": 1}]}
    rows = pa.Table.from_pylist([row], columns)
    pq.write_table(rows, tmp_path / "file.parquet")
    own, mapped = (catalog.create_table(f"ns.{name}", columns) for name in ("own", "mapped"))
    own.append(rows)
    mapped.add_files([str(tmp_path / "file.parquet")])
    spark.conf.set("spark.sql.parser.quotedRegexColumnNames", "true")
    try:
        for table in (own, mapped):
            for row_filter in (None, '"f.x" = 1', '"s.x"."p q" = 1'):
                assert same_in_spark(spark, table, row_filter) == 1
        own.append(own.scan().to_spark(spark))
        own.spark.update({"f.x": 3.0}, '"f.x" = 1')
    finally:
        spark.conf.unset("spark.sql.parser.quotedRegexColumnNames")
    assert own.scan().to_arrow().to_pylist() == [row | {"f.x": 3.0}] * 2
