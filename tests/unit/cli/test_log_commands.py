"""The log by commands: read, held against files, written out again, archived, and settled with other engines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.display import output
from icecore.engine.foreign.adopter import ForeignCommitWarning

Run = Callable[..., Result]
RunJson = Callable[..., Any]


def test_log_filters(run: Run, run_json: RunJson, orders: str) -> None:
    """By table, actor, time and number, the newest first; that order too where the oldest are left out."""
    events = run_json("log", "--oldest-first")
    assert run_json("log") == run_json("log", "--newest-first") == events[::-1]
    assert [line[:2] for line in run("log", "-o", "csv").stdout.splitlines()[1:]] == ["3,", "2,", "1,"]
    assert run("log", "--full").stdout.startswith("position        3\n")
    assert [(e["actor"] if e["name"] == orders else "", e["name"]) for e in events] == [
        ("", "shop"),
        ("ann", orders),
        ("bob", orders),
    ]
    assert [e["position"] for e in run_json("log", orders)] == [3, 2]
    assert [e["position"] for e in run_json("log", "-n", "2")] == [3, 2]
    assert [e["position"] for e in run_json("log", "-n", "2", "--oldest-first")] == [2, 3]
    assert [e["position"] for e in run_json("log", orders, "--follow", "-n", "1")] == [3]
    assert [e["position"] for e in run_json("log", "--since", events[-1]["recorded_at"])] == [3]
    assert run_json("log", "--since", "2999-01-01") == []
    assert [e["position"] for e in run_json("log", orders, "--until", events[1]["recorded_at"])] == [2]
    assert run_json("log", "--since", events[1]["recorded_at"], "--until", events[1]["recorded_at"]) == [events[1]]
    assert "three orders" in run("log").stdout


def test_the_log_for_programs_has_the_snapshots(run: Run, run_json: RunJson, orders: str, warehouse: Path) -> None:
    """Null where an event made none; a person reads the ids among the changes."""
    with icecore.open(warehouse) as catalog:
        made = catalog.load_table(orders).metadata.current_snapshot_id
    assert [e["snapshot_id"] for e in run_json("log")] == [made, None, None]
    assert "snapshot_id" not in run("log").stdout


def test_what_is_no_name_or_moment_is_told_as_that(run: Run, orders: str) -> None:
    """With names that are like it, those of any time too, or the position at which nothing had it."""
    run("rename", orders, "shop.other")
    never = "there was never a table or view 'shop.order'; did you mean 'shop.orders' or 'shop.other'?"
    assert never in run("log", "shop.order", code=1).stderr
    wrong = run("diff", "2", "2026-13-01", code=2).stderr
    assert "'2026-13-01' is neither a position nor a time; write '2013-05" in wrong
    assert "is no time" in run("log", "--since", "9" * 5000, code=2).stderr
    assert "--files and --rows are of a --table" in run("diff", "1", "2", "--rows", code=2).stderr
    both = ("--files", "--rows")
    assert "give --files or --rows" in run("diff", "1", "--table", "shop.other", *both, code=2).stderr
    assert "give --files or --rows" in run("show-commit", "3", *both, code=2).stderr
    unused = run("diff", "1", "--table", "shop.other", "--branch", "audit", code=2).stderr
    assert "--branch says whose --files or --rows" in unused
    told = run("query", "SELECT * FROM shop.other", "--at", "3", code=1).stderr
    assert told.endswith("looked for 'shop.other'; asked at position 3\n")
    told = run("query", "SELECT * FROM log", "--at", "3", code=1).stderr
    assert told.endswith("are read by `sql`; asked at position 3\n"), told


def test_the_log_of_a_name_says_that_others_had_it(run: Run, orders: str) -> None:
    """An empty log of the one that has it now would say that nobody touched what had it then."""
    assert run("log", orders).stderr == ""
    run("rename", orders, "shop.old")
    run("create", orders, "--schema", "id long")
    assert run("log", orders, "--until", "2 hours ago").stderr == (
        "note: 1 other had the name shop.orders before: --follow is of them too\n"
    )
    assert run("log", orders, "--follow").stderr == run("log", "shop.old").stderr == ""


def test_a_graph_is_of_all_commits(run: Run, orders: str) -> None:
    """What says which events of the log are printed is refused, rather than left aside."""
    ranges = ["--actor", "ann"], ["--since", "2024-01-01"], ["--until", "now"]
    for options in (*ranges, ["--follow"], ["--full"], ["--oldest-first"]):
        assert f"--graph takes no {options[0]}" in run("log", orders, "--graph", *options, code=2).stderr
    assert "append three orders" in run("log", orders, "--graph", "--limit", "1").stdout


def test_a_graph_has_the_commit_of_each_of_several_snapshots(run: Run, run_json: RunJson, orders: str) -> None:
    with (
        icecore.open(run_json("init")["warehouse"]) as catalog,
        catalog.load_table(orders).transaction(author="eve", message="both") as change,
    ):
        change.append([{"id": 7}])
        change.append([{"id": 8}])
    found = [(row["position"], row["actor"], row["message"]) for row in run_json("log", orders, "--graph")]
    assert found == [(4, "eve", "both"), (4, "eve", "both"), (3, "bob", "three orders")]


def test_log_full_has_the_payload(run: Run, run_json: RunJson, orders: str) -> None:
    """Everything of an event: the updates as objects, the hash."""
    [event] = run_json("log", orders, "--full", "--limit", "1")
    assert [u["action"] for u in event["payload"]["updates"]] == ["add-snapshot", "set-snapshot-ref"]
    assert event["summary"]["added-records"] == "3"
    assert len(event["hash"]) == 64
    assert event["hash"] in run("log", orders, "--full").stdout


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
    assert "2 tables" in run("verify").stdout and "1 table" in run("verify", "shop.other", "--deep").stdout
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


@pytest.mark.parametrize(("kept", "told", "value"), [("log", "the log", "ours"), ("foreign", "the other", "theirs")])
def test_resolve_ends_a_conflict(
    run: Run, run_json: RunJson, warehouse: Path, orders: str, kept: str, told: str, value: str
) -> None:
    """Where nothing is in conflict that is an error; a table by hand over which PyIceberg commits is resolved.

    Who asks again under its key is told, and not asked.
    """
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
        position = run_json("sql", "SELECT max(position) AS p FROM log")
        for keep, side in (("log", "the log"), ("foreign", "the other engine")):
            would = run("resolve", orders, "--keep", keep, "--dry-run").stdout
            assert f"would resolve {orders}: it goes on from {side}\n  " in would
            assert run_json("resolve", orders, "--keep", keep, "--dry-run")["changes"]
            assert "give --yes" in run("resolve", orders, "--keep", keep, code=2).stderr
        assert run_json("sql", "SELECT max(position) AS p FROM log") == position
        keyed = "resolve", orders, "--keep", kept, "--key", "settled"
        resolved = run(*keyed, "-m", "it is right", "--yes")
    assert f"goes on from {told}" in resolved.stdout
    assert run(*keyed).stdout == resolved.stdout and run(*keyed, "--yes").stdout == resolved.stdout
    with icecore.open(warehouse) as catalog:
        assert catalog.load_table(orders).properties["a"] == value


def test_what_a_conflict_refuses_is_not_said_to_be_possible(
    run: Run, run_json: RunJson, warehouse: Path, orders: str
) -> None:
    """A dry run, and the question, end as the command does: theirs can't be adopted, and is in the way of others."""
    with icecore.open(warehouse) as catalog:
        table = catalog.load_table(orders)
        table.set_properties({"icecore.materialize": "manual"})
        catalog.materialize(orders)
        table.set_properties({"a": "ours"})
    peer = SqlCatalog("icecore", uri=f"sqlite:///{warehouse}/icecore.db", warehouse=str(warehouse))
    with peer.load_table(orders).transaction() as transaction:
        transaction.set_properties(a="theirs")
    Path(peer.load_table(orders).metadata_location.removeprefix("file://")).unlink()
    peer.close()
    with pytest.warns(ForeignCommitWarning):
        for command in (
            ["resolve", orders, "--keep", "foreign"],
            ["drop", orders],
            ["unregister", orders],
            ["create", orders, "--schema", "i int", "--replace"],
        ):
            for more in (["--dry-run"], [], ["--yes"]):
                assert "there is no such file" in run(*command, *more, code=1).stderr, command
        assert "would resolve" in run("resolve", orders, "--keep", "log", "--dry-run").stdout


def test_blame_shows_who_and_the_row_before_all_else(run: Run, run_json: RunJson, orders: str) -> None:
    """What doesn't fit a terminal is left out from the right; programs get the columns of `Table.blame`."""
    shown = run("blame", orders).stdout.splitlines()[0].split()
    assert shown[:3] == ["_position", "_actor", "id"] and shown[-1] == "_is_exact"
    assert list(run_json("blame", orders)[0])[:2] == ["_position", "_recorded_at"]


@pytest.mark.parametrize("count", [17, 18])
def test_blame_says_that_there_are_more_rows(
    run: Run, run_json: RunJson, orders: str, tmp_path: Path, count: int
) -> None:
    (tmp_path / "more.csv").write_text("id\n" + "".join(f"{i}\n" for i in range(count)))
    run("append", orders, str(tmp_path / "more.csv"))
    note = "note: there are more than these 20 rows: --limit says how many to print\n" if count > 17 else ""
    assert run("blame", orders).stderr == note
    assert len(run_json("blame", orders)) == 20
    assert len(run_json("blame", orders, "--limit", "21")) == count + 3
    assert run("blame", orders, "--limit", "20").stderr == ""


def test_blame_says_where_commits_were_expired(run: Run, orders: str) -> None:
    """The column that tells it is one of the last, which a terminal has no room for."""
    run("compact", orders, "--option", "rewrite-all=true")
    assert run("blame", orders).stderr == ""
    run("expire", orders, "--older-than", "now", "--retain-last", "1", "--yes")
    assert run("blame", orders).stderr.startswith("note: 3 rows came with the commit that is named or before: ")


def test_blame_of_what_nobody_changed_is_an_error(run: Run, orders: str) -> None:
    """A misspelt name would read as that nobody changed it else."""
    assert run("blame", orders, "--column", "note").stdout
    for what in ("column", "file", "partition", "property", "ref"):
        told = run("blame", orders, f"--{what}", "nothing", code=1).stderr
        assert told == f"error: no commit that can be read changed a {what} 'nothing' of {orders}\n"


def test_blame_of_a_column_is_limited_too(run: Run, run_json: RunJson, orders: str) -> None:
    run("alter", orders, "rename-column", "note", "remark")
    assert len(run_json("blame", orders, "--column", "remark")) == 2
    [latest] = run_json("blame", orders, "--column", "remark", "--limit", "1")
    assert latest["position"] == 4


def test_blame_finds_a_file_by_what_a_terminal_left_of_its_path(
    run: Run, run_json: RunJson, orders: str, warehouse: Path
) -> None:
    with icecore.open(warehouse) as catalog:
        path = catalog.load_table(orders).scan().plan_files()[0].file.file_path
    left = path.partition("/data/ts_")[2]
    assert [f["file_path"] for f in run_json("blame", orders, "--file", f"…{left}")] == [path]
    assert run("blame", orders, "--file", left, code=1).stderr.startswith("error: no commit that can be read")


def test_what_becomes_current_again_is_told(run: Run, run_json: RunJson, orders: str) -> None:
    """A schema or spec that an earlier commit made: its event would say nothing else."""
    run("alter", orders, "drop-column", "note", "--yes")
    assert "back to schema 0" in run("revert", "4", "--yes").stdout
    assert [e["changes"] for e in run_json("log", orders)][:2] == ["back to schema 0", "schema 1"]


def test_diff_of_a_table_by_any_of_its_names(run: Run, run_json: RunJson, orders: str) -> None:
    """As the shell takes and prints names, before a rename and after it; one that nothing ever had is an error."""
    run("rename", orders, 'shop."sales.2013"')
    run("create", orders, "--schema", "id long")
    for name in ('shop."sales.2013"', "shop.`sales.2013`"):
        assert [r["action"] for r in run_json("diff", "3", "--table", name)] == ["renamed"]
    first, *others = run_json("diff", "3", "4", "--table", orders)
    assert (first["before"], first["after"], others) == (orders, 'shop."sales.2013"', [])
    assert run_json("diff", "4", "--table", 'shop."sales.2013"') == []
    run("rename", 'shop."sales.2013"', "shop.sales")
    for start, end in ((3, 6), (4, 6), (1, 2)):
        of_then = run_json("diff", f"{start}", f"{end}", "--table", 'shop."sales.2013"')
        assert of_then and {r["name"] for r in of_then} == {"shop.sales" if end == 6 else orders}
    assert "there was never" in run("diff", "3", "--table", "shop.nope", code=1).stderr


def test_diff_takes_snapshots_by_their_first_digits(run: Run, run_json: RunJson, orders: str) -> None:
    """As a terminal shows them, whole or cut; what is too short says so, but not a wrong name of a branch."""
    run("delete", orders, "--where", "id = 1", "--yes")
    first, last = (
        str(r["snapshot_id"]) for r in run_json("sql", "SELECT snapshot_id FROM snapshots ORDER BY sequence_number")
    )
    for start, end in ((first, last), (first[:6], last[:6]), (f"{first[:6]}…", "main")):
        rows = run_json("diff", start, end, "--table", orders, "--rows")
        assert [(r["id"], r["_change_type"]) for r in rows] == [(1, "DELETE")]
        assert [r["change"] for r in run_json("diff", start, end, "--table", orders, "--files")] == ["removed"]
        facts = {
            r["key"] or r["what"]: (r["before"], r["after"]) for r in run_json("diff", start, end, "--table", orders)
        }
        assert facts["snapshot"] == (f"append {first}", f"delete {last}")
        assert facts["total-records"] == ("3", "2") and "data-files" in facts
    assert "of an id give 4 digits at least" in run("diff", first[:3], "--table", orders, code=1).stderr
    assert "digits" not in run("diff", "man", "--table", orders, code=1).stderr


def test_no_line_of_a_message_tells_who_made_a_commit(run: Run, run_json: RunJson, orders: str) -> None:
    """Whoever may commit chooses the message, whose lines stand in order below each other."""
    run("delete", orders, "--where", "id = 1", "--yes", "--message", "asked for\nactor        ann")
    lines = run("show-commit", "4").stdout.splitlines()
    at = lines.index("message      asked for")
    assert lines[at + 1] == " " * 13 + "actor        ann"
    assert [line for line in lines if line.startswith("actor")] == [f"actor        {run_json('log')[-1]['actor']}"]


def test_diff_tells_people_of_files_where_facts_stand(run: Run, run_json: RunJson, orders: str) -> None:
    """Counts in columns of their own would be left out at 80 characters, and are null for each other line."""
    run("delete", orders, "--where", "id = 1", "--yes")
    [told] = [r for r in run_json("diff", "2", "--table", orders) if r["what"] == "data-files"]
    assert (told["added_files"], told["added_rows"], told["before"]) == (2, 2, None)
    run("compact", orders, "--option", "rewrite-all=true")
    assert run("show-commit", "5", "--rows").stderr == "commit 5 only wrote files again, so it changed no rows\n"
    text = run("diff", "3", "--table", orders).stdout
    assert "added_files" not in text.splitlines()[0]
    assert " ".join(text[text.index("data-files") :].split()) == "data-files main - 3 files, 3 rows + 2 files, 2 rows"


def test_the_rows_of_a_registered_table_are_of_no_commit_of_the_log(run: Run, run_json: RunJson, orders: str) -> None:
    """It has them when it comes: a command tells them, which is named."""
    location = run_json("describe", orders)["metadata_location"]
    run("drop", orders, "--yes")
    run("register", "shop.again", location)
    [told] = run("show-commit", "5", "--rows").stderr.splitlines()
    _, command, _ = told.split("`")
    assert told.startswith("commit 5 registered a table") and len(run_json(*command.split()[1:])) == 3


def test_on_80_columns_paths_and_changes_stand_below_their_rows(
    run: Run, run_json: RunJson, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine characters of a path would tell no file from another, and half of what an undo does is not what it does."""
    names = [row["file_path"][-30:] for row in run_json("diff", "2", "--table", orders, "--files")]
    monkeypatch.setattr(output, "terminal_size", lambda: os.terminal_size((80, 1000)))
    of_files = (["diff", "2", "--table", orders, "--files"], ["show-commit", "3", "--files"], ["show-commit", "3"])
    for command in of_files:
        text = run(*command).stdout
        assert all(name in text for name in names), text
        assert max(map(len, run(*command, "-x").stdout.splitlines())) > 80
    assert f"/{orders.replace('.', '/')}/data/" in run("show-commit", "3", "--wide").stdout
    found = run("where-is", "first", code=1).stdout
    assert any(name in found for name in names), found
    told = run("undo", "--actor", "bob", "--dry-run").stdout
    assert "           delete: - 3 files, - 3 rows; branch main -> " in told, told


def test_a_clone_of_a_copy_is_told_as_one_of_the_copy(
    run: Run, run_json: RunJson, orders: str, warehouse: Path, tmp_path: Path
) -> None:
    """Whose rows it has, though the copy's log names the folder of its original."""
    copy, clone = tmp_path / "copy", tmp_path / "clone"
    shutil.copytree(warehouse, copy)
    run("delete", orders, "--where", "id = 1", "--yes")
    assert f"cloned from {copy} to {clone}" in run("clone", str(clone), "--warehouse", str(copy)).stdout
    assert len(run_json("show", orders, "--warehouse", str(clone))) == 3
    again = run("clone", str(tmp_path / "again"), "--warehouse", copy.as_uri()).stdout
    assert f"cloned from {copy} to " in again
