"""Commands and names are completed, and next to nothing is loaded for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import icecore
from icecore.engine.catalog.warehouse import LOG_FILE
from icecore.engine.cli.completion import _LOG, GROUPS
from icecore.engine.cli.main import COMMANDS, cli

ASK = """
import sys
from icecore.engine.cli.main import cli
try:
    cli(prog_name="icecore")
except SystemExit:
    pass
print(*sorted(m for m in sys.modules if m.partition(".")[0] in HEAVY or m.startswith("icecore.")), file=sys.stderr)
"""
HEAVY = {"attrs", "duckdb", "numpy", "orjson", "pyarrow", "rich", "sqlglot"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    with icecore.open(folder) as catalog:
        catalog.create_namespace("shop")
        for name in ("orders", "old", "parcels"):
            catalog.create_table(f"shop.{name}", pa.schema({"id": pa.int64()}))
        catalog.create_view("shop.odd", "SELECT 1 AS x")
        catalog.drop_table("shop.old")
    return folder


def ask(words: str, warehouse: Path | str) -> tuple[list[str], set[str]]:
    """The completions of the last word, and what was loaded for them."""
    given = {"_ICECORE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    environment = {**os.environ, **given, "ICECORE_WAREHOUSE": str(warehouse)}
    code = f"HEAVY = {HEAVY!r}\n{ASK}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return [line.partition(",")[2] for line in done.stdout.split("\n") if line], set(done.stderr.split())


def test_a_name_with_a_dot_is_completed_and_listed_as_it_can_be_given(tmp_path: Path) -> None:
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        catalog.create_namespace("shop.old")
        catalog.create_table(("shop", "old", "a.b"), pa.schema({"id": pa.int64()}))
        catalog.create_namespace(('"old',))
        catalog.create_table(('"old', "t"), pa.schema({"id": pa.int64()}))
    names, _ = ask("icecore show shop.o", tmp_path / "lake")
    assert [name.replace("\\", "") for name in names] == ['shop.old."a.b"']
    run = CliRunner(env={"ICECORE_WAREHOUSE": str(tmp_path / "lake")}).invoke
    assert json.loads(run(cli, ["ls", "shop.`old`", "--output", "json"]).output)[0]["name"] == 'shop.old."a.b"'
    assert json.loads(run(cli, ["ls", '"old', "--output", "json"]).output)[0]["name"] == '"""old".t'
    for command in ("describe", "show", "blame", "plan", "audit"):
        assert run(cli, [command, 'shop.old."a.b"']).exit_code == 0, command


def test_names_are_read_from_the_log_alone(shop: Path) -> None:
    """Of tables and views that there are now; nothing of Arrow, DuckDB or the engine is loaded."""
    names, loaded = ask("icecore show shop.o", shop)
    assert names == ["shop.odd", "shop.orders"]
    assert loaded & HEAVY == set()
    assert {m for m in loaded if m.startswith("icecore.engine.")} <= {
        "icecore.engine.cli", "icecore.engine.cli.completion", "icecore.engine.cli.main", "icecore.engine.cli.settings",
        "icecore.engine.common", "icecore.engine.common.text", "icecore.engine.common.version", "icecore.engine.errors",
        "icecore.engine.queries", "icecore.engine.queries.named_queries",
    }  # fmt: skip
    assert ask("icecore show shop.", shop / "nowhere")[0] == []
    assert ask(f"icecore describe --warehouse {shop} shop.p", "")[0] == ["shop.parcels"]


IN_BASH = """
eval "$(_ICECORE_COMPLETE=bash_source icecore)"
COMP_WORDS=(icecore describe "$1") COMP_CWORD=2
_icecore_completion icecore
for word in "${COMPREPLY[@]}"; do eval "set -- $word"; printf '%s\\0' "$#" "$1"; done
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("typed", "name"),
    [("a", "a b"), ("a\\ ", "a b"), ("q", "qu\"o't"), ("t", "t;date"), ("b", "b\\s"), ("\\$", "$HOME"), ("\\*", "*")],
)
def test_a_name_is_one_word_of_bash_whatever_is_in_it(tmp_path: Path, typed: str, name: str) -> None:
    """Who may name a table must not write commands for others, which run once they press Enter."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace(name)
        for table in (name, "new\nline"):
            catalog.create_table((name, table), pa.schema({"id": pa.int64()}))
    program = tmp_path / "bin" / "icecore"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m icecore "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "ICECORE_WAREHOUSE": str(tmp_path), "PATH": path}
    command = ["bash", "--norc", "-c", IN_BASH, "bash", typed]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, cwd=tmp_path)
    assert done.stdout.split("\0")[:-1] == ["1", f"{name}.{name}"], done.stderr


def test_commands_and_options_are_completed(shop: Path) -> None:
    names, loaded = ask("icecore re", shop)
    assert {"register", "rename", "rebuild", "refs"} <= set(names) <= COMMANDS.keys()
    assert loaded & HEAVY == set()
    assert "--where" in ask("icecore show --w", shop)[0]
    assert "create" in ask("icecore branch c", shop)[0]


@pytest.mark.parametrize("words", ["alter", "branch create", "tag drop", "properties set", "properties get"])
def test_names_are_completed_behind_commands_of_groups(shop: Path, words: str) -> None:
    assert ask(f"icecore {words} shop.o", shop)[0] == ["shop.odd", "shop.orders"]


def test_behind_a_command_that_is_none_nothing_is_completed(shop: Path) -> None:
    """Nor is an error printed into the line that somebody writes, however like a command it is."""
    assert ask("icecore shwo shop.", shop)[0] == []


def test_what_is_said_twice_is_the_same() -> None:
    assert _LOG == LOG_FILE
    import click

    context = click.Context(cli)
    assert {n for n in COMMANDS if isinstance(cli.get_command(context, n), click.Group)} == GROUPS
