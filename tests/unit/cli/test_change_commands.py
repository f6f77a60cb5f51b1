"""Names, columns, branches and upkeep by commands, each as the library does it."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import icecore
from icecore.engine.cli import texts
from icecore.engine.cli.changes.found_snapshot import find_snapshot
from icecore.engine.cli.past import recovery_commands
from icecore.engine.errors import NoSuchSnapshotError, ValidationError

Run = Callable[..., Result]
RunJson = Callable[..., Any]

_MAP = {"keys": ["12345678901234567.89"], "values": ["2024-01-01"]}


def test_names_and_properties(run: Run, run_json: RunJson, orders: str) -> None:
    assert "renamed" in run("rename", orders, "shop.sales", "-m", "clearer").stdout
    run("namespace", "create", "more", "--property", "owner=ann")
    listed = run_json("namespace", "ls")
    assert [(r["namespace"], r["tables"]) for r in listed] == [("more", 0), ("shop", 1)]
    assert run_json("properties", "get", "more", "--namespace") == [{"property": "owner", "value": "ann"}]
    for words in (("get", "more"), ("set", "more", "a=b"), ("remove", "more", "a")):
        assert "more is a namespace: say so with --namespace" in run("properties", *words, code=1).stderr
    run("properties", "set", "more", "owner=bob", "--namespace")
    told = "more: removed owner; it has no property none\n"
    assert run("properties", "remove", "more", "owner", "none", "--namespace").stdout == told
    run("properties", "set", "shop.sales", "a=1", "b=x=y", "-m", "why", "-a", "eve")
    assert run_json("properties", "get", "shop.sales", "b") == [{"property": "b", "value": "x=y"}]
    gone = run_json("properties", "remove", "shop.sales", "a", "c")
    assert (gone["removed"], gone["missing"]) == (["a"], ["c"])
    position = run_json("log", "shop.sales")[0]["position"]
    assert (
        run("properties", "remove", "shop.sales", "c").stdout == "shop.sales: removed nothing; it has no property c\n"
    )
    assert run_json("log", "shop.sales")[0]["position"] == position
    assert "no property 'a'" in run("properties", "get", "shop.sales", "a", code=1).stderr
    assert "give --yes" in run("namespace", "drop", "more", code=2).stderr
    assert "not empty" in run("namespace", "drop", "shop", "--yes", code=1).stderr
    run("namespace", "drop", "more", "--yes")
    [event] = run_json("log", "shop.sales", "--actor", "eve")
    assert event["message"] == "why"


def test_views_have_names_and_properties_too(run: Run, run_json: RunJson, orders: str) -> None:
    run("create-view", "shop.v", "--sql", "SELECT 1 AS x")
    run("rename", "shop.v", "shop.w")
    run("properties", "set", "shop.w", "a=1")
    assert run_json("properties", "get", "shop.w")[0]["property"] == "a"
    run("properties", "remove", "shop.w", "a")


def test_columns_partitions_and_order(run: Run, run_json: RunJson, orders: str) -> None:
    """As `describe` has them; a dry run changes nothing."""
    run("alter", orders, "add-column", "price", "decimal(9, 2)", "--doc", "in euros", "-m", "asked", "-a", "eve")
    run("alter", orders, "add-column", "tags", "list<string>")
    run("alter", orders, "add-column", "later", "int", "--dry-run")
    run("alter", orders, "change-column", "price", "--type", "decimal(12, 2)", "--first")
    run("alter", orders, "rename-column", "note", "remark")
    assert "give --yes" in run("alter", orders, "drop-column", "tags", code=2).stderr
    run("alter", orders, "drop-column", "tags", "--yes")
    run("alter", orders, "identifier", "id")
    run("alter", orders, "add-partition", "bucket(4, id)", "--name", "by_id")
    run("alter", orders, "rename-partition", "by_id", "part")
    run("alter", orders, "sort", "id", "ts DESC NULLS LAST")
    run("alter", orders, "upgrade", "3")
    run("alter", orders, "add-column", "kind", "string", "--required", "--default", "retail")
    described = run_json("describe", orders)
    fields = described["schema"]["fields"]
    assert [f["name"] for f in fields] == ["price", "id", "ts", "remark", "kind"]
    assert (fields[0]["type"], fields[0]["doc"], fields[4]["initial-default"]) == (
        "decimal(12, 2)",
        "in euros",
        "retail",
    )
    assert described["schema"]["identifier-field-ids"] == [1] and described["format_version"] == 3
    assert [f["name"] for f in described["partition_spec"]["fields"]] == ["ts_month", "part"]
    assert len(described["sort_order"]["fields"]) == 2
    run("alter", orders, "drop-partition", "bucket(4, id)")
    run("alter", orders, "sort")
    assert run_json("describe", orders)["sort_order"]["fields"] == []
    assert run_json("log", orders, "--actor", "eve")[0]["message"] == "asked"
    run("alter", orders, "change-column", "id", "--first", "--after", "ts", code=2)


@pytest.mark.parametrize(
    ("kind", "text", "stored"),
    [
        ("decimal(20, 2)", "12345678901234567.89", "12345678901234567.89"),
        ("decimal(38, 0)", "-12345678901234567890123456789", "-12345678901234567890123456789"),
        ("list<decimal(20, 2)>", "[12345678901234567.89, 5, null]", ["12345678901234567.89", "5.00", None]),
        ("map<string, double>", '{"a": 1.5}', {"keys": ["a"], "values": [1.5]}),
        ("map<decimal(20, 2), date>", '[[12345678901234567.89, "2024-01-01"]]', _MAP),
        ("date", "2024-01-01", "2024-01-01"),
        ("date", '"2024-01-01"', "2024-01-01"),
        ("timestamptz", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.000000+00:00"),
        ("double", "0.1", 0.1),
        ("long", "9007199254740993", 9007199254740993),
        ("boolean", "true", True),
        ("string", "2024", "2024"),
        ("binary", "00ff", "00ff"),
        ("fixed(2)", "1234", "1234"),
        ("list<binary>", '["00ff", ""]', ["00ff", ""]),
    ],
)
def test_a_default_is_the_value_that_was_typed(
    run: Run, run_json: RunJson, orders: str, kind: str, text: str, stored: object
) -> None:
    """No digit of a decimal is lost; within lists and maps neither."""
    run("alter", orders, "upgrade", "3")
    run("alter", orders, "add-column", "new", kind, "--default", text)
    assert run_json("describe", orders)["schema"]["fields"][-1]["initial-default"] == stored
    run("alter", orders, "change-column", "new", "--default", text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((kind, "2024") for kind in ("date", "time", "timestamp", "timestamptz", "timestamp_ns", "uuid")),
        *((f"list<{kind}>", "[2024]") for kind in ("date", "time", "timestamp", "timestamptz", "timestamp_ns")),
        ("map<string, date>", '{"a": 2024}'),
        ("map<string, date>", '[["a", 2024]]'),
        ("map<string, date>", "[[1]]"),
        ("decimal(9, 2)", "1e999999999"),
        ("decimal(9, 2)", "1e-999999999"),
        ("int", "9" * 5_000),
        ("binary", "0x00"),
        ("fixed(2)", "00"),
        ("list<int>", "[" * 100_000),
    ],
    ids=lambda text: text[:40],
)
def test_a_default_of_another_type_is_refused(run: Run, orders: str, kind: str, text: str) -> None:
    """A number is no day: 2024 would be the day 2024 after 1970-01-01."""
    run("alter", orders, "upgrade", "3")
    assert run("alter", orders, "add-column", "new", kind, "--default", text, code=1).stderr.startswith("error: ")


def test_branches_tags_and_rollback(run: Run, run_json: RunJson, orders: str, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("id\n9\n")
    first = str(run_json("describe", orders)["current_snapshot"]["snapshot-id"])
    run("tag", "create", orders, "start", "--max-age", "99999999", "-m", "why")
    run("branch", "create", orders, "try", "--keep", "2")
    run("append", orders, str(tmp_path / "more.csv"), "--branch", "try")
    assert len(run_json("show", orders, "--snapshot", first[:10])) == 3
    assert len(run_json("plan", orders, "--snapshot", first[:10])["files"]) == 3
    run("branch", "keep", orders, "try", "--keep", "3", "--max-snapshot-age", "5", "--max-age", "6")
    found = {r["name"]: r for r in run_json("refs", orders)}
    assert found["try"]["min_snapshots_to_keep"] == 3 and found["start"]["type"] == "tag"
    assert str(found["main"]["snapshot_id"]) == first
    run("branch", "fast-forward", orders, "main", "try")
    assert len(run_json("show", orders)) == 4
    assert "main: 4 rows now, 3 rows then" in run("rollback", orders, "--to", first[:8], "--dry-run").stdout
    assert "give --yes" in run("rollback", orders, "--to", first, code=2).stderr
    run("rollback", orders, "--to", "start", "--yes")
    assert len(run_json("show", orders)) == 3
    run("set-snapshot", orders, "try", "--yes")
    run("branch", "rename", orders, "try", "tried")
    assert (
        "tried: 4 rows now, 3 rows then"
        in run("branch", "replace", orders, "tried", "--snapshot", "start", code=2).stderr
    )
    assert run_json("branch", "replace", orders, "tried", "--snapshot", "start", "--dry-run")["snapshot_id"] == int(
        first
    )
    run("branch", "replace", orders, "tried", "--snapshot", "start", "--yes")
    assert "start: 3 rows now, 4 rows then" in run("tag", "replace", orders, "start", "--dry-run").stdout
    assert "give --yes" in run("tag", "replace", orders, "start", code=2).stderr
    run("tag", "replace", orders, "start", "--snapshot", "main", "--yes")
    run("tag", "drop", orders, "start", "--yes")
    run("branch", "drop", orders, "tried", "--yes")
    assert [r["name"] for r in run_json("refs", orders)] == ["main"]
    run("branch", "keep", orders, "main", code=2)


def test_upkeep(run: Run, run_json: RunJson, warehouse: Path) -> None:
    """What is small is compacted, what is old expires, what nothing needs goes; a dry run says so and leaves it."""
    with icecore.open(warehouse) as catalog:
        catalog.create_namespace("a")
        properties = {"history.expire.max-snapshot-age-ms": "0"}
        table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), properties=properties)
        for n in range(6):
            table.append([{"id": n}])
        orphan = Path(table.location().removeprefix("file://")) / "data" / "00000-0-lost-00001.parquet"
    orphan.write_bytes(b"lost")
    old = time.time() - 7 * 24 * 3600
    os.utime(orphan, (old, old))
    told = run("maintain", "a.t", code=2).stderr
    assert "would rewrite 6 data files" in told and "1 orphan file" in told
    position = run_json("sql", "SELECT max(position) AS p FROM log")
    run("maintain", "a.t", "--dry-run")
    for command in ("compact", "orphans", "rewrite-manifests", "rewrite-deletes", "expire"):
        run(command, "a.t", "--dry-run")
    assert run_json("sql", "SELECT max(position) AS p FROM log") == position and orphan.exists()
    done = run_json("maintain", "a.t", "--yes", "-m", "nightly", "-a", "cron")
    assert done["compacted"]["rewritten_data_files"] == 6 and done["compacted"]["added_data_files"] == 1
    assert len(done["expired"]["snapshot_ids"]) >= 6 and len(done["orphans"]["deleted_files"]) == 1
    assert not orphan.exists()
    assert {e["message"] for e in run_json("log", "--actor", "cron")} == {"nightly"}
    assert sorted(r["id"] for r in run_json("show", "a.t")) == list(range(6)) and run_json("verify")["ok"]
    assert "nothing is small" in run("compact", "a.t").stdout
    assert "expired 0 snapshots" in run("expire", "a.t", "--yes").stdout
    run("properties", "set", "a.t", "gc.enabled=false")
    assert "left out" in run("maintain", "a.t", "--yes").stdout
    assert "no partitions" in run("compute-statistics", "a.t", "--partitions", code=1).stderr
    assert "states" in run_json("checkpoint")
    run("materialize")


def test_what_takes_commits_back_asks(
    run: Run, run_json: RunJson, orders: str, catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is done where nobody is there, nor where others committed while it was asked."""
    run("properties", "set", orders, "a=1", "-a", "eve")
    end = catalog.position
    for command in (["undo", "--actor", "eve"], ["revert", str(end)], ["restore", "--to", str(end - 1)]):
        refused = run(*command, code=2)
        assert refused.stderr.startswith("would be:") and "give --yes" in refused.stderr
    assert catalog.position == end

    def meanwhile(*_: Any, **__: Any) -> None:
        catalog.load_table(orders).set_properties({"b": "2"})

    with monkeypatch.context() as patched:
        patched.setattr(recovery_commands, "agree", meanwhile)
        assert "look again" in run("restore", "--to", str(end - 1), code=1).stderr
    assert catalog.position == end + 1
    run("restore", "--to", str(end - 1), "--yes")
    assert run("properties", "get", orders, "a", code=1) and run("properties", "get", orders, "b", code=1)
    assert "nothing to change" in run("restore", "--to", str(end - 1)).stdout


def test_times_are_told_from_now() -> None:
    """Other texts are ISO 8601, or none."""
    now = dt.datetime(2024, 3, 1, 12, 30)
    for text, hours in (("2 hours ago", 2), ("1 Day  ago", 24), ("3weeks ago", 3 * 7 * 24)):
        assert texts.time_of(text, now) == now.astimezone() - dt.timedelta(hours=hours)
    assert texts.time_of("Yesterday", now) == dt.datetime(2024, 2, 29)
    assert texts.time_of("today", now) == dt.datetime(2024, 3, 1) and texts.time_of("now", now) == now
    for text in ("2024-01-01", "2 fortnights ago", "999999999 weeks ago", "main"):
        assert texts.time_of(text, now) == text
    assert texts.moment("12") == 12


def test_a_snapshot_is_named_by_its_first_digits(catalog: icecore.Catalog) -> None:
    catalog.create_namespace("a")
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]))
    table.append([{"id": 1}])
    [snapshot] = table.snapshots()
    text = str(snapshot.snapshot_id)
    assert {find_snapshot(table.metadata, t) for t in (text, text[:6], f"{text[:10]}…", "main")} == {
        snapshot.snapshot_id
    }
    for wrong in ("12", "nope", "000000"):
        with pytest.raises(NoSuchSnapshotError, match="branches and tags: main"):
            find_snapshot(table.metadata, wrong)
    twin = table.metadata.__class__.from_dict(
        {
            **table.metadata.to_dict(),
            "snapshots": [s.to_dict(2) | {"snapshot-id": int(text[:-1] + d)} for s in table.snapshots() for d in "12"],
            "current-snapshot-id": int(text[:-1] + "1"),
            "refs": {},
        }
    )
    with pytest.raises(ValidationError, match="2 snapshots begin with"):
        find_snapshot(twin, text[:6])


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
    assert "the view shop.v is back" in run("undrop", "shop.v").stdout
    run("drop", "shop.v", "-y")
    assert "the view shop.v is back" in run("undrop", "shop.v", "--view").stdout
    assert [e["message"] for e in run_json("log") if e["changes"].startswith("purge: ")] == ["asked to"]


def test_names_are_changed_once_under_a_key(run: Run, run_json: RunJson, tmp_path: Path) -> None:
    """Called again, after the change was undone too, a command says what it said and asks nothing, dry or not."""
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
        if number:
            assert run_json(*asked, "--key", f"k{number}", "--dry-run") == said[number]
    for dry in ((), ("--dry-run",)):
        assert run_json("create", "a.t", "--schema", "id long", "--key", "k1", *dry)["name"] == "a.t"
    assert run("drop", "a.t", "--yes", "--key", "k0", code=1).stderr.startswith("error: the idempotency key 'k0' was")
    assert len(run_json("log")) == events
