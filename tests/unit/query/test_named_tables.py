"""Names of tables in the SQL of queries and views, which are replaced."""

from __future__ import annotations

import itertools

import duckdb
import pytest

from icecore.engine.query.named_tables import named_tables
from icecore.engine.query.source_names import shortened


def test_columns_lose_only_the_names_of_their_tables() -> None:
    tables = [("cat", "ns", "events"), ("t",)]
    assert shortened(("ns", "events", "id"), tables) == ("events", "id")
    assert shortened(("cat", "ns", "events", "s", "a"), tables) == ("events", "s", "a")
    assert shortened(("events", "s", "a"), tables) == ("events", "s", "a")
    assert shortened(("other", "events", "id"), tables) == ("other", "events", "id")
    assert shortened(("ns", "events"), tables) == ("ns", "events")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list_transform([1, 2], lambda x: x + 1), {'a': 1}, MAP {'k': 'it''s'}, e'\\n', DATE '2020-01-01'",
        "SELECT sum(i) FILTER (WHERE i > 1) OVER (ORDER BY i ROWS 1 PRECEDING) FROM range(5) AS r(i)",
        "SELECT * EXCLUDE (b) REPLACE (a + 1 AS a) FROM (SELECT 1 AS a, 2 AS b, 'ü' AS ü)",
        "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) AS v(x, y) WHERE y IS NOT DISTINCT FROM NULL",
        "SELECT CASE WHEN i % 2 = 0 THEN 'even' END AS k, count(*) FROM range(5) r(i) GROUP BY ALL ORDER BY ALL",
        "SELECT * FROM (SELECT 1 AS k, 'a' AS n, 2 AS v) PIVOT (sum(v) FOR n IN ('a', 'b'))",
        "SELECT interval 3 days + TIMESTAMP '2020-01-01', 1::DECIMAL(9, 2) / 3, 7 // 2, 2 ** 3, 'abc'[1:2]",
        "WITH RECURSIVE r(i) AS (SELECT 1 UNION SELECT i + 1 FROM r WHERE i < 4) FROM r ORDER BY i DESC LIMIT 2",
    ],
)
def test_a_query_means_the_same_after_its_names_were_replaced(sql: str) -> None:
    with duckdb.connect() as con:
        text = named_tables(con, sql, "q", None, itertools.count()).sql(con, {})
        assert con.sql(text).fetchall() == con.sql(sql).fetchall()
