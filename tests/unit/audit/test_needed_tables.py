"""Which tables a query can need, by the names in its conditions; in any doubt all."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

import pytest
import sqlglot
from core_tables import make_table, rows

import icecore
from icecore.projections.audit.audit_tables import AUDIT_SCHEMAS
from icecore.projections.audit.needed_tables import Matching, OneOf, Texts, needed_tables

X: Mapping[str, set[str]] = {"name": {"x"}}
SOME = ("x", "X", "xa", "XY", "x1y", "x\n", "ax", "bxb", "y", "z", "a.x", "ab-c", "é", "")
"""Texts that a pattern may have; what is not ASCII may be anything in small letters."""


def limits_of(
    query: str, parameters: Mapping[str, Any] | None = None
) -> dict[str, list[Mapping[str, set[str]]] | None]:
    """For each audit table, what each mention of it is limited to; None where all tables are needed."""
    found = needed_tables(sqlglot.parse_one(query, dialect="duckdb"), AUDIT_SCHEMAS, parameters)
    return {
        name: None if n.limits is None else [{k: told(v) for k, v in limit.items()} for limit in n.limits]
        for name, n in found.items()
    }


def told(texts: Container[str]) -> set[str]:
    """The texts, where they are known one by one; else those of some."""
    assert isinstance(texts, Texts)
    return {*texts.texts} if isinstance(texts, OneOf) else {t for t in SOME if t in texts}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("FROM files WHERE name LIKE 'x%'", {"files": [{"name": {"x", "xa", "x1y", "x\n"}}]}),
        ("FROM files WHERE name LIKE 'x_y%' OR name = 'z'", {"files": [{"name": {"x1y", "z"}}]}),
        ("FROM files WHERE name LIKE '%x'", {"files": [{"name": {"x", "ax", "a.x"}}]}),
        ("FROM files WHERE name LIKE 'x'", {"files": [X]}),
        ("FROM files WHERE name LIKE ''", {"files": [{"name": {""}}]}),
        ("FROM files WHERE name LIKE '_._'", {"files": [{"name": {"a.x"}}]}),
        ("FROM files WHERE name ILIKE 'X%'", {"files": [{"name": {"x", "X", "xa", "XY", "x1y", "x\n", "é"}}]}),
        ("FROM files WHERE lower(name) = 'x'", {"files": [{"name": {"x", "X", "é"}}]}),
        ("FROM files WHERE lower(name) = 'X'", {"files": [{"name": {"é"}}]}),
        ("FROM files WHERE 'xy' = lower(name) OR name = 'xy'", {"files": [{"name": {"XY", "é"}}]}),
        ("FROM files WHERE lower(name) LIKE '%Y'", {"files": [{"name": {"é"}}]}),
        ("FROM files WHERE lower(name) LIKE '%y' AND name LIKE '__'", {"files": [{"name": {"XY"}}]}),
        ("FROM files WHERE lower(name) IN ('x', 'y')", {"files": [{"name": {"x", "X", "y", "é"}}]}),
        ("FROM files WHERE ends_with(name, '.x')", {"files": [{"name": {"a.x"}}]}),
        ("FROM files WHERE contains(name, 'xb')", {"files": [{"name": {"bxb"}}]}),
        ("FROM files WHERE name LIKE '%x%b%'", {"files": [{"name": {"bxb"}}]}),
        ("FROM files WHERE name_now LIKE 'x%' AND name_now LIKE 'x_y%'", {"files": [{"name_now": {"x1y"}}]}),
        ("FROM files WHERE name LIKE 'x%' AND name LIKE 'y%'", {"files": [{"name": set()}]}),
        ("FROM files WHERE name IN ('xa', 'y') AND name LIKE 'x%'", {"files": [{"name": {"xa"}}]}),
        ("FROM files WHERE starts_with(name, 'x.')", {"files": [{"name": set()}]}),
        ("FROM files WHERE namespace ^@ 'a.'", {"files": [{"namespace": {"a.x"}}]}),
        ("FROM tables WHERE table_uuid LIKE 'AB%'", {"tables": [{"table_uuid": {"ab-c"}}]}),
        ("FROM files WHERE name = 'x'", {"files": [X]}),
        ("FROM files WHERE 'x' = files.name", {"files": [X]}),
        ('SELECT * FROM FILES AS "F" WHERE f."NAME" = \'x\'', {"files": [X]}),
        ("FROM files WHERE name = 'it''s'", {"files": [{"name": {"it's"}}]}),
        (
            "FROM files WHERE name IN ('x', 'y') AND (namespace = 'n')",
            {"files": [{"name": {"x", "y"}, "namespace": {"n"}}]},
        ),
        ("FROM files WHERE name = 'x' OR name = 'y'", {"files": [{"name": {"x", "y"}}]}),
        ("FROM files WHERE name = 'x' AND name = 'y'", {"files": [{"name": set()}]}),
        ("FROM files WHERE name = 'x' AND record_count > 3", {"files": [X]}),
        ("FROM files WHERE name_now = 'n.x' OR name_now IN ('m.y')", {"files": [{"name_now": {"n.x", "m.y"}}]}),
        ("FROM tables WHERE table_uuid = 'AB-cd'", {"tables": [{"table_uuid": {"ab-cd"}}]}),
        ("SELECT (SELECT count(*) FROM files WHERE name = 'x')", {"files": [X]}),
        ("FROM (SELECT * FROM files WHERE name = 'x') AS f", {"files": [X]}),
        ("WITH f AS (SELECT * FROM files WHERE name = 'x') SELECT * FROM f", {"files": [X]}),
        ("FROM files WHERE name = 'x' UNION ALL FROM files WHERE name = 'y'", {"files": [X, {"name": {"y"}}]}),
        ("SELECT * FROM files f JOIN tables t ON f.name = t.name AND f.name = 'x'", {"files": [X], "tables": None}),
        ("SELECT * FROM tables t LEFT JOIN files f ON f.name = 'x'", {"files": [X], "tables": None}),
        ("SELECT * FROM files JOIN tables USING (namespace, name) WHERE name = 'x'", {"files": [X], "tables": [X]}),
        ("SELECT * FROM files f JOIN tables t USING (name) WHERE t.name = 'x'", {"files": [X], "tables": [X]}),
        ("SELECT * FROM files f, (SELECT 'x' AS name) t WHERE t.name = 'x'", {"files": None}),
        ("SELECT * FROM files f JOIN tables t USING (namespace) WHERE t.name = 'x'", {"files": None, "tables": [X]}),
        ("SELECT * FROM files f LEFT JOIN tables t USING (name) WHERE t.name = 'x'", {"files": None, "tables": [X]}),
        ("SELECT * FROM files f FULL JOIN tables t USING (name) WHERE f.name = 'x'", {"files": [X], "tables": None}),
        (
            "SELECT * FROM files JOIN log USING (snapshot_id) WHERE namespace = 'n'",
            {"files": [{"namespace": {"n"}}], "log": None},
        ),
    ],
)
def test_names_in_conditions_are_what_is_needed(query: str, expected: object) -> None:
    assert limits_of(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "FROM files",
        "FROM files f JOIN log l USING (name) WHERE f.name = 'x'",
        "FROM files WHERE name = 'x' UNION ALL FROM files",
        "FROM files WHERE NOT name = 'x'",
        "FROM files WHERE name <> 'x'",
        "FROM files WHERE name NOT LIKE 'x%'",
        "FROM files WHERE name NOT ILIKE 'x%'",
        "FROM files WHERE name ILIKE 'é%'",
        "FROM files WHERE NOT lower(name) = 'x'",
        "FROM files WHERE lower(file_path) = 'x'",
        "FROM files WHERE upper(name) = 'X'",
        "FROM files WHERE name LIKE 'x!%' ESCAPE '!'",
        "FROM files WHERE 'x%' LIKE name",
        "FROM files WHERE name LIKE ANY (['x%'])",
        "FROM files WHERE NOT starts_with(name, 'x')",
        "FROM files WHERE starts_with('x', name)",
        "FROM files WHERE name COLLATE NOCASE = 'X'",
        "FROM files WHERE name = 'x' OR spec_id = 0",
        "FROM files WHERE name = upper('x')",
        "FROM files WHERE name IN ('x', upper('y'))",
        "FROM files WHERE name IN (SELECT 'x')",
        "FROM files WHERE name = E'\\x78'",
        "FROM files WHERE file_path = 'x'",
        "FROM files WHERE name IS NOT DISTINCT FROM 'x'",
        "FROM files AS f (name, namespace) WHERE name = 'x'",
        "FROM files TABLESAMPLE 50% WHERE name = 'x'",
        "FROM files WHERE name = 'x' USING SAMPLE 3 ROWS",
        "FROM (PIVOT files ON content USING count(*)) WHERE name = 'x'",
        "FROM (files) WHERE name = 'x'",
        "SELECT count(*) FILTER (WHERE name = 'x') FROM files",
        "SELECT name FROM files GROUP BY name HAVING name = 'x'",
        "SELECT * FROM files QUALIFY name = 'x'",
        "WITH files AS (SELECT * FROM files) SELECT * FROM files WHERE name = 'x'",
        "WITH f AS (SELECT * FROM files) SELECT * FROM f WHERE name = 'x'",
        "SELECT * FROM files f LEFT JOIN log l ON f.name = 'x'",
        "SELECT * FROM files f FULL JOIN log l ON f.name = 'x'",
        "SELECT * FROM files f SEMI JOIN log l ON f.name = 'x'",
        "SELECT * FROM log l ANTI JOIN files f ON f.name = 'x'",
        "SELECT * FROM log l POSITIONAL JOIN files f WHERE f.name = 'x'",
        "SELECT * FROM log l ASOF JOIN files f ON l.position >= f.sequence_number WHERE f.name = 'x'",
        "SELECT * FROM files NATURAL JOIN log WHERE name = 'x'",
        "SELECT * FROM files, (SELECT 'x' AS name) AS other WHERE name = 'x'",
        "FROM files WHERE name = 'x' UNION ALL FROM query_table('files')",
        "SUMMARIZE files",
    ],
)
def test_in_any_doubt_all_are_needed(query: str) -> None:
    assert limits_of(query)["files"] is None


@pytest.mark.parametrize("one", ["name LIKE 'x{}%'", "lower(name) = 'x{}'", "contains(name, 'x{}')"])
def test_many_conditions_are_not_one_inside_the_other(one: str) -> None:
    query = f"FROM files WHERE {' OR '.join(one.format(i) for i in range(400))}"
    found = needed_tables(sqlglot.parse_one(query, dialect="duckdb"), AUDIT_SCHEMAS)["files"]
    keys = dict.fromkeys(("namespace", "name_now", "table_uuid"))
    assert found.has({**keys, "name": "x399"}) and not found.has({**keys, "name": "y"})


def test_patterns_are_tried_once() -> None:
    """Ten places for each of twenty parts would be tried for longer than anyone waits."""
    assert "a" * 200 not in Matching.like("%a" * 20 + "%b")


@pytest.mark.parametrize(
    ("query", "parameters", "expected"),
    [
        ("FROM files WHERE name = $name", {"name": "x"}, [X]),
        ("FROM files WHERE name = $1 AND spec_id = $2", {"1": "x", "2": 0}, [X]),
        ("FROM files WHERE name = ?", {"1": "x"}, [X]),
        ("FROM files WHERE spec_id = ? AND name = ?", {"1": 0, "2": "x"}, None),
        ("FROM files WHERE name = $name", {}, None),
        ("FROM files WHERE name = $name", {"name": None}, None),
    ],
)
def test_parameters_are_names_too(query: str, parameters: dict[str, Any], expected: object) -> None:
    """Which of several `?` is which is not looked into."""
    assert limits_of(query, parameters)["files"] == expected


@pytest.mark.parametrize("table", ["commits", "events", "property_history", "files", "tables", "dropped_tables"])
def test_a_name_now_finds_what_had_another_name_and_nothing_that_was_dropped(
    catalog: icecore.Catalog, table: str
) -> None:
    """The rows are those that are left of all rows."""
    for name in ("kept", "renamed", "dropped"):
        made = make_table(catalog, name, properties={"a": "b"})
        made.append(rows(1))
    catalog.rename_table("ns.renamed", "ns.kept_too")
    catalog.drop_table("ns.dropped")
    every = catalog.sql(f"SELECT * FROM {table} ORDER BY ALL").to_pylist()
    for name in ("ns.kept", "ns.kept_too", "ns.renamed", "ns.dropped"):
        found = catalog.sql(f"SELECT * FROM {table} WHERE name_now = '{name}' ORDER BY ALL").to_pylist()
        assert found == [row for row in every if row["name_now"] == name]
