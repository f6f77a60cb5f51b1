"""Changes of fields inside of structs, also of structs that were null."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.spec.schema import Schema  # noqa: E402
from icecore.engine.spec.types import IntegerType, LongType, NestedField, StringType, StructType  # noqa: E402

INNER = StructType((NestedField(5, "c", IntegerType()), NestedField(6, "d.e", StringType())))
STRUCT = StructType(
    (NestedField(3, "a", IntegerType()), NestedField(4, "in", INNER), NestedField(7, "b", StringType()))
)
ROWS = [
    {"id": 1, "st": None},
    {"id": 2, "st": {"a": 1, "in": None, "b": "x"}},
    {"id": 3, "st": {"a": 2, "in": {"c": 3, "d.e": "y"}, "b": None}},
]
SOURCE = "(SELECT explode(array(1L, 2L, 3L)) AS id, 9 AS z)"


@pytest.fixture
def table(named_lake: icecore.Catalog) -> Iterator[icecore.Table]:
    schema = Schema((NestedField(1, "id", LongType()), NestedField(2, "st", STRUCT)))
    made = named_lake.create_table("ns.t", schema, format_version=3)
    made.append(ROWS)
    yield made
    named_lake.drop_table("ns.t")


def merge(table: icecore.Table, spark: Any, values: dict[str, str]) -> None:
    source = spark.sql(f"SELECT * FROM {SOURCE}")
    table.spark.merge(source, on=["id"]).when_matched_update(values).commit()


CHANGES: dict[str, Callable[[Any, icecore.Table], Any]] = {
    "update": lambda spark, table: table.spark.update({"st.a": 9, "st.in.c": "coalesce(target.st.in.c, 0) + 1"}),
    "update by sql": lambda spark, table: spark.sql(
        "UPDATE lake.ns.t SET st.a = 9, st.in.c = coalesce(st.in.c, 0) + 1"
    ),
    "merge": lambda spark, table: merge(table, spark, {"st.a": "z", "st.in.c": "coalesce(target.st.in.c, 0) + 1"}),
    "merge by sql": lambda spark, table: spark.sql(
        f"MERGE INTO lake.ns.t t USING {SOURCE} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET st.a = s.z, "
        "st.in.c = coalesce(t.st.in.c, 0) + 1"
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_field_of_a_null_struct_is_set(
    spark: Any, table: icecore.Table, change: Callable[[Any, icecore.Table], Any]
) -> None:
    change(spark, table)
    found = {row["id"]: row["st"] for row in table.refresh().scan().to_arrow().to_pylist()}
    assert found == {
        1: {"a": 9, "in": {"c": 1, "d.e": None}, "b": None},
        2: {"a": 9, "in": {"c": 1, "d.e": None}, "b": "x"},
        3: {"a": 9, "in": {"c": 4, "d.e": "y"}, "b": None},
    }


def test_rows_that_do_not_match_and_fields_that_are_not_set_stay(spark: Any, table: icecore.Table) -> None:
    table.spark.update({"st.b": "'new'"}, "id = 3")
    table.spark.update({"st.in": "named_struct('c', 1, 'd.e', 'z')", "st.a": "NULL"}, "id = 2")
    found = {row["id"]: row["st"] for row in table.refresh().scan().to_arrow().to_pylist()}
    assert found == {
        1: None,
        2: {"a": None, "in": {"c": 1, "d.e": "z"}, "b": "x"},
        3: {"a": 2, "in": {"c": 3, "d.e": "y"}, "b": "new"},
    }


def test_a_null_struct_whose_other_field_is_required_is_an_error(spark: Any, named_lake: icecore.Catalog) -> None:
    struct = StructType((NestedField(3, "a", IntegerType()), NestedField(4, "b", IntegerType(), True)))
    schema = Schema((NestedField(1, "id", LongType()), NestedField(2, "st", struct)))
    table = named_lake.create_table("ns.required", schema, format_version=3)
    table.append([{"id": 1, "st": None}, {"id": 2, "st": {"a": 1, "b": 2}}])
    before = table.current_snapshot()
    with pytest.raises(ValidationError, match=r"'st\.b' is required"):
        table.spark.update({"st.a": 9})
    with pytest.raises(Exception, match=r"'st\.b' is required"):
        spark.sql("UPDATE lake.ns.required SET st.a = 9")
    assert table.refresh().current_snapshot() == before
    table.spark.update({"st.a": 9}, "st.b = 2")
    assert table.refresh().scan("st.a = 9").count() == 1


def test_fields_whose_names_differ_in_case_alone_are_told_apart(spark: Any, named_lake: icecore.Catalog) -> None:
    fields = (NestedField(3, "a", LongType()), NestedField(4, "A", StringType()), NestedField(5, "x", LongType()))
    schema = Schema((NestedField(1, "id", LongType()), NestedField(2, "st", StructType(fields))))
    table = named_lake.create_table("ns.alike", schema, format_version=3)
    table.append([{"id": 1, "st": None}, {"id": 2, "st": {"a": 1, "A": "y", "x": 2}}])
    table.spark.update({"st.x": 9})
    table.spark.update({"st.A": "'z'"}, "id = 2")
    found = {row["id"]: row["st"] for row in table.refresh().scan().to_arrow().to_pylist()}
    assert found == {1: {"a": None, "A": None, "x": 9}, 2: {"a": 1, "A": "z", "x": 9}}


def test_a_field_is_told_from_a_column_whose_name_has_dots(
    spark: Any, named_lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQL says which one it means; in text a column's own name goes first, then the way that leads somewhere.

    No such table can be made any more, but some were.
    """
    monkeypatch.setattr(Schema, "check_unambiguous", lambda schema: None)
    outer = StructType((NestedField(4, "b", LongType()), NestedField(5, "c.d", LongType())))
    dotted = StructType((NestedField(7, "e", LongType()),))
    fields = (NestedField(2, "a.b", LongType()), NestedField(3, "a", outer), NestedField(6, "a.c", dotted))
    table = named_lake.create_table("ns.dots", Schema((NestedField(1, "id", LongType()), *fields)), format_version=3)
    table.append([{"id": 1, "a.b": 1, "a": {"b": 2, "c.d": 3}, "a.c": {"e": 4}}])

    def found() -> list[Any]:
        [row] = table.refresh().scan().to_arrow().to_pylist()
        return [row["a.b"], *row["a"].values(), *row["a.c"].values()]

    spark.sql("UPDATE lake.ns.dots SET a.b = 20, `a.c`.e = 40")
    assert found() == [1, 20, 3, 40]
    source = "(SELECT 1L AS id)"
    matched = "WHEN MATCHED THEN UPDATE SET `a.b` = 10, t.a.b = 21, a.`c.d` = 30"
    spark.sql(f"MERGE INTO lake.ns.dots t USING {source} s ON t.id = s.id {matched}")
    assert found() == [10, 21, 30, 40]
    table.refresh().spark.update({"a.b": "11L", "a.c.d": "31L", "a.c.e": "41L"})
    assert found() == [11, 21, 31, 41]
