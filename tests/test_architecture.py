"""ARCHITECTURE.md names what there is, all folders of the contracts, and stations of real calls in their order."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest

import icecore

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PLACE = re.compile(r"`((?:engine|projections|sql|src|tests)/[\w/]+\.\w+)(?:: ([\w.]+))?`")
STATION = re.compile(r"^\d+\. (.*)$", re.MULTILINE)
LEAST_BEHAVIOURS, MOST_STATIONS = 40, 15
READMES = ("engine", "projections", "sql", "tests", "bench")
SCHEMA = pa.schema([("a", pa.int64())])


def section(title: str) -> str:
    """The text below a heading, up to the next one of its rank or a higher one."""
    rank = title.split(" ")[0]
    match = re.search(rf"^{re.escape(title)}.*?\n(.*?)(?=^#{{1,{len(rank)}}} |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None, title
    return match[1]


@cache
def names_in(path: str) -> frozenset[str]:
    """What a module defines: functions, classes, methods as `Class.method`, and constants."""
    return frozenset(_names(ast.parse((ROOT / path).read_text(encoding="utf-8")).body, ""))


def _names(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name):
                yield prefix + name
            case ast.ClassDef(name=name):
                yield prefix + name
                yield from _names(node.body, f"{prefix}{name}.")
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield prefix + name


@pytest.mark.parametrize(("path", "name"), sorted({(m[1], m[2] or "") for m in PLACE.finditer(PAGE)}))
def test_what_it_names_is_there(path: str, name: str) -> None:
    assert (ROOT / path).is_file()
    assert not name or name in names_in(path), f"{path} has no {name}"


def test_each_folder_of_the_contracts_is_told() -> None:
    """From the roof down, as they stand there."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [line for c in contracts if c["type"] == "layers" for line in c["layers"]]
    folders = [name.strip().removeprefix("icecore.").replace(".", "/") for line in layers for name in line.split("|")]
    assert re.findall(r"^\| `([\w/]+)` \|", section("## Floors"), re.MULTILINE) == folders
    core = next(c["source_modules"] for c in contracts if c["id"] == "core")
    told = section("## Floors").split("| folder |")[0]
    assert {m.replace(".", "/").removeprefix("icecore/") for m in core} == set(re.findall(r"`(engine/\w+)`", told))


def test_many_behaviours_are_told_once() -> None:
    rows = re.findall(r"^\| ([^|*]+) \| (.*) \|$", section("## Where does X live?"), re.MULTILINE)
    behaviours = [what for what, where in rows if "`" in where]
    assert len(behaviours) >= LEAST_BEHAVIOURS
    assert len(set(behaviours)) == len(behaviours)
    assert all(PLACE.fullmatch(f"`{place}`") for _, where in rows for place in re.findall("`([^`]+)`", where))


def test_an_append_goes_this_way(catalog: icecore.Catalog) -> None:
    table = catalog.create_table("ns.t", SCHEMA)
    check_journey("### Append", lambda: table.append([{"a": 1}]))


def test_a_plan_goes_this_way(catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]) -> None:
    table = catalog.create_table("ns.t", SCHEMA)
    table.append([{"a": 1}])
    table.append([{"a": 2}])
    other = open_again()
    check_journey("### Plan", lambda: other.load_table("ns.t").scan("a = 1").plan().to_arrow())


def test_another_engine_s_commit_goes_this_way(catalog: icecore.Catalog, warehouse: Path) -> None:
    peers = pytest.importorskip("pyiceberg.catalog")
    catalog.create_table("ns.t", SCHEMA).append([{"a": 1}])
    uri = f"sqlite:///{warehouse}/icecore.db"
    theirs = peers.load_catalog("icecore", type="sql", uri=uri, warehouse=str(warehouse))
    theirs.load_table("ns.t").append(pa.table({"a": [2]}))
    check_journey("### Another engine's commit", lambda: catalog.load_table("ns.t"))
    assert catalog.load_table("ns.t").scan().count() == 2


def check_journey(title: str, call: Callable[[], object]) -> None:
    """The stations below a heading are called by `call`, each after the one before."""
    stations = STATION.findall(section(title))
    assert 5 <= len(stations) <= MOST_STATIONS
    expected = [(m[1], m[2]) for line in stations for m in PLACE.finditer(line)]
    assert all(PLACE.match(line) for line in stations)
    calls = iter(traced(call))
    for station in expected:
        assert station in calls, f"{': '.join(station)} is not called, or not after the stations before it"


def traced(call: Callable[[], object]) -> list[tuple[str, str]]:
    """File and function of every call inside of icecore, in order."""
    calls: list[tuple[str, str]] = []
    folder = re.compile(r".*?/((?:engine|projections)/(?:[a-z_]+/)*[a-z_]+\.py)$")

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "site-packages" not in frame.f_code.co_filename:
            match = folder.match(frame.f_code.co_filename)
            if match is not None:
                calls.append((match[1], frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize("folder", READMES)
def test_each_top_level_folder_has_a_readme(folder: str) -> None:
    """A short one, that names folders and files which there are."""
    text = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {folder}/\n") and text.count("\n") <= 25
    named = re.findall(r"`([\w/]+(?:/|\.\w+))`", text)
    assert named
    for name in named:
        assert (ROOT / folder / name).exists() or (ROOT / name).exists(), name
    inside = {p.name for p in (ROOT / folder).iterdir() if p.is_dir() and not p.name.startswith(("_", "."))}
    untracked = {"data"} if folder == "bench" else set()
    if folder in ("sql", "tests", "bench"):
        assert inside - untracked <= {name.rstrip("/") for name in named}
