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
        ("st", "named_struct('a', 1, 'b', '2')"),
        ("st", "named_struct('b', 1, 'a', '2')"),
        ("st", "named_struct('x', 1, 'b', 2)"),
        ("st", "named_struct('a', 1, 'A', 2)"),
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


def test_fields_of_structs_go_by_their_names(spark: Any, named_lake: icecore.Catalog) -> None:
    """In another order too, inside of structs, lists and maps; what is null stays null."""
    columns = [("st", AB), ("n", pa.struct([("x", AB), ("y", AB)])), ("l", pa.list_(AB)), ("m", pa.map_(AB, AB))]
    table = named_lake.create_table("ns.named", pa.schema([("id", pa.int64()), *columns]))
    own = {"a": 1, "b": 2}
    table.append([{"id": 1, "st": own, "n": {"x": own, "y": own}, "l": [own], "m": [(own, own)]}])

    def found() -> list[Any]:
        return [tuple(row.values())[1:] for row in table.refresh().scan().to_arrow().sort_by("id").to_pylist()]

    turned = "named_struct('b', st.a, 'a', 10L)"
    values = [
        turned,
        f"named_struct('y', CAST(NULL AS STRUCT<b: INT, a: INT>), 'x', {turned})",
        f"array({turned}, NULL)",
        f"map({turned}, {turned}, named_struct('b', 7, 'a', 8), NULL)",
    ]
    names = [name for name, _ in columns]
    by_name, other = {"a": 10, "b": 1}, {"a": 8, "b": 7}
    expected = (by_name, {"x": by_name, "y": None}, [by_name, None], [(by_name, by_name), (other, None)])
    spark.sql(f"UPDATE lake.ns.named SET {', '.join(f'{n} = {v}' for n, v in zip(names, values, strict=True))}")
    assert found() == [expected]
    taken = (
        f"SELECT explode(array(1L, 2L)) AS id, {', '.join(f'{v} AS {n}' for n, v in zip(names, values, strict=True))}"
    )
    source = f"({taken} FROM (SELECT named_struct('a', 1, 'b', 2) AS st) AS given)"
    table.spark.update({"n.x": "NULL", "l": "NULL"})
    spark.sql(
        f"MERGE INTO lake.ns.named t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert found() == [expected, expected]
    for value, left in (("NULL", [None, None]), (f"if(t.id = 1, NULL, {turned})", [None, {"a": 10, "b": None}])):
        spark.sql(
            "MERGE INTO lake.ns.named t USING (SELECT 3L AS id) s ON t.id = s.id "
            f"WHEN NOT MATCHED BY SOURCE THEN UPDATE SET st = {value}"
        )
        assert [row[0] for row in found()] == left


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
