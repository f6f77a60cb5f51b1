"""What goes wrong ends in one line on standard error: exit code 1, or 2 where the command was typed wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

import icecore
from icecore.engine.cli.main import cli

Run = Callable[..., Result]

_LONG = "9" * 5_000
READING = (["ls"], ["describe", "a.b"], ["log"], ["show", "a.b"], ["plan", "a.b"], ["sql", "SELECT 1"], ["verify"])
WRITING = (
    ["create", "a.b", "--schema", "x int"],
    ["create-view", "a.v", "--sql", "SELECT 1"],
    ["register", "a.b", "/nowhere.json"],
    ["rebuild"],
)


@pytest.mark.parametrize("arguments", [*READING, *WRITING], ids=lambda a: a[0])
def test_no_such_warehouse(run: Run, warehouse: Path, arguments: list[str]) -> None:
    """Only init makes a folder; the command to do so can be copied."""
    error = run(*arguments, code=1).stderr
    assert error.startswith("error: ")
    assert f"`icecore init --warehouse {warehouse}` makes a warehouse" in error
    assert not warehouse.exists()


@pytest.mark.parametrize("arguments", [*READING, *WRITING, ["init"]], ids=lambda a: a[0])
def test_no_warehouse_named(arguments: list[str]) -> None:
    """It is asked for, and the variable named."""
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "ICECORE_WAREHOUSE" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe", "shop.nope"],
        ["describe", "nope"],
        ["show", "shop.nope"],
        ["plan", "shop.nope"],
        ["log", "shop.nope"],
        ["show", "shop.orders", "--where", "nope = 1"],
        ["show", "shop.orders", "--where", "id = 'x'"],
        ["show", "shop.orders", "--where", "id = "],
        ["plan", "shop.orders", "--where", "id IN (SELECT 1)"],
        ["show", "shop.orders", "--columns", "nope"],
        ["show", "shop.orders", "--snapshot", "1"],
        ["show", "shop.orders", "--ref", "nope"],
        ["show", "shop.orders", "--as-of", "1999-01-01"],
        ["diff", _LONG, "--table", "shop.orders"],
        ["show", "shop.orders", "--ref", "main", "--as-of", "2999-01-01"],
        ["create", "shop.orders", "--schema", "id long"],
        ["create", "nope.t", "--schema", "id long"],
        ["create", "shop.t", "--schema", "id lung"],
        ["create", "shop.t", "--schema", "id long, id int"],
        ["create", "shop.t", "--schema", ""],
        ["create", "shop.t", "--schema", "id long", "--partition", "month(id)"],
        ["create", "shop.t", "--schema", "id long", "--sort", "nope"],
        ["create", "shop.t", "--schema", "id timestamp_ns"],
        ["create", "shop.orders", "--schema", "x long", "--sort", "nope", "--replace"],
        ["alter", "shop.orders", "drop-column", "nope"],
        ["register", "shop.orders", "/nowhere", "--overwrite"],
        ["create-view", "shop.orders", "--sql", "SELECT 1 AS x", "--replace"],
        ["create-view", "nope.v", "--sql", "SELECT 1 AS x"],
        ["create-view", "shop.v", "--sql", "SELECT nope FROM orders"],
        ["create-view", "shop.v", "--sql", "SELECT * FROM nope"],
        ["create-view", "shop.v", "--sql", "SELECT * FROM read_csv('/etc/passwd')"],
        ["create-view", "shop.v", "--sql", "DROP TABLE orders"],
        ["create-view", "shop.v", "--sql", "SELECT 1 AS x", "--dialect", "nope"],
        ["revert", "3", "--through", "2"],
        ["revert", "3", "--through", "9"],
        ["undrop", "shop.nope"],
        ["register", "shop.t", "/nowhere/v1.metadata.json"],
        ["register", "shop.orders", "/nowhere/v1.metadata.json"],
        ["sql", "SELEC 1"],
        ["sql", ""],
        ["sql", "SELECT 1; SELECT 2"],
        ["sql", "SELECT * FROM nope"],
        ["sql", "SELECT * FROM read_csv('/etc/passwd')"],
        ["sql", "SELECT nope FROM log"],
        ["init", "--name", "other"],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_errors_are_one_line(run: Run, orders: str, arguments: list[str]) -> None:
    """No traceback, nothing on standard output, and nothing changed."""
    result = run(*arguments, code=1)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert len(orjson.loads(run("log", "-o", "json").stdout)) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["create", "shop.t"],
        ["create", "shop.t", "--schema", "id long", "--like", __file__],
        ["create", "shop.t", "--schema", "id long", "--property", "k"],
        ["create", "shop.t", "--schema", "id long", "--format-version", "4"],
        ["create-view", "shop.v"],
        ["append", "shop.orders"],
        ["append", "shop.orders", "/nowhere.csv"],
        ["log", "--since", "some day"],
        ["log", "--limit", "0"],
        ["show", "shop.orders", "--limit", "-1"],
        ["register", "shop.t", "x.json", "--map", "a"],
        ["delete", "shop.orders", "--keys", __file__],
        ["upsert", "shop.orders", __file__],
        ["restore", "--to", "next week"],
        ["show", "shop.orders", "--as-of=--5"],
        ["expire", "shop.orders", "--older-than=--1"],
        ["log", "--since", str(10**20)],
        ["log", "--since", _LONG],
        ["restore", "--to", _LONG],
        ["sql"],
        ["sql", "SELECT 1", "--tables"],
        ["ls", "--output", "yaml"],
    ],
    ids=lambda arguments: " ".join(arguments)[:60],
)
def test_usage_errors(run: Run, orders: str, arguments: list[str]) -> None:
    """The exit code is 2."""
    assert "Usage" in run(*arguments, code=2).stderr


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("wrong.csv", "id,nope\n1,2\n", "nope"),
        ("text.csv", "id\nx\n", "text.csv"),
        ("null.csv", "id,note\n,x\n", "id"),
        ("wrong.json", '{"id": "x"}', "wrong.json"),
        ("cut.json", '{"id": ', "cut.json"),
        ("array.json", "[1, 2]", "array.json"),
        ("cut.parquet", "PAR1", "cut.parquet"),
        ("what.bin", "x", "what.bin"),
    ],
)
def test_a_file_that_does_not_fit(run: Run, orders: str, tmp_path: Path, name: str, content: str, said: str) -> None:
    """The error names it, and the table stays as it was: no commit, no data file left behind."""
    before = sorted(p for p in tmp_path.rglob("*.parquet") if "orders" in str(p))
    (tmp_path / name).write_text(content)
    result = run("append", orders, str(tmp_path / name), code=1)
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert len(orjson.loads(run("log", "-o", "json").stdout)) == 3
    assert sorted(p for p in tmp_path.rglob("*.parquet") if "orders" in str(p) and p.name != name) == before


HOSTILE = (
    "../../etc",
    "a b",
    "x'; DROP TABLE events; --",
    '"',
    "ünï",
    "[red]bold[/red]",
    "\x1b[31mred",
    "%s",
    "-x",
    "a/b",
)


def test_ctrl_c_has_an_exit_code_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 would say that an audit had found something."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    run("init")
    monkeypatch.setattr(icecore.Catalog, "audit", interrupted)
    assert run("audit", code=130).stderr == "\nAborted!\n"


@pytest.mark.parametrize("done", [0, 1, 2])
def test_ctrl_c_takes_nothing_back_that_was_stored(run: Run, monkeypatch: pytest.MonkeyPatch, done: int) -> None:
    """An interrupt that comes while SQLite stores the commit is raised after it."""
    create = icecore.Catalog.create_namespace

    def interrupted(catalog: icecore.Catalog, *_: object, **__: object) -> None:
        for name in ("a", "b")[:done]:
            create(catalog, name)
        raise KeyboardInterrupt

    run("init")
    monkeypatch.setattr(icecore.Catalog, "create_namespace", interrupted)
    words = ("", "Commit 1 was", "Commits 1 to 2 were")[done]
    told = f" {words} stored since it began; icecore log tells what they did." if done else ""
    assert run("namespace", "create", "ns", code=130).stderr == f"\nAborted!{told}\n"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(run: Run, warehouse: Path, tmp_path: Path, name: str) -> None:
    """A name is a name: it can't leave the folder, run SQL, colour the terminal or be taken for an option."""
    run("init")
    if "." in name:
        run("create", "--schema", "x int", "--create-namespace", "--", f"ns.{name}", code=1)
        return
    run("create", "--schema", "x int", "--create-namespace", "--author", name, "--message", name, "--", f"ns.{name}")
    (tmp_path / "x.csv").write_text("x\n1\n")
    run("append", "--", f"ns.{name}", str(tmp_path / "x.csv"))
    for arguments in (["ls"], ["log"], ["log", "--full"], ["describe", "--", f"ns.{name}"], ["sql", "FROM tables"]):
        shown = run(*arguments).stdout
        assert "\x1b" not in shown
    listed: list[dict[str, Any]] = orjson.loads(run("ls", "-o", "json").stdout)
    assert [(t["name"], t["rows"]) for t in listed] == [(f"ns.{name}", 1)]
    assert all(p.resolve().is_relative_to(warehouse) for p in warehouse.rglob("*"))
    run("verify")


def test_a_missing_namespace_is_told_with_the_option_that_makes_it(run: Run, tmp_path: Path) -> None:
    run("init")
    told = "Namespace does not exist: shop; --create-namespace makes it"
    assert told in run("create", "shop.t", "--schema", "id long", code=1).stderr
    assert told in run("create-view", "shop.v", "--sql", "SELECT 1 AS x", code=1).stderr
    run("create", "shop.t", "--schema", "id long", "--create-namespace")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id =", "something is missing at '='"),
        ("id = 1 and", "something is missing at 'and'"),
        ("id is 1 2", "at '2'"),
        ("id = 'a", "Error tokenizing"),
    ],
)
def test_a_filter_that_is_none_is_told_with_the_word_where_it_ends(
    run: Run, orders: str, text: str, problem: str
) -> None:
    """Not with the classes of a parser."""
    told = run("show", orders, "--where", text, code=1).stderr
    assert problem in told and "class" not in told


@pytest.mark.parametrize("command", [["show"], ["blame"], ["drop", "--yes"], ["log"], ["rename", "shop.other"]])
def test_a_name_without_its_namespace_is_told_with_those_like_it(run: Run, orders: str, command: list[str]) -> None:
    """Of any namespace, by whichever command; none where nothing is like it, or the warehouse can't be read."""
    first, *others = command
    problem = "needs a namespace and a name, as in 'namespace.table'"
    for wrong in ("orders", "ordesr"):
        assert run(first, wrong, *others, code=1).stderr.endswith(f"{problem}; did you mean '{orders}'?\n")
    assert run(first, "xyzzy", *others, code=1).stderr.endswith(f"{problem}\n")


def test_a_command_that_is_none_is_told_with_those_like_it() -> None:
    """Which click does not know, as none is loaded; one of PyIceberg with what has its answer."""
    for wrong, meant in (
        ("qurey", "'query' or 'purge'"),
        ("list", "'ls'"),
        ("show_commit", "'show-commit'"),
        ("list-refs", "'refs'"),
        ("schema", "'describe'"),
        ("spec", "'describe'"),
        ("uuid", "'describe'"),
        ("location", "'describe'"),
        ("files", "'plan'"),
        ("version", "'--version'"),
    ):
        error = CliRunner().invoke(cli, [wrong, "shop.orders"])
        assert error.exit_code == 2 and f"No such command '{wrong}'. Did you mean " in error.stderr
        assert meant in error.stderr, error.stderr
    assert CliRunner().invoke(cli, ["xyzzy"]).stderr.endswith("No such command 'xyzzy'.\n")
    assert "No such option" in CliRunner().invoke(cli, ["--lst"]).stderr
