"""Names of DataFrames meet names of tables by one rule: what differs in case is one column or two as Spark is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402

CASE_SENSITIVE = "spark.sql.caseSensitive"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("st", pa.struct([("x", pa.int64())]))])


@pytest.fixture
def case_sensitive(spark: Any) -> Iterator[None]:
    """Spark takes the setting in any case."""
    spark.conf.set(CASE_SENSITIVE, "TRUE")
    yield
    spark.conf.unset(CASE_SENSITIVE)


@pytest.fixture
def table(spark: Any, catalog: icecore.Catalog) -> icecore.Table:
    made = catalog.create_table("ns.t", SCHEMA)
    made.append([{"id": 1, "name": "a", "st": {"x": 1}}])
    return made


def rows(table: icecore.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.refresh().scan().to_arrow().sort_by("id").to_pylist()
    return found


@pytest.mark.usefixtures("case_sensitive")
def test_a_column_of_another_case_is_another_one(spark: Any, table: icecore.Table) -> None:
    """A merge adds it, and nothing else writes it into the table's."""
    source = spark.sql("SELECT 1L AS id, 'b' AS NAME UNION ALL SELECT 2L, 'c'")
    merge = table.spark.merge(source, "id", merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().commit()
    assert [(r["id"], r["name"], r["NAME"]) for r in rows(table)] == [(1, "a", "b"), (2, None, "c")]
    for query, text in (("SELECT 3L AS ID", "column 'ID'"), ("SELECT 3L AS id, named_struct('X', 1L) AS st", "'st.X'")):
        with pytest.raises(ValidationError, match=text):
            table.append(spark.sql(query))
        with pytest.raises(ValidationError, match="no column"):
            table.spark.upsert(spark.sql(query), ["id"])
    with pytest.raises(ValidationError, match="'NaMe'"):
        table.spark.update({"NaMe": "'x'"})
    assert len(rows(table)) == 2


@pytest.mark.usefixtures("case_sensitive")
def test_writes_of_the_source_keep_to_it_too(spark: Any, warehouse: Path, table: icecore.Table) -> None:
    """Inside of structs as well; no row is written."""
    for query, text in (("SELECT 3L AS ID", "column 'ID'"), ("SELECT 3L AS id, named_struct('X', 1L) AS st", "'st.X'")):
        with pytest.raises(Exception, match=text):
            save(spark.sql(query), warehouse)
    with table.update_schema() as update:
        update.add_column("Name", "string")
    save(spark.sql("SELECT 3L AS id, 'lower' AS name, 'upper' AS Name"), warehouse)
    assert [(r["id"], r["name"], r["Name"]) for r in rows(table)] == [(1, "a", None), (3, "lower", "upper")]


def test_a_column_of_another_case_is_the_same(spark: Any, warehouse: Path, table: icecore.Table) -> None:
    """In appends, upserts, merges and updates, keys and fields of structs too."""
    source = spark.sql("SELECT 1L AS ID, 'b' AS NAME, named_struct('X', 2L) AS St UNION ALL SELECT 2L, 'c', NULL")
    merge = table.spark.merge(source, ["Id"], merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().commit()
    expected = [{"id": 1, "name": "b", "st": {"x": 2}}, {"id": 2, "name": "c", "st": None}]
    assert rows(table) == expected
    for key in ("iD", ["ID"]):
        assert table.spark.upsert(source, key).rows_updated == 0
    table.spark.update({"ST.X": "st.x + 1"}, "ID = 1")
    assert rows(table)[0]["st"] == {"x": 3}
    save(source.where("ID = 2"), warehouse)
    assert len(rows(table)) == 3


def test_columns_that_differ_in_case_alone_are_told_apart(spark: Any, catalog: icecore.Catalog) -> None:
    """In changes whose own words name neither, whichever of them are keys."""
    schema = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("name", pa.string()), ("Name", pa.string())])
    table = catalog.create_table("ns.t", schema, format_version=3)
    table.append([{"id": i, "k": 1, "name": "a", "Name": "B"} for i in (1, 2)])
    table.spark.update({"k": "k + 1", "Name": "'C'"}, "id = 1")
    source = spark.createDataFrame([(2, "a", "D"), (3, "e", "F")], ["id", "name", "Name"])
    assert table.spark.upsert(source, ["id"]).rows_updated == 1
    assert table.spark.upsert(source, ["id", "Name"]).rows_updated == 0
    merge = table.spark.merge(source, ["id", "name"]).when_matched_update({"k": "target.k * 10"})
    merge.when_not_matched_insert_all().commit()
    found = [(r["id"], r["k"], r["name"], r["Name"]) for r in rows(table)]
    assert found == [(1, 2, "a", "C"), (2, 10, "a", "D"), (3, None, "e", "F")]


def test_keys_of_sql_are_told_in_any_case(spark: Any, catalog: icecore.Catalog, table: icecore.Table) -> None:
    icecore.spark.catalog(spark, catalog, name="anycase")
    spark.sql(
        """MERGE INTO anycase.ns.t a USING (SELECT 1L AS ID, 5L AS x) b ON a.ID = b.ID
        WHEN MATCHED THEN UPDATE SET a.ST.X = b.x"""
    )
    assert rows(table) == [{"id": 1, "name": "a", "st": {"x": 5}}]


def save(df: Any, warehouse: Path) -> None:
    df.write.format("icecore").mode("append").option("warehouse", str(warehouse)).save("ns.t")
