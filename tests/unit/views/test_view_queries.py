"""V1: what a view gives in DuckDB, whatever its names look like and whatever became of what it names."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from core_tables import SCHEMA, rows

import icecore
from icecore.engine.errors import NoSuchTableError, QueryLimitError, ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import FixedType, ListType, LongType, MapType, NestedField, StringType, StructType


def values(catalog: icecore.Catalog, sql: str, **options: object) -> list[object]:
    """The first column of a view of this query, sorted."""
    view = catalog.create_view("ns.v", sql, replace=True, **options)  # type: ignore[call-overload]
    return sorted(view.to_arrow().column(0).to_pylist())


NAMED = [
    "SELECT id FROM events",
    "SELECT id FROM ns.events",
    "SELECT id FROM icecore.ns.events",
    'SELECT "id" FROM "ns"."events"',
    "SELECT events.id FROM ns.events",
    "SELECT ns.events.id FROM ns.events",
    "SELECT NS.Events.ID FROM ns.events",
    "SELECT ns.events.id FROM icecore.ns.events",
    "SELECT icecore.ns.events.id FROM icecore.ns.events",
    "SELECT e.id FROM ns.events AS e",
    "SELECT x FROM ns.events AS e(x, y)",
    "FROM ns.events SELECT id",
    "TABLE events",
    "SELECT * FROM events",
    "WITH events AS (SELECT id FROM events) SELECT * FROM events",
    "WITH a AS (SELECT id FROM ns.events), b AS (SELECT * FROM a) SELECT id FROM B",
    "SELECT id FROM events WHERE id IN (SELECT ns.events.id FROM ns.events)",
    "SELECT id FROM (SELECT * FROM ns.events) AS s",
    "SELECT e.id FROM events e, LATERAL (SELECT e.id AS i) l WHERE l.i = e.id",
    "SELECT a.id FROM events a JOIN ns.events b USING (id)",
    "SELECT id FROM events UNION SELECT id FROM ns.events",
    "WITH RECURSIVE r AS (SELECT min(id) AS id FROM events UNION ALL SELECT id + 1 FROM r WHERE id < 3) FROM r",
    "SELECT id FROM events QUALIFY row_number() OVER (PARTITION BY id) = 1",
]


def test_v1_names_mean_what_the_view_says(catalog: icecore.Catalog, events: icecore.Table) -> None:
    for sql in NAMED:
        assert values(catalog, sql) == [1, 2, 3], sql


def test_v1_short_names_are_looked_for_in_the_default_namespace_of_each_view(
    catalog: icecore.Catalog, events: icecore.Table
) -> None:
    catalog.create_namespace("other")
    catalog.create_table("other.events", SCHEMA).append(rows(10, 20))
    catalog.create_view("ns.ours", "SELECT id FROM events")
    catalog.create_view("ns.theirs", "SELECT id FROM events", default_namespace="other")
    both = "SELECT id FROM ns.ours UNION ALL SELECT id FROM ns.theirs UNION ALL SELECT id FROM events"
    assert values(catalog, both) == [1, 1, 2, 2, 3, 3, 10, 20]


def test_v1_the_default_catalog_is_this_one_unless_the_view_names_another(
    catalog: icecore.Catalog, events: icecore.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert values(catalog, "SELECT id FROM events", default_catalog="icecore") == [1, 2, 3]
    elsewhere = catalog.create_view(
        "ns.e", "SELECT id FROM events", default_catalog="prod", schema=pa.schema([("id", pa.int64())])
    )
    with pytest.raises(NoSuchTableError, match="'events' is in the catalog 'prod'; this one is 'icecore'"):
        elsewhere.to_arrow()
    assert values(catalog, "SELECT id FROM icecore.ns.events", default_catalog="prod") == [1, 2, 3]
    monkeypatch.setenv("ICECORE_CATALOG_ALIASES", "dev, prod")
    assert sorted(elsewhere.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert values(catalog, "SELECT id FROM dev.ns.events", default_catalog="prod") == [1, 2, 3]


def test_v1_a_name_of_three_parts_is_a_catalog_or_a_deeper_namespace(catalog: icecore.Catalog) -> None:
    catalog.create_namespace(("a", "b"))
    catalog.create_table(("a", "b", "t"), SCHEMA).append(rows(5))
    catalog.create_namespace(("icecore", "b"))
    catalog.create_table(("icecore", "b", "t"), SCHEMA).append(rows(6))
    assert values(catalog, "SELECT id FROM a.b.t") == [5]
    assert values(catalog, "SELECT id FROM icecore.a.b.t") == [5]
    assert values(catalog, "SELECT id FROM icecore.b.t") == [6]
    with pytest.raises(NoSuchTableError, match=r"no table or view 'icecore.x.t'; looked for 'x.t' or 'icecore.x.t'"):
        values(catalog, "SELECT id FROM icecore.x.t")


def test_a_view_reads_what_its_tables_hold_now(catalog: icecore.Catalog, events: icecore.Table) -> None:
    view = catalog.create_view("ns.v", "SELECT count(*) AS n FROM events")
    events.append(rows(4, 5))
    assert view.to_arrow()["n"].to_pylist() == [5]
    events.delete("id > 1")
    assert view.to_arrow()["n"].to_pylist() == [1]
    catalog.rename_table("ns.events", "ns.moved")
    with pytest.raises(NoSuchTableError, match=r"view ns\.v: there is no table or view 'events'"):
        view.to_arrow()


def test_views_over_views_are_of_one_state_of_each_table(
    catalog: icecore.Catalog, events: icecore.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.create_view("ns.a", "SELECT id, name FROM events WHERE id > 1")
    catalog.create_view("ns.b", "SELECT id FROM a UNION ALL SELECT id FROM a UNION ALL SELECT id FROM ns.events")
    view = catalog.create_view("ns.c", "SELECT b.id FROM b JOIN a USING (id)")
    load_table = icecore.Catalog.load_table

    def loaded_beside_a_writer(of: icecore.Catalog, name: tuple[str, ...]) -> icecore.Table:
        events.append(rows(4))
        return load_table(of, name)

    monkeypatch.setattr(icecore.Catalog, "load_table", loaded_beside_a_writer)
    assert sorted(view.to_arrow()["id"].to_pylist()) == [2, 2, 2, 3, 3, 3, 4, 4, 4]
    read = catalog.query("SELECT id FROM ns.a WHERE id > 3 UNION ALL SELECT id FROM events", namespace="ns")
    assert sorted(read.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 4, 4, 4]


@pytest.mark.parametrize(
    ("sql", "schema", "wanted"),
    [
        ("SELECT id, name FROM events", None, [{"id": 2, "name": "n2"}]),
        ("SELECT * FROM events", None, [{"id": 2, "name": "n2"}]),
        ("SELECT id, id + 1 FROM events", {"id": pa.int64(), "more": pa.int32()}, [{"id": 2, "more": 3}]),
        (
            "SELECT id, 1.5::DECIMAL(3, 1) FROM events",
            {"id": pa.int64(), "d": pa.decimal128(5, 2)},
            [{"id": 2, "d": Decimal("1.50")}],
        ),
        ("SELECT id, sum(1) FROM events GROUP BY id", {"id": pa.int64(), "n": pa.int64()}, [{"id": 2, "n": 1}]),
        ("SELECT id, sum(1) AS n FROM events GROUP BY id", None, [{"id": 2, "n": Decimal(1)}]),
        ("SELECT id, id::FLOAT FROM events", {"id": pa.int64(), "d": pa.float64()}, [{"id": 2, "d": 2.0}]),
        (
            "SELECT id, name, name FROM events",
            {"id": pa.int64(), "a": pa.string(), "A": pa.string()},
            [{"id": 2, "a": "n2", "A": "n2"}],
        ),
    ],
)
def test_v1_what_is_asked_of_a_view_is_asked_of_its_tables(
    catalog: icecore.Catalog,
    events: icecore.Table,
    sql: str,
    schema: dict[str, pa.DataType] | None,
    wanted: list[dict[str, object]],
) -> None:
    """Its columns are those of its schema, and files that have none of its rows are left out."""
    events.append(rows(4, 5))
    view = catalog.create_view("ns.v", sql, schema=schema and pa.schema(schema))
    asked = catalog.query("SELECT * FROM ns.v WHERE id = 2")
    assert [s.plan().counts.files_planned for s in asked.scans] == [1]
    found = asked.to_arrow()
    assert found.rename_columns([f.name for f in view.schema().fields]).to_pylist() == wanted
    assert found.schema.types == view.to_arrow().schema.types
    assert view.query("SELECT count(*) AS n FROM v WHERE id = 2")["n"].to_pylist() == [1]


@pytest.mark.parametrize("more", [[], [NestedField(9, "f", FixedType(2))]], ids=["within the query", "computed whole"])
def test_v1_a_view_has_the_nulls_that_its_query_gives_whatever_its_schema_requires(
    catalog: icecore.Catalog, events: icecore.Table, more: list[NestedField]
) -> None:
    """Nothing keeps a table's columns from becoming optional after a view of them was made, as Spark makes it."""
    inside = StructType((NestedField(4, "a", LongType(), required=True),))
    required = (
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType(), required=True),
        NestedField(3, "s", inside, required=True),
        NestedField(5, "l", ListType(6, LongType(), element_required=True), required=True),
        NestedField(10, "m", MapType(7, LongType(), 8, LongType(), value_required=True), required=True),
    )
    events.append([{"id": 4, "name": None}])
    value = "CASE WHEN name IS NOT NULL THEN id END"
    columns = f"id, name, {{'a': {value}}}, [{value}], MAP {{id: {value}}}" + (", NULL::BLOB" if more else "")
    schema = Schema((*required, *more))
    view = catalog.create_view("ns.v", f"SELECT {columns} FROM ns.events WHERE id > 2", schema=schema)
    null = {"id": 4, "name": None, "s": {"a": None}, "l": [None], "m": [(4, None)]}
    wanted = [{"id": 3, "name": "n3", "s": {"a": 3}, "l": [3], "m": [(3, 3)]}, null]
    for found in (view.to_arrow(), view.query("FROM v"), catalog.query("FROM ns.v").to_arrow()):
        found.validate(full=True)
        assert not any("not null" in str(f.type) or not f.nullable for f in found.schema)
        assert found.select([f.name for f in required]).sort_by("id").to_pylist() == wanted


def test_v1_the_schema_of_a_view_has_the_names_of_tables_as_its_query_has_them(
    catalog: icecore.Catalog, events: icecore.Table
) -> None:
    view = catalog.create_view("ns.v", "SELECT (SELECT max(id) FROM ns.events) FROM events LIMIT 1")
    assert [f.name for f in view.schema().fields] == ["(SELECT max(id) FROM ns.events)"]
    assert view.to_arrow().to_pylist() == [{"(SELECT max(id) FROM ns.events)": 3}]


def test_v1_where_a_value_may_not_fit_a_view_is_computed_whole(catalog: icecore.Catalog, events: icecore.Table) -> None:
    """DuckDB rounds what Arrow refuses, so Arrow looks at each value."""
    catalog.create_view(
        "ns.v", "SELECT id, id / 10 FROM events", schema=pa.schema({"id": pa.int64(), "tenth": pa.float32()})
    )
    catalog.create_view(
        "ns.w", "SELECT id, id * 1.25 FROM events", schema=pa.schema({"id": pa.int64(), "more": pa.decimal128(9, 1)})
    )
    for name, text in (("ns.v", "0.1 in 'tenth' has no equal as float"), ("ns.w", "doesn't fit its schema")):
        asked = catalog.query(f"SELECT id FROM {name} WHERE id = 2")
        assert asked.scans == []
        for read in (asked.to_arrow, catalog.load_view(name).to_arrow):
            with pytest.raises(ValidationError, match=text):
                read()


def test_v1_bytes_of_another_number_than_a_view_s_schema_says_are_refused(
    catalog: icecore.Catalog, events: icecore.Table
) -> None:
    """To DuckDB, and so to a query within another one, they are of one type with all bytes."""
    schema = pa.schema({"s": pa.struct([("b", pa.binary(2))])})
    catalog.create_view("ns.v", "SELECT {'b': name::BLOB} FROM events", schema=schema)
    asked = catalog.query("SELECT s.b FROM ns.v")
    assert asked.to_arrow()["b"].to_pylist() == [b"n1", b"n2", b"n3"]
    events.append([{"id": 10, "name": "n10"}])
    for read in (catalog.query("SELECT s.b FROM ns.v").to_arrow, catalog.load_view("ns.v").to_arrow):
        with pytest.raises(ValidationError, match=r"view ns\.v: what its query gives doesn't fit its schema"):
            read()


def test_v1_a_value_that_does_not_fit_is_told_with_its_view_and_column(
    catalog: icecore.Catalog, events: icecore.Table
) -> None:
    catalog.create_view("ns.v", "SELECT id << 40 FROM events", schema=pa.schema({"far": pa.int32()}))
    with pytest.raises(ValidationError, match=r"out of range .* column far of view ns\.v"):
        catalog.query("SELECT * FROM ns.v").to_arrow()


def test_a_column_of_a_view_is_not_mistaken_for_one_whose_name_differs_in_case(
    catalog: icecore.Catalog, events: icecore.Table
) -> None:
    schema = pa.schema({"id": pa.int64(), "ID": pa.string()})
    catalog.create_view("ns.v", "SELECT id, name FROM events", schema=schema)
    with pytest.raises(ValidationError, match="columns of v differ in case alone"):
        catalog.query("SELECT ID FROM ns.v")
    assert catalog.query("SELECT ID_1 FROM ns.v WHERE id = 2").fetchall() == [("n2",)]


def test_a_view_that_is_computed_whole_keeps_to_the_limits_of_its_query(
    catalog: icecore.Catalog, events: icecore.Table
) -> None:
    slow = "SELECT count(*) / 2 FROM events, range(1000000000000) WHERE random() < 0"
    catalog.create_view("ns.v", slow, schema=pa.schema({"half": pa.float32()}))
    with pytest.raises(QueryLimitError, match=r"timeout of 0\.05 s"):
        catalog.query("SELECT * FROM ns.v", timeout=0.05).fetchall()


def test_a_view_that_is_computed_whole_is_computed_once(catalog: icecore.Catalog, events: icecore.Table) -> None:
    """So both of its names in a query mean the same rows."""
    catalog.create_view("ns.v", "SELECT random()::VARCHAR FROM events", schema=pa.schema({"r": pa.float64()}))
    assert catalog.query("SELECT count(*) FROM ns.v AS a JOIN ns.v AS b USING (r)").fetchall() == [(3,)]


def test_layers_of_views_that_name_one_below_them_twice_do_not_double_each_other(
    catalog: icecore.Catalog, events: icecore.Table
) -> None:
    """DuckDB would plan 16,384 reads of the table."""
    catalog.create_view("ns.v0", "SELECT id FROM events")
    for i in range(14):
        catalog.create_view(f"ns.v{i + 1}", f"SELECT a.id FROM v{i} AS a JOIN v{i} AS b USING (id)")
    assert catalog.query("SELECT id FROM ns.v14 WHERE id > 1 ORDER BY id").fetchall() == [(2,), (3,)]


def test_views_that_read_themselves_are_found_out(catalog: icecore.Catalog, events: icecore.Table) -> None:
    view = catalog.create_view("ns.a", "SELECT id FROM events")
    catalog.create_view("ns.b", "SELECT id FROM a")
    with pytest.raises(ValidationError, match=r"reads itself: ns.a -> ns.b -> ns.a"):
        view.replace("SELECT id FROM b")
    view.replace("SELECT id FROM b", schema=view.schema())
    for name in ("ns.a", "ns.b"):
        with pytest.raises(ValidationError, match=r"reads itself: ns\.\w -> ns\.\w -> ns\.\w"):
            catalog.load_view(name).to_arrow()
    with pytest.raises(ValidationError, match=r"reads itself: ns.b -> ns.b"):
        catalog.create_view("ns.b", "SELECT id FROM b", replace=True)


def test_a_query_may_name_the_view_and_what_lies_beside_it(catalog: icecore.Catalog, events: icecore.Table) -> None:
    view = catalog.create_view("ns.big", "SELECT id FROM events WHERE id > 1")
    found = view.query("SELECT e.name FROM big JOIN ns.events e USING (id) WHERE id = $id", {"id": 3})
    assert found.to_pydict() == {"name": ["n3"]}
    with pytest.raises(NoSuchTableError, match="the query: there is no table or view 'small'"):
        view.query("SELECT * FROM small")
    with pytest.raises(ValidationError, match="can't be run"):
        view.query("SELECT nothing FROM big")
    with pytest.raises(ValidationError, match=r"^the query can't be parsed"):
        view.query("SELEC")
    with pytest.raises(ValidationError, match=r"^the query must be one SELECT, found 2 statements"):
        view.query("SELECT 1; SELECT 2")


def test_the_rows_can_be_put_into_a_connection_that_is_open(catalog: icecore.Catalog, events: icecore.Table) -> None:
    view = catalog.create_view("ns.v", "SELECT id FROM events")
    with duckdb.connect() as con:
        assert view.to_duckdb("mine", con) is con
        assert con.sql("SELECT sum(id) FROM mine").fetchall() == [(6,)]
    assert view.to_duckdb().sql("SELECT count(*) FROM v").fetchall() == [(3,)]
    assert list(view.to_pandas()["id"]) == [1, 2, 3]


def test_a_view_reaches_no_file_and_no_variable_of_the_program(catalog: icecore.Catalog, tmp_path: object) -> None:
    secret = pa.table({"x": [1]})
    assert secret.num_rows == 1
    (path := tmp_path / "secret.csv").write_text("x\n1\n")  # type: ignore[operator]
    for sql in (f"SELECT * FROM read_csv('{path}')", f"SELECT * FROM '{path}'", "SELECT * FROM secret"):
        with pytest.raises((ValidationError, NoSuchTableError)):
            values(catalog, sql)


def test_time_travel_inside_of_a_view_is_refused_rather_than_ignored(
    catalog: icecore.Catalog, events: icecore.Table
) -> None:
    with pytest.raises(ValidationError, match="AT is not supported"):
        values(catalog, "SELECT id FROM events AT (VERSION => 1)")
