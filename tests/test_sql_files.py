"""SQL is in sql/, as named queries that declare what is put into them; Python generates predicates and columns."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

from icecore.engine.queries.named_queries import queries, query

ROOT = Path(__file__).parents[1]
SQL = ROOT / "sql"
RULES = SQL / "audit"
"""Rules of audits, one a file, which are found by their folder."""
FILES = sorted(str(p.relative_to(SQL)) for p in SQL.rglob("*.sql") if p.parent != RULES)

STATEMENT = re.compile(
    r"""
      \bSELECT\s+[\w*"'($\[{] | \bINSERT\s+(INTO|OR)\b | \bUPDATE\s+\S+\s+SET\b | \bDELETE\s+FROM\b | \bMERGE\s+INTO\b
    | \b(CREATE|DROP|ALTER)\s+(OR\s+REPLACE|TEMP|TEMPORARY|TABLE|VIEW|INDEX|UNIQUE|TRIGGER|MACRO|TYPE|SCHEMA)\b
    | ^\s*WITH\s | \bAS\s+(NOT\s+)?MATERIALIZED\b | \bUNION\b | \bINTERSECT\b | \bEXCEPT\s+SELECT\b
    | ^\s*(FROM|WHERE|JOIN)\s | \b(GROUP|ORDER)\s+BY\b | \b(LEFT|RIGHT|CROSS|INNER|ASOF|POSITIONAL)\s+JOIN\b
    | \bCASE\s+WHEN\b | \blist_\w+\(\s*list_ | \bregexp_\w+\(
    | \bPRAGMA\s | \bSET\s+\w+\s*(=|TO\b) | \b(ATTACH|DETACH|DESCRIBE|RESET|INSTALL|LOAD|COPY)\s+['"{\w]
    | ^\s*(VACUUM|REINDEX|ANALYZE|CHECKPOINT|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|END)(\s+[\w{}]+)*\s*;?\s*$
    """,
    re.VERBOSE | re.MULTILINE,
)

PREDICATE = "a predicate: one of many literals"
SHOWN = "a command that a help shows"
GENERATED = {
    ("engine/expression/sql/duckdb_sql.py", "SELECT value::{} FROM {}"): PREDICATE,
    ("projections/plan/metrics_predicate.py", "{} IN (SELECT unnest(?))"): PREDICATE,
    ("engine/evolution/schema_text.py", "CREATE TABLE t (\n{}\n)"): "columns, parsed to read their types; never run",
    ("engine/cli/querying.py", "icecore query 'SELECT city, sum(amount) FROM shop.orders GROUP BY city'"): SHOWN,
    ("engine/cli/creating.py", 'icecore create-view shop.big --sql "SELECT * FROM orders WHERE amount > 10"'): SHOWN,
    ("engine/cli/reading.py", 'icecore sql "SELECT actor, count(*) AS events FROM log GROUP BY ALL"'): SHOWN,
    ("engine/spark/read/frame_columns.py", "regexp_replace(lower(hex({})), {})"): "a column, in Spark's SQL",
    (
        "engine/demo/story.py",
        '{} sql "SELECT actor, count(*) AS events FROM log GROUP BY ALL"',
    ): "a command that the demo shows to its reader",
}


def literals(source: str) -> Iterator[str]:
    """The strings of a module but docstrings; of those with values in them what is said around these."""
    nodes = list(ast.walk(ast.parse(source)))
    skipped = {id(n.value) for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(v) for v in node.values}
            yield "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@cache
def literals_of(path: Path) -> tuple[str, ...]:
    return tuple(literals(path.read_text()))


def test_no_statement_stands_in_python() -> None:
    """Each string that has the words of one is known here, with a reason."""
    found = {
        (str(path.relative_to(ROOT)), text)
        for folder in ("engine", "projections")
        for path in (ROOT / folder).rglob("*.py")
        for text in literals_of(path)
        if STATEMENT.search(text)
    }
    assert found == GENERATED.keys()


@pytest.mark.parametrize(
    "text",
    [
        '"SELECT min(position) FROM event"',
        'f"SELECT {read} FROM {table}"',
        '" UNION ALL ".join(parts)',
        'f"WITH {files} {pairs}"',
        'f"SET memory_limit = {size}"',
        'f"{a} THEN" + f" WHERE {b}"',
        '"BEGIN IMMEDIATE"',
        'f"CASE WHEN {a} THEN 1 END"',
        "f'({\" UNION ALL \".join(parts)})'",
    ],
)
def test_a_statement_in_python_is_seen(text: str) -> None:
    assert any(STATEMENT.search(t) for t in literals(f"run({text})"))


@pytest.mark.parametrize("text", ["COMMIT failed ({}) and more", "its query must be one SELECT, found {}", "INSERT"])
def test_a_word_of_sql_in_a_message_is_no_statement(text: str) -> None:
    assert not STATEMENT.search(text)


def bodies(path: str) -> dict[str, str]:
    """The queries of a file with their heads, by name. Raises AssertionError where two have one name."""
    _, *parts = re.split(r"^-- name: (.*)$", (SQL / path).read_text(), flags=re.MULTILINE)
    names = parts[::2]
    assert not [n for n, times in Counter(names).items() if times > 1]
    return dict(zip(names, parts[1::2], strict=True))


@pytest.mark.parametrize("path", FILES)
def test_what_is_put_into_a_query_is_declared_in_its_head(path: str) -> None:
    """Each part that is used is declared, each that is declared is used, and neither is told anywhere else."""
    text = (SQL / path).read_text()
    assert text.startswith("-- "), "a file begins with what one row is"
    assert "{" not in text.partition("-- name:")[0], "parts are declared by each query"
    found = queries(path)
    assert found.keys() == bodies(path).keys()
    for name, body in bodies(path).items():
        declared = re.findall(r"^-- \{(\w+)\}: \S", body, re.MULTILINE)
        assert len(set(declared)) == len(declared), name
        used = {part for _, part, _, _ in Formatter().parse(found[name].text) if part is not None}
        assert used == set(declared) == found[name].parts, name
        assert not re.search(r"^-- (.*\{)", found[name].text, re.MULTILINE), f"{name}: parts are declared in the head"


def test_a_query_takes_the_parts_that_it_declares() -> None:
    """Not fewer, not more; and it is the same object each time where it has none."""
    condition = query("plan/rows.sql", "selected", condition="a > 1")
    assert condition == "SELECT place FROM data_rows WHERE a > 1"
    for parts in ({}, {"condition": "TRUE", "where": "TRUE"}, {"where": "TRUE"}):
        with pytest.raises(ValueError, match=r"selected of plan/rows.sql has the parts \['condition'\], found"):
            query("plan/rows.sql", "selected", **parts)
    assert query("log/events.sql", "head") is query("log/events.sql", "head")


def named_queries(module: str, source: str) -> Iterator[tuple[str, str]]:
    """The file and the name of each query that a module names in one call."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        for file, name in zip(call.args, call.args[1:], strict=False):
            if isinstance(name, ast.Constant) and isinstance(file, (ast.Name, ast.Attribute, ast.Constant)):
                if isinstance(file, ast.Constant):
                    path = file.value
                elif not file_constant(ast.unparse(file)):
                    continue
                else:
                    path = eval(ast.unparse(file), vars(importlib.import_module(module)))
                if isinstance(path, str) and path.endswith(".sql"):
                    yield path, str(name.value)


def file_constant(text: str) -> bool:
    return text.rpartition(".")[2].isupper()


def test_each_query_that_is_named_is_there() -> None:
    """In the file that is named with it."""
    found = [
        (path, name)
        for folder in ("engine", "projections")
        for module in (ROOT / folder).rglob("*.py")
        for path, name in named_queries(
            f"icecore.{'.'.join(module.relative_to(ROOT).with_suffix('').parts)}", module.read_text()
        )
    ]
    assert len(found) > 150
    assert [(path, name) for path, name in found if name not in queries(path)] == []


def named_in_python() -> set[str]:
    return {t for f in ("engine", "projections") for p in (ROOT / f).rglob("*.py") for t in literals_of(p)}


def test_each_query_is_named_in_python() -> None:
    """A query that nobody runs goes."""
    known = named_in_python()
    for path in FILES:
        assert path in known, path
        unused = sorted(name for name in queries(path) if name not in known)
        assert unused == [], path
