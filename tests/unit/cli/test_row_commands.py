"""Rows come and go by commands; what takes away says what it would do, and asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import icecore

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def test_load_makes_a_table_and_its_namespace_in_one_commit(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    """What means null is no text; the second time the rows are appended, and a key loads once."""
    (tmp_path / "f.csv").write_text("id,temp,day\n1,NA,2024-01-05\n2,7.5,2024-02-05\n")
    run("init")
    options = ("--null", "NA", "--partition", "month(day)", "--key", "once", "-m", "first", "-a", "dee")
    first = run_json("load", str(tmp_path / "f.csv"), "new.space.t", *options)
    assert (first["created"], first["rows"], first["total"]) == (True, 2, 2)
    described = run_json("describe", "new.space.t")
    assert [f["type"] for f in described["schema"]["fields"]] == ["long", "double", "date"]
    assert described["partition_spec"]["fields"][0]["transform"] == "month"
    events = run_json("sql", "SELECT DISTINCT transaction_id, actor, message FROM log")
    assert len(events) == 1 and (events[0]["actor"], events[0]["message"]) == ("dee", "first")
    assert (
        "loaded 2 rows into new.space.t, which has 4 rows now"
        in run("load", str(tmp_path / "f.csv"), "new.space.t", "--null", "NA").stdout
    )
    assert "for a new table" in run("load", str(tmp_path / "f.csv"), "new.space.t", "--sort", "id", code=2).stderr
    again = run_json("load", str(tmp_path / "f.csv"), "new.space.t", "--null", "NA", "--key", "once")
    assert (again["rows"], again["total"]) == (0, 4)


def test_delete_asks(run: Run, run_json: RunJson, orders: str) -> None:
    """Nobody there, and no --yes: the outcome of a dry run, exit code 2, and no change."""
    refused = run("delete", orders, "--where", "id = 1", code=2)
    assert refused.stderr.startswith(f"would delete from {orders}: - 1 row, - 1 data file; 2 rows after it\n")
    assert "give --yes" in refused.stderr and refused.stdout == ""
    told = run_json("delete", orders, "--where", "id = 1", "--dry-run")
    assert (told["dry_run"], told["changes"]["deleted-records"], told["totals"]["total-records"]) == (True, 1, 2)
    assert len(run_json("show", orders)) == 3
    assert "nothing to change" in run("delete", orders, "--where", "id = 77").stdout
    run("branch", "create", orders, "audit")
    for command in (("delete", orders, "--where", "id = 1", "--dry-run"), ("overwrite", orders, __file__, "--yes")):
        assert (
            f"{orders} has no branch 'audti'; did you mean 'audit'?"
            in run(*command, "--branch", "audti", code=1).stderr
        )
    done = run_json("delete", orders, "--where", "id = 1", "--yes", "-m", "why", "-a", "eve", "--key", "k")
    assert done["changes"] == {"deleted-records": 1, "deleted-data-files": 1}
    [event] = run_json("log", orders, "--actor", "eve")
    assert event["message"] == "why" and len(run_json("show", orders)) == 2
    run("delete", orders, code=2)


def test_one_filter_alone_chooses_rows(run: Run, orders: str) -> None:
    found = run("delete", orders, "--where", "id = 1", "--where", "id = 2", "--yes", code=2)
    assert "--where is given more than once" in found.stderr


def test_delete_by_keys_of_a_file(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,city\n1,Oslo\n2,Rome\n")
    (tmp_path / "keys.csv").write_text("id\n2\n5\n")
    run("init")
    run("load", str(tmp_path / "rows.csv"), "a.t")
    run("delete", "a.t", "--keys", str(tmp_path / "keys.csv"), "--on", "id", "--yes")
    assert [r["city"] for r in run_json("show", "a.t")] == ["Oslo"]


def test_overwrite_all_some_or_partitions(run: Run, run_json: RunJson, orders: str, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("id,ts,note\n9,2013-01-05T10:00:00Z,nine\n")
    new = str(tmp_path / "new.csv")
    assert "as many rows as before" in run("overwrite", orders, new, "--partitions", "--dry-run").stdout
    run("overwrite", orders, new, "--partitions", "--yes")
    assert sorted(r["id"] for r in run_json("show", orders)) == [2, 3, 9]
    run("overwrite", orders, new, "--where", "id = 3", "--yes")
    assert sorted(r["id"] for r in run_json("show", orders)) == [2, 9, 9]
    assert "would overwrite" in run("overwrite", orders, new, code=2).stderr
    run("overwrite", orders, new, "--yes")
    assert [r["id"] for r in run_json("show", orders)] == [9]
    run("overwrite", orders, new, "--partitions", "--where", "TRUE", code=2)


def test_who_asks_again_under_a_key_is_not_asked(run: Run, run_json: RunJson, orders: str, tmp_path: Path) -> None:
    """There is nothing left to agree to: what was done is told."""
    (tmp_path / "new.csv").write_text("id,ts,note\n2,2013-02-01T10:00:00Z,again\n")
    for command in (["delete", orders, "--where", "id = 1"], ["overwrite", orders, str(tmp_path / "new.csv")]):
        run(*command, "--key", command[0], "--yes")
        again = run_json(*command, "--key", command[0])
        assert (again["dry_run"], again["snapshot_id"]) == (False, None)
        assert again["done_before_at"] == run_json("log", orders)[0]["position"]


def test_upsert_updates_and_inserts(run: Run, run_json: RunJson, orders: str, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("id,ts,note\n1,2013-01-01T10:00:00Z,changed\n4,,new\n")
    new = str(tmp_path / "new.csv")
    assert "would upsert into" in run("upsert", orders, new, "--on", "id", "--dry-run").stdout
    before = run_json("show", orders)
    refused = run("upsert", orders, new, "--on", "id", code=2).stderr
    assert "would upsert into" in refused and "give --yes" in refused and run_json("show", orders) == before
    run("upsert", orders, new, "--on", "id", "--update-only", "--yes", "--key", "late")
    assert {r["id"]: r["note"] for r in run_json("show", orders)} == {1: "changed", 2: None, 3: "last"}
    again = run("upsert", orders, new, "--on", "id", "--update-only", "--key", "late")
    assert again.stdout.startswith("done before, under this key")
    assert "+ 1 row" in run("upsert", orders, new, "--on", "id", "--insert-only").stdout
    assert "nothing to change" in run("upsert", orders, new, "--on", "id").stdout


def test_files_of_a_folder_are_added_with_the_partitions_of_their_paths(
    run: Run, run_json: RunJson, tmp_path: Path
) -> None:
    """As Hive lays them out; what is hidden, or no Parquet, stays out."""
    for city in ("Oslo", "Rome"):
        folder = tmp_path / "in" / f"city={city}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [len(city)]}), folder / "a.parquet")
        (folder / "_SUCCESS").touch()
    (tmp_path / "in" / "_temporary").mkdir()
    pq.write_table(pa.table({"id": [77]}), tmp_path / "in" / "_temporary" / "b.parquet")
    run("init")
    run("create", "a.t", "--schema", "id long, city string", "--partition", "city", "--create-namespace")
    assert "+ 2 rows" in run("add-files", "a.t", str(tmp_path / "in"), "--dry-run").stdout
    assert run_json("add-files", "a.t", str(tmp_path / "in"))["changes"]["added-records"] == 2
    assert sorted(r["city"] for r in run_json("show", "a.t")) == ["Oslo", "Rome"]
    assert "already" in run("add-files", "a.t", str(tmp_path / "in"), code=1).stderr
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "x").symlink_to(tmp_path / "in")
    assert "is a symbolic link" in run("add-files", "a.t", str(tmp_path / "linked"), code=1).stderr
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "x.csv").touch()
    assert ".csv" in run("add-files", "a.t", str(tmp_path / "empty"), code=1).stderr


@pytest.mark.parametrize("hint", ["", "2", "v2.metadata.json", "7"])
def test_register_a_folder(
    run: Run, run_json: RunJson, orders: str, tmp_path: Path, warehouse: Path, hint: str
) -> None:
    """The newest metadata file, or the one that the hint names; files that moved with it are found."""
    (warehouse / "shop" / "orders").rename(tmp_path / "moved")
    if hint:
        (tmp_path / "moved" / "metadata" / "version-hint.text").write_text(hint)
    other = ("--warehouse", str(tmp_path / "other"))
    run("init", *other)
    told = run("register", "x.orders", str(tmp_path / "moved"), "--create-namespace", *other).stdout
    assert "3 data files" in told and "are read from file://" in told
    assert len(run_json("show", "x.orders", *other)) == 3
    run("register", "x.again", str(tmp_path / "moved" / "metadata"), *other)
    assert len(run_json("show", "x.again", *other)) == 3
    (tmp_path / "none").mkdir()
    assert "no metadata file of a table" in run("register", "x.none", str(tmp_path / "none"), *other, code=1).stderr


def test_register_by_a_hint_takes_an_older_version(orders: str, tmp_path: Path, warehouse: Path) -> None:
    """No map is guessed for files that are where the metadata says."""
    folder = warehouse / "shop" / "orders"
    oldest = min((folder / "metadata").glob("*.metadata.json"))
    (folder / "metadata" / "version-hint.text").write_text(oldest.name)
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("x")
        table = other.register_table("x.orders", str(folder))
        assert table.current_snapshot() is None and table.state.location_mapping.to_dict() == {}
        (folder / "metadata" / "version-hint.text").unlink()
        assert other.register_table("x.newest", str(folder)).scan().count() == 3


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


def test_append_makes_a_branch(run: Run, orders: str, run_json: RunJson, tmp_path: Path) -> None:
    """From main; a file without rows appends nothing to it."""
    file = tmp_path / "more.json"
    file.write_text('{"id": 7}\n{"id": 8, "note": "new"}\n')
    before = len(run_json("show", orders))
    assert run_json("append", orders, str(file), "--branch", "dev")["rows"] == 2
    assert len(run_json("show", orders)) == before
    assert len(run_json("show", orders, "--ref", "dev")) == before + 2
