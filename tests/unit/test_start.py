"""What a process loads for `import icecore`, for help, and for a plan: the less, the sooner it is there."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import click
import pytest
from core_tables import make_table, rows

import icecore
from icecore.__main__ import WIDTHS
from icecore.engine.cli.main import COMMANDS, cli
from icecore.projections.segments import segment_merging

PLAN = """
import sys
import icecore
with icecore.open(sys.argv[1]) as catalog:
    found = [catalog.load_table("ns.t").scan(f).plan().to_arrow().num_rows for f in (None, "id = 3", "name >= 'n5'")]
print(found, *sorted(m for m in sys.modules if m.partition(".")[0] in ("icecore", "pandas", "polars", "fastavro")))
"""
ROWS = (
    "icecore.engine.data.read.read_tasks",
    "icecore.engine.data.write.write_rows",
    "icecore.engine.data.orc.orc_writer",
)
COMMITS = (
    "icecore.engine.table.transaction",
    "icecore.engine.catalog.catalog_transaction",
    "icecore.engine.table.pending_commit",
)
VIEWS = ("icecore.engine.view.view", "icecore.engine.query.prepare_query")


@pytest.mark.parametrize("version", [2, 3])
def test_a_plan_from_segments_loads_nothing_that_reads_rows_or_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Nor what reads manifests, nor pandas, which Arrow likes to import where it is installed."""
    monkeypatch.setattr(segment_merging, "MANIFESTS_IN_MEMORY", 0)
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog, partition_spec=["bucket(4, id)"], format_version=version)
        for start in range(0, 9, 3):
            table.append(rows(start, start + 1, start + 2))
        table.delete("id = 4")
        planned = table.scan().plan().to_arrow().num_rows
    done = subprocess.run([sys.executable, "-c", PLAN, str(tmp_path)], capture_output=True, text=True, check=True)
    found, *loaded = done.stdout.replace(", ", ",").split()
    assert found.startswith(f"[{planned},")
    assert "icecore.projections.plan.planner" in loaded
    assert sorted({"pandas", "polars", *ROWS, *COMMITS, *VIEWS} & set(loaded)) == []


LOADED = "import sys; {}; print(*sorted(sys.modules), file=sys.stderr)"
HEAVY = {"attrs", "duckdb", "numpy", "pyarrow", "rich", "sqlglot", "sqlite3"}


def loaded_by(statement: str) -> set[str]:
    """The modules of a process that ran a statement."""
    # With the environment that is said: readline has set COLUMNS in another.
    run = [sys.executable, "-c", LOADED.format(statement)]
    done = subprocess.run(run, env=dict(os.environ), capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_the_package_loads_with_nothing_of_itself() -> None:
    """Each public name is loaded when it is first asked for."""
    loaded = loaded_by("import icecore")
    assert {m for m in loaded if m.startswith("icecore.")} == set()
    assert loaded & HEAVY == set()
    assert all(name in dir(icecore) and getattr(icecore, name) for name in icecore.__all__)
    with pytest.raises(AttributeError, match="no attribute 'closed'"):
        _ = icecore.closed  # type: ignore[attr-defined]


def test_help_loads_no_command() -> None:
    loaded = loaded_by("from icecore.engine.cli.main import cli; cli(['--help'], standalone_mode=False)")
    assert {m for m in loaded if m.startswith("icecore.engine.cli.")} == {
        "icecore.engine.cli.completion",
        "icecore.engine.cli.main",
        "icecore.engine.cli.settings",
    }
    assert (loaded - loaded_by("import click")) & {*HEAVY, "pathlib", "urllib.parse"} == set()


LOADING = {"add-files", "log", "migrate", "plan", "plans", "register", "register-folder", "resolve", "show", "sql"}
"""Commands whose modules load the engine with them, as what they print or take is its own."""


def test_the_help_of_a_command_loads_no_arrow() -> None:
    """Of all at once: each loads its module, and what is only for its work is loaded by that."""
    names = sorted(COMMANDS.keys() - LOADING)
    load = f"from icecore.engine.cli.main import cli; [cli([n, '--help'], standalone_mode=False) for n in {names}]"
    assert loaded_by(load) & {"duckdb", "numpy", "pandas", "polars", "pyarrow"} == set()


@pytest.mark.parametrize("word", ["--help", "-h", "--version"])
def test_help_and_version_load_nothing_at_all(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    loaded = loaded_by(f"from icecore.__main__ import main; sys.argv[1:] = [{word!r}]; main()")
    version = "icecore.engine.common.version"
    packages = {"icecore", "icecore.engine", "icecore.engine.common"}
    nothing = loaded_by("import __future__")
    assert loaded - nothing == {"icecore.__main__", version, *packages}
    for columns in ("80", "90", "250", "wide", "0", ""):
        monkeypatch.setenv("COLUMNS", columns)
        assert loaded_by(f"from icecore.__main__ import main; sys.argv[1:] = [{word!r}]; main()") == loaded, columns


@pytest.mark.parametrize("width", WIDTHS)
def test_help_that_is_kept_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """`COLUMNS=80 icecore --help > src/icecore/help_80.txt` makes it anew."""
    monkeypatch.setenv("COLUMNS", str(width))
    text = cli.make_context("icecore", [], resilient_parsing=True).get_help()
    assert (Path(icecore.__file__).parent / f"help_{width}.txt").read_text() == f"{text}\n"


@pytest.mark.parametrize("said", ["by the terminal", "by COLUMNS"])
@pytest.mark.parametrize(
    ("width", "laid_out"), [(60, 60), (79, 79), (80, 80), (81, 80), (99, 80), (100, 100), (140, 100)]
)
def test_help_is_that_for_the_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int, laid_out: int, said: str
) -> None:
    """Or of the next narrower one that it is kept for, which is there sooner than one that is laid out anew."""
    reader, writer = pty.openpty()
    if said == "by COLUMNS":
        monkeypatch.setenv("COLUMNS", str(width))
        termios.tcsetwinsize(writer, (200, 70))
    else:
        monkeypatch.delenv("COLUMNS", raising=False)
        termios.tcsetwinsize(writer, (200, width))
    done = subprocess.run([sys.executable, "-m", "icecore", "--help"], env=dict(os.environ), stdout=writer, check=True)
    os.close(writer)
    printed = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(reader, 1 << 16):
            printed += chunk
    os.close(reader)
    monkeypatch.setenv("COLUMNS", str(laid_out))
    expected = cli.make_context("icecore", [], resilient_parsing=True).get_help()
    assert done.returncode == 0 and printed.decode().replace("\r\n", "\n") == f"{expected}\n"


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_and_version_that_nothing_takes_end_in_a_line(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    run = [sys.executable, "-m", "icecore", word]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(run, env=dict(os.environ), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("closed", [[1], [2], [0, 1, 2]], ids=["output", "errors", "all"])
@pytest.mark.parametrize("words", [["--help"], ["-w", "lake", "init"], ["-w", "lake", "log"]], ids=" ".join)
def test_streams_that_are_closed_lead_nowhere(tmp_path: Path, words: list[str], closed: list[int]) -> None:
    """As of `>&-` in a crontab: the answer is in the exit code, and no file that is opened gets their numbers."""
    icecore.open(tmp_path / "lake").close()
    command = [sys.executable, "-m", "icecore", *words]
    shell = ["sh", "-c", f'"$@" {" ".join(f"{n}>&-" for n in closed)}', "sh", *command]
    done = subprocess.run(shell, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-300:]
    assert (done.stdout == "") == (1 in closed)


def test_the_source_of_spark_loads_no_pandas() -> None:
    """Spark starts processes that only plan or commit, one or more for each query: it was half of their start."""
    pytest.importorskip("pyspark")
    assert "pandas" not in loaded_by("import icecore.engine.spark_source.iceberg_source")


LS = "from icecore.engine.cli.main import cli; cli(['-w', {!r}, 'ls'], standalone_mode=False)"


def test_a_list_of_tables_and_views_loads_nothing_that_reads_files_or_plans(tmp_path: Path) -> None:
    """Nor Arrow with numpy, which were a third of its time: all that it says stands in the log."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        make_table(catalog).append(rows(1))
        catalog.create_view("ns.v", "SELECT 1 AS one")
    loaded = loaded_by(LS.format(str(tmp_path)))
    assert {"icecore.engine.table.table", "icecore.engine.view.view"} <= loaded
    planner = "icecore.projections.plan.planner"
    assert (
        loaded
        & {"duckdb", "fastavro", "importlib.metadata", "numpy", "pyarrow", "rich", "sqlglot", planner, *ROWS, *COMMITS}
        == set()
    )
    assert {m for m in loaded if m.startswith(("icecore.engine.commit.", "icecore.engine.formats."))} == set()


MAIN = """
import atexit, sys
from icecore.engine.cli.main import main
atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))
main()
"""


@pytest.mark.parametrize(
    "words",
    [("log",), ("show", "ns.t"), ("plan", "ns.t"), ("sql", "TABLE files"), ("blame", "ns.t", "--where", "id = 1")],
)
def test_the_shell_loads_no_pandas(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Arrow would, for the first list that it is given: it was a third of the time of most commands."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        make_table(catalog).append(rows(1))
    run = [sys.executable, "-c", MAIN, *words, "--warehouse", str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "pyarrow" in loaded and {m for m in loaded if m.startswith("pandas.")} == set()
    if words[0] in ("log", "show"):
        assert {m for m in loaded if m.startswith("icecore.projections.audit.")} == set()


def test_an_open_warehouse_loads_no_arrow(tmp_path: Path) -> None:
    opened = f"import icecore; icecore.open({str(tmp_path)!r}).close()"
    loaded_by(opened)  # it is made, which takes more
    loaded = loaded_by(opened)
    assert "icecore.engine.log.store" in loaded and {"numpy", "pandas", "pyarrow", "sqlite_utils"} & loaded == set()


def test_help_says_of_each_command_what_its_own_help_says() -> None:
    context = click.Context(cli)
    for name, (_, _, text) in COMMANDS.items():
        command = cli.get_command(context, name)
        assert command is not None and command.name == name
        assert " ".join((command.help or "").split()).startswith(text.rstrip(".")), name
