"""V1: the SQL of a view for each engine: as it is stored, or translated, which the answer says."""

from __future__ import annotations

import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.spec.view import ViewRepresentation, ViewVersion
from icecore.engine.view.view_dialects import ViewSql, representations_of, sql_for
from icecore.engine.view.view_spark import spark_template


def version(*queries: tuple[str, str]) -> ViewVersion:
    return ViewVersion(1, 0, 0, tuple(ViewRepresentation("sql", sql, d) for d, sql in queries), ("ns",))


BOTH = version(("Spark", "select `a` from t"), ("duckdb", 'select "a" from t'))


@pytest.mark.parametrize("dialect", ["spark", "SPARK", "Spark"])
def test_v1_the_stored_sql_is_found_whatever_its_case(dialect: str) -> None:
    found = sql_for(BOTH, dialect, "ns.v")
    assert found == ViewSql("select `a` from t", "Spark", None)
    assert str(found) == "select `a` from t"


def test_v1_another_dialect_is_translated_from_the_first_and_says_so() -> None:
    found = sql_for(version(("duckdb", "SELECT list_value(1, 2) AS l, a::VARCHAR AS q FROM t")), "spark", "ns.v")
    assert (found.dialect, found.transpiled_from) == ("spark", "duckdb")
    assert " ".join(found.sql.split()) == "SELECT ARRAY(1, 2) AS l, CAST(a AS STRING) AS q FROM t"
    assert sql_for(BOTH, "trino", "ns.v").transpiled_from == "Spark"


def test_v1_what_can_not_be_read_is_passed_over_for_the_next_that_can() -> None:
    found = sql_for(version(("klingon", "qapla'"), ("spark", "select ((("), ("duckdb", "SELECT 1")), "trino", "ns.v")
    assert (found.sql, found.transpiled_from) == ("SELECT\n  1", "duckdb")


@pytest.mark.parametrize(
    ("stored", "dialect", "message"),
    [
        (version(), "spark", "has no SQL at all"),
        (version(("klingon", "qapla'")), "spark", "'klingon' is no dialect"),
        (version(("duckdb", "SELECT 1")), "klingon", "'klingon' is no dialect"),
        (version(("duckdb", "SELECT ((")), "spark", "can't be translated to spark"),
        (version(("duckdb", "SELECT 1; SELECT 2")), "spark", "found 2 statements"),
        (version(("duckdb", "SELECT 1")), "", "must be a name"),
    ],
)
def test_v1_where_no_sql_can_be_had_the_error_says_why(stored: ViewVersion, dialect: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        sql_for(stored, dialect, "ns.v")


def test_v1_other_kinds_of_representations_are_passed_over() -> None:
    mixed = ViewVersion(1, 0, 0, (ViewRepresentation("substrait"), *BOTH.representations), ("ns",))
    assert sql_for(mixed, "duckdb", "ns.v").sql == 'select "a" from t'


def test_v1_representations_of_a_call() -> None:
    found = representations_of("select 1", "spark", {"trino": "select 2"})
    assert [(r.dialect, r.sql) for r in found] == [("spark", "select 1"), ("trino", "select 2")]
    assert [r.dialect for r in representations_of(None, "spark", {"trino": "select 2"})] == ["trino"]


@pytest.mark.parametrize(
    ("sql", "expected", "names"),
    [
        ("SELECT id FROM t", "SELECT id FROM {icecore_source_0_} AS `t`", [("t",)]),
        (
            "SELECT /*+ BROADCAST(s) */ id FROM t AS s",
            "SELECT /*+ BROADCAST(s) */ id FROM {icecore_source_0_} AS s",
            [("t",)],
        ),
        ("SELECT '{}' AS x", "SELECT '{}' AS x", []),
        ("SELECT '{}' AS x FROM t", "SELECT '{{}}' AS x FROM {icecore_source_0_} AS `t`", [("t",)]),
        (
            "SELECT cat.ns.t.id, t.s.a, x.s.a FROM cat.ns.t JOIN ns.u x ON x.id = ns.t.id",
            "SELECT t.id, t.s.a, x.s.a FROM {icecore_source_0_} AS `t` JOIN {icecore_source_1_} AS x ON x.id = t.id",
            [("cat", "ns", "t"), ("ns", "u")],
        ),
        (
            "WITH t AS (SELECT * FROM t), u AS (SELECT * FROM T) SELECT * FROM u, (SELECT * FROM t) AS s",
            "WITH t AS (SELECT * FROM {icecore_source_0_} AS `t`), u AS (SELECT * FROM T) "
            "SELECT * FROM u CROSS JOIN (SELECT * FROM t) AS s",
            [("t",)],
        ),
        (
            "SELECT 'icecore_source_' AS s FROM range(3), a.b.c.d",
            "SELECT 'icecore_source_' AS s FROM RANGE(3) CROSS JOIN {icecore_source__0_} AS `d`",
            [("a", "b", "c", "d")],
        ),
    ],
)
def test_names_in_spark_sql_become_placeholders(sql: str, expected: str, names: list[tuple[str, ...]]) -> None:
    template, found, _ = spark_template(sql, "v")
    assert template == expected
    assert list(found.values()) == names


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1; SELECT 2", "one query"),
        ("DROP TABLE t", "one query"),
        ("SELECT ((", "can't be parsed"),
        ("SELECT * FROM t VERSION AS OF 3", "AS OF is not supported"),
    ],
)
def test_spark_sql_that_is_no_plain_query_is_refused(sql: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        spark_template(sql, "v")
