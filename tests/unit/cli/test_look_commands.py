"""Commands that look at tables, their rows and plans say what the library says, and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

import icecore

Run = Callable[..., Result]
RunJson = Callable[..., Any]


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


def test_commands_that_look_change_nothing(run: Run, orders: str, warehouse: Path) -> None:
    """The log and the metadata have the same bytes after them."""
    folder = warehouse / "shop" / "orders"
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    for arguments in (["ls"], ["describe", orders], ["log"], ["show", orders], ["plan", orders], ["verify"]):
        run(*arguments)
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    with icecore.open(warehouse, read_only=True) as catalog:
        assert catalog.position == 3


def test_a_name_with_a_dot_is_printed_as_it_is_typed(
    run: Run, run_json: RunJson, tmp_path: Path, warehouse: Path
) -> None:
    """Whatever prints a whole name prints one that can be given again, errors and findings too."""
    (tmp_path / "1.csv").write_text("id\n4711\n")
    old, name = 'a."x.y"', 'a."x.z"'
    run("init")
    run("create", old, "--schema", "id long", "--create-namespace")
    run("append", old, str(tmp_path / "1.csv"), "--message", "one")
    run("rename", old, name)
    run("create", "a.twin", "--schema", "id long", "--location", str(warehouse / "a" / "x.y"))
    assert [r["name"] for r in run_json("ls")] == [name, "a.twin"]
    assert [(e["name"], e["changes"].partition(":")[0]) for e in run_json("log", name)] == [
        (name, f"rename to {name}"),
        (old, "append"),
        (old, f"create {old}"),
    ]
    assert (old, name) in {(r["before"], r["after"]) for r in run_json("diff", "3", "4")}
    assert run_json("show-commit", "3")["difference"][0]["name"] == old
    assert run_json("sql", "SELECT DISTINCT name_now FROM commits") == [{"name_now": name}]
    places = run_json("where-is", "4711", "--table", name, "--column", "id", code=1)["places"]
    assert name in {p["table"] for p in places}
    found = run_json("audit", "--rule", "shared-folders", "--fail-on", "never")["findings"]
    assert {(f["table"], f["subject"]) for f in found} <= {(name, "a.twin"), ("a.twin", name)} and found
    run("drop", name, "--yes")
    for gone in (old, name):
        assert f"does not exist: {gone}; it was" in run("show", gone, code=1).stderr
    assert f"renamed to {name} at" in run("show", old, code=1).stderr
