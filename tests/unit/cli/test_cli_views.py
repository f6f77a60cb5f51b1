"""Views from the command line: made, listed, described, read, logged, verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result

import icecore

Run = Callable[..., Result]
RunJson = Callable[..., Any]


@pytest.fixture
def notes(run: Run, orders: str) -> str:
    """A view of the orders that have a note."""
    run("create-view", "shop.notes", "--sql", "SELECT id, note FROM orders WHERE note <> ''",
        "--author", "cy", "--message", "what was said")  # fmt: skip
    return "shop.notes"


def test_create_view_reports_what_it_made(run: Run, run_json: RunJson, orders: str) -> None:
    """Text has the number of columns and the version, JSON the description."""
    made = run("create-view", "shop.a", "--sql", "SELECT id FROM orders").stdout
    assert made == "made shop.a: a view of 1 column, version 1\n"
    made = run_json("create-view", "shop.b", "--sql", "SELECT id AS `the id` FROM orders", "--dialect", "spark")
    assert (made["kind"], made["sql"]) == ("view", {"spark": "SELECT id AS `the id` FROM orders"})
    assert [f["name"] for f in made["schema"]["fields"]] == ["the id"]
    assert sorted(r["the id"] for r in run_json("show", "shop.b")) == [1, 2, 3]


def test_create_view_replaces_only_where_told_to(run: Run, run_json: RunJson, notes: str) -> None:
    """The view that is there gets a second version, and keeps the first; a table is never replaced."""
    again = ("create-view", notes, "--sql", "SELECT id FROM orders")
    assert "View already exists: " in run(*again, code=1).stderr
    replaced = run_json(*again, "--replace")
    assert (replaced["current_version_id"], len(replaced["versions"])) == (2, 2)
    refused = run("create-view", "shop.orders", *again[2:], "--replace", code=1).stderr
    assert "Table with same name already exists: shop.orders" in refused


def test_ls_lists_views_among_tables(run: Run, run_json: RunJson, notes: str) -> None:
    """By name, with their kind; a view has no files and no number of rows."""
    listed = run_json("ls")
    assert [(x["name"], x["kind"], x["format"], x["files"], x["rows"]) for x in listed] == [
        ("shop.notes", "view", 1, None, None),
        ("shop.orders", "table", 2, 3, 3),
    ]
    assert listed[0]["updated"] > listed[1]["updated"]
    assert [line.split()[:2] for line in run("ls", "shop").stdout.splitlines()[2:]] == [
        ["shop.notes", "view"],
        ["shop.orders", "table"],
    ]


def test_ls_counts_no_rows_that_may_be_deleted(run: Run, run_json: RunJson, orders: str, warehouse: Path) -> None:
    """With a delete file the number is left out rather than too high."""
    with icecore.open(warehouse) as catalog:
        table = catalog.load_table(orders)
        table.set_properties({"write.delete.mode": "merge-on-read"})
        table.append([{"id": 4, "note": "x"}, {"id": 5, "note": "y"}])
        table.delete("id = 5")
    [listed] = run_json("ls")
    assert (listed["files"], listed["rows"]) == (4, None)
    assert "rows before deletes  5" in run("describe", orders).stdout


def test_describe_says_what_a_view_is(run: Run, run_json: RunJson, notes: str, warehouse: Path) -> None:
    """Columns, SQL of each dialect line by line, versions with the current one marked, properties, names completed."""
    with icecore.open(warehouse) as catalog:
        catalog.load_view(notes).replace(
            representations={"duckdb": "SELECT id\nFROM orders", "spark": "SELECT id FROM shop.orders"},
            comment="ids alone",
        )
    lines = run("describe", notes).stdout.splitlines()
    assert lines[0].split() == ["view", notes]
    assert "    1  id  long" in lines
    assert "default namespace  shop" in lines
    assert "  comment = ids alone" in lines
    first, second = lines[lines.index("versions") + 1 :][:2]
    assert (first.split()[0], first.split()[-1]) == ("1", "duckdb")
    assert (second.split()[0], second.split("Z  ")[1]) == ("2", "duckdb, spark  (current)")
    sql = lines.index("SQL for duckdb")
    assert lines[sql : sql + 5] == [
        "SQL for duckdb", "  SELECT id", "  FROM orders", "SQL for spark", "  SELECT id FROM shop.orders",
    ]  # fmt: skip
    described = run_json("describe", notes)
    assert described["sql"] == {"duckdb": "SELECT id\nFROM orders", "spark": "SELECT id FROM shop.orders"}
    assert (described["default_namespace"], described["default_catalog"]) == (["shop"], None)
    assert [v["version-id"] for v in described["versions"]] == [1, 2]
    assert [h["version-id"] for h in described["history"]] == [1, 2]
    assert Path(described["metadata_location"].removeprefix("file://")).exists()


def test_show_gives_a_view_s_rows(run: Run, run_json: RunJson, notes: str) -> None:
    """Filter, columns and limit as for a table."""
    assert sorted(r["id"] for r in run_json("show", notes)) == [1, 3]
    assert run_json("show", notes, "--where", "id > 1") == [{"id": 3, "note": "last"}]
    assert run_json("show", notes, "--where", "id > 1", "--columns", "note") == [{"note": "last"}]
    assert len(run_json("show", notes, "--limit", "1")) == 1
    assert run_json("show", notes, "--limit", "0") == []
    assert "last" in run("show", notes).stdout


def test_a_filter_finds_nulls_where_the_schema_of_a_view_requires_values(
    run_json: RunJson, warehouse: Path, notes: str
) -> None:
    with icecore.open(warehouse, actor="ann") as catalog:
        schema = pa.schema([pa.field("id", pa.int64()), pa.field("x", pa.int64(), nullable=False)])
        catalog.create_view("shop.nulls", "SELECT id, nullif(id, 3) FROM orders WHERE id IN (1, 3)", schema=schema)
    assert run_json("show", "shop.nulls", "--where", "x IS NULL") == [{"id": 3, "x": None}]
    assert run_json("show", "shop.nulls", "--where", "x IS NOT NULL") == [{"id": 1, "x": 1}]


def test_show_tells_columns_apart_whose_names_differ_in_case(run_json: RunJson, warehouse: Path, notes: str) -> None:
    with icecore.open(warehouse, actor="ann") as catalog:
        schema = pa.schema({"id": pa.int64(), "ID": pa.string()})
        catalog.create_view("shop.cased", "SELECT id, note FROM orders WHERE id = 3", schema=schema)
    assert run_json("show", "shop.cased") == [{"id": 3, "ID": "last"}]
    assert run_json("show", "shop.cased", "--columns", "ID") == [{"ID": "last"}]


def test_show_travels_with_a_view(run: Run, run_json: RunJson, notes: str, tmp_path: Path) -> None:
    """The view and the tables that it names are as they were then."""
    [made] = run_json("log", notes)
    (tmp_path / "4.csv").write_text("id,note\n4,new\n")
    run("append", "shop.orders", str(tmp_path / "4.csv"))
    run("create-view", notes, "--sql", "SELECT id FROM orders", "--replace")
    assert sorted(r["id"] for r in run_json("show", notes)) == [1, 2, 3, 4]
    then = run_json("show", notes, "--as-of", made["recorded_at"])
    assert sorted((r["id"], r["note"]) for r in then) == [(1, "first"), (3, "last")]
    assert "View does not exist: " in run("show", notes, "--as-of", "1999-01-01", code=1).stderr


@pytest.mark.parametrize("arguments", [["--snapshot", "1"], ["--ref", "main"]], ids=" ".join)
def test_a_view_has_no_snapshots(run: Run, notes: str, arguments: list[str]) -> None:
    """Asking for one is a usage error that says so."""
    assert "is a view" in run("show", notes, *arguments, code=2).stderr


@pytest.mark.parametrize("arguments", [["plan", "shop.notes"], ["append", "shop.notes", __file__]], ids=lambda a: a[0])
def test_what_takes_a_table_says_that_it_got_a_view(run: Run, notes: str, arguments: list[str]) -> None:
    assert run(*arguments, code=1).stderr == "error: Table does not exist: shop.notes (it is a view)\n"


def test_errors_in_what_is_asked_of_a_view(run: Run, notes: str) -> None:
    """An unknown column, a filter of the wrong type: one line, exit code 1."""
    for arguments in (["--columns", "nope"], ["--where", "nope = 1"], ["--where", "id = 'x'"]):
        error = run("show", notes, *arguments, code=1).stderr
        assert error.startswith("error: ") and error.count("\n") == 1


def test_log_of_a_view(run: Run, run_json: RunJson, notes: str) -> None:
    """Who made it, when and why, as for tables."""
    [event] = run_json("log", notes)
    assert (event["actor"], event["name"], event["message"]) == ("cy", notes, "what was said")
    assert "create view" in run("log", notes).stdout


def test_verify_and_rebuild_count_views(run: Run, run_json: RunJson, notes: str, warehouse: Path) -> None:
    """The view's metadata is checked, and made again with the same bytes where it was lost."""
    assert (run_json("verify")["tables"], run_json("verify")["views"]) == (1, 1)
    assert "1 table, 1 view" in run("verify").stdout
    [metadata] = (warehouse / "shop" / "notes" / "metadata").iterdir()
    before = metadata.read_bytes()
    metadata.unlink()
    broken = run_json("verify", code=1)
    assert any(metadata.name in p for p in broken["problems"])
    assert run("rebuild").stdout == "rebuilt 1 table and 1 view from 4 events\n"
    assert metadata.read_bytes() == before
    run("verify")
