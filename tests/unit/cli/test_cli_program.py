"""The program as a shell runs it: where its options come from, its exit codes, and pipes that are closed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from icecore import __main__
from icecore.engine.cli import main
from icecore.engine.cli.main import cli


def test_options_before_and_after_the_command_and_from_the_environment(orders: str, warehouse: Path) -> None:
    """A command's own option wins over the program's, which wins over the environment."""
    runner = CliRunner(env={"ICECORE_WAREHOUSE": str(warehouse), "ICECORE_OUTPUT": "json"})
    assert runner.invoke(cli, ["ls"]).stdout.startswith("[")
    assert runner.invoke(cli, ["--output", "table", "ls"]).stdout.startswith("name")
    assert runner.invoke(cli, ["--output", "json", "ls", "--output", "table"]).stdout.startswith("name")
    assert runner.invoke(cli, ["-w", "/nowhere", "ls"]).exit_code == 1
    assert runner.invoke(cli, ["-w", "/nowhere", "ls", "-w", str(warehouse)]).exit_code == 0


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


def test_ctrl_c_while_the_command_is_loaded_ends_it_as_later(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["icecore", "ls"])
    monkeypatch.setattr(main, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        __main__.main()
    assert (ended.value.code, capsys.readouterr().err) == (main.INTERRUPTED, "\nAborted!\n")
