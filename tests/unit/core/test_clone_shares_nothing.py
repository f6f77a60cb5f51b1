"""A clone has files of its own, whatever lies behind links, outside of the folder, or goes while it is made."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from core_tables import digests, ids_of, local, make_table, peer_ids, pyiceberg_catalog, rows

import icecore
from icecore.engine.errors import MovedWarehouseError, StorageError, ValidationError, WarehouseLockedError


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A warehouse with a table whose deletes are files of their own."""
    with icecore.open(tmp_path / "lake", actor="ann") as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog, properties={"write.delete.mode": "merge-on-read"})
        table.append(rows(1, 2, 3))
        table.append(rows(4, 5))
        table.delete("id = 2")
    return tmp_path / "lake"


def link_data(lake: Path) -> Path:
    """Puts the table's data behind a link."""
    there = lake.parent / "disk"
    (lake / "ns" / "t" / "data").rename(there)
    (lake / "ns" / "t" / "data").symlink_to(there)
    return there


def let_all_go(table: icecore.Table) -> None:
    """Writes all rows and manifests again and deletes those that there were."""
    table.rewrite_data_files(options={"rewrite-all": "true"})
    table.rewrite_manifests()
    later = dt.datetime.now() + dt.timedelta(hours=1)
    table.maintenance.expire_snapshots().older_than(later).retain_last(1).commit()


def test_what_lies_behind_links_is_copied(lake: Path) -> None:
    there = link_data(lake)
    (lake / "ns" / "round").symlink_to(lake)
    before = digests(there)
    assert icecore.clone_warehouse(lake, lake.with_name("new")).problems == ()
    with icecore.open(lake.with_name("new")) as clone:
        assert clone.verify(deep=True).problems == ()
        let_all_go(clone.load_table("ns.t"))
    assert digests(there) == before
    assert peer_ids(lake.with_name("new")) == [1, 3, 4, 5]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_copy_with_links_out_of_it_becomes_no_clone(lake: Path, dry_run: bool) -> None:
    link_data(lake)
    copy = lake.with_name("copy")
    shutil.copytree(lake, copy, symlinks=True)
    with pytest.raises(ValidationError, match="data is a link out of the copy"):
        icecore.clone_warehouse(copy, dry_run=dry_run)
    icecore.clone_warehouse(copy, lake.with_name("new"))
    assert peer_ids(lake) == peer_ids(lake.with_name("new")) == [1, 3, 4, 5]


def test_a_copy_with_the_same_log_file_becomes_no_clone(lake: Path) -> None:
    copy = lake.with_name("copy")
    shutil.copytree(lake, copy, copy_function=os.link)
    with pytest.raises(ValidationError, match="hard link"):
        icecore.clone_warehouse(copy)
    assert peer_ids(lake) == [1, 3, 4, 5]
    icecore.clone_warehouse(copy, lake.with_name("new"))
    assert peer_ids(lake.with_name("new")) == [1, 3, 4, 5]


def test_files_that_go_while_they_are_copied(lake: Path) -> None:
    with icecore.open(lake, actor="bob") as catalog:
        table = catalog.load_table("ns.t")
        told: list[str] = []

        def progress(what: str, number: int, count: int) -> None:
            if not told:
                told.append(what)
                let_all_go(table)

        assert icecore.clone_warehouse(lake, lake.with_name("new"), progress=progress).problems == ()
    with icecore.open(lake.with_name("new")) as clone:
        assert ids_of(clone.load_table("ns.t")) == [1, 3, 4, 5]
        assert clone.verify(deep=True).problems == ()


@pytest.mark.parametrize("way", ["clone", "metadata-only", "copy"])
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_archives_are_the_clone_s_own(lake: Path, way: str, place: str) -> None:
    new, archive = lake.with_name("new"), lake.with_name("old.archive") if place == "outside" else None
    with icecore.open(lake) as catalog:
        catalog.archive(before=4, path=archive)
        let_all_go(catalog.load_table("ns.t"))
    if way == "copy":
        shutil.copytree(lake, new)
        icecore.clone_warehouse(new)
    else:
        icecore.clone_warehouse(lake, new, metadata_only=way == "metadata-only")
    for one, other in ((lake, new), (new, lake)):
        with icecore.open(one) as catalog:
            assert catalog.load_table("ns.t").forget(message="of one only").files
        with icecore.open(other) as catalog:
            assert catalog.verify().problems == ()
            assert catalog.at(3).load_table("ns.t").current_snapshot() is not None


@pytest.mark.parametrize("dry_run", [True, False])
def test_data_is_shared_with_no_copy_that_names_another_folder(lake: Path, dry_run: bool) -> None:
    """The clone would read the files of the copy's original, which may be gone, or go."""
    new = lake.with_name("new")
    lake.rename(new)
    with pytest.raises(ValidationError, match=r"new was copied or moved.*before another one shares its data"):
        icecore.clone_warehouse(new, lake.with_name("clone"), metadata_only=True, dry_run=dry_run)
    assert not lake.with_name("clone").exists()
    icecore.move_warehouse(new)
    icecore.clone_warehouse(new, lake.with_name("clone"), metadata_only=True)
    assert peer_ids(lake.with_name("clone")) == [1, 3, 4, 5]


def test_a_call_that_died_when_all_was_done(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clone was used since, and is not made anew."""
    new = lake.with_name("new")

    unlink = Path.unlink

    def die(path: Path, missing_ok: bool = False) -> None:
        if path.name == "cloning.json":
            raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", die)
        with pytest.raises(KeyboardInterrupt):
            icecore.clone_warehouse(lake, new)
    with icecore.open(new) as clone:
        clone.load_table("ns.t").append(rows(6))
    found = icecore.clone_warehouse(lake, new)
    assert (found.tables, found.views, found.position) == (1, 0, 6)
    assert peer_ids(new) == [1, 3, 4, 5, 6]
    with pytest.raises(ValidationError, match="not empty"):
        icecore.clone_warehouse(lake, new)


def test_two_clones_to_one_folder(lake: Path) -> None:
    new = lake.with_name("new")

    def progress(*_: Any) -> None:
        with pytest.raises(WarehouseLockedError, match="another process is cloning"):
            icecore.clone_warehouse(lake, new)

    icecore.clone_warehouse(lake, new, progress=progress)
    assert peer_ids(new) == [1, 3, 4, 5]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a folder in which none can be made")
def test_a_clone_to_where_no_folder_can_be_made(lake: Path) -> None:
    with pytest.raises(StorageError, match="can't make the folder /proc/new: No such file"):
        icecore.clone_warehouse(lake, "/proc/new")


@pytest.mark.parametrize("metadata_only", [False, True])
def test_metadata_and_data_elsewhere_stay_as_the_original_has_them(
    lake: Path, tmp_path: Path, metadata_only: bool
) -> None:
    """A clone writes into its own folder for them, and reads what lies elsewhere."""
    outside, new = tmp_path / "outside", tmp_path / "new"
    moved = {"write.metadata.path": str(outside / "m")}
    with icecore.open(lake) as catalog:
        table = make_table(catalog, "m", properties={**moved, "write.delete.mode": "merge-on-read"})
        table.append(rows(1, 2))
        table.delete("id = 1")
        table.compute_statistics()
        catalog.create_view("ns.view", "SELECT 1 AS a", properties={"write.metadata.path": f"file://{outside}/v"})
        table = make_table(catalog, "was", properties={"write.metadata.path": str(outside / "was")})
        table.append(rows(2))
        table.remove_properties("write.metadata.path")
        make_table(catalog, "same", properties={"write.metadata.path": str(outside / "was")}).append(rows(2))
        table = make_table(catalog, "d", properties={"write.delete.mode": "merge-on-read"})
        table.append(rows(1, 2))
        table.set_properties({"write.data.path": str(outside / "d")})
        table.delete("id = 1")
        table = make_table(catalog, "both", properties={"write.data.path": str(outside / "b")})
        table.append(rows(1, 2))
        table.set_properties({"write.data.path": f"{outside}/b/data", "write.metadata.path": str(outside / "b")})
        table.delete("id = 1")
        make_table(catalog, "purged", properties={"write.metadata.path": str(outside / "p")}).append(rows(1))
        catalog.load_table("ns.purged").compute_statistics()
        catalog.drop_table("ns.purged")
        catalog.purge_table("ns.purged")
    before = digests(outside)
    assert icecore.clone_warehouse(lake, new, metadata_only=metadata_only).problems == ()
    with icecore.open(new) as clone:
        assert clone.verify().problems == ()
        for name in ("m", "was", "same", "d", "both"):
            table = clone.load_table(f"ns.{name}")
            assert ids_of(table) == [2] and local(table.metadata_location).is_relative_to(new), name
            assert peer_ids(new, f"ns.{name}") == [2]
        assert clone.load_table("ns.m").statistics()
        for name in ("m", "was", "same", "d", "both"):
            clone.load_table(f"ns.{name}").append(rows(3))
        clone.load_view("ns.view").replace("SELECT 2 AS a")
        clone.rebuild()
        assert clone.verify().problems == () and ids_of(clone.load_table("ns.m")) == [2, 3]
    icecore.move_warehouse(shutil.move(new, tmp_path / "newer"))
    icecore.clone_warehouse(tmp_path / "newer", new)
    for folder in (tmp_path / "newer", new):
        with icecore.open(folder) as clone:
            assert clone.verify().problems == () and ids_of(clone.load_table("ns.m")) == [2, 3]
            with pytest.raises(MovedWarehouseError, match="cloned from"):
                clone.load_table("ns.m").set_properties({"write.metadata.path": str(outside / "m")})
    assert digests(outside) == before
    with icecore.open(lake) as original:
        assert original.verify().problems == () and ids_of(original.load_table("ns.m")) == [2]
        make_table(original, "stays", location=str(outside / "m" / "t"))
    with pytest.raises(ValidationError, match="a table, which stays where it is"):
        icecore.clone_warehouse(lake, tmp_path / "newest", metadata_only=metadata_only)


@pytest.mark.parametrize("way", ["copied", "cloned", "shared"])
def test_what_a_clone_takes_in_changes_nothing_of_a_table_outside(tmp_path: Path, way: str) -> None:
    """Another engine's commit that the original did not take in yet: its version hint led back to that commit."""
    lake, there, clone = tmp_path / "lake", tmp_path / "elsewhere", tmp_path / "clone"
    with icecore.open(lake) as catalog:
        catalog.create_namespace("ns")
        properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
        make_table(catalog, location=there.as_uri(), properties=properties).append(rows(1))
    with closing(pyiceberg_catalog(lake)) as peer:
        peer.load_table("ns.t").append(rows(2))
    if way == "copied":
        shutil.copytree(lake, clone)
        with icecore.open(lake) as catalog:
            catalog.load_table("ns.t").append(rows(3))
    before = digests(there)
    icecore.clone_warehouse(*((clone,) if way == "copied" else (lake, clone)), metadata_only=way == "shared")
    assert digests(there) == before
    with icecore.open(clone) as catalog:
        assert ids_of(catalog.load_table("ns.t")) == [1, 2]
        assert catalog.verify().problems == ()
    assert digests(there) == before
