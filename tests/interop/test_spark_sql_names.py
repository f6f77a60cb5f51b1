"""`icecore.spark.sql`: tables and views of a catalog by their names in Spark SQL."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import NoSuchSnapshotError, NoSuchTableError, ValidationError  # noqa: E402
from icecore.engine.spark_source.named_sql import bound_text  # noqa: E402


@pytest.fixture
def lake(catalog: icecore.Catalog) -> icecore.Catalog:
    """Tables `ns.t` (ids 1 to 3, one a commit), `ns.u` and one with quoted names, and a view."""
    columns = pa.schema([("id", pa.int64()), ("name", pa.string()), ("st", pa.struct([("x", pa.int64())]))])
    for name in ("ns.t", "ns.u", ("ns", "a `b`.c")):
        catalog.create_table(name, columns)
    for i in (1, 2, 3):
        catalog.load_table("ns.t").append([{"id": i, "name": f"n{i}", "st": {"x": i * 10}}])
    catalog.load_table("ns.u").append([{"id": 2, "name": "two"}, {"id": 5, "name": "five"}])
    catalog.load_table(("ns", "a `b`.c")).append([{"id": 7}])
    catalog.create_view("ns.v", "SELECT id, name FROM ns.t WHERE id > 1")
    return catalog


def rows(spark: Any, lake: icecore.Catalog, query: str, **options: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in icecore.spark.sql(spark, lake, query, **options).collect())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM lake.ns.t", [(1,), (2,), (3,)]),
        ("SELECT t.id, lake.ns.t.name, ns.t.st.x FROM lake.ns.t WHERE lake.ns.t.id = 2", [(2, "n2", 20)]),
        ("SELECT lake.ns.t.* FROM lake.ns.t WHERE st.x = 10", [(1, "n1", (10,))]),
        ("SELECT a.id, b.name FROM lake.ns.t a JOIN lake.ns.u AS b ON a.id = b.id", [(2, "two")]),
        ("WITH t AS (SELECT 9 AS id) SELECT id FROM t UNION ALL SELECT id FROM lake.ns.u", [(2,), (5,), (9,)]),
        ("SELECT id FROM lake.ns.u WHERE id IN (SELECT id FROM lake.ns.t) OR id > (SELECT max(id) FROM lake.ns.t)",
         [(2,), (5,)]),
        ("SELECT id FROM lake.ns.v", [(2,), (3,)]),
        ("SELECT id FROM lake.ns.`a ``b``.c`", [(7,)]),
        ("SELECT count(*), '{x}' FROM lake.ns.t -- {y}", [(3, "{x}")]),
        ("SELECT id FROM lake.ns.t TABLESAMPLE (100 PERCENT) WHERE t.id = 3", [(3,)]),
        ("SELECT x FROM lake.ns.t LATERAL VIEW explode(array(t.id, 8)) e AS x WHERE id = 1", [(1,), (8,)]),
        ("SELECT count(*) FROM lake.ns.t.snapshots", [(3,)]),
        ("SELECT /*+ BROADCAST(b), COALESCE(1) */ a.id FROM lake.ns.t a JOIN lake.ns.u b ON a.id = b.id", [(2,)]),
        ("SELECT /*+ MERGE(t) REPARTITION(2, id) */ id FROM LAKE.ns.t WHERE Lake.ns.t.id = 1", [(1,)]),
        ("SELECT id + 1 FROM range(1)", [(1,)]),
        ("SELECT max(s) FROM (SELECT sum(id) OVER (ORDER BY id) AS s FROM lake.ns.t)", [(6,)]),
        ("SELECT * FROM (SELECT id, name FROM lake.ns.t) PIVOT (count(*) FOR name IN ('n1', 'n2')) WHERE id < 3",
         [(1, 1, None), (2, None, 1)]),
    ],
)  # fmt: skip
def test_names_are_the_catalog_s(
    spark: Any, lake: icecore.Catalog, query: str, expected: list[tuple[Any, ...]]
) -> None:
    assert rows(spark, lake, query) == expected


def test_as_of(spark: Any, lake: icecore.Catalog) -> None:
    """Each table in a query as of its own moment."""
    table = lake.load_table("ns.t")
    first, second, _ = table.snapshots()
    with table.manage_snapshots() as refs:
        refs.create_tag(second.snapshot_id, "two")
    at = dt.datetime.fromtimestamp(first.timestamp_ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    assert rows(spark, lake, f"SELECT count(*) FROM lake.ns.t VERSION AS OF {first.snapshot_id}") == [(1,)]
    assert rows(spark, lake, "SELECT t.id FROM lake.ns.t FOR VERSION AS OF 'two'") == [(1,), (2,)]
    assert rows(spark, lake, f"SELECT count(*) FROM lake.ns.t TIMESTAMP AS OF '{at}' AS x WHERE x.id > 0") == [(1,)]
    assert rows(spark, lake, "SELECT count(*) FROM lake.ns.t TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY") == [
        (3,)
    ]
    for now in ("current_timestamp()", "current_timestamp() AS x", "now() x;", "current_timestamp"):
        assert rows(spark, lake, f"SELECT count(*) FROM lake.ns.t TIMESTAMP AS OF {now}") == [(3,)]
    both = "SELECT a.id FROM lake.ns.t a LEFT ANTI JOIN lake.ns.t VERSION AS OF 'two' b ON a.id = b.id"
    assert rows(spark, lake, both) == [(3,)]
    position = lake.position
    table.delete("true")
    assert rows(spark, lake, "SELECT id FROM lake.ns.t") == []
    past = icecore.spark.sql(spark, lake.at(position), "SELECT count(*) FROM lake.ns.t JOIN lake.ns.v USING (id)")
    assert past.collect()[0][0] == 2
    for query, error in (
        ("SELECT 1 FROM lake.ns.t VERSION AS OF 12", NoSuchSnapshotError),
        ("SELECT 1 FROM lake.ns.t VERSION AS OF 'none'", NoSuchSnapshotError),
        ("SELECT 1 FROM lake.ns.v VERSION AS OF 1", ValidationError),
        ("SELECT 1 FROM lake.ns.t TIMESTAMP AS OF NULL", ValidationError),
    ):
        with pytest.raises(error):
            rows(spark, lake, query)


def test_parameters_and_other_names(spark: Any, lake: icecore.Catalog) -> None:
    """Spark's own tables stay Spark's; the catalog is called as the caller says."""
    spark.range(2).createOrReplaceTempView("t")
    query = "SELECT a.id FROM store.ns.t AS a JOIN t ON a.id = t.id + :more"
    assert rows(spark, lake, query, name="store", args={"more": 2}) == [(2,), (3,)]
    spark.catalog.dropTempView("t")


def test_mistakes_are_named(spark: Any, lake: icecore.Catalog) -> None:
    for query, error, message in (
        ("SELECT * FROM lake.ns.none", NoSuchTableError, "lake.ns.none"),
        ("SELECT FROM WHERE", ValidationError, "can't be parsed"),
        ("SELECT 1; SELECT 2", ValidationError, "one query"),
        ("DELETE FROM lake.ns.t", ValidationError, "one query"),
    ):
        with pytest.raises(error, match=message):
            icecore.spark.sql(spark, lake, query)


def test_only_names_change_in_the_text() -> None:
    text = "select t.a from ns.t tablesample (1 rows) -- c\nwhere b in (select 1 from ns.t version as of 3 + 1 q)"
    assert bound_text(text, lambda parts, moment: None if moment is None else "p") == (
        "select t.a from ns.t tablesample (1 rows) -- c\nwhere b in (select 1 from {p} q)"
    )
    assert bound_text(text, lambda *_: "p") == (
        "select t.a from {p} tablesample (1 rows) AS `t` -- c\nwhere b in (select 1 from {p} q)"
    )
