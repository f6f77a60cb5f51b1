"""The README is run: its Python as doctests, its console as commands, in one folder, from top to bottom."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OPTIONS = doctest.ELLIPSIS
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_what_it_shows_is_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer in the README is the one given here; `...` stands for ids, times and paths."""
    pytest.importorskip("pyiceberg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ICECORE_OUTPUT", raising=False)
    monkeypatch.setenv("ICECORE_ACTOR", "ann")
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    blocks = [
        (kind, text, README[: m.start()].count("\n")) for m in BLOCK.finditer(README) for kind, text in [m.groups()]
    ]
    doctests = [b for b in blocks if b[0] == "python" and b[1].startswith(">>>")]
    consoles = [b for b in blocks if b[0] == "console"]
    assert len(doctests) >= 5 and len(consoles) >= 1
    names: dict[str, object] = {}
    for kind, text, line in blocks:
        if (kind, text, line) in doctests:
            run_python(text, line, names)
        elif kind == "console":
            run_console(text)


def run_python(text: str, line: int, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, "README.md", "README.md", line)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not report, "".join(report)


def run_console(text: str) -> None:
    """Runs commands one after another; `export` holds for those below it."""
    steps = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    for step in steps:
        command, _, expected = step.partition("\n")
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            os.environ[name] = value
            continue
        run = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{command}\n{run.stderr}"
        found = run.stdout
        matches = doctest.OutputChecker().check_output(expected, found, OPTIONS)
        assert matches, f"$ {command}\n--- README\n{expected}--- found\n{found}"


def test_the_first_commands_are_the_makefile_s() -> None:
    """The two commands that the README starts with are targets, and .ci/run runs the second."""
    first = next(m[2] for m in BLOCK.finditer(README) if m[1] == "sh")
    commands = [line.split("#")[0].strip() for line in first.splitlines()]
    assert commands == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{c.removeprefix('make ')}:", makefile, re.MULTILINE) for c in commands)
    runner = ROOT / ".ci" / "run"
    assert os.access(runner, os.X_OK)
    assert "make test" in runner.read_text()


def test_it_lists_every_command_and_audit_table() -> None:
    """None was forgotten, none was made up."""
    from icecore.engine.cli.main import COMMANDS
    from icecore.projections.audit.sql_prompt import AUDIT_TABLES

    assert " ".join(COMMANDS) in README
    assert set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)) == set(AUDIT_TABLES)
