"""A command tells of what it committed itself, whoever else commits meanwhile, and of what its key did before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import Result

import icecore

Run = Callable[..., Result]
RunJson = Callable[..., Any]


@pytest.fixture
def csv(tmp_path: Path) -> str:
    (tmp_path / "a.csv").write_text("id,note\n1,\n2,two\n3,three\n")
    return str(tmp_path / "a.csv")


def in_thread(what: Callable[..., None], *arguments: object) -> None:
    """Does something as another writer, whose commits no watch of this thread sees."""
    thread = Thread(target=what, args=arguments)
    thread.start()
    thread.join()


def test_what_another_writer_does_meanwhile_is_not_told(
    run: Run, run_json: RunJson, orders: str, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if it was the command's own: neither where it changes something nor where nothing is left to change."""
    delete = icecore.Table.delete

    def by_another() -> None:
        with icecore.open(warehouse) as other:
            delete(other.load_table(orders), "id >= 2")

    def raced(table: icecore.Table, condition: str, **options: Any) -> Any:
        in_thread(by_another)
        return delete(table, condition, **options)

    monkeypatch.setattr(icecore.Table, "delete", raced)
    first = run_json("delete", orders, "--where", "id >= 1", "--yes")
    assert first["changes"] == {"deleted-records": 1, "deleted-data-files": 1}
    assert f"nothing to change in {orders}" in run("delete", orders, "--where", "id >= 1", "--yes").stdout


@pytest.mark.parametrize("call", ["undo", "revert", "restore", "drop_table", "unregister_table", "undrop_table"])
def test_positions_and_events_are_the_commands_own(
    run: Run, run_json: RunJson, orders: str, warehouse: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Whatever others commit just before it and just after: who goes by them would revert a commit of theirs."""
    run("namespace", "create", "theirs")
    if call == "undrop_table":
        run("drop", orders, "--yes")
    make = getattr(icecore.Catalog, call)
    told = {"undo": (orders, "--actor", "bob"), "revert": ("3",), "restore": (orders, "--to", "2")}
    arguments = (
        call.removesuffix("_table"),
        *told.get(call, (orders,)),
        *(() if call == "undrop_table" else ("--yes",)),
    )

    def by_another(name: str) -> None:
        with icecore.open(warehouse) as other:
            other.create_namespace(("theirs", name))

    def raced(catalog: icecore.Catalog, *given: Any, dry_run: bool = False, **options: Any) -> Any:
        if dry_run:
            return make(catalog, *given, dry_run=True, **options)
        in_thread(by_another, "before")
        outcome = make(catalog, *given, **options)
        in_thread(by_another, "after")
        return outcome

    monkeypatch.setattr(icecore.Catalog, call, raced)
    made = run_json(*arguments)
    log = run_json("log")
    own = max(row["position"] for row in log if not row["name"].startswith("theirs"))
    assert made["position"] == own < max(row["position"] for row in log)
    assert [event["position"] for event in made.get("events", [{"position": own}])] == [own]


def test_a_key_that_was_used_says_for_what(run: Run, run_json: RunJson, csv: str) -> None:
    """For another command as well, which is not carried out."""
    run("init")
    run("load", csv, "s.t")
    run("append", "s.t", csv, "--key", "k")
    told = "done before, under this key, at position 4: + 3 rows, + 1 data file"
    for command in (("load", csv, "s.t"), ("append", "s.t", csv), ("delete", "s.t", "--where", "id = 1", "--yes")):
        assert told in run(*command, "--key", "k").stdout
        record = run_json(*command, "--key", "k")
        assert (record["done_before_at"], record["snapshot_id"]) == (4, None)
    assert run_json("sql", "SELECT count(*) AS n FROM snapshots") == [{"n": 2}]


def test_load_appends_to_a_table_that_another_made_meanwhile(
    run: Run, csv: str, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("init")
    exists = icecore.Catalog.table_exists
    raced: list[str] = []

    def looked(catalog: icecore.Catalog, name: str) -> bool:
        found = exists(catalog, name)
        if not raced:
            raced.append(name)
            run("load", csv, name)
        return found

    monkeypatch.setattr(icecore.Catalog, "table_exists", looked)
    assert "loaded 3 rows into s.t, which has 6 rows now" in run("load", csv, "s.t").stdout


def test_rows_that_delete_files_delete_are_said_to_be_counted(run: Run, csv: str) -> None:
    run("init")
    run("load", csv, "s.t", "--property", "write.delete.mode=merge-on-read")
    run("delete", "s.t", "--where", "id = 1", "--yes")
    assert "; 3 rows before deletes after it" in run("delete", "s.t", "--where", "id = 2", "--dry-run").stdout
    assert "which has 6 rows before deletes now" in run("load", csv, "s.t").stdout


def test_a_call_that_another_process_made_under_its_key_meanwhile_is_told(
    run_json: RunJson, orders: str, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a shell that seemed to hang was started again: the answer is the other's, and so are its events."""
    revert = icecore.Catalog.revert

    def by_another(options: dict[str, Any]) -> None:
        with icecore.open(warehouse) as other:
            revert(other, 3, **options)

    def raced(catalog: icecore.Catalog, position: int, *, dry_run: bool = False, **options: Any) -> Any:
        if not dry_run:
            in_thread(by_another, options)
        return revert(catalog, position, dry_run=dry_run, **options)

    monkeypatch.setattr(icecore.Catalog, "revert", raced)
    made = run_json("revert", "3", "--yes", "--key", "once")
    assert [event["position"] for event in made["events"]] == [made["position"]]
