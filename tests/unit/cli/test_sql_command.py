"""`sql` answers what the library's `sql` answers: of now and of the past, within its limits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from click.testing import Result

import icecore
from icecore.projections.audit.audit_tables import AUDIT_TABLES

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def test_sql_from_argument_and_input(run: Run, run_json: RunJson, orders: str) -> None:
    """The same answer both ways; equal column names are told apart."""
    query = "SELECT actor, count(*) AS n FROM log WHERE name = 'shop.orders' GROUP BY ALL ORDER BY ALL"
    expected = [{"actor": "ann", "n": 1}, {"actor": "bob", "n": 1}]
    assert run_json("sql", query) == expected
    assert run_json("sql", "-", text=query) == expected
    assert run_json("sql", "SELECT 1 AS a, 2 AS a") == [{"a": 1, "a_2": 2}]


def test_sql_of_the_past(run: Run, run_json: RunJson, orders: str) -> None:
    """A position or a time, not both."""
    query = "SELECT max(position) AS p FROM log"
    assert run_json("sql", query, "--at", "2") == [{"p": 2}]
    assert run_json("sql", query, "--as-of", "2020-01-01") == [{"p": None}]
    assert "--at or --as-of" in run("sql", query, "--at", "2", "--as-of", "2020-01-01", code=2).stderr


def test_sql_tables_are_those_that_sql_knows(run: Run, run_json: RunJson, orders: str, warehouse: Path) -> None:
    """Each table that is listed can be asked, and has the columns that are listed."""
    tables = run_json("sql", "--tables")
    assert tables.keys() == AUDIT_TABLES.keys()
    with icecore.open(warehouse, read_only=True) as catalog:
        for name, columns in tables.items():
            assert catalog.sql(f"SELECT * FROM {name}").column_names == list(columns), name
    assert "manifest_path" in run("sql", "--tables").stdout


def test_sql_tells_of_a_table_that_cant_be_read(run: Run, orders: str, warehouse: Path, tmp_path: Path) -> None:
    """In one line on standard error; what is answered is on standard output, and the exit code is that of success."""
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        table = other.create_table("ns.bad", pa.schema([("id", pa.int64())]))
        table.append([{"id": 1}])
    for manifest in (tmp_path / "other" / "ns" / "bad" / "metadata").glob("*.avro"):
        manifest.unlink()
    run("register", "shop.bad", str(table.metadata_location))
    command = [sys.executable, "-m", "icecore", "-w", str(warehouse), "-o", "json", "sql"]
    query = "SELECT DISTINCT name FROM files"
    result = subprocess.run([*command, query], capture_output=True, text=True, check=True)
    assert orjson.loads(result.stdout) == [{"name": "orders"}]
    assert result.stderr.startswith("warning: 1 table can't be read and is left out of the answer: shop.bad")
    assert result.stderr.count("\n") == 1
    why = run("sql", "SELECT kind FROM problems", "-o", "json")
    assert (orjson.loads(why.stdout), why.stderr) == ([{"kind": "MissingFileError"}], "")


def test_sql_is_stopped_by_its_limits(run: Run, orders: str) -> None:
    endless = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = 3"
    assert "longer than its timeout of 0.2 s" in run("sql", endless, "--timeout", "0.2", code=1).stderr
    much = "SELECT len(list(x)) FROM (SELECT range::VARCHAR AS x FROM range(3000000))"
    assert "memory limit of 20MB" in run("sql", much, "--memory-limit", "20MB", code=1).stderr
    assert "must be a size" in run("sql", "SELECT 1", "--memory-limit", "lots", code=1).stderr
