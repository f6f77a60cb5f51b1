"""Warehouses that are moved and cloned: every engine reads them in their new folder, and their originals are theirs."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from core_tables import digests, ids_of, local, pyiceberg_catalog, store_of
from moved_lakes import CLONES, KEPT, SCHEMA, TABLES, WAYS, clone, cp, fill, metadata_only, move, mv

import icecore
from icecore.engine.common.location import local_path
from icecore.engine.errors import IcecoreError, MovedWarehouseError, StorageError, ValidationError
from icecore.engine.events import event as ev
from icecore.engine.log.deletion_content import deleted_files
from icecore.engine.relocate import copied_folder
from icecore.engine.relocate.relocate_warehouse import Relocating
from icecore.engine.spec.types import StringType
from icecore.projections.files.event_files import EventFiles


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("kept") / "lake")


@pytest.fixture
def lake(filled: Path) -> Path:
    """The warehouse, in the folder that it was made in, as it was made."""
    copy = filled.with_name("before")
    if copy.exists():
        shutil.rmtree(filled, ignore_errors=True)
        shutil.copytree(copy, filled)
    else:
        shutil.copytree(filled, copy)
    for other in filled.parent.iterdir():
        if other not in (filled, copy):
            shutil.rmtree(other) if other.is_dir() else other.unlink()
    return filled


@pytest.mark.parametrize("way", WAYS)
def test_every_table_is_read_in_its_new_folder_by_us_and_by_pyiceberg(lake: Path, way: Callable[[Path], Path]) -> None:
    with icecore.open(lake) as catalog:
        past = {p: ids_of(catalog.at(p).load_table("s.v2")) for p in (7, 8, 9, catalog.position)}
        files = catalog.verify().files
        snapshots = {
            s.snapshot_id: catalog.load_table("s.theirs").scan(snapshot_id=s.snapshot_id).count()
            for s in catalog.load_table("s.theirs").snapshots()
        }
    new = way(lake)
    if way is not metadata_only and lake.exists():
        shutil.rmtree(lake)
    with icecore.open(new) as catalog:
        assert {name: ids_of(catalog.load_table(f"s.{name}")) for name in TABLES} == TABLES
        assert catalog.load_view("s.few").to_arrow()["id"].to_pylist() == [0, 1]
        assert all((local_path(t.location()) or "").startswith(f"{new}/") for t in catalog.tables())
        assert (str(catalog.verify()).startswith("ok: "), catalog.verify().files >= files) == (True, True)
        assert {p: ids_of(catalog.at(p).load_table("s.v2")) for p in past} == past, (
            "history is read in the new folder too"
        )
        theirs = catalog.load_table("s.theirs")
        assert {i: theirs.scan(snapshot_id=i).count() for i in snapshots} == snapshots
        locations = {name: catalog.load_table(f"s.{name}").metadata_location or "" for name in TABLES}
    peer = pyiceberg_catalog(new)
    assert {name: ids_of(peer.load_table(f"s.{name}")) for name in TABLES if name != "v3"} == {
        name: expected for name, expected in TABLES.items() if name != "v3"
    }
    assert peer.load_table("s.v3").scan().plan_files()[0].file.file_path.startswith("file://")
    for location in locations.values():
        assert f"{lake}/" not in Path(local_path(location) or "").read_text() or way is metadata_only


@pytest.mark.parametrize("way", [mv, cp])
def test_a_process_in_the_former_folder_reads_what_one_elsewhere_does(
    lake: Path, way: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No text of an event, as a column's name, is taken for a path relative to that folder."""
    elsewhere = lake.parent
    new = way(lake)

    def told() -> object:
        with icecore.open(new) as catalog:
            assert str(catalog.verify()).startswith("ok: ")
            return catalog.sql("SELECT * FROM events ORDER BY position").to_pylist(), [
                t.metadata.to_dict() for t in catalog.tables()
            ]

    monkeypatch.chdir(elsewhere)
    before = told()
    lake.mkdir(exist_ok=True)
    monkeypatch.chdir(lake)
    assert told() == before


@pytest.mark.parametrize("way", [mv, metadata_only])
def test_a_default_that_is_a_path_of_the_former_folder_stays(lake: Path, way: Callable[[Path], Path]) -> None:
    with icecore.open(lake) as catalog:
        table = catalog.load_table("s.v3")
        table.update_schema().add_column("place", StringType(), default_value=f"{lake}/x").commit()
    with icecore.open(way(lake)) as catalog:
        assert set(catalog.load_table("s.v3").scan().to_arrow()["place"].to_pylist()) == {f"{lake}/x"}
        assert str(catalog.verify()).startswith("ok: ")


@pytest.mark.parametrize("way", [mv, clone, metadata_only])
def test_work_goes_on_in_the_new_folder(lake: Path, way: Callable[[Path], Path]) -> None:
    """Commits of all kinds, also of PyIceberg, compaction, expiry, a revert of what came before, and a rebuild."""
    with icecore.open(lake) as catalog:
        catalog.load_table("s.v1").append([{"id": 50, "city": "oops"}], message="to be reverted")
        oops = catalog.position
    new = way(lake)
    with icecore.open(new, actor="bob") as catalog:
        catalog.revert(oops)
        for name, expected in TABLES.items():
            table = catalog.load_table(f"s.{name}")
            table.append([{"id": 100}, {"id": 101}])
            table.delete("id = 1 or id = 100")
            assert ids_of(table) == sorted({*expected, 101} - {1})
            table.rewrite_data_files(options={"rewrite-all": "true"})
            later = dt.datetime.now() + dt.timedelta(hours=1)
            table.maintenance.expire_snapshots().older_than(later).retain_last(1).commit()
            assert ids_of(table) == sorted({*expected, 101} - {1})
    peer = pyiceberg_catalog(new)
    peer.load_table("s.v1").append(pa.table({"id": [78], "city": ["y"]}, schema=SCHEMA))
    with icecore.open(new) as catalog:
        assert ids_of(catalog.load_table("s.v1")) == sorted({*TABLES["v1"], 101, 78} - {1})
        catalog.rebuild()
        assert catalog.verify().problems == ()
        assert {e["kind"] for e in catalog.log().to_pylist()} >= {"table.relocated"}


@pytest.mark.parametrize("way", CLONES)
def test_nothing_that_is_done_in_a_clone_touches_its_original(lake: Path, way: Callable[[Path], Path]) -> None:
    before = digests(lake)
    new = way(lake)
    with icecore.open(new) as catalog, icecore.open(lake) as original:
        assert catalog._warehouse.store.warehouse_value("warehouse-uuid") != original._warehouse.store.warehouse_value(
            "warehouse-uuid"
        )
        position = catalog.position
        for name in TABLES:
            table = catalog.load_table(f"s.{name}")
            table.overwrite([{"id": -1}])
            later = dt.datetime.now() + dt.timedelta(hours=1)
            table.maintenance.expire_snapshots().older_than(later).retain_last(1).commit()
            table.maintenance.remove_orphan_files(allow_recent=True, older_than=later)
            assert ids_of(table) == [-1]
        store = store_of(catalog)
        gone = [f for e in store.events(position) if e.kind in ev.DELETIONS for f in deleted_files(store, e)]
        assert gone and all(local(f.location).is_relative_to(new) for f in gone), "no other is said to be gone"
        catalog.drop_table("s.v1")
        catalog.rebuild()
    now = digests(lake)
    assert {k: v for k, v in now.items() if not k.startswith(".icecore")} == {
        k: v for k, v in before.items() if not k.startswith(".icecore")
    }
    with icecore.open(lake) as original:
        assert {name: ids_of(original.load_table(f"s.{name}")) for name in TABLES} == TABLES
        assert original.verify().problems == ()


def test_tables_outside_of_the_folder_stay_with_the_original(lake: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    with icecore.open(lake) as catalog:
        table = catalog.create_table("s.out", SCHEMA, location=str(outside))
        table.append([{"id": 1, "city": "a"}])
        table.append([{"id": 2, "city": "a"}])
    before = digests(outside)
    new = cp(lake)
    with icecore.open(new) as copy:
        table = copy.load_table("s.out")
        assert ids_of(table) == [1, 2]
        for change in (
            lambda: table.append([{"id": 3}]),
            lambda: table.delete("id = 1"),
            lambda: table.overwrite([{"id": 3}]),
            lambda: table.update_schema().add_column("x", "int").commit(),
            lambda: table.maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit(),
        ):
            with pytest.raises(MovedWarehouseError, match="cloned from"):
                change()
        copy.rebuild()
        copy.drop_table("s.out")
    assert digests(outside) == before
    with icecore.open(lake) as original:
        original.load_table("s.out").append([{"id": 3, "city": "a"}])
        assert ids_of(original.load_table("s.out")) == [1, 2, 3]


def test_moved_again_and_back(lake: Path) -> None:
    """Each event is read with the moves that came after it, whatever the folders are called."""
    inner = lake.with_name("new") / "lake" / "lake"
    icecore.move_warehouse(lake, inner)
    with icecore.open(inner) as catalog:
        catalog.load_table("s.v2").delete("id = 4")
        catalog.create_table("s.second", SCHEMA).append([{"id": 5, "city": "b"}])
    icecore.move_warehouse(inner, lake)
    with icecore.open(lake) as catalog:
        catalog.load_table("s.v2").append([{"id": 4, "city": "again"}])
        assert ids_of(catalog.load_table("s.second")) == [5]
        for name, expected in TABLES.items():
            assert ids_of(catalog.load_table(f"s.{name}")) == expected
        catalog.rebuild()
        assert catalog.verify().problems == ()
    assert ids_of(pyiceberg_catalog(lake).load_table("s.v2")) == KEPT


def test_archived_and_exported_logs_come_along(lake: Path) -> None:
    with icecore.open(lake) as catalog:
        catalog.archive(before=12)
    new = move(lake)
    with icecore.open(new) as catalog:
        assert {name: ids_of(catalog.load_table(f"s.{name}")) for name in TABLES} == TABLES
        assert ids_of(catalog.at(8).load_table("s.v2")) == list(range(11))
        assert catalog.verify().problems == ()
        catalog.export_log(new.with_name("log.jsonl"))
    shutil.rmtree(new / ".icecore")
    shutil.rmtree(new / "s" / "v2" / "metadata")
    (new / "icecore.db").unlink()
    icecore.import_log(new.with_name("log.jsonl"), new)
    with icecore.open(new) as catalog:
        assert ids_of(catalog.load_table("s.v2")) == KEPT


@pytest.mark.parametrize("way", [mv, cp, clone])
@pytest.mark.parametrize("step", ["before", "commit", "files"])
def test_a_call_that_dies_goes_on(
    lake: Path, way: Callable[[Path], Path], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies while delete files are written, just before COMMIT, or while metadata files are written."""
    owner, name = {"before": (Relocating, "_append"), "commit": (Relocating, "_write_files")}.get(
        step, (EventFiles, "_write_metadata")
    )
    original = getattr(owner, name)
    calls = 0

    def die(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if step != "files" or calls == 5:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, die)
        with pytest.raises(KeyboardInterrupt):
            way(lake)
    new = lake.with_name("new")
    if way is clone:
        with pytest.raises(StorageError, match="not finished"):
            icecore.open(new)
        icecore.clone_warehouse(lake, new)
    elif step == "before":
        (icecore.move_warehouse if way is mv else icecore.clone_warehouse)(new)
    with icecore.open(new) as catalog:
        assert {name: ids_of(catalog.load_table(f"s.{name}")) for name in TABLES} == TABLES
        assert catalog.verify().problems == ()
    assert ids_of(pyiceberg_catalog(new).load_table("s.theirs")) == [1, 2, 3]


def test_a_clone_is_what_the_original_was_when_its_log_was_copied(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that was made since, of which files may be missing, is not taken for another engine's commit."""
    copy_log = copied_folder._copy_log

    def late(*of: Any) -> None:
        copy_log(*of)
        with icecore.open(lake) as catalog:
            for name in TABLES:
                table = catalog.load_table(("s", name))
                table.append([{f.name: 66 if f.name == "id" else None for f in table.schema().fields}])

    with icecore.open(lake) as catalog:
        kinds = catalog.log()["kind"].to_pylist()
    monkeypatch.setattr(copied_folder, "_copy_log", late)
    icecore.clone_warehouse(lake, lake.with_name("clone"))
    with icecore.open(lake.with_name("clone")) as clone:
        assert {n: sorted(clone.load_table(("s", n)).scan().to_arrow()["id"].to_pylist()) for n in TABLES} == TABLES
        assert "table.adopted" not in clone.log()["kind"].to_pylist()[len(kinds) :]
        assert clone.verify().ok
        clone.load_table("s.v2fs").append([{"id": 11, "city": "new"}])


def test_a_copy_is_not_moved_beside_its_original(lake: Path) -> None:
    shutil.copytree(lake, lake.with_name("new"))
    with pytest.raises(ValidationError, match=r"still at .* clone"):
        icecore.move_warehouse(lake.with_name("new"))


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_can_t_be_done_is_refused(lake: Path, dry_run: bool) -> None:
    full = lake.with_name("full")
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: icecore.move_warehouse(lake, dry_run=dry_run), "nothing to move"),
        (lambda: icecore.move_warehouse(lake, full, dry_run=dry_run), "there already"),
        (lambda: icecore.clone_warehouse(lake, full, dry_run=dry_run), "not empty"),
        (lambda: icecore.clone_warehouse(lake, dry_run=dry_run), "name a new folder"),
        (lambda: icecore.clone_warehouse(lake, lake / "inner", dry_run=dry_run), "lies in the other"),
        (lambda: icecore.clone_warehouse(lake, "s3://bucket/x", dry_run=dry_run), "can't live at"),
        (lambda: icecore.move_warehouse(full / "none", dry_run=dry_run), "no warehouse log"),
    ]
    for call, text in calls:
        with pytest.raises(IcecoreError, match=text):
            call()
    assert (full / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("way", ["move", "clone", "metadata-only"])
def test_dry_run_counts_and_changes_nothing(lake: Path, way: str) -> None:
    before = digests(lake)
    new = lake.with_name("new")
    if way == "move":
        found = icecore.move_warehouse(lake, new, dry_run=True)
    else:
        found = icecore.clone_warehouse(lake, new, metadata_only=way == "metadata-only", dry_run=True)
    assert (found.tables, found.views, found.position) == (5, 1, None)
    assert (found.copied_files > 0) == (way == "clone")
    assert not new.exists()
    assert digests(lake) == before


def test_only_what_is_gone_is_forgotten_after_a_move(lake: Path) -> None:
    """The bounds of live files stay, whichever folder the events name them in."""
    new = move(lake)
    with icecore.open(new) as catalog:
        table = catalog.load_table("s.v1")
        table.overwrite([{"id": 5, "city": "kept"}])
        table.append([{"id": 6, "city": "kept"}])
        later = dt.datetime.now() + dt.timedelta(hours=1)
        table.maintenance.expire_snapshots().older_than(later).retain_last(1).commit()
        live = {task.file.file_path: task.file.lower_bounds for task in table.scan().plan_files()}
        table.refresh().forget()
        catalog.rebuild()
        again = catalog.load_table("s.v1")
        assert {task.file.file_path: task.file.lower_bounds for task in again.scan().plan_files()} == live
        assert ids_of(again) == [5, 6]
        assert catalog.verify().problems == ()


def test_a_deletion_that_was_not_finished_is_not_finished_in_the_original(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that was made between the event and the deletion lets go of its own files only."""
    with icecore.open(lake) as catalog:
        table = catalog.create_table("s.plain", SCHEMA)
        table.append([{"id": 4, "city": "gone"}])
        table.overwrite([{"id": 5, "city": "kept"}])
        with monkeypatch.context() as patch:
            patch.setattr("icecore.engine.deletion.delete_files._Turns.take", lambda _: False)
            later = dt.datetime.now() + dt.timedelta(hours=1)
            table.maintenance.expire_snapshots().older_than(later).retain_last(1).commit()
    shutil.copytree(lake, lake.with_name("new"))
    before = digests(lake)
    icecore.clone_warehouse(lake.with_name("new"))
    assert digests(lake) == before
    with icecore.open(lake.with_name("new")) as copy:
        assert copy.verify().problems == ()
        assert len(list((copy.path / "s" / "plain" / "data").rglob("*.parquet"))) == 1


def test_dropped_tables_come_along_and_purged_ones_need_nothing(lake: Path) -> None:
    with icecore.open(lake) as catalog:
        for name in ("v2", "v3"):
            catalog.drop_table(f"s.{name}")
        catalog.purge_table("s.v2")
    new = lake.with_name("new")
    assert icecore.move_warehouse(lake, new).problems == ()
    with icecore.open(new) as catalog:
        assert ids_of(catalog.undrop_table("s.v3")) == KEPT
        assert catalog.verify().problems == ()
