"""Each command does what the library does, in text and in JSON."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.foreign.adopter import ForeignCommitWarning
from icecore.projections.audit.sql_prompt import AUDIT_TABLES

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


def test_ls_lists_tables_of_one_or_all_namespaces(run: Run, run_json: RunJson, orders: str) -> None:
    """A namespace's own tables and those of namespaces inside it; one without tables gives none."""
    run("create", "other.t", "--schema", "id long", "--create-namespace")
    assert [t["name"] for t in run_json("ls")] == ["other.t", orders]
    assert [(t["name"], t["files"], t["rows"], t["format"]) for t in run_json("ls", "shop")] == [(orders, 3, 3, 2)]
    assert orders in run("ls").stdout
    assert "Namespace does not exist: nope" in run("ls", "nope", code=1).stderr


def test_describe_says_what_a_table_is(run: Run, run_json: RunJson, orders: str) -> None:
    """Text has spec and order in terms; JSON has Iceberg's own objects."""
    text = run("describe", orders).stdout
    assert "partitioned by  month(ts)" in text
    assert "  1  id    long not null" in text
    described = run_json("describe", orders)
    assert described["totals"] == {
        "data-files": 3,
        "delete-files": 0,
        "records": 3,
        "files-size": described["totals"]["files-size"],
    }
    assert described["current_snapshot"]["summary"]["operation"] == "append"
    assert described["refs"]["main"]["type"] == "branch"


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


def test_append_reports_its_commit(run_json: RunJson, run: Run, orders: str, tmp_path: Path, warehouse: Path) -> None:
    """Several files are one commit, and the log says who and why."""
    pq.write_table(pa.table({"id": [4], "note": ["d"]}), tmp_path / "4.parquet")
    (tmp_path / "5.json").write_text('[{"id": 5, "ts": "2013-05-01T00:00:00Z"}]')
    report = run_json(
        "append", orders, str(tmp_path / "4.parquet"), str(tmp_path / "5.json"), "--author", "cy", "--message", "two"
    )
    assert (report["rows"], report["files"], report["branch"]) == (2, 2, "main")
    [event] = run_json("log", orders, "--actor", "cy")
    assert event["message"] == "two"
    with icecore.open(warehouse, read_only=True) as catalog:
        assert sorted(catalog.load_table(orders).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]


def test_append_to_a_branch(run_json: RunJson, orders: str, tmp_path: Path, warehouse: Path) -> None:
    """Only that branch sees the rows."""
    with icecore.open(warehouse) as catalog:
        table = catalog.load_table(orders)
        table.manage_snapshots().create_branch(table.metadata.current_snapshot_id or 0, "audit").commit()
    (tmp_path / "more.csv").write_text("id\n9\n")
    run_json("append", orders, str(tmp_path / "more.csv"), "--branch", "audit")
    assert len(run_json("show", orders)) == 3
    assert len(run_json("show", orders, "--ref", "audit")) == 4


def test_append_of_no_rows_makes_no_commit(run_json: RunJson, run: Run, orders: str, tmp_path: Path) -> None:
    """A file with a header alone leaves the table as it is."""
    (tmp_path / "none.csv").write_text("id,ts\n")
    report = run_json("append", orders, str(tmp_path / "none.csv"))
    assert (report["snapshot_id"], report["rows"], report["files"]) == (None, 0, 0)
    assert "nothing" in run("append", orders, str(tmp_path / "none.csv")).stdout


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


def test_log_filters(run: Run, run_json: RunJson, orders: str) -> None:
    """By table, actor, time and number."""
    events = run_json("log")
    assert [(e["actor"] if e["name"] == orders else "", e["name"]) for e in events] == [
        ("", "shop"),
        ("ann", orders),
        ("bob", orders),
    ]
    assert [e["position"] for e in run_json("log", orders)] == [2, 3]
    assert [e["position"] for e in run_json("log", "--limit", "1")] == [3]
    assert [e["position"] for e in run_json("log", "--since", events[-1]["recorded_at"])] == [3]
    assert run_json("log", "--since", "2999-01-01") == []
    assert "three orders" in run("log").stdout


def test_log_full_has_the_payload(run: Run, run_json: RunJson, orders: str) -> None:
    """Everything of an event: the updates as objects, the hash."""
    [event] = run_json("log", orders, "--full", "--limit", "1")
    assert [u["action"] for u in event["payload"]["updates"]] == ["add-snapshot", "set-snapshot-ref"]
    assert event["summary"]["added-records"] == "3"
    assert len(event["hash"]) == 64
    assert event["hash"] in run("log", orders, "--full").stdout


def test_show_reads_rows(run: Run, run_json: RunJson, orders: str) -> None:
    """Filter, columns, limit; null is told from the empty text."""
    assert run_json("show", orders, "--where", "id = 1") == [{"id": 1, "ts": "2013-01-01T10:00:00Z", "note": "first"}]
    assert sorted(r["note"] or "" for r in run_json("show", orders, "--columns", "note")) == ["", "first", "last"]
    assert len(run_json("show", orders, "--limit", "2")) == 2
    assert "null" in run("show", orders, "--where", "id = 2").stdout


def test_show_travels_in_time(run: Run, run_json: RunJson, orders: str, tmp_path: Path) -> None:
    """By snapshot id and by time."""
    first = run_json("describe", orders)
    (tmp_path / "4.csv").write_text("id\n4\n")
    run("append", orders, str(tmp_path / "4.csv"))
    assert len(run_json("show", orders)) == 4
    snapshot = first["current_snapshot"]
    assert len(run_json("show", orders, "--snapshot", str(snapshot["snapshot-id"]))) == 3
    assert len(run_json("show", orders, "--as-of", str(snapshot["timestamp-ms"]))) == 3


def test_plan_counts_and_lists_files(run: Run, run_json: RunJson, orders: str) -> None:
    """The counts add up, and the files are those that may hold a row."""
    planned = run_json("plan", orders, "--where", "ts >= '2013-02-01T00:00:00+00:00'")
    counts = planned["counts"]
    left_out = counts["pruned_by_manifest"] + counts["pruned_by_partition"] + counts["pruned_by_metrics"]
    assert (counts["files_total"], left_out, counts["files_planned"]) == (3, 2, 1)
    [file] = planned["files"]
    assert "ts_month=2013-02" in file["file_path"]
    text = run("plan", orders, "--where", "ts >= '2013-02-01T00:00:00+00:00'").stdout
    assert "data/ts_month=2013-02/" in text
    assert len(run_json("plan", orders)["files"]) == 3


def test_plan_explains_each_file(run: Run, run_json: RunJson, orders: str) -> None:
    """Why a file is left out and the SQL that ran, as text and as JSON."""
    where = ("--where", "ts >= '2013-02-01T00:00:00+00:00'")
    explained = run_json("plan", orders, *where, "--explain")
    assert [f["reason"] for f in explained["files"]].count("planned") == explained["counts"]["files_planned"] == 1
    assert {f["field"] for f in explained["files"] if f["reason"] == "partition"} == {"ts_month"}
    assert sum(r["files"] for r in explained["summary"]) == 3
    assert any("FROM" in s["sql"] for s in explained["sql"])
    text = run("plan", orders, *where, "--explain", "--sql").stdout
    assert "3 files with 3 rows" in text and "ts_month=2013-01" in text and "SELECT" in text


def test_plans_are_kept_under_a_name(run: Run, run_json: RunJson, orders: str) -> None:
    """The second time nothing is looked into; a kept plan can be listed and forgotten."""
    where = ("--where", "ts >= '2013-02-01T00:00:00+00:00'")
    first = run_json("plan", orders, *where, "--name", "recent")
    assert (first["manifests_evaluated"], len(first["files"])) == (1, 1)
    again = run_json("plan", orders, "--name", "recent")
    assert (again["manifests_evaluated"], again["manifests_reused"]) == (0, 1)
    assert again["files"] == first["files"]
    assert "looked into 0 manifests, kept 1" in run("plan", orders, "--name", "recent").stdout
    assert run_json("plans", orders) == ["recent"]
    assert "recent" in run("plans", orders).stdout
    assert run_json("plans", orders, "--drop", "recent") == []
    assert "no plan 'recent'" in run("plans", orders, "--drop", "recent", code=1).stderr
    assert len(run_json("plan", orders, "--where", "TRUE", "--name", "all")["files"]) == 3
    assert "no plan 'other'" in run("plan", orders, "--name", "other", code=1).stderr
    run("plan", orders, "--name", "all", "--explain", code=2)


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
        run("register", "shop.bad", str(table.metadata_location))
    for manifest in (tmp_path / "other" / "ns" / "bad" / "metadata").glob("*.avro"):
        manifest.unlink()
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


def test_verify_finds_a_changed_file(run: Run, run_json: RunJson, orders: str, warehouse: Path) -> None:
    """Exit code 0 and no problems; after a byte was changed, 1 and the file's name; rebuild heals it."""
    assert run_json("verify")["ok"] is True
    metadata = next((warehouse / "shop" / "orders" / "metadata").glob("00001-*.json"))
    metadata.write_bytes(metadata.read_bytes().replace(b"orders", b"0rders"))
    broken = run_json("verify", code=1)
    assert broken["ok"] is False
    assert any(metadata.name in p for p in broken["problems"])
    assert "problem" in run("verify", code=1).stdout
    run("rebuild")
    run("verify")


def test_verify_of_tables_named(run: Run, run_json: RunJson, orders: str, warehouse: Path) -> None:
    """Names limit it, --deep opens files, JSON has the findings, the exit code is 1 for what was asked about."""
    run("create", "shop.other", "--schema", "x long")
    (path,) = list((warehouse / "shop" / "orders" / "data").rglob("*.parquet"))[:1]
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert run_json("verify")["ok"]
    assert "2 tables" in run("verify").stdout and "1 tables" in run("verify", "shop.other", "--deep").stdout
    broken = run_json("verify", orders, "--deep", code=1)
    (finding,) = broken["findings"]
    assert (finding["cause"], finding["table"], finding["kind"]) == ("unreadable", orders, "data file")
    assert finding["count"] == 1 and finding["examples"][0].endswith(path.name) and broken["notes"] == []
    assert path.name in run("verify", "--deep", code=1).stdout
    assert "shop.nothing" in run("verify", "shop.nothing", code=1).stderr


def test_rebuild_after_losing_the_metadata(run: Run, run_json: RunJson, orders: str, warehouse: Path) -> None:
    """The same files with the same bytes come back."""
    folder = warehouse / "shop" / "orders" / "metadata"
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    for path in folder.iterdir():
        path.unlink()
    assert run_json("rebuild")["tables"] == 1
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_options_before_and_after_the_command_and_from_the_environment(orders: str, warehouse: Path) -> None:
    """A command's own option wins over the program's, which wins over the environment."""
    runner = CliRunner(env={"ICECORE_WAREHOUSE": str(warehouse), "ICECORE_OUTPUT": "json"})
    assert runner.invoke(cli, ["ls"]).stdout.startswith("[")
    assert runner.invoke(cli, ["--output", "table", "ls"]).stdout.startswith("name")
    assert runner.invoke(cli, ["--output", "json", "ls", "--output", "table"]).stdout.startswith("name")
    assert runner.invoke(cli, ["-w", "/nowhere", "ls"]).exit_code == 1
    assert runner.invoke(cli, ["-w", "/nowhere", "ls", "-w", str(warehouse)]).exit_code == 0


def test_commands_that_look_change_nothing(run: Run, orders: str, warehouse: Path) -> None:
    """The log and the metadata have the same bytes after them."""
    folder = warehouse / "shop" / "orders"
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for arguments in (["ls"], ["describe", orders], ["log"], ["show", orders], ["plan", orders], ["verify"]):
        run(*arguments)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    with icecore.open(warehouse, read_only=True) as catalog:
        assert catalog.position == 3


@pytest.mark.parametrize("program", [["-m", "icecore"], [str(Path(sys.executable).with_name("icecore"))]])
def test_the_program_itself(program: list[str], orders: str, warehouse: Path) -> None:
    """`python -m icecore` and `icecore` run, and exit as they should."""
    start = [sys.executable, *program] if program[0] == "-m" else program
    if program[0] != "-m" and not Path(program[0]).exists():
        pytest.skip("icecore is not installed beside this Python")
    environment = {**os.environ, "ICECORE_WAREHOUSE": str(warehouse)}
    good = subprocess.run([*start, "ls"], capture_output=True, text=True, env=environment, check=False)
    assert (good.returncode, good.stderr) == (0, "")
    assert orders in good.stdout
    bad = subprocess.run([*start, "show", "no.table"], capture_output=True, text=True, env=environment, check=False)
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr == "error: Table does not exist: no.table\n"


def test_a_closed_pipe_ends_it_quietly(warehouse: Path, orders: str) -> None:
    """Whoever reads the output may stop at any time."""
    query = "SELECT range AS r FROM range(200000)"
    command = [sys.executable, "-m", "icecore", "-w", str(warehouse), "sql", query, "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""


def test_archive_moves_the_oldest_events(run: Run, run_json: RunJson, warehouse: Path, tmp_path: Path) -> None:
    """Once; the log reads on, and says which file is missing where it is."""
    run("init")
    run("create", "a.t", "--schema", "id long", "--create-namespace")
    run("create", "a.u", "--schema", "id long")
    before = run_json("log")
    assert "2 events" in run("archive", "--before", "3", "--file", str(tmp_path / "old.db")).stdout
    assert run_json("archive", "--before", "3") == {"events": 0, "file": None}
    assert run("archive", "--before", "99", code=1).stderr.startswith("error: the last event")
    assert run_json("log") == before and run_json("verify")["ok"]
    (tmp_path / "old.db").unlink()
    assert "old.db" in run("log", code=1).stderr
    assert len(run_json("ls")) == 2


def test_resolve_ends_a_conflict(run: Run, run_json: RunJson, warehouse: Path, orders: str) -> None:
    """Where nothing is in conflict that is an error; a table by hand over which PyIceberg commits is resolved."""
    assert "no conflict" in run("resolve", orders, "--keep", "log", code=1).stderr
    with icecore.open(warehouse) as catalog:
        table = catalog.load_table(orders)
        table.set_properties({"icecore.materialize": "manual"})
        catalog.materialize(orders)
        table.set_properties({"a": "ours"})
    peer = SqlCatalog("icecore", uri=f"sqlite:///{warehouse}/icecore.db", warehouse=str(warehouse))
    with peer.load_table(orders).transaction() as transaction:
        transaction.set_properties(a="theirs")
    peer.close()
    with pytest.warns(ForeignCommitWarning, match="resolve"):
        resolved = run("resolve", orders, "--keep", "log", "-m", "ours is right")
    assert "goes on from the log" in resolved.stdout
    with icecore.open(warehouse) as catalog:
        assert catalog.load_table(orders).properties["a"] == "ours"


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


def test_append_makes_a_branch(run: Run, orders: str, run_json: RunJson, tmp_path: Path) -> None:
    """From main; a file without rows appends nothing to it."""
    file = tmp_path / "more.json"
    file.write_text('{"id": 7}\n{"id": 8, "note": "new"}\n')
    before = len(run_json("show", orders))
    assert run_json("append", orders, str(file), "--branch", "dev")["rows"] == 2
    assert len(run_json("show", orders)) == before
    assert len(run_json("show", orders, "--ref", "dev")) == before + 2


def test_what_is_dropped_comes_back_or_goes_for_good(run: Run, run_json: RunJson, warehouse: Path, orders: str) -> None:
    """`purge` asks first unless told not to, says what would go, and what it deleted."""
    assert "3 data files with 3 rows" in run("drop", orders, "--dry-run").stdout
    assert "gives it back" in run("drop", orders, code=2).stderr
    run("drop", orders, "--yes", "-m", "by mistake", "-a", "eve")
    assert "Table does not exist" in run("describe", orders, code=1).stderr
    assert "would be back" in run("undrop", orders, "--dry-run").stdout
    assert "is back" in run("undrop", orders).stdout
    assert "has that name now" in run("purge", orders, "--yes", code=1).stderr
    assert run_json("drop", orders, "-y")["kind"] == "table"
    told = run_json("purge", orders, "--dry-run")
    assert told["position"] is None and told["deleted"] == 0 and len(told["files"]) > 3
    assert "for good\nnot done" in run("purge", orders, code=2).stderr
    assert run("purge", orders, "--dry-run").stdout.startswith(f"would delete {len(told['files'])} files of {orders}")
    assert run("purge", orders, "--yes", "-m", "asked to").stdout.startswith(f"deleted {len(told['files'])} files")
    assert "was purged at position" in run("undrop", orders, code=1).stderr
    assert not any(warehouse.rglob("*.parquet"))
    run("create-view", "shop.v", "--sql", "SELECT 1 AS x", "--create-namespace")
    assert "dropped the view shop.v" in run("drop", "shop.v", "-y").stdout
    assert "the view shop.v is back" in run("undrop", "shop.v", "--view").stdout
    assert [e["message"] for e in run_json("log") if e["changes"].startswith("purge: ")] == ["asked to"]


def test_names_are_changed_once_under_a_key(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    """Called again, after the change was undone too, a command says what it said and asks nothing."""
    hive = tmp_path / "hive"
    commands = [
        ("namespace", "create", "a"),
        ("create", "a.t", "--schema", "id long"),
        ("create-view", "a.v", "--sql", "SELECT id FROM t"),
        ("rename", "a.v", "a.w"),
        ("drop", "a.w", "--yes"),
        ("undrop", "a.w", "--view"),
        ("drop", "a.w", "--yes"),
        ("drop", "a.t", "--yes"),
        ("namespace", "drop", "a", "--yes"),
        ("undo", "--yes"),
        ("revert", "8", "--yes"),
        ("restore", "a.w", "--to", "6", "--yes"),
        ("unregister", "a.t", "--yes"),
        ("migrate", str(hive), "a.hive"),
    ]
    (hive / "day=2024-01-05").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), hive / "day=2024-01-05" / "a.parquet")
    run("init")
    said = [run_json(*command, "--key", f"k{number}") for number, command in enumerate(commands)]
    events = len(run_json("log"))
    for number in (0, *range(3, len(commands))):
        asked = [word for word in commands[number] if word != "--yes"]
        assert run_json(*asked, "--key", f"k{number}") == said[number]
    assert run_json("create", "a.t", "--schema", "id long", "--key", "k1")["name"] == "a.t"
    assert run("drop", "a.t", "--yes", "--key", "k0", code=1).stderr.startswith("error: the idempotency key 'k0' was")
    assert len(run_json("log")) == events
