"""Values that UPDATE and MERGE set: stored by the rules of an INSERT, or refused; and conditions that are NULL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402

AB = pa.struct([("a", pa.int32()), ("b", pa.int32())])
COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("d", pa.date32()), ("s", pa.string()), ("st", AB)])
ROW = {"id": 1, "v": 5, "d": None, "s": "x", "st": {"a": 1, "b": 2}}
MERGE = "MERGE INTO lake.ns.t t USING (SELECT {} AS id, {} AS given) s ON t.id = s.id WHEN"


@pytest.fixture
def table(named_lake: icecore.Catalog) -> Iterator[icecore.Table]:
    made = named_lake.create_table("ns.t", COLUMNS)
    made.append([ROW])
    yield made
    named_lake.drop_table("ns.t")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("v", "true"),
        ("v", "TIMESTAMP'1970-01-01 01:00:00'"),
        ("v", "'12'"),
        ("d", "'2024-01-01'"),
        ("st", "named_struct('b', 1, 'a', 2)"),
        ("st", "named_struct('a', 1, 'b', '2')"),
    ],
)
def test_what_an_insert_refuses_is_refused(spark: Any, table: icecore.Table, column: str, value: str) -> None:
    refused = [
        f"UPDATE lake.ns.t SET {column} = {value}",
        f"UPDATE lake.ns.t SET {column} = {value} WHERE id = 77",
        f"{MERGE.format('1L', value)} MATCHED THEN UPDATE SET {column} = s.given",
        f"{MERGE.format('2L', value)} NOT MATCHED THEN INSERT (id, {column}) VALUES (s.id, s.given)",
        f"{MERGE.format('2L', '1')} NOT MATCHED BY SOURCE THEN UPDATE SET {column} = {value}",
    ]
    for statement in refused:
        with pytest.raises(Exception, match=rf"column .*{column}`?: .*(is not stored as|are not those of)"):
            spark.sql(statement)
    assert table.refresh().scan().to_arrow().to_pylist() == [ROW]


def test_fields_of_structs_are_held_to_it_too(spark: Any, table: icecore.Table) -> None:
    with pytest.raises(Exception, match="BOOLEAN is not stored as INT"):
        spark.sql("UPDATE lake.ns.t SET st.a = true")
    spark.sql("UPDATE lake.ns.t SET st.a = 7L, st.b = CAST('8' AS INT)")
    assert table.refresh().scan().to_arrow()["st"].to_pylist() == [{"a": 7, "b": 8}]


def test_what_an_insert_takes_is_taken(spark: Any, table: icecore.Table) -> None:
    spark.sql(
        "UPDATE lake.ns.t SET v = 3.7D, s = 5, d = TIMESTAMP'2024-01-01 01:00:00', st = named_struct('A', 1L, 'B', 2)"
    )
    spark.sql(f"{MERGE.format('2L', 'CAST(NULL AS VOID)')} NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.given)")
    spark.sql("UPDATE lake.ns.t SET v = CAST('12' AS INT) WHERE id = 2")
    found = [tuple(row)[:4] for row in spark.table("lake.ns.t").orderBy("id").collect()]
    assert [(id, v, str(d), s) for id, v, d, s in found] == [(1, 3, "2024-01-01", "5"), (2, 12, "None", None)]
    spark.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
    try:
        for statement in ("UPDATE lake.ns.t SET v = '13'", "INSERT INTO lake.ns.t (id, v) VALUES (3, '13')"):
            with pytest.raises(Exception, match="LEGACY store assignment policy is disallowed"):
                spark.sql(statement)
    finally:
        spark.conf.unset("spark.sql.storeAssignmentPolicy")


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM lake.ns.t WHERE NULL",
        "UPDATE lake.ns.t SET v = 9 WHERE NULL",
        f"{MERGE.format('1L', '9')} MATCHED AND NULL THEN DELETE",
        "MERGE INTO lake.ns.t t USING (SELECT 1L AS id) s ON NULL WHEN MATCHED THEN DELETE",
    ],
)
def test_a_condition_that_is_null_selects_nothing(spark: Any, table: icecore.Table, statement: str) -> None:
    spark.sql(statement)
    assert table.refresh().scan().to_arrow().to_pylist() == [ROW]
