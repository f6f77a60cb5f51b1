"""What is installed is one package with its SQL, its types and its command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the project as it is checked out, links and all."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("build")
    project = folder / "project"
    project.mkdir()
    for name in ("pyproject.toml", "README.md", "src", "engine", "projections", "sql"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, project / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, project / name)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=project, check=True, capture_output=True)
    [made] = (folder / "dist").iterdir()
    return made


def test_the_wheel_holds_every_module_and_query_once(wheel: Path) -> None:
    """engine, projections and sql lie inside icecore, without their README.md, and nothing lies beside it."""
    expected = {
        "icecore/" + str(p.relative_to(ROOT)) for d in ("engine", "projections", "sql") for p in files(ROOT / d)
    }
    expected |= {"icecore/" + p.name for p in (ROOT / "src" / "icecore").iterdir() if p.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if ".dist-info/" not in n]
        metadata = archive.read(next(n for n in archive.namelist() if n.endswith("entry_points.txt"))).decode()
    assert sorted(names) == sorted(expected)
    assert {"icecore/py.typed", "icecore/sql/log/schema.sql", "icecore/engine/cli/main.py"} <= set(names)
    assert "icecore = icecore.__main__:main" in metadata


def test_help_is_there_where_the_wheel_is_an_archive_that_is_not_unpacked(wheel: Path) -> None:
    """No file can be opened there, such as the help that is kept."""
    env = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"PYTHONPATH": str(wheel)}
    run = [sys.executable, "-m", "icecore", "--help"]
    said = subprocess.run(run, env=env, cwd=wheel.parent, capture_output=True, text=True, check=True).stdout
    assert said == (ROOT / "src" / "icecore" / "help_80.txt").read_text()


def test_the_wheel_runs_by_itself(wheel: Path, tmp_path: Path) -> None:
    """Unpacked somewhere else, it makes a warehouse and verifies it, from its own files alone."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import icecore, pathlib, sys\n"
        "assert pathlib.Path(icecore.__file__).is_relative_to(sys.argv[1]), icecore.__file__\n"
        "catalog = icecore.open(sys.argv[2])\n"
        "catalog.create_namespace('a')\n"
        "table = catalog.create_table('a.t', icecore.Schema.from_dict({'type': 'struct', 'fields': ["
        "{'id': 1, 'name': 'x', 'type': 'long', 'required': False}]}))\n"
        "table.append([{'x': 1}])\n"
        "print(catalog.load_table('a.t').scan('x = 1').count(), catalog.verify().ok)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    arguments = [sys.executable, "-c", code, str(tmp_path / "site"), str(tmp_path / "w")]
    run = subprocess.run(arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("1 True\n", "")


def test_the_links_in_the_source_are_relative() -> None:
    """So that a clone works wherever it lies."""
    for name in ("engine", "projections", "sql"):
        assert os.readlink(ROOT / "src" / "icecore" / name) == f"../../{name}"


def files(folder: Path) -> list[Path]:
    found = (p for p in folder.rglob("*") if p.is_file() and p.name != "README.md")
    return [p for p in found if "__pycache__" not in p.parts]
