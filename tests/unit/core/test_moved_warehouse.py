"""A warehouse that was copied or moved is read where it lies, and nothing of its original is touched."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from core_tables import digests, ids_of, pyiceberg_catalog

import icecore
from icecore.engine.errors import LostLogWarning, MovedWarehouseError, MovedWarehouseWarning, StorageError
from icecore.engine.log.lock import held_log
from icecore.engine.log.store import EventStore

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
ROWS = [{"id": n, "city": f"c{n}"} for n in range(10)]


def fill(folder: Path) -> Path:
    """A warehouse with a table that has deletes of each kind, two snapshots of data, and a view."""
    with icecore.open(folder, actor="ann") as catalog:
        catalog.create_namespace("s")
        for version in (1, 2, 3):
            properties = {} if version == 1 else {"write.delete.mode": "merge-on-read"}
            table = catalog.create_table(f"s.v{version}", SCHEMA, format_version=version, properties=properties)
            table.append(ROWS)
            table.append([{"id": 10, "city": "late"}])
            table.delete("id = 3")
        catalog.create_view("s.few", "SELECT id FROM v2 WHERE id < 2")
    return folder


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return fill(tmp_path / "lake")


def copied(lake: Path) -> Iterator[icecore.Catalog]:
    """A copy of the warehouse, made with cp -r, with the original beside it."""
    shutil.copytree(lake, lake.with_name("copy"))
    with pytest.warns(MovedWarehouseWarning, match="icecore move.*icecore clone"):
        opened = icecore.open(lake.with_name("copy"), actor="bob")
    yield opened
    opened.close()


copy = pytest.fixture(copied)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse that nothing changes."""
    return fill(tmp_path_factory.mktemp("kept") / "lake")


@pytest.fixture(scope="module")
def refusing(kept: Path) -> Iterator[icecore.Catalog]:
    """Its copy, which nothing changes either."""
    yield from copied(kept)


def test_copy_is_read_by_translation_without_its_original(lake: Path, copy: icecore.Catalog) -> None:
    lake.rename(lake.with_name("hidden"))
    for version in (1, 2, 3):
        found = copy.load_table(f"s.v{version}").scan().to_arrow()["id"].to_pylist()
        assert sorted(found) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
    assert copy.load_view("s.few").to_arrow()["id"].to_pylist() == [0, 1]
    assert copy.at(4).load_table("s.v1").scan().count() == 11
    assert copy.sql("SELECT count(*) AS n FROM files WHERE name = 'v3'")["n"].to_pylist() == [3]


CHANGES: list[Callable[[icecore.Catalog], object]] = [
    lambda c: c.load_table("s.v2").append(ROWS),
    lambda c: c.load_table("s.v2").overwrite(ROWS),
    lambda c: c.load_table("s.v2").delete("id = 1"),
    lambda c: c.load_table("s.v2").delete("id = 1", dry_run=True),
    lambda c: c.load_table("s.v2").upsert(ROWS, ["id"]),
    lambda c: c.load_table("s.v2").rewrite_data_files(options={"rewrite-all": "true"}),
    lambda c: c.load_table("s.v2").maintenance.expire_snapshots().older_than(dt.datetime.now()).retain_last(1).commit(),
    lambda c: c.load_table("s.v2").maintenance.remove_orphan_files(allow_recent=True),
    lambda c: c.load_table("s.v2").update_schema().add_column("x", "int").commit(),
    lambda c: c.drop_table("s.v2"),
    lambda c: c.rename_table("s.v2", "s.other"),
    lambda c: c.create_namespace("t"),
    lambda c: c.create_table("s.new", pa.schema([("id", pa.int64())])),
    lambda c: c.load_view("s.few").replace("SELECT 1 AS id"),
    lambda c: c.revert(c.position),
    lambda c: c.undo(),
    lambda c: c.restore(1),
    lambda c: c.rebuild(),
    lambda c: c.rebuild("s.v2"),
    lambda c: c.archive(before=3),
    lambda c: c.transaction().__enter__(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_change_of_a_copy_is_refused_in_one_line_and_touches_neither_folder(
    kept: Path, refusing: icecore.Catalog, change: Callable[[icecore.Catalog], object]
) -> None:
    before, position = (digests(kept), digests(refusing.path)), refusing.position
    with pytest.raises(MovedWarehouseError, match=r"copied or moved from .*icecore move.*icecore clone") as error:
        change(refusing)
    assert "\n" not in str(error.value)
    assert refusing.position == position
    after = digests(refusing.path)
    assert digests(kept) == before[0]
    assert {k: v for k, v in after.items() if not k.startswith(".icecore")} == {
        k: v for k, v in before[1].items() if not k.startswith(".icecore")
    }


def test_original_goes_on_beside_its_copy(lake: Path, copy: icecore.Catalog) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with icecore.open(lake) as original:
            original.load_table("s.v2").append([{"id": 11, "city": "new"}])
            assert original.load_table("s.v2").scan().count() == 11
    assert copy.load_table("s.v2").scan().count() == 10


def test_folder_reached_by_another_path_is_the_same_folder(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(lake)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with icecore.open(tmp_path / "link") as catalog:
            catalog.load_table("s.v2").append([{"id": 11, "city": "new"}])
    with icecore.open(lake) as catalog:
        assert catalog.load_table("s.v2").scan().count() == 11


def test_backup_put_back_in_its_place_is_at_home(lake: Path) -> None:
    shutil.copytree(lake, lake.with_name("backup"))
    shutil.rmtree(lake)
    lake.with_name("backup").rename(lake)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with icecore.open(lake) as catalog:
            catalog.load_table("s.v2").append([{"id": 11, "city": "new"}])


@pytest.mark.parametrize("left", [True, False])
def test_log_of_an_earlier_release_is_known_by_its_tables(lake: Path, left: bool) -> None:
    with sqlite3.connect(lake / "icecore.db") as log:
        log.execute("DELETE FROM warehouse WHERE key = 'root'")
    log.close()
    other = lake.with_name("other")
    shutil.copytree(lake, other) if left else lake.rename(other)
    with pytest.warns(MovedWarehouseWarning), icecore.open(other) as catalog:
        assert catalog.load_table("s.v2").scan().count() == 10
        with pytest.raises(MovedWarehouseError):
            catalog.load_table("s.v2").append(ROWS)


def test_log_of_an_earlier_release_is_known_by_its_original_around_a_table_that_was_given_a_place(
    tmp_path: Path,
) -> None:
    lake = tmp_path / "lake"
    with icecore.open(lake) as catalog:
        catalog.create_namespace("s")
        table = catalog.create_table("s.t", pa.schema([("id", pa.int64())]), location=str(lake / "my" / "place"))
        table.append([{"id": 1}])
    with sqlite3.connect(lake / "icecore.db") as log:
        log.execute("DELETE FROM warehouse WHERE key = 'root'")
    log.close()
    shutil.copytree(lake, tmp_path / "copy")
    before = digests(lake)
    with pytest.warns(MovedWarehouseWarning), icecore.open(tmp_path / "copy") as copy:
        assert copy.load_table("s.t").scan().count() == 1
        with pytest.raises(MovedWarehouseError):
            copy.load_table("s.t").append([{"id": 2}])
    assert digests(lake) == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with icecore.open(lake) as catalog:
            catalog.load_table("s.t").append([{"id": 2}])


def test_log_of_an_earlier_release_whose_tables_were_given_a_place_is_at_home(tmp_path: Path) -> None:
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("s")
        catalog.create_table("s.t", pa.schema([("id", pa.int64())]), location=str(tmp_path / "tables" / "s" / "t"))
    with sqlite3.connect(tmp_path / "lake" / "icecore.db") as log:
        log.execute("DELETE FROM warehouse WHERE key = 'root'")
    log.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with icecore.open(tmp_path / "lake") as catalog:
            catalog.load_table("s.t").append([{"id": 1}])


def test_warehouse_moved_while_it_is_open_takes_no_commit(lake: Path) -> None:
    with icecore.open(lake) as catalog:
        table = catalog.load_table("s.v2")
        position = catalog.position
        lake.rename(lake.with_name("away"))
        with pytest.raises(MovedWarehouseError, match="moved or replaced"):
            table.append([{"id": 11, "city": "new"}])
    with pytest.warns(MovedWarehouseWarning), icecore.open(lake.with_name("away")) as moved:
        assert moved.position == position


@pytest.mark.parametrize("is_put_back", [True, False])
def test_a_log_that_was_replaced_while_it_is_open_takes_no_commit_of_another_thread(
    lake: Path, is_put_back: bool
) -> None:
    """That thread opened the copy that was put back, and wrote into it what followed from the log before."""
    log, copy = lake / "icecore.db", lake.with_name("copy.db")
    shutil.copy(log, copy)
    with icecore.open(lake) as catalog, ThreadPoolExecutor(1) as pool:
        table = catalog.load_table("s.v2")
        table.append([{"id": 11, "city": "new"}])
        for file in list(lake.glob("icecore.db*")):
            file.rename(lake.with_name(f"away-{file.name}"))
        if is_put_back:
            shutil.copy(copy, log)
        with pytest.raises(MovedWarehouseError, match="not the log that was opened"):
            pool.submit(table.append, [{"id": 12, "city": "new"}]).result()
        assert log.exists() == is_put_back
    if is_put_back:
        with icecore.open(lake) as restored:
            restored.load_table("s.v2").append([{"id": 13, "city": "new"}])
            assert restored.verify().problems == ()


@pytest.mark.parametrize("has_locks", [True, False])
def test_who_reads_a_log_that_was_replaced_is_told_no_mixture_of_both(
    lake: Path, monkeypatch: pytest.MonkeyPatch, has_locks: bool
) -> None:
    """Another connection applied the events of the one that is there to the state that was read of the one before."""
    may = EventStore._may_make_files
    monkeypatch.setattr(EventStore, "_may_make_files", lambda self: (has_locks or not self.read_only) and may(self))
    log, copy = lake / "icecore.db", lake.with_name("copy.db")
    shutil.copy(log, copy)
    with icecore.open(lake) as catalog:
        catalog.load_table("s.v2").append([{"id": 11, "city": "before"}])
    with icecore.open(lake, read_only=True) as reader, ThreadPoolExecutor(1) as pool:
        assert reader.load_table("s.v2").scan("city = 'now'").count() == 0
        for file in list(lake.glob("icecore.db*")):
            file.rename(lake.with_name(f"away-{file.name}"))
        shutil.copy(copy, log)
        with icecore.open(lake) as catalog:
            for id in (21, 22):
                catalog.load_table("s.v2").append([{"id": id, "city": "now"}])
        with pytest.raises(MovedWarehouseError, match="not the log that was opened"):
            pool.submit(lambda: reader.load_table("s.v2").scan("city = 'now'").count()).result()
        if not has_locks:
            with pytest.raises(MovedWarehouseError, match="not the log that was opened"):
                reader.load_table("s.v2")
    with icecore.open(lake, read_only=True) as reader:
        assert reader.load_table("s.v2").scan("city = 'now'").count() == 2


@pytest.mark.parametrize("is_put_back", [True, False])
def test_a_log_that_is_replaced_just_as_a_thread_opens_it_takes_no_commit_of_it(
    lake: Path, monkeypatch: pytest.MonkeyPatch, is_put_back: bool
) -> None:
    log, copy, connect = lake / "icecore.db", lake.with_name("copy.db"), EventStore._connect
    shutil.copy(log, copy)

    def replaced(store: EventStore, takes_locks: bool) -> sqlite3.Connection:
        for file in list(lake.glob("icecore.db*")):
            file.rename(lake.with_name(f"away-{file.name}"))
        if is_put_back:
            shutil.copy(copy, log)
        return connect(store, takes_locks)

    with icecore.open(lake) as catalog, ThreadPoolExecutor(1) as pool:
        table = catalog.load_table("s.v2")
        table.append([{"id": 11, "city": "new"}])
        with monkeypatch.context() as patched:
            patched.setattr(EventStore, "_connect", replaced)
            with pytest.raises(MovedWarehouseError if is_put_back else StorageError):
                pool.submit(table.scan().count).result()
        for _ in range(2):
            with pytest.raises(MovedWarehouseError, match="not the log that was opened"):
                pool.submit(table.append, [{"id": 12, "city": "new"}]).result()
        assert log.exists() == is_put_back


def test_a_thread_goes_on_whose_log_the_system_did_not_tell_for_a_moment(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with icecore.open(lake) as catalog, ThreadPoolExecutor(1) as pool:
        with monkeypatch.context() as patched:
            patched.setattr(held_log, "_identity", lambda path: held_log.UNKNOWN)
            assert pool.submit(lambda: catalog.position).result() == catalog.position
        pool.submit(catalog.load_table("s.v2").append, [{"id": 11, "city": "new"}]).result()
    with monkeypatch.context() as patched:
        patched.setattr(held_log, "_identity", lambda path: held_log.UNKNOWN)
        catalog = icecore.open(lake)
    with catalog, ThreadPoolExecutor(1) as pool:
        pool.submit(catalog.load_table("s.v2").append, [{"id": 12, "city": "new"}]).result()


def test_who_had_it_open_when_it_was_moved_leaves_nothing_in_its_way_back(lake: Path) -> None:
    new = lake.with_name("new")
    with icecore.open(lake) as stale:
        table = stale.load_table("s.v1")
        icecore.move_warehouse(lake, new)
        with pytest.raises(MovedWarehouseError, match="not the log that was opened"):
            table.append(ROWS)
    assert not [path for path in lake.rglob("*") if path.is_file()]
    assert icecore.move_warehouse(new, lake, dry_run=True).position is None
    icecore.move_warehouse(new, lake)
    with icecore.open(lake) as back:
        assert back.load_table("s.v1").scan().count() == 10
        assert back.verify().problems == ()


@pytest.mark.parametrize(
    "place", ["s3://bucket/lake", "gs://bucket/lake", "abfss://c@a/lake", "https://host/lake", "s3:/x"]
)
def test_log_on_an_object_store_is_refused(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match="can't live at"):
        icecore.open(place)
    assert os.listdir(tmp_path) == []


def test_folder_may_be_given_as_a_file_location(tmp_path: Path) -> None:
    with icecore.open(f"file://{tmp_path}/lake") as catalog:
        assert catalog.path == tmp_path / "lake"


def test_shell_says_it_in_one_line(lake: Path) -> None:
    """A reading command warns, a changing one is refused, and neither says it twice."""
    lake.rename(lake.with_name("new"))
    shell = [sys.executable, "-m", "icecore", "-w", str(lake.with_name("new"))]
    read, change = (
        subprocess.run([*shell, *words], capture_output=True, text=True) for words in (["ls"], ["drop", "s.v2"])
    )
    assert (read.returncode, change.returncode) == (0, 1)
    for done, begins in ((read, "warning: "), (change, "error: ")):
        [line] = done.stderr.splitlines()
        assert line.startswith(begins) and "icecore move" in line


@pytest.mark.parametrize("is_there", [False, True])
def test_a_lost_log_is_told_of(lake: Path, is_there: bool) -> None:
    """No empty warehouse is made over its tables without a word; they can be taken in again, and then all is said.

    The file may be there, without a byte.
    """
    (lake / "icecore.db").unlink()
    if is_there:
        (lake / "icecore.db").touch()
    (lake / "data" / "day=1").mkdir(parents=True)
    told = r"s/few, s/v1, s/v2 and 1 more.*icecore import.*icecore register-folder .*/lake"
    with pytest.raises(StorageError, match=f"{told}.*icecore init"):
        icecore.open(lake, create=False)
    with pytest.warns(LostLogWarning, match=told), icecore.open(lake) as catalog:
        catalog.create_namespace("s")
        assert catalog.register_table("s.v2", str(lake / "s/v2")).scan().count() == 10
    with warnings.catch_warnings(action="error"):
        icecore.open(lake).close()


def test_a_folder_in_a_warehouse_may_be_a_part_of_it(lake: Path) -> None:
    """Then its log is above, and one in a folder of a table would be an orphan of it; else it has lost its own."""
    told = rf"/s lies in the warehouse {lake}: open that one if .* If not: .*/s has no log, .*put it back"
    with pytest.raises(StorageError, match=told) as error:
        icecore.open(lake / "s", create=False)
    assert "init" not in str(error.value)
    with pytest.warns(LostLogWarning, match=f"{told}.* an empty one is made now"):
        icecore.open(lake / "s").close()


@pytest.mark.parametrize("versions", [(1, 2), (1, 3), (2, 3)])
def test_M3_RL3_manifests_from_before_an_upgrade_are_written_anew(tmp_path: Path, versions: tuple[int, int]) -> None:
    """PyIceberg's list names a manifest of ours with a file that was there before; both are of the earlier version."""
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.create_namespace("s")
        table = catalog.create_table("s.t", SCHEMA, partition_spec=["city"], format_version=versions[0])
        table.append([{"id": 1, "city": "a"}, {"id": 2, "city": "b"}])
        table.delete("id = 1")
    pyiceberg_catalog(tmp_path / "lake").load_table("s.t").append(pa.table({"id": [3], "city": ["c"]}, schema=SCHEMA))
    with icecore.open(tmp_path / "lake") as catalog:
        catalog.load_table("s.t").upgrade(versions[1])
    icecore.clone_warehouse(tmp_path / "lake", tmp_path / "clone")
    with icecore.open(tmp_path / "clone") as clone:
        clone.load_table("s.t").append([{"id": 4, "city": "d"}])
        assert ids_of(clone.load_table("s.t")) == [2, 3, 4]
        assert clone.verify(deep=True).problems == ()
    peer = pyiceberg_catalog(tmp_path / "clone").load_table("s.t")
    assert sorted(peer.scan().to_arrow()["id"].to_pylist()) == [2, 3, 4]
    icecore.move_warehouse(tmp_path / "lake", tmp_path / "elsewhere")
    with icecore.open(tmp_path / "elsewhere") as moved:
        assert ids_of(moved.load_table("s.t")) == [2, 3]
        assert moved.verify(deep=True).problems == ()
