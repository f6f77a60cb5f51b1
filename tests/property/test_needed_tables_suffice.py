"""What a query can need of the tables is enough: from these alone it has the answer that it has from all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from budgets import examples
from hypothesis import assume, given
from hypothesis import strategies as st

import icecore
from icecore.projections.audit.audit_tables import AUDIT_SCHEMAS
from icecore.projections.audit.needed_tables import NeededTables, needed_tables

NAMED = ("files", "tables", "snapshots", "columns")
TABLES = ("n.x", "n.y", "n.Y", "m.x", "m.it's")
PATTERNS = ("x%", "n.%", "n._", "m%", "m.it''s%", "m.it''s", "Y", "_.x", "%", "n.Y%", "", "%y", "%.%Y%", "_%_")
TEXTS = ("x", "y", "Y", "it''s", "n", "m", "nowhere", "n.x", "m.x")
KEYS = ("name", "namespace", "name_now", "NAME", '"Name"', "file_path", "column_name", "type", "table_uuid")
JOINS = (
    ",",
    "JOIN",
    "INNER JOIN",
    "LEFT JOIN",
    "LEFT OUTER JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "CROSS JOIN",
    "SEMI JOIN",
    "ANTI JOIN",
    "NATURAL JOIN",
    "NATURAL LEFT JOIN",
    "POSITIONAL JOIN",
    "ASOF JOIN",
    "ASOF LEFT JOIN",
)


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, pa.Table]]:
    """The audit tables of a few tables whose names are alike."""
    with icecore.open(tmp_path_factory.mktemp("audit") / "warehouse") as catalog:
        for name in sorted({t.partition(".")[0] for t in TABLES}):
            catalog.create_namespace(name)
        for number, name in enumerate(TABLES):
            table = catalog.create_table(tuple(name.split(".")), pa.schema([(f"c{number % 2}", pa.int64())]))
            for _ in range(number % 3):
                table.append(pa.table({f"c{number % 2}": [number]}))
        yield {name: catalog.sql(f"FROM {name}") for name in NAMED}


texts = st.sampled_from([f"'{t}'" for t in TEXTS])


@st.composite
def conditions(draw: st.DrawFn, names: list[str], depth: int = 2) -> str:
    """A condition over sources of these names."""
    kind = draw(
        st.sampled_from(["=", "=", "=", "IN", "IN", "begins", "begins", "other", "AND", "OR", "NOT", "(", "exists"])
    )
    if depth and kind in ("AND", "OR"):
        left, right = draw(conditions(names, depth - 1)), draw(conditions(names, depth - 1))
        return f"{left} {kind} {right}"
    if depth and kind == "NOT":
        return f"NOT {draw(conditions(names, depth - 1))}"
    if depth and kind == "(":
        return f"({draw(conditions(names, depth - 1))})"
    if depth and kind == "exists":
        inner = draw(conditions(["i", *names], 0))
        return f"EXISTS (SELECT 1 FROM {draw(st.sampled_from(NAMED))} AS i WHERE {inner})"
    key = draw(st.sampled_from(KEYS[:5])) if draw(st.integers(0, 3)) else draw(st.sampled_from(KEYS))
    column = f"{draw(st.sampled_from(names))}.{key}" if draw(st.integers(0, 2)) else key
    column = column if draw(st.integers(0, 4)) else f"{draw(st.sampled_from(['lower', 'LCASE', 'upper']))}({column})"
    if kind == "IN":
        listed = ", ".join(draw(st.lists(texts, min_size=1, max_size=3)))
        return f"{column} IN ({listed})"
    if kind == "begins":
        pattern = f"'{draw(st.sampled_from(PATTERNS))}'"
        forms = ["LIKE", "NOT LIKE", "ILIKE", "^@", f"LIKE {pattern} ESCAPE", "GLOB"]
        one = draw(st.sampled_from([*(f"{column} {form} {pattern}" for form in forms), f"{pattern} LIKE {column}"]))
        call = f"{draw(st.sampled_from(['starts_with', 'ends_with', 'contains']))}({column}, {pattern})"
        return draw(st.sampled_from([one, f"{column} {draw(st.sampled_from(['LIKE', 'ILIKE']))} {pattern}", call]))
    if kind == "=":
        return draw(st.sampled_from([f"{column} = {draw(texts)}", f"{draw(texts)} = {column}"]))
    other = draw(st.sampled_from(["<>", "IS NULL", "IS DISTINCT FROM", "LIKE", ">", "+"]))
    return f"{column} IS NULL" if other == "IS NULL" else f"{column} {other.replace('+', '=')} {draw(texts)}"


@st.composite
def sources(draw: st.DrawFn, alias: str, depth: int) -> str:
    if depth and draw(st.integers(0, 5)) == 0:
        return f"({draw(selects(depth - 1))}) AS {alias}"
    return f"{draw(st.sampled_from([*NAMED, 'FILES', 'cte']))} AS {alias}"


@st.composite
def selects(draw: st.DrawFn, depth: int = 2) -> str:
    """A SELECT of one to three sources."""
    aliases = list("abc"[: draw(st.integers(1, 3))])
    text = f"SELECT * FROM {draw(sources('a', depth))}"
    for n, alias in enumerate(aliases[1:], 1):
        join = draw(st.sampled_from(JOINS[:9] if draw(st.integers(0, 4)) else JOINS))
        text += f" {join} {draw(sources(alias, depth))}"
        if join.startswith("ASOF"):
            text += f" ON a.name >= {alias}.name"
        elif "NATURAL" not in join and join not in (",", "CROSS JOIN", "POSITIONAL JOIN"):
            on = f"ON a.name = {alias}.name AND {draw(conditions(aliases[: n + 1], 1))}"
            text += " " + draw(st.sampled_from(["USING (name)", "USING (namespace, name)", on, on]))
    if draw(st.integers(0, 4)):
        text += f" WHERE {draw(conditions(aliases))}"
    if depth and not draw(st.integers(0, 5)):
        text += f" UNION ALL BY NAME {draw(selects(depth - 1))}"
    return text


@st.composite
def queries(draw: st.DrawFn) -> str:
    cte = draw(st.sampled_from(["cte", "cte", "cte", "files", "tables"]))
    return f"WITH {cte} AS ({draw(selects(0))}) {draw(selects())}".replace("FROM cte", f"FROM {cte}")


def answer(tables: dict[str, pa.Table], query: str) -> Counter[str] | None:
    """The rows, in any order; None of a query that is wrong."""
    with duckdb.connect(":memory:") as con:
        for name, table in tables.items():
            con.register(name, table)
        try:
            return Counter(map(repr, con.execute(query).fetchall()))
        except duckdb.Error:
            return None


def only(table: pa.Table, needed: NeededTables) -> pa.Table:
    """The rows that are of needed tables."""
    keys = table.append_column("none", pa.nulls(len(table), pa.string())).rename_columns(
        [*table.column_names, "none" if "table_uuid" in table.column_names else "table_uuid"]
    )
    rows = keys.select(["namespace", "name", "table_uuid", "name_now"]).to_pylist()
    return table.filter(pa.array([needed.has(row) for row in rows], pa.bool_()))


@examples(18, new=350)
@given(query=queries())
def test_the_answer_from_what_is_needed_is_the_answer_from_all(audit: dict[str, pa.Table], query: str) -> None:
    """Joins of every kind, subqueries, CTEs that hide a table, and names in any case."""
    expected = answer(audit, query)
    assume(expected is not None)
    needed = needed_tables(sqlglot.parse_one(query, dialect="duckdb"), AUDIT_SCHEMAS)
    left = {name: only(table, needed[name]) for name, table in audit.items() if name in needed}
    assert answer(left, query) == expected, needed
