"""Copies made by hand of a warehouse that was written meanwhile: a later version of a table than the copied log has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from core_tables import ids_of

import icecore
from icecore.engine.common.ids import now_ms
from icecore.engine.errors import ForeignCommitError

KEPT = [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A warehouse with a table in a file system, at its fourth version, with deleted rows."""
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("s")
        properties = {"write.delete.mode": "merge-on-read", "icecore.commit-scheme": "filesystem"}
        schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
        table = catalog.create_table("s.v2fs", schema, properties=properties)
        table.append([{"id": n, "city": f"c{n}"} for n in range(10)])
        table.append([{"id": 10, "city": "late"}])
        table.delete("id = 3")
    return tmp_path / "lake"


@pytest.mark.parametrize("ending", [".parquet", ".avro"])
def test_a_copy_by_hand_of_a_later_version_without_its_files_is_told_of(lake: Path, ending: str) -> None:
    """It would be taken for another engine's commit, and the table could not be read; with its files it is one."""
    copy = lake.with_name("copy")
    shutil.copytree(lake, copy)
    with icecore.open(lake) as catalog:
        catalog.load_table("s.v2fs").append([{"id": 66, "city": "late"}])
    new = {p.relative_to(lake) for p in (lake / "s/v2fs").rglob("*.*")}
    new -= {p.relative_to(copy) for p in (copy / "s/v2fs").rglob("*.*")}
    for path in (p for p in new if p.suffix != ending):
        shutil.copy(lake / path, copy / path)
    with pytest.raises(ForeignCommitError, match=rf"{copy}/s/v2fs/metadata/v5\.metadata\.json is later .* delete"):
        icecore.clone_warehouse(copy)
    kept = copy.with_name("kept")
    shutil.copytree(copy, kept)
    (copy / "s/v2fs/metadata/v5.metadata.json").unlink()
    for path in (p for p in new if p.suffix == ending):
        shutil.copy(lake / path, kept / path)
    for folder, rows in ((copy, KEPT), (kept, [*KEPT, 66])):
        icecore.clone_warehouse(folder)
        with icecore.open(folder) as catalog:
            assert ids_of(catalog.load_table("s.v2fs")) == rows
            assert catalog.verify().problems == ()


@pytest.mark.parametrize("name", ["v*.json", "snap-*.avro", "*-m0.avro"])
def test_a_copy_by_hand_of_a_later_version_that_is_cut_off_is_told_of(lake: Path, name: str) -> None:
    copy = lake.with_name("copy")
    shutil.copytree(lake, copy)
    with icecore.open(lake) as catalog:
        catalog.load_table("s.v2fs").append([{"id": 66, "city": "late"}])
    before = set(copy.rglob("*"))
    shutil.copytree(lake / "s", copy / "s", dirs_exist_ok=True)
    (cut_off,) = set(copy.rglob(name)) - before
    cut_off.write_bytes(cut_off.read_bytes()[:-100])
    with pytest.raises(ForeignCommitError, match=rf"{copy}/s/v2fs/metadata/v5\.metadata\.json .* cut off"):
        icecore.clone_warehouse(copy)


def test_of_later_versions_only_the_newest_has_to_have_its_files(lake: Path) -> None:
    """Another engine may have expired what those before it made."""
    copy = lake.with_name("copy")
    shutil.copytree(lake, copy)
    with icecore.open(lake) as catalog:
        table = catalog.load_table("s.v2fs")
        table.append([{"id": 66, "city": "late"}])
        table.delete("id = 66")
        table.maintenance.expire_snapshots().older_than(now_ms() + 1).retain_last(1).commit()
    shutil.rmtree(copy / "s/v2fs")
    shutil.copytree(lake / "s/v2fs", copy / "s/v2fs")
    icecore.clone_warehouse(copy)
    with icecore.open(copy) as catalog:
        assert ids_of(catalog.load_table("s.v2fs")) == KEPT
        assert catalog.verify().problems == ()
