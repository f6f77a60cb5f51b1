"""Warehouses, tables, views and namespaces are made and registered by commands, with every option."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner, Result

import icecore
from icecore.engine.cli.main import cli

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def test_init_makes_a_warehouse_once(run: Run, run_json: RunJson, warehouse: Path) -> None:
    """A second init says so and changes nothing; another name is refused."""
    assert "made" in run("init", "--name", "lake").stdout
    again = run_json("init")
    assert again == {
        "warehouse": str(warehouse),
        "name": "lake",
        "log": str(warehouse / "icecore.db"),
        "new": False,
    }
    assert "'lake'" in run("init", "--name", "pond", code=1).stderr


def test_init_tells_a_new_log_from_another_programs_database(run: Run, run_json: RunJson, warehouse: Path) -> None:
    """An empty name is refused before anything is made."""
    assert "not empty" in run("init", "--name", "", code=1).stderr and not warehouse.exists()
    warehouse.mkdir()
    sqlite3.connect(warehouse / "icecore.db").execute("CREATE TABLE t (a)").connection.close()
    assert run_json("init")["new"] and not run_json("init")["new"]


def test_create_takes_every_option(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    """The table has the spec, order, properties, version and place that were asked for."""
    run("init")
    made = run_json(
        "create", "a.b", "--schema", "id long not null comment 'key', s string", "--create-namespace",
        "--partition", "bucket(4, id)", "--partition", "truncate(2, s) AS start", "--sort", "s DESC",
        "--property", "k=v=w", "--format-version", "1", "--location", str(tmp_path / "elsewhere"),
    )  # fmt: skip
    assert made["format_version"] == 1
    assert made["location"] == (tmp_path / "elsewhere").as_uri()
    assert made["properties"] == {"k": "v=w"}
    assert [f["name"] for f in made["partition_spec"]["fields"]] == ["id_bucket_4", "start"]
    assert made["sort_order"]["fields"][0]["direction"] == "desc"
    assert made["schema"]["fields"][0] == {"id": 1, "name": "id", "type": "long", "required": True, "doc": "key"}
    assert made["current_snapshot"] is None


def test_create_like_a_file(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    """The columns of a Parquet or CSV file become the table's."""
    pq.write_table(pa.table({"x": pa.array([1], pa.int32()), "y": ["a"]}), tmp_path / "f.parquet")
    (tmp_path / "f.csv").write_text("n,day\n1,2013-01-01\n")
    run("init")
    like_parquet = run_json("create", "a.p", "--like", str(tmp_path / "f.parquet"), "--create-namespace")
    like_csv = run_json("create", "a.c", "--like", str(tmp_path / "f.csv"), "--create-namespace")
    assert [(f["name"], f["type"]) for f in like_parquet["schema"]["fields"]] == [("x", "int"), ("y", "string")]
    assert [(f["name"], f["type"]) for f in like_csv["schema"]["fields"]] == [("n", "long"), ("day", "date")]


def test_describe_writes_terms_that_create_takes(run: Run, run_json: RunJson) -> None:
    """What describe says of spec and order makes the same spec and order."""
    schema = "id long, s string, ts timestamp"
    terms = ["bucket(4, id)", "truncate(2, s)", "day(ts)", "s"]
    order = ["bucket(4, id) DESC NULLS LAST", "ts ASC NULLS FIRST"]
    arguments = [a for t in terms for a in ("--partition", t)] + [a for t in order for a in ("--sort", t)]
    run("init")
    run("create", "a.b", "--schema", schema, "--create-namespace", *arguments)
    lines = dict(line.split("  ", 1) for line in run("describe", "a.b").stdout.splitlines() if "ed by  " in line)
    assert lines["partitioned by"].strip() == ", ".join(terms)
    assert lines["sorted by"].strip() == ", ".join(order)


def test_register_reads_a_moved_table_by_its_mapping(
    run: Run, run_json: RunJson, orders: str, tmp_path: Path, warehouse: Path
) -> None:
    """A copy of a table is read where it lies; the old place is gone."""
    with icecore.open(warehouse) as catalog:
        table = catalog.load_table(orders)
        old, metadata = table.location(), table.metadata_location or ""
    moved = tmp_path / "moved"
    (warehouse / "shop" / "orders").rename(moved)
    run("init", "--warehouse", str(tmp_path / "second"))
    CliRunner().invoke(
        cli, ["-w", str(tmp_path / "second"), "create", "x.y", "--schema", "i int", "--create-namespace"]
    )
    new_metadata = metadata.replace(old, moved.as_uri())
    registered = run_json(
        "register",
        "x.orders",
        new_metadata,
        "--map",
        f"{old}={moved.as_uri()}",
        "--warehouse",
        str(tmp_path / "second"),
    )
    assert registered["totals"]["records"] == 3
    rows = run_json("show", "x.orders", "--columns", "id", "--warehouse", str(tmp_path / "second"))
    assert sorted(r["id"] for r in rows) == [1, 2, 3]


def test_a_dry_run_makes_no_namespace(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    """It commits nothing, and says that one is missing."""
    run("init")
    folder = tmp_path / "files"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1]}), folder / "f.parquet")
    told = run("migrate", str(folder), "a.t", "--beside", "--create-namespace", "--dry-run", code=1).stderr
    assert "Namespace does not exist: a; a dry run does not make it" in told
    assert run_json("log") == []
    run("namespace", "create", "a")
    assert "would make a.t of 1 file" in run("migrate", str(folder), "a.t", "--beside", "--dry-run").stdout


def test_what_would_be_put_in_the_place_of_a_table_is_told(run: Run, run_json: RunJson, orders: str) -> None:
    """A dry run, and the question, of what takes a name that is taken."""
    log = run_json("log")
    metadata = run_json("describe", orders)["metadata_location"]
    replaced = "create", orders, "--schema", "i int", "--replace"
    assert run(*replaced, "--dry-run").stdout == f"would replace {orders} with its 3 rows; its snapshots stay\n"
    assert f"would replace {orders}" in run(*replaced, code=2).stderr
    assert run("create", "shop.new", "--schema", "i int", "--dry-run").stdout == "would create shop.new\n"
    assert "already exists" in run("create", orders, "--schema", "i int", "--dry-run", code=1).stderr
    overwritten = "register", orders, metadata, "--overwrite"
    dropped, registered = run(*overwritten, "--dry-run").stdout.splitlines()
    assert dropped.startswith(f"would drop {orders}") and registered == f"would register {orders}"
    assert dropped in run(*overwritten, code=2).stderr
    assert run_json("register", "shop.new", metadata, "--dry-run") == {
        "name": "shop.new",
        "dry_run": True,
        "drops": False,
    }
    assert run_json("log") == log
    run(*replaced, "--yes")
    run(*overwritten, "--yes")


def test_namespaces_can_be_made_by_every_command_that_names_something(
    run: Run, run_json: RunJson, tmp_path: Path
) -> None:
    """Without the library: a warehouse can be filled from the shell alone."""
    run("init")
    made = run_json("create", "a.t", "--schema", "id long", "--create-namespace")
    run("create-view", "b.v", "--sql", "SELECT 1 AS x", "--create-namespace")
    run("register", "c.d.t", made["metadata_location"], "--create-namespace")
    assert "Namespace does not exist: e" in run("register", "e.t", made["metadata_location"], code=1).stderr
    assert {row["name"] for row in run_json("ls")} == {"a.t", "b.v", "c.d.t"}
