"""The house: folders of few files, each on its floor, and files that a reader takes in at once."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("engine", "projections")
MOST_FILES, MOST_LINES = 15, 400
PROMISED = {"view"}
"""A module of `icecore.engine.spec` whose name stays although another has it."""


def modules() -> list[Path]:
    """All modules, without what only makes a folder a package."""
    return sorted(p for room in ROOMS for p in (ROOT / room).rglob("*.py") if p.name != "__init__.py")


def floors() -> set[str]:
    """The folders that the contracts name."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [line for c in contracts if c["type"] == "layers" for line in c["layers"]]
    return {name.strip() for line in layers for name in line.split("|")}


def test_each_folder_is_on_a_floor() -> None:
    """A folder inside of one that is named is on its floor."""
    named = floors()
    folders = {p.parent.relative_to(ROOT) for p in modules()} - {Path("engine")}
    for folder in folders:
        dotted = "icecore." + ".".join(folder.parts)
        assert any(dotted == n or dotted.startswith(n + ".") for n in named), f"{folder} is on no floor"
    assert {p.name for p in modules() if p.parent == ROOT / "engine"} == {"errors.py"}


def test_no_two_classes_of_one_name_are_in_reach_of_each_other() -> None:
    """Not in one folder of engine/ or projections/ with all below it, and not imported by one file."""
    homes: dict[tuple[str, ...], set[Path]] = {}
    trees = {path: ast.parse(path.read_text()) for path in modules()}
    for path, tree in trees.items():
        room = path.relative_to(ROOT).parts[:2]
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault((*room, node.name), set()).add(path)
    assert {where: paths for where, paths in homes.items() if len(paths) > 1} == {}
    for path, tree in trees.items():
        imported = [
            (alias.name, node.module)
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("icecore.")
            for alias in node.names
            if alias.name[0].isupper() and not alias.name.isupper()
        ]
        twice = [name for name, count in Counter(name for name, _ in set(imported)).items() if count > 1]
        assert twice == [], f"{path} imports two of {twice}"


def test_no_folder_holds_more_than_a_reader_takes_in() -> None:
    counts = Counter(p.parent for p in modules())
    assert {str(f): n for f, n in counts.items() if n > MOST_FILES} == {}


def test_no_file_is_longer_than_a_reader_takes_in() -> None:
    files = [*modules(), *(ROOT / "sql").rglob("*.sql"), *(ROOT / "tests").rglob("*.py")]
    lengths = {str(p.relative_to(ROOT)): p.read_text().count("\n") for p in files}
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


def test_no_two_files_have_one_name() -> None:
    counts = Counter(p.stem for p in modules())
    assert {name for name, n in counts.items() if n > 1} == PROMISED


@pytest.mark.parametrize("room", ROOMS)
def test_each_folder_is_a_package(room: str) -> None:
    """Else an installed package would lack it."""
    assert all((p.parent / "__init__.py").exists() for p in modules() if p.is_relative_to(ROOT / room))
