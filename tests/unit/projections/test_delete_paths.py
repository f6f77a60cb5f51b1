"""Paths that delete files know: bounds of them, and the data files that they name (Spec: SP3), however spelled."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from broken_tables import MERGE_ON_READ, edit, edit_manifest, list_of, register
from core_tables import ids_of, make_table, rows

import icecore
from icecore.engine.common import location
from icecore.engine.errors import ValidationError
from icecore.engine.formats.entry_arrow import path_keys
from icecore.engine.spec.reserved import DELETE_PATH_ID
from icecore.projections.plan.deletes.delete_bounds import path_bounds, plain_bounds
from icecore.projections.plan.deletes.pair_statement import path_key

LOWER, UPPER = f"lower_{DELETE_PATH_ID}", f"upper_{DELETE_PATH_ID}"
ROOTS = ("", "/", "//", "file:", "file:/", "file:///", "s3://b/", "s3://bu/", "s3://b", "s3a://b/", "s3:", "S3://b/")
TAILS = ("", "a", "a/b", "b", "u/a")
PATHS = sorted({root + tail for root, tail in product(ROOTS, TAILS)})


def may_lie(path: str, lower: str | None, upper: str | None) -> bool:
    """As the rule says it: in order as spelled or, where the bounds are alike, without scheme and authority."""

    def plain(text: str) -> str:
        return re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?", "", text)

    def root(bound: str) -> str:
        found = re.match(r"/|[A-Za-z][A-Za-z0-9+.-]*://[^/]*/", bound)
        return "" if found is None else found[0]

    def is_whole(bound: str) -> bool:
        return bound != root(bound) if root(bound) else bool(re.match(r"file:/[^/0]|[^/:]+/.", bound))

    def are_alike(low: str, high: str) -> bool:
        is_one = root(low) or low == high or (low.startswith("file:/") and high.startswith("file:/"))
        return is_whole(low) and is_whole(high) and root(low) == root(high) and bool(is_one)

    if lower is None or upper is None or not are_alike(lower, upper):
        return True
    above = lower <= path or plain(lower) <= plain(path)
    return above and (upper >= path or plain(upper) >= plain(path))


def test_the_short_way_says_what_the_rule_says() -> None:
    """For all pairs of paths as bounds, alike or not, cut or not, or missing."""
    columns = {LOWER: "VARCHAR", UPPER: "VARCHAR"}
    bounds = [*((low, up) for low, up in product(PATHS[::2], PATHS[1::2])), *((p, None) for p in PATHS), (None, None)]
    with duckdb.connect(":memory:") as connection:
        lower, upper = (pa.array(side, pa.string()) for side in zip(*bounds, strict=True))
        connection.register("bounds", pa.table({"n": range(len(bounds)), LOWER: lower, UPPER: upper}))
        connection.register("data", pa.table({"file_path": PATHS}))
        found = connection.execute(
            f"SELECT d.n, data.file_path FROM data JOIN (SELECT *{plain_bounds(columns)} FROM bounds AS d) AS d "
            f"ON TRUE WHERE {path_bounds(columns)}"
        ).fetchall()
    wanted = {(n, p) for (n, b), p in product(enumerate(bounds), PATHS) if may_lie(p, *b)}
    assert set(found) == wanted
    assert len(found) == len(wanted)
    assert 0 < len(wanted) < len(bounds) * len(PATHS)


SPELLED = (
    "/wh/a", "file:/wh/a", "file:///wh/a", "s3://b/wh/a", "s3a://b/wh/a", "s3n://b/wh/a",
    "hdfs://n/wh/a", "file:wh/a", "wh/a", "/wh//a", "file:///wh/./a", "FILE:///wh/a", "File:/wh/a", "S3://b/wh/a",
    "s3a://b//wh/a", "/wh/x/../a", "file://host/wh/a", "//wh/a", "",
)  # fmt: skip


def test_one_key_for_all_spellings_of_a_path() -> None:
    """SQL and Arrow have the keys that files are read by, of which the path is as it was spelled."""
    known = [location.path_key(p) for p in SPELLED]
    assert known[:6] == ["/wh/a"] * 3 + ["s3://b/wh/a"] * 3
    assert path_keys(pa.array(SPELLED)).to_pylist() == known
    with duckdb.connect(":memory:") as connection:
        connection.register("paths", pa.table({"n": range(len(SPELLED)), "p": SPELLED}))
        found = connection.execute(f"SELECT {path_key('p')} FROM paths ORDER BY n").fetchall()
    assert [key for (key,) in found] == known


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spelling", ["file:/", "/"])
def test_a_delete_file_may_spell_its_data_file_otherwise(
    catalog: icecore.Catalog, tmp_path: Path, version: int, spelling: str
) -> None:
    """Deleted rows stay deleted: in plans, plans that are kept, counts, and once more of the file is deleted."""
    theirs = make_table(catalog, format_version=version, properties=MERGE_ON_READ)
    theirs.append(rows(*range(6)))
    theirs.delete("id = 3")

    def respell(entries: list[dict[str, Any]]) -> None:
        file = entries[0]["data_file"]
        assert file["referenced_data_file"].startswith("file:///")
        file["referenced_data_file"] = file["referenced_data_file"].replace("file:///", spelling)

    edit_manifest(theirs, 1, respell)
    with icecore.open(tmp_path / "ours") as ours:
        ours.create_namespace("ns")
        table = register(ours, theirs, "t")
        assert ids_of(table) == [0, 1, 2, 4, 5]
        first, second = (s.snapshot_id for s in table.metadata.snapshots)
        table.manage_snapshots().rollback_to_snapshot(first).commit()
        table.prefetch(name="kept")
        table.manage_snapshots().set_current_snapshot(second).commit()
        assert table.named_plan("kept").scan.count() == 5
        table.delete("id = 4")
        assert ids_of(table) == [0, 1, 2, 5]
        assert len(table.scan().plan_files()[0].delete_files) == (1 if version == 3 else 2)
        assert table.scan().count() == 4


def test_deletes_that_would_not_hold_are_refused(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Of a table whose files are newer than its metadata says: other tables' manifests were put into its list."""
    theirs = make_table(catalog, properties=MERGE_ON_READ)
    theirs.append(rows(1, 2))
    edit(list_of(theirs), lambda listed: listed[0].update(sequence_number=7, min_sequence_number=7))
    with icecore.open(tmp_path / "ours") as ours:
        ours.create_namespace("ns")
        table = register(ours, theirs, "t")
        with pytest.raises(ValidationError, match=r"up to 7, and its last one is below: .* hold up to 2"):
            table.delete("id = 1")
        with pytest.raises(ValidationError, match="hold up to 1"):
            table.delete_keys(pa.table({"id": pa.array([1])}), ["id"])
        table.set_properties({"write.delete.mode": "copy-on-write"})
        table.delete("id = 1")
        assert ids_of(table) == [2]
