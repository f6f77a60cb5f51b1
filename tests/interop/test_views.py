"""V1: other engines read the views that are made here: PyIceberg their metadata, Spark and DuckDB their rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from core_tables import local, make_table, pyiceberg_catalog, rows
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import Compressor
from pyiceberg.view.metadata import ViewMetadata as PyViewMetadata

import icecore
from icecore.engine.errors import NoSuchTableError, ValidationError
from icecore.engine.view.view import View


@pytest.fixture
def events(catalog: icecore.Catalog) -> icecore.Table:
    table = make_table(catalog, "events")
    table.append(rows(1, 2, 3))
    table.delete("id = 2")
    return table


def test_v1_pyiceberg_reads_the_metadata_file(catalog: icecore.Catalog, events: icecore.Table) -> None:
    view = catalog.create_view("ns.v", "SELECT id, name AS who FROM events", comment="who")
    view.replace("SELECT who FROM (SELECT name AS who FROM events)")
    with PyArrowFileIO().new_input(view.metadata_location).open() as file:
        data = Compressor.get_compressor(view.metadata_location).stream_decompressor(file).read()
    peer = PyViewMetadata.model_validate_json(data)
    assert (peer.view_uuid, peer.location) == (view.metadata.view_uuid, view.location())
    assert (peer.current_version_id, peer.properties) == (2, {"comment": "who"})
    assert [f.name for s in peer.schemas for f in s.fields] == ["id", "who", "who"]
    assert [v.representations[0].root.sql for v in peer.versions] == [r.representations[0].sql for r in view.versions()]
    assert [e.version_id for e in peer.version_log] == [1, 2]


def test_v1_pyiceberg_sees_no_table_where_a_view_is(
    catalog: icecore.Catalog, events: icecore.Table, warehouse: Path
) -> None:
    catalog.create_view("ns.v", "SELECT id FROM events")
    peer = pyiceberg_catalog(warehouse)
    try:
        assert peer.list_tables("ns") == [("ns", "events")]
        assert not peer.table_exists("ns.v")
        assert sorted(peer.load_table("ns.events").scan().to_arrow()["id"].to_pylist()) == [1, 3]
    finally:
        peer.close()


def spark_rows(view: View, spark: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in view.to_spark(spark).collect())


def duckdb_rows(view: View) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in view.to_arrow().to_pylist())


@pytest.mark.spark
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, name FROM events",
        "SELECT ns.events.id FROM ns.events WHERE ns.events.id > 1",
        "SELECT e.id + 1 AS n FROM icecore.ns.events AS e",
        "SELECT * FROM events",
        "WITH events AS (SELECT id FROM events) SELECT id, '{x}' AS t FROM events",
        "SELECT count(*) AS n, sum(id) AS s, max(name) AS m FROM events",
        "SELECT a.id FROM events a JOIN ns.events b USING (id) WHERE EXISTS (SELECT 1 FROM events c WHERE c.id = a.id)",
        "SELECT 1 AS one, 'x' AS x",
    ],
)
def test_v1_spark_and_duckdb_give_the_same_rows(
    catalog: icecore.Catalog, events: icecore.Table, spark: Any, sql: str
) -> None:
    view = catalog.create_view("ns.v", sql)
    assert view.sql_for("spark").transpiled_from == "duckdb"
    assert spark_rows(view, spark) == duckdb_rows(view) != []
    frame = view.to_spark(spark)
    assert frame.columns == [f.name for f in view.schema().fields]


@pytest.mark.spark
def test_v1_spark_runs_its_own_sql_over_other_views(
    catalog: icecore.Catalog, events: icecore.Table, spark: Any
) -> None:
    catalog.create_namespace("other")
    catalog.create_view("other.double", "SELECT id * 2 AS twice FROM events", default_namespace="ns")
    view = catalog.create_view(
        "ns.v",
        "SELECT `twice` AS t, array(`twice`) AS l FROM other.double LATERAL VIEW explode(array(1, 2)) x AS y",
        dialect="spark",
        schema=pa.schema([("t", pa.int64()), ("l", pa.list_(pa.int64()))]),
    )
    assert view.sql_for("spark").transpiled_from is None
    assert spark_rows(view, spark) == [(2, [2]), (2, [2]), (6, [6]), (6, [6])]
    events.append(rows(5))
    assert len(spark_rows(view, spark)) == 6


@pytest.mark.spark
def test_v1_spark_gives_the_types_of_the_schema(catalog: icecore.Catalog, spark: Any) -> None:
    schema = pa.schema([("d", pa.date32()), ("n", pa.decimal128(9, 2)), ("at", pa.timestamp("us")), ("b", pa.bool_())])
    row = {"d": dt.date(2020, 1, 2), "n": Decimal("1.50"), "at": dt.datetime(2020, 1, 2, 3), "b": True}
    catalog.create_table("ns.t", schema).append(pa.Table.from_pylist([row], schema=schema))
    view = catalog.create_view("ns.v", "SELECT *, sum(n) OVER () AS s FROM t")
    frame = view.to_spark(spark)
    assert frame.schema["s"].dataType.simpleString() == "decimal(38,2)"
    assert [tuple(r) for r in frame.collect()] == [(*row.values(), Decimal("1.50"))]


@pytest.mark.spark
def test_v1_spark_never_rounds_a_value_to_the_type_of_the_schema(catalog: icecore.Catalog, spark: Any) -> None:
    whole = pa.schema([("x", pa.int32())])
    fits = catalog.create_view("ns.fits", "SELECT CAST(2 AS DOUBLE) AS x", schema=whole)
    assert spark_rows(fits, spark) == duckdb_rows(fits) == [(2,)]
    for sql in ("SELECT CAST(2.5 AS DOUBLE) AS x", "SELECT 3000000000 AS x"):
        view = catalog.create_view("ns.v", sql, schema=whole, replace=True)
        with pytest.raises(Exception, match=r"no equal as int|overflow"):
            view.to_spark(spark).collect()
        with pytest.raises(ValidationError, match="doesn't fit its schema"):
            view.to_arrow()


@pytest.mark.spark
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("[{0}::DOUBLE, NULL]", pa.list_(pa.float32())),
        ("{{'a': {0}::DOUBLE}}", pa.struct([("a", pa.float32())])),
        ("[{{'m': MAP(['k'], [{0}::DOUBLE])}}]", pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.float32()))]))),
    ],
)
def test_v1_spark_refuses_a_value_without_an_equal_at_any_depth(
    catalog: icecore.Catalog, spark: Any, value: str, kind: pa.DataType
) -> None:
    schema = pa.schema([("x", kind)])
    fits = catalog.create_view("ns.fits", f"SELECT {value.format('0.5')} AS x", schema=schema)
    assert len(spark_rows(fits, spark)) == len(duckdb_rows(fits)) == 1
    view = catalog.create_view("ns.v", f"SELECT {value.format('0.1')} AS x", schema=schema)
    with pytest.raises(Exception, match="no equal as"):
        view.to_spark(spark).collect()
    with pytest.raises(ValidationError, match="no equal as float"):
        view.to_arrow()


@pytest.mark.spark
def test_spark_says_what_is_wrong_with_a_view(catalog: icecore.Catalog, events: icecore.Table, spark: Any) -> None:
    view = catalog.create_view("ns.a", "SELECT id FROM events")
    catalog.create_view("ns.b", "SELECT id FROM a")
    view.replace("SELECT id FROM b", schema=view.schema())
    with pytest.raises(ValidationError, match=r"reads itself: ns\.a -> ns\.b -> ns\.a"):
        view.to_spark(spark)
    view.replace("SELECT id FROM gone", schema=view.schema())
    with pytest.raises(NoSuchTableError, match="no table or view 'gone'"):
        view.to_spark(spark)
    view.replace("SELECT id, name FROM events", schema=view.schema())
    with pytest.raises(ValidationError, match="replace the view"):
        view.to_spark(spark)


@pytest.mark.spark
def test_spark_is_left_without_the_names_of_a_view(catalog: icecore.Catalog, events: icecore.Table, spark: Any) -> None:
    before = {t.name for t in spark.catalog.listTables()}
    frame = catalog.create_view("ns.v", "SELECT id FROM events").to_spark(spark)
    assert {t.name for t in spark.catalog.listTables()} == before
    assert frame.count() == 2
    assert local(events.metadata_location).exists()
