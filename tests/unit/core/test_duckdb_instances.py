"""Instances of DuckDB that are used again have nothing of those who had them before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
from core_tables import make_table, rows

import icecore
from icecore.engine.data.arrow import row_filter
from icecore.engine.queries.duckdb_instances import KeptInstances, SharedInstance


def test_one_holder_at_a_time_finds_it_empty(tmp_path: Path) -> None:
    """Tables, temporary ones, registered names and attached files are gone; a broken or surplus one is not kept."""
    kept = KeptInstances(most_idle=1)
    first, second = kept.take(), kept.take()
    assert first.root is not second.root
    first.connection.execute('CREATE TABLE "a""b" AS SELECT 1; CREATE TEMP TABLE t AS SELECT 1')
    first.connection.execute(f"ATTACH '{tmp_path / 'file.duckdb'}' AS file; CREATE TABLE file.x AS SELECT 1")
    first.connection.register("named", pa.table({"x": [1]}))
    kept.give_back(first)
    kept.give_back(second)
    again, other = kept.take(), kept.take()
    assert again.root is first.root and other.root not in (first.root, second.root)
    found = "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views() WHERE NOT internal"
    assert again.connection.execute(found).fetchall() == []
    again.connection.execute(f"ATTACH '{tmp_path / 'file.duckdb'}' AS of_another")
    again.root.close()
    kept.give_back(again)
    assert kept.take().root is not again.root


def test_a_shared_one_has_names_of_each_connection() -> None:
    """What one connection registers another does not see."""
    shared = SharedInstance()
    one, two = shared.connect(), shared.connect()
    one.register("data_rows", pa.table({"x": [1]}))
    two.register("data_rows", pa.table({"x": [2]}))
    assert one.execute("FROM data_rows").fetchall() == [(1,)] and two.execute("FROM data_rows").fetchall() == [(2,)]


def test_each_connection_of_a_shared_one_begins_with_its_settings() -> None:
    """Also after one changed them, and after the instance was lost, as by an error that is fatal to it."""
    shared = SharedInstance(("utc", "no_files"))
    first = shared.connect()
    first.execute("SET TimeZone = 'Europe/Oslo'")
    second = shared.connect()
    asked = "SELECT current_setting('TimeZone'), current_setting('enable_external_access')"
    assert second.execute(asked).fetchall() == [("UTC", False)]
    shared._root = duckdb.connect()
    shared._root.close()
    assert shared.connect().execute(asked).fetchall() == [("UTC", False)]


@contextmanager
def connects_counted() -> Iterator[list[object]]:
    """A context that collects each making of a DuckDB."""
    made: list[object] = []
    connect = duckdb.connect

    def counted(*args: object, **options: object) -> duckdb.DuckDBPyConnection:
        made.append(args)
        return connect(*args, **options)  # type: ignore[arg-type]

    duckdb.connect = counted
    try:
        yield made
    finally:
        duckdb.connect = connect


def test_what_is_asked_again_makes_no_instance(catalog: icecore.Catalog) -> None:
    """Views, the SQL prompt, audits and compaction: one takes longer to make than their answers."""
    table = make_table(catalog)
    view = catalog.create_view("ns.v", "SELECT 1 AS one")

    def ask() -> None:
        table.append(rows(1, 2))
        table.append(rows(3, 4))
        view.replace("SELECT id FROM t")
        view.to_arrow()
        catalog.sql("SELECT count(*) FROM tables")
        catalog.audit()
        table.rewrite_data_files(options={"min-input-files": "2"})

    ask()
    with connects_counted() as made:
        ask()
    assert made == []


def test_catalogs_one_after_the_other_plan_in_one_instance(tmp_path: Path) -> None:
    """A plan of a second catalog makes no DuckDB, and finds no entries of the first; a forked process makes its own."""

    def ids(name: str) -> list[int]:
        with icecore.open(tmp_path / name) as catalog:
            catalog.create_namespace("ns")
            table = make_table(catalog)
            table.append(rows(1, 2))
            return sorted(table.scan("id < 2").to_arrow()["id"].to_pylist())

    assert ids("first") == [1] and row_filter.connection() is row_filter.connection()
    with connects_counted() as made:
        assert ids("second") == [1] and made == []
        if (pid := os.fork()) == 0:
            os._exit(0 if ids("forked") == [1] and made else 1)
        assert os.waitpid(pid, 0)[1] == 0
