"""README.md and each page of docs/ are run: Python as doctests, console blocks as commands, from top to bottom.

Python that asks for a session of Spark Connect is run in a client of one, whose server has an address of its own.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
NEEDS = {
    "README": "pyspark",
    "changes-by-spark": "pyspark",
    "format-and-interoperability": "pyiceberg",
    "plans-for-spark": "pyspark",
    "pyiceberg": "pyiceberg",
    "rest-catalog": "pyiceberg",
}
"""The package without which a page can't be run."""
OPTIONS = doctest.ELLIPSIS
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#]+)(#[^)]*)?\)")
MOST_LINES = 200
CONNECT_ADDRESS = "sc://localhost:15002"
OVER_CONNECT = """
import doctest
import os
import sys

text, name, line, address = sys.argv[1:]
text = text.replace(address, os.environ["SPARK_REMOTE"])
report = []
test = doctest.DocTestParser().get_doctest(text, {}, name, name, int(line))
doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append)
print("".join(report) or "done")
"""


def blocks(page: Path) -> Iterator[tuple[str, str, int]]:
    """Of each block of code its language, its text and the line before it."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield match[1], match[2], text[: match.start()].count("\n")


def page_and_need(page: Path) -> str:
    """A test's id, by which one worker gets all that needs Spark."""
    return f"{page.stem}-{NEEDS[page.stem]}" if page.stem in NEEDS else page.stem


@pytest.mark.usefixtures("no_hint_to_come")
@pytest.mark.filterwarnings("ignore::icecore.engine.errors.LostLogWarning")
@pytest.mark.parametrize("page", PAGES, ids=page_and_need)
def test_what_it_shows_is_what_happens(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Every answer is the one given here; `...` stands for ids, times and paths. Each page has a folder of its own."""
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    if NEEDS.get(page.stem) == "pyspark":
        _needs_java()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ICECORE_OUTPUT", raising=False)
    monkeypatch.setenv("ICECORE_ACTOR", "ann")
    monkeypatch.setenv("ICECORE_WAREHOUSE", "nowhere")
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    names: dict[str, object] = {}
    for kind, text, line in blocks(page):
        if kind == "python" and CONNECT_ADDRESS in text:
            request.getfixturevalue("over_connect")(OVER_CONNECT, text, page.name, line, CONNECT_ADDRESS)
        elif kind == "python":
            _run_python(page, text, line, names)
        elif kind == "console":
            _run_console(page, text)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_block_is_run(page: Path) -> None:
    """But for the drawing of the design and the two commands that this test is part of."""
    for kind, text, _ in blocks(page):
        run = text.startswith(">>> ") if kind == "python" else kind == "console" and text.startswith("$ ")
        assert run or (kind == "sh" and page == README), text


@pytest.mark.parametrize("page", [*PAGES, ROOT / "ARCHITECTURE.md"], ids=lambda p: p.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(BLOCK.sub("", page.read_text(encoding="utf-8"))):
        assert match[1].startswith("https://") or (page.parent / match[1]).exists(), match[0]


def test_the_first_page_is_short_and_names_the_others() -> None:
    text = README.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES
    for page in [*PAGES[1:], ROOT / "ARCHITECTURE.md"]:
        assert f"]({page.relative_to(ROOT)})" in text, page


def test_the_first_commands_are_the_makefile_s() -> None:
    """The two commands that the README starts with are targets, and .ci/run runs the second."""
    first = next(text for kind, text, _ in blocks(README) if kind == "sh")
    commands = [line.split("#")[0].strip() for line in first.splitlines()]
    assert commands == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{c.removeprefix('make ')}:", makefile, re.MULTILINE) for c in commands)
    runner = ROOT / ".ci" / "run"
    assert os.access(runner, os.X_OK)
    assert "make test" in runner.read_text()


def test_every_command_and_audit_table_is_listed() -> None:
    """None was forgotten, none was made up."""
    from icecore.engine.cli.main import COMMANDS
    from icecore.projections.audit.audit_tables import AUDIT_TABLES

    shell = (ROOT / "docs" / "shell.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| (`[^|]+) \|", shell, re.MULTILINE)
    listed = [name for row in rows for name in row.split("`")[1::2]]
    assert sorted(listed) == sorted(COMMANDS)
    audits = (ROOT / "docs" / "audits.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", audits, re.MULTILINE)) == set(AUDIT_TABLES)


def _needs_java() -> None:
    from icecore.engine.spark.java import java_available

    if not java_available():
        pytest.skip("Spark needs Java")


def _run_python(page: Path, text: str, line: int, names: dict[str, object]) -> None:
    test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), line)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not report, "".join(report)


def _run_console(page: Path, text: str) -> None:
    """Runs commands one after another; `export` holds for those below it."""
    for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        words = shlex.split(command)
        if words[0] == "export":
            os.environ.update(dict(word.split("=", 1) for word in words[1:]))
            continue
        # The first page's commands are run as a reader runs them; those of the others without a process for each.
        found = _call(words[1:]) if words[0] == "icecore" and page != README else _shell(command)
        matches = doctest.OutputChecker().check_output(expected, found, OPTIONS)
        assert matches, f"$ {command}\n--- {page.name}\n{expected}--- found\n{found}"


def _shell(command: str) -> str:
    run = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"{command}\n{run.stderr}"
    return run.stdout


def _call(arguments: list[str]) -> str:
    from icecore.engine.cli.main import cli

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        cli(arguments, prog_name="icecore", standalone_mode=False)
    return out.getvalue()


def test_the_readme_has_the_guide_s_lines_for_clients() -> None:
    """Which are typed in by tests of their own."""
    guide = (ROOT / "docs" / "rest-catalog.md").read_text(encoding="utf-8").splitlines()
    lines = README.read_text(encoding="utf-8").splitlines()
    start = lines.index("| client | what to type |") + 2
    rows = lines[start : lines.index("", start)]
    assert len(rows) == 3 and set(rows) <= set(guide)
