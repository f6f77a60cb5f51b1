"""Locations of former folders: what maps them keeps everything else, and any history is the same in its new folders."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from budgets import examples
from hypothesis import example, given
from hypothesis import strategies as st

import icecore
from icecore.engine.common.location import LocationMapping
from icecore.engine.errors import CorruptLogError
from icecore.engine.events.relocated_entries import moved_entries
from icecore.engine.events.relocation import Relocation, Relocations, moved_prefixes
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.spec.reserved import DELETE_PATH_ID

NAMES = ("a", "b", "a b", "a%20b", "ä", "lake", "lake2")
FOLDERS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(lambda parts: "file:///" + "/".join(parts))
WAYS = st.sampled_from(("file:///", "file:/", "/"))
PATHS = st.builds(
    lambda way, folder, name: f"{way}{folder.removeprefix('file:///')}/{name}.parquet",
    WAYS,
    FOLDERS,
    st.sampled_from(NAMES),
)


def entry(path: str, referenced: str | None, content: int, bounds: tuple[str, str] | None) -> dict[str, Any]:
    lower, upper = ([(1, b"x"), (DELETE_PATH_ID, b.encode())] for b in bounds) if bounds else (None, None)
    return {
        "status": 1,
        "content": content,
        "file_path": path,
        "file_format": "PARQUET",
        "spec_id": 0,
        "partition": [],
        "record_count": 1,
        "file_size_in_bytes": 1,
        "lower_bounds": lower,
        "upper_bounds": upper,
        "referenced_data_file": referenced,
    }


@examples(40)
@example("file:///w", "file:///x", [(f"{way}/w/a", f"{way}/w/b", 1) for way in ("file://", "file:", "")])
@given(FOLDERS, FOLDERS, st.lists(st.tuples(PATHS, st.none() | PATHS, st.integers(0, 2)), max_size=4))
def test_entries_are_mapped_as_locations_are(old: str, new: str, files: list[tuple[str, str | None, int]]) -> None:
    mapping = LocationMapping.of(moved_prefixes(old, new))
    entries = pa.Table.from_pylist([entry(*file, None) for file in files], schema=ENTRY_SCHEMA)
    moved = moved_entries(entries, mapping)
    expected = [(mapping.resolve(path), None if ref is None else mapping.resolve(ref)) for path, ref, _ in files]
    columns = (moved[name].to_pylist() for name in ("file_path", "referenced_data_file"))
    assert list(zip(*columns, strict=True)) == expected
    others = [name for name in ENTRY_SCHEMA.names if name not in ("file_path", "referenced_data_file")]
    assert moved.select(others).equals(entries.select(others))
    assert moved.schema.equals(ENTRY_SCHEMA)


@examples(40)
@given(FOLDERS, FOLDERS, st.lists(PATHS, min_size=1, max_size=4), st.integers(1, 40))
def test_bounds_of_a_delete_file_hold_all_of_its_paths_still(old: str, new: str, paths: list[str], cut: int) -> None:
    """Whole and cut short, and where the file names data in and outside of the folder that moved."""
    mapping = LocationMapping.of(moved_prefixes(old, new))
    for lower, upper in ((min(paths), max(paths)), (min(paths)[:cut], max(paths)[:cut] + "\U0010ffff")):
        row = entry("file:///d.parquet", None, 1, (lower, upper))
        [moved] = moved_entries(pa.Table.from_pylist([row], schema=ENTRY_SCHEMA), mapping).to_pylist()
        bounds = [dict(moved[name]) for name in ("lower_bounds", "upper_bounds")]
        assert [b[1] for b in bounds] == [b"x", b"x"]
        for path in map(mapping.resolve, paths):
            assert bounds[0].get(DELETE_PATH_ID, b"") <= path.encode()
            assert DELETE_PATH_ID not in bounds[1] or path.encode() <= bounds[1][DELETE_PATH_ID]


@examples(40)
@given(st.lists(st.tuples(st.integers(1, 9), FOLDERS, FOLDERS, st.booleans()), max_size=4), st.integers(0, 10))
def test_an_event_is_read_with_the_moves_after_it(moves: list[tuple[int, str, str, bool]], position: int) -> None:
    relocations = Relocations()
    for move in moves:
        relocations = relocations.with_step(Relocation(*move))
    assert Relocations.of(relocations.to_json()) == relocations
    assert [s.position for s in relocations.since(position).steps] == sorted({m[0] for m in moves if m[0] > position})
    value = {"location": "file:///a/b/x", "list": [{"path": "/lake/x"}, 1, None]}
    text = relocations.location("file:///a/b/x")
    assert relocations.value(value)["location"] == text


def test_notes_of_earlier_releases_are_read() -> None:
    steps = (Relocation(3, "file:///a", "file:///b", True), Relocation(4, "file:///b", "file:///c"))
    old = '[[3, "file:///a", "file:///b", true], [4, "file:///b", "file:///c", false]]'
    assert Relocations.of(old) == Relocations(steps)
    with pytest.raises(CorruptLogError, match="can't be read"):
        Relocations.of('[[3, "file:///a", "file:///b", true, ["x"]]]')


STEPS = st.lists(
    st.sampled_from(["append", "delete", "overwrite", "upsert", "compact", "branch", "drop", "move", "clone", "cp"]),
    min_size=3,
    max_size=9,
)


@examples(4, new=84)
@given(STEPS, st.integers(1, 3))
def test_any_history_is_the_same_wherever_it_was_taken(steps: list[str], version: int) -> None:
    """After each move or clone every snapshot has the rows that it had, and the log verifies, rebuilt too."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "w0"
        catalog = icecore.open(folder)
        catalog.create_namespace("s")
        properties = {"write.delete.mode": "merge-on-read"} if version > 1 else {}
        schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
        table = catalog.create_table("s.t", schema, format_version=version, properties=properties)
        for number, step in enumerate([*steps, "move"]):
            if step in ("move", "clone", "cp"):
                known = rows_of(catalog)
                catalog.close()
                folder = taken(step, folder, Path(root) / f"w{number + 1}" / "w0")
                catalog = icecore.open(folder)
                assert rows_of(catalog) == known
                assert catalog.verify(deep=True).problems == ()
                table = catalog.load_table("s.t")
            else:
                change(catalog, table, step, number)
        catalog.rebuild()
        assert catalog.verify(deep=True).problems == ()
        catalog.close()


def change(catalog: icecore.Catalog, table: icecore.Table, step: str, number: int) -> None:
    rows = [{"id": number * 10 + i, "v": step} for i in range(4)]
    match step:
        case "append":
            table.append(rows)
        case "delete":
            table.delete(f"id IN ({number}, {number - 10}, {(number - 1) * 10 + 1})")
        case "overwrite":
            table.overwrite(rows, "id < 10")
        case "upsert":
            table.upsert(rows, ["id"])
        case "compact":
            table.rewrite_data_files(options={"rewrite-all": "true"})
        case "branch":
            table.append(rows, branch="side")
        case _:
            catalog.drop_table("s.t")
            catalog.undrop_table("s.t")


def rows_of(catalog: icecore.Catalog) -> dict[int, list[int]]:
    table = catalog.load_table("s.t")
    ids = [s.snapshot_id for s in table.snapshots()]
    return {i: sorted(table.scan(snapshot_id=i).to_arrow()["id"].to_pylist()) for i in ids}


def taken(step: str, folder: Path, to: Path) -> Path:
    to.parent.mkdir()
    if step == "move":
        icecore.move_warehouse(folder, to)
    elif step == "clone":
        icecore.clone_warehouse(folder, to)
    else:
        shutil.copytree(folder, to)
        icecore.clone_warehouse(to)
    shutil.rmtree(folder, ignore_errors=True)
    return to
