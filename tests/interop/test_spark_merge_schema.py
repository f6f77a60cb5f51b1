"""DataFrames that bring columns of their own: `append(df, merge_schema=True)`, overwrites and merges likewise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402

SCHEMA = pa.schema(
    [("id", pa.int32()), ("name", pa.string()), ("st", pa.struct([("x", pa.int32())])), ("u", pa.uuid())]
)


def test_columns_of_a_frame_are_taken_in(spark: Any, catalog: icecore.Catalog) -> None:
    """By the session's rule for case, in one commit; what Spark casts keeps its type."""
    table = catalog.create_table("ns.t", SCHEMA)
    table.append([{"id": 1, "name": "a"}])
    rows = (
        "CAST(2 AS TINYINT) AS ID, 'b' AS Name, named_struct('X', 9000000000L, 'y', 1.5D) AS ST, date'2024-01-01' AS n"
    )
    uuid = "'00000000-0000-0000-0000-00000000000A' AS u, cast(NULL AS STRING) AS name2"
    table.append(spark.sql(f"SELECT {rows}, {uuid}"), merge_schema=True)
    assert [(f.name, str(f.field_type)) for f in table.schema().fields] == [
        ("id", "int"),
        ("name", "string"),
        ("st", "struct<5: x: long, 6: y: double>"),
        ("u", "uuid"),
        ("n", "date"),
        ("name2", "string"),
    ]
    assert len(table.snapshots()) == 2
    assert table.scan("name = 'b' AND n = DATE '2024-01-01' AND st.y = 1.5").to_arrow()["st"].to_pylist() == [
        {"x": 9000000000, "y": 1.5}
    ]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        table.append(spark.sql("SELECT 3 AS id, 'c' AS Name"), merge_schema=True)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    found = table.scan("id = 3", selected_fields=("name", "Name")).to_arrow().to_pylist()
    assert found == [{"name": None, "Name": "c"}]
    with pytest.raises(ValidationError, match="two new columns are called 'NEW'"):
        table.append(spark.range(1).toDF("new").selectExpr("*", "1 AS NEW"), merge_schema=True)


NESTED = pa.schema(
    [
        ("id", pa.int32()),
        ("st", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("l", pa.list_(pa.struct([("x", pa.int32())]))),
    ]
)
BRINGING = """
    SELECT explode(array(1L, 2L)) AS ID, named_struct('more', 2, 'X', 9000000000L) AS st,
        array(named_struct('x', 1L, 'z', date'2024-01-01')) AS l, 'top' AS top
"""


def test_merges_take_in_fields_and_types_as_appends_do(spark: Any, catalog: icecore.Catalog) -> None:
    """In one commit with the rows; without the option fields that the table lacks are an error."""
    tables = [catalog.create_table(f"ns.{name}", NESTED, format_version=3) for name in ("appended", "merged")]
    source = spark.sql(BRINGING)
    for table in tables:
        table.append([{"id": 1, "st": {"x": 1, "y": "y"}, "l": None}, {"id": 3, "st": None, "l": []}])
    appended, merged = tables
    appended.append(source, merge_schema=True)
    with pytest.raises(ValidationError, match=r"no column 'st\.more' in the schema"):
        merged.spark.merge(source, on=["id"]).when_matched_update_all().commit()
    merge = merged.spark.merge(source, on=["id"], merge_schema=True)
    merge.when_matched_update_all().when_not_matched_insert_all().commit()
    assert str(merged.refresh().schema()) == str(appended.refresh().schema())
    assert len(merged.snapshots()) == 2
    found = {row["id"]: row for row in merged.scan().to_arrow().to_pylist()}
    brought = {row["id"]: row for row in appended.scan("top = 'top'").to_arrow().to_pylist()}
    assert {id: found[id] for id in (1, 2)} == brought
    assert found[3] == {"id": 3, "st": None, "l": [], "top": None}


def test_clauses_with_values_of_their_own_use_what_was_taken_in(spark: Any, catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", NESTED, format_version=3)
    table.append([{"id": 1, "st": None, "l": None}])
    merge = table.spark.merge(spark.sql(BRINGING), on=["id"], merge_schema=True)
    merge = merge.when_matched_update({"st.more": "source.st.more", "top": "'mine'"})
    merge.when_not_matched_insert_all().commit()
    found = {row["id"]: row for row in table.refresh().scan(selected_fields=("id", "st", "top")).to_arrow().to_pylist()}
    assert found == {
        1: {"id": 1, "st": {"x": None, "y": None, "more": 2}, "top": "mine"},
        2: {"id": 2, "st": {"x": 9000000000, "y": None, "more": 2}, "top": "top"},
    }
    before = table.current_snapshot()
    merge.commit(dry_run=True)
    assert (table.refresh().current_snapshot(), len(table.metadata.schemas)) == (before, 2)


def test_overwrites_take_in_columns(spark: Any, catalog: icecore.Catalog) -> None:
    """Also one that the filter names; schema and rows change in one commit, or neither does."""
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int32()), ("p", pa.int32())]), partition_spec=["p"])
    table.append([{"id": 1, "p": 1}, {"id": 2, "p": 1}, {"id": 3, "p": 2}])
    rows = spark.sql("SELECT 9000000000L AS id, 1 AS p, 'n' AS note")
    with pytest.raises(ValidationError, match="note"):
        table.overwrite(rows, "p = 1")
    table.overwrite(rows, "id = 1 OR note = 'n'", merge_schema=True)
    assert table.scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 2, "p": 1, "note": None},
        {"id": 3, "p": 2, "note": None},
        {"id": 9000000000, "p": 1, "note": "n"},
    ]
    before, schemas = table.current_snapshot(), len(table.metadata.schemas)
    with pytest.raises(ValidationError, match="the data has Spark type array<int>"):
        table.overwrite(spark.sql("SELECT array(1) AS id, 2 AS more"), merge_schema=True)
    table.overwrite(spark.sql("SELECT 1L AS id, 2 AS more"), merge_schema=True, dry_run=True)
    table.overwrite([{"id": 4, "more": 1}], merge_schema=True, dry_run=True)
    assert (table.refresh().current_snapshot(), len(table.metadata.schemas)) == (before, schemas)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_an_upsert_takes_in_columns(spark: Any, catalog: icecore.Catalog, mode: str) -> None:
    """A row that differs in a new column alone changes; one that has null there stays as it is."""
    schema = pa.schema([("id", pa.int32()), ("v", pa.int32())])
    table = catalog.create_table("ns.t", schema, properties={"write.update.mode": mode})
    table.append([{"id": 1, "v": 1}, {"id": 2, "v": 2}, {"id": 3, "v": 3}])
    rows = spark.sql("SELECT * FROM VALUES (1, 1L, 'n'), (2, 2L, NULL), (4, 9000000000L, 'm') AS s(id, v, note)")
    result = table.spark.upsert(rows, ["id"], merge_schema=True)
    assert (result.rows_updated, result.rows_inserted, len(table.refresh().snapshots())) == (1, 1, 2)
    assert [tuple(row.values()) for row in table.scan().to_arrow().sort_by("id").to_pylist()] == [
        (1, 1, "n"), (2, 2, None), (3, 3, None), (4, 9000000000, "m"),
    ]  # fmt: skip


def test_writes_and_streams_of_the_format_take_in_columns(
    spark: Any, warehouse: Path, catalog: icecore.Catalog, tmp_path: Path
) -> None:
    """Schema and rows in one commit; names meet by the session's rule, and what it tells apart is refused."""
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int32()), ("p", pa.int32())]), partition_spec=["p"])
    given = {"warehouse": str(warehouse), "merge-schema": "true"}

    def write(columns: str, mode: str = "append", **options: str) -> None:
        named = {name.replace("_", "-"): text for name, text in options.items()}
        rows = spark.sql(f"SELECT {columns}").write.format("icecore").mode(mode).options(**given)
        rows.options(**named).save("ns.t")

    with pytest.raises(Exception, match="no column 'a' in the schema"):
        write("1 AS id, 2 AS a", merge_schema="false")
    write("9000000000L AS ID, 1 AS p, 'a' AS a")
    write("2 AS id, 1 AS p, named_struct('x', 1) AS st", "overwrite", overwrite_mode="dynamic")
    write("3 AS id, 2 AS p, named_struct('y', 2) AS st", "overwrite", overwrite_filter="st.y = 2")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 4, "p": 3, "late": "so"}')
    stream = (
        spark.readStream.schema("id int, p int, late string").json(str(tmp_path / "in")).writeStream.format("icecore")
    )
    stream = stream.options(checkpointLocation=str(tmp_path / "c"), **given).trigger(availableNow=True)
    assert stream.start("ns.t").awaitTermination(120)
    assert [tuple(row.values()) for row in table.refresh().scan().to_arrow().sort_by("id").to_pylist()] == [
        (2, 1, None, {"x": 1, "y": None}, None),
        (3, 2, None, {"x": None, "y": 2}, None),
        (4, 3, None, None, "so"),
    ]
    assert (len(table.snapshots()), len(catalog.log("ns.t"))) == (4, 5)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(Exception, match="no column 'LATE' in the schema"):
            write("5 AS id, 'x' AS LATE")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
