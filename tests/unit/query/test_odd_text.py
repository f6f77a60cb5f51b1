"""Names and texts that DuckDB means in another way than a table does."""

from __future__ import annotations

import pyarrow as pa
import pytest

import icecore
from icecore.engine.errors import ExpressionError, NoSuchSnapshotError, ValidationError
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.view.view_dialects import transpile
from icecore.engine.view.view_spark import spark_template


def test_a_nul_in_a_query_is_refused(catalog: icecore.Catalog) -> None:
    """DuckDB's tree of a query ends a text there, so that another one would be asked for; a parameter may hold it."""
    table = catalog.create_table("ns.t", pa.schema([("s", pa.string())]))
    table.append([{"s": "a"}, {"s": "a\0b"}])
    with pytest.raises(ValidationError, match="must not hold a NUL"):
        catalog.query("SELECT * FROM ns.t WHERE s = 'a\0b'")
    assert catalog.query("SELECT count(*) FROM ns.t WHERE s = $s", {"s": "a\0b"}).fetchall() == [(1,)]


def test_a_deep_query_is_answered_or_refused(catalog: icecore.Catalog) -> None:
    """A condition that is too deep to be understood leaves no file out; one too deep for DuckDB's tree is refused."""
    table = catalog.create_table("ns.t", pa.schema([("a", pa.int64())]))
    table.append([{"a": 1}, {"a": 2}])
    deep = "a = 1"
    for i in range(60):
        deep = f"(({deep}) AND a < {i + 5} OR a = {-i})"
    assert catalog.query(f"SELECT a FROM ns.t WHERE {deep}").fetchall() == [(1,)]
    for terms in (150, 450, 900):
        for sql in (
            f"SELECT a FROM ns.t WHERE a = {'1 + ' * terms}1",
            f"SELECT {'abs(' * terms}a{')' * terms} FROM ns.t",
        ):
            with pytest.raises(ValidationError, match="nest"):
                catalog.query(sql)
            with pytest.raises(ValidationError, match="nest"):
                catalog.create_view("ns.v", sql)


def test_text_that_is_too_deep_for_its_parser_is_refused(catalog: icecore.Catalog) -> None:
    """Questions to the log, views in other dialects and schemas as text, as filters are."""
    sql = f"SELECT {'abs(' * 400}1{')' * 400}"
    for parse in (
        catalog.sql,
        lambda text: transpile(text, "duckdb", "spark"),
        lambda text: spark_template(text, "the view"),
        lambda _: parse_schema(f"a {'struct<a: ' * 400}int{'>' * 400}"),
    ):
        with pytest.raises(ValidationError, match="recursion depth"):
            parse(sql)


def test_a_number_at_the_end_is_no_other_column(catalog: icecore.Catalog) -> None:
    """A column that differs from another in case alone gets a number, but not the name of a third."""
    table = catalog.create_table("ns.t", pa.schema([(name, pa.int64()) for name in ("a", "A", "a_1")]))
    table.append(pa.table([[1], [2], [3]], schema=table.scan().to_arrow().schema))
    assert catalog.query("SELECT a_1 FROM ns.t WHERE a_1 = 3").fetchall() == [(3,)]
    assert table.scan().to_duckdb("t").sql("SELECT a_1 FROM t").fetchall() == [(3,)]


def test_what_a_scan_is_asked_is_taken_as_it_is(catalog: icecore.Catalog) -> None:
    """An empty name is no branch, there is no hour 25, and a plan is shown whatever its filter."""
    schema = pa.schema([("s", pa.string()), ("x", pa.float64()), ("t", pa.timestamp("us"))])
    table = catalog.create_table("ns.t", schema)
    table.append([{"s": "abc", "x": 1.0, "t": None}])
    with pytest.raises(NoSuchSnapshotError):
        table.scan(ref="").to_arrow()
    with pytest.raises(ExpressionError, match="no hour 25"):
        table.scan("hour(t) = '2024-01-01-25'")
    assert table.scan(limit=2**70).to_arrow().num_rows == 1
    for condition, residual in (("s LIKE '%b%'", '{"type":"not-null","term":"s"}'), ("x < 'inf'", "true")):
        assert table.scan(condition).plan().to_arrow()["residual"].to_pylist() == [residual]


@pytest.mark.usefixtures("few_files")
def test_letters_beyond_ascii_tell_names_apart_by_their_case(catalog: icecore.Catalog) -> None:
    """DuckDB takes only A to Z for a to z."""
    table = catalog.create_table("ns.é", pa.schema([("É", pa.int64()), ("é", pa.int64())]))
    table.append([{"É": 1, "é": 2}])
    wanted = {"É": [1], "é": [2]}
    for sql in (
        'SELECT * FROM "é"',
        'SELECT "é".É, "é" FROM "é", (SELECT 7) AS "É"(x)',
        'WITH "É" AS (FROM "é") FROM "É"',
    ):
        assert catalog.query(sql, namespace="ns").to_arrow().to_pydict() == wanted
    assert table.scan().to_duckdb("t").sql("FROM t").fetchall() == [(1, 2)]
    catalog.create_table("ns.k", pa.schema([("k", pa.int64()), ("\N{KELVIN SIGN}", pa.int64())])).append([{"k": 1}])
    assert catalog.query("SELECT k FROM ns.k WHERE k = 1").fetchall() == [(1,)]


STRUCT = pa.struct([("a", pa.int64()), ("A", pa.int64())])


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT st."A" FROM ns.t',
        'SELECT id FROM ns.t WHERE t.st."A" = 2',
        "SELECT st['A'] FROM ns.t",
        "SELECT l[1].A FROM ns.t",
        "SELECT struct_extract(st, 'A') FROM ns.t",
        "SELECT unnest(st) FROM ns.t",
        "SELECT st.* FROM ns.t",
        "SELECT s.st.A FROM (FROM ns.t) AS s",
        "SELECT x.A FROM (SELECT st AS x FROM ns.v)",
        "SELECT readable_metrics.ID.lower_bound FROM ns.ids.files",
    ],
)
def test_a_field_that_differs_from_another_in_case_alone_is_not_mistaken_for_it(
    catalog: icecore.Catalog, sql: str
) -> None:
    """SQL means the first of them; structs as a whole, and the first by its exact name, are right."""
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("st", STRUCT), ("l", pa.list_(STRUCT))]))
    table.append([{"id": 1, "st": {"a": 1, "A": 2}, "l": [{"a": 1, "A": 2}]}])
    catalog.create_view("ns.v", "FROM ns.t")
    catalog.create_table("ns.ids", pa.schema([("id", pa.int64()), ("ID", pa.int64())])).append([{"id": 1, "ID": 2}])
    assert catalog.query("SELECT st.a, st FROM ns.t WHERE t.st.a = 1 AND st IS NOT NULL").fetchall() == [
        (1, {"a": 1, "A": 2})
    ]
    for read in (catalog.query, lambda text: catalog.create_view("ns.w", text)):
        with pytest.raises(ValidationError, match="differ in case alone"):
            read(sql)
    with pytest.raises(ValidationError, match="fields in the column st differ in case alone"):
        table.scan().to_duckdb()
    assert table.scan(selected_fields=("id",)).to_duckdb().sql("FROM scan").fetchall() == [(1,)]
