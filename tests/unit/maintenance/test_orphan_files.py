"""Removing orphan files: what goes, and that nothing which anything needs ever does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from core_tables import SCHEMA, age, ids_of, local, make_table, peer_ids, put, rows, store_of
from test_deletion_events import Killed, die_at

import icecore
from icecore.engine.deletion import orphan_files
from icecore.engine.deletion.needed_files import Marking
from icecore.engine.deletion.orphan_files import OrphanFiles
from icecore.engine.errors import CommitConflictError, ReusedKeyError, ValidationError
from icecore.engine.formats import manifest_list_avro
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.file_follower import FileFollower


def age_all(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("icecore.db"):
            age(path)


def remove(table: icecore.Table, **options: Any) -> set[Path]:
    """What went, all of which was found too."""
    found = table.maintenance.remove_orphan_files(**options)
    assert set(found.deleted_files) == set(found.orphan_file_locations)
    return {local(f) for f in found.deleted_files}


def test_only_old_files_that_nothing_needs_go(catalog: icecore.Catalog, warehouse: Path) -> None:
    table = make_table(catalog, partition_spec=["name"])
    for number in range(3):
        table.append(rows(number))
    table.delete("id = 0")
    folder = local(table.location())
    orphan_files = {
        put(folder / "data/name=n1/stray.parquet"),
        put(folder / "metadata/stray-m0.avro"),
        put(folder / "x.orc"),
    }
    kept = [put(folder / "data/young.parquet", days=2), put(folder / "data/_hidden/x.parquet"), put(folder / ".tmp")]
    age_all(folder)
    age(kept[0], days=2)
    found = table.maintenance.remove_orphan_files(dry_run=True)
    assert {local(f) for f in found.orphan_file_locations} == orphan_files
    assert found.deleted_files == () and found.total_bytes == 12
    assert all(p.exists() for p in orphan_files)
    assert remove(table) == orphan_files
    assert not any(p.exists() for p in orphan_files) and all(p.exists() for p in kept)
    assert remove(table) == set()
    assert ids_of(table) == [1, 2] == peer_ids(warehouse)
    assert ids_of(table, snapshot_id=table.snapshots()[0].snapshot_id) == [0]
    assert catalog.verify().ok


def test_a_time_of_the_last_day_needs_a_word_more(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    stray = put(local(table.location()) / "data/stray.parquet", days=0.5)
    now = int(time.time() * 1000)
    with pytest.raises(ValidationError, match="24 hours"):
        table.maintenance.remove_orphan_files(now)
    assert remove(table, older_than=now, allow_recent=True) == {stray}


@pytest.mark.parametrize("options", [{"prefix_mismatch_mode": "maybe"}, {"location": "."}])
def test_what_can_not_be_searched_is_refused(
    catalog: icecore.Catalog, warehouse: Path, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(warehouse)
    with pytest.raises(ValidationError):
        make_table(catalog).maintenance.remove_orphan_files(**options)  # type: ignore[arg-type]


def test_gc_enabled_false_keeps_everything(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties={"gc.enabled": "false"})
    with pytest.raises(ValidationError, match=r"gc\.enabled"):
        table.maintenance.remove_orphan_files()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_everything_a_table_has_is_kept(catalog: icecore.Catalog, version: int) -> None:
    """Deletes, statistics, staged snapshots, tags, earlier metadata files, hints, in folders elsewhere too."""
    properties = {"write.delete.mode": "merge-on-read"} if version > 1 else {}
    table = make_table(catalog, format_version=version, properties=properties, partition_spec=["bucket(2, id)"])
    table.append(rows(1, 2, 3))
    table.compute_partition_statistics()
    table.delete("id = 2")
    if version > 1:
        table.delete_keys([{"id": 3}], ["id"])
    table.append(rows(4), snapshot_properties={"wap.id": "w"})
    staged = len(table.snapshots())
    elsewhere = local(table.location()).with_name("elsewhere")
    table.set_properties({"write.data.path": f"file:{elsewhere}", "write.metadata.path": f"file://{elsewhere}/meta"})
    table.append(rows(5))
    folder = local(table.location())
    age_all(folder)
    age_all(elsewhere)
    assert remove(table) == set()
    strays = {put(elsewhere / "deep/er/stray.orc"), put(elsewhere / "meta/stray.stats")}
    assert remove(table) == strays
    for snapshot in table.snapshots():
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    assert len(table.snapshots()) == staged + 1
    assert catalog.verify().ok


def test_files_of_pending_commits_and_of_what_is_written_out_are_kept(
    catalog: icecore.Catalog, warehouse: Path
) -> None:
    """By hand: the log has newer snapshots than the files, and the files have snapshots that the log expired."""
    table = make_table(catalog, properties={"icecore.materialize": "manual"})
    table.append(rows(1))
    catalog.materialize("ns.t")
    first = table.refresh().snapshots()[0].snapshot_id
    table.delete("id = 1")
    table.append(rows(2))
    table.maintenance.expire_snapshots().by_id(first).clean_files(False).commit()
    assert table.state.pending
    age_all(local(table.location()))
    assert remove(table) == set()
    assert peer_ids(warehouse) == [1]
    assert ids_of(table) == [2]
    catalog.materialize("ns.t")
    gone = remove(table)
    assert any("/data/" in str(p) for p in gone)
    assert peer_ids(warehouse) == [2] and catalog.verify().ok


@pytest.mark.parametrize("dropped", [False, True])
def test_a_table_in_this_ones_folder_is_left_alone(catalog: icecore.Catalog, dropped: bool) -> None:
    outer = make_table(catalog)
    inner = make_table(catalog, "inner", location=f"{outer.location()}/data/inner")
    inner.append(rows(1))
    same = make_table(catalog, "same", location=outer.location())
    same.append(rows(2))
    stray, apart = local(outer.location()) / "data/stray.parquet", local(inner.location()) / "data/stray.parquet"
    if dropped:
        catalog.drop_table("ns.inner")
        catalog.drop_table("ns.same")
    put(stray)
    put(apart)
    age_all(local(outer.location()))
    assert remove(outer) == {stray}
    if dropped:
        inner, same = catalog.undrop_table("ns.inner"), catalog.undrop_table("ns.same")
    assert ids_of(inner) == [1] and ids_of(same) == [2]
    assert remove(inner) == {apart}
    assert catalog.verify().ok


def test_a_table_of_another_catalog_in_this_folder_is_left_alone(catalog: icecore.Catalog, tmp_path: Path) -> None:
    outer = make_table(catalog)
    outer.append(rows(1))
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        inner = make_table(other, "inner", location=f"{outer.location()}/nested/inner")
        same = make_table(other, "same", location=outer.location())
        inner.append(rows(2))
        same.append(rows(3))
        age_all(local(outer.location()))
        assert remove(outer) == set()
        assert ids_of(inner) == [2] and ids_of(same) == [3]
        assert other.verify().ok


def test_what_another_catalog_expired_by_half_hides_none_of_its_other_files(
    catalog: icecore.Catalog, tmp_path: Path
) -> None:
    """The list of a snapshot may be there although a manifest that it names is gone, as after a crash."""
    outer = make_table(catalog)
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        same = make_table(other, "same", location=outer.location())
        same.append(rows(1))
        list_of_first = local(same.snapshots()[0].manifest_list or "")
        first = list_of_first.read_bytes()
        same.overwrite(rows(2))
        same.append(rows(3))
        same.maintenance.expire_snapshots().older_than(int(time.time() * 1000) + 1000).commit()
        list_of_first.write_bytes(first)
        # The one with all snapshots and the last one: earlier ones would have told of the first by itself.
        for entry in same.metadata.metadata_log[:-1]:
            local(entry.metadata_file).unlink()
        age_all(local(outer.location()))
        assert remove(outer) == set()
        assert ids_of(same) == [2, 3]


def test_files_that_another_table_took_in_are_kept(catalog: icecore.Catalog) -> None:
    one, other = make_table(catalog), make_table(catalog, "other")
    path = put(local(one.location()) / "data/shared.parquet")
    pq.write_table(rows(7), path)
    age(path)
    other.add_files([str(path)])
    assert remove(one) == set()
    assert ids_of(other) == [7]


@pytest.mark.parametrize("when", ["after the listing", "after the marking"])
def test_a_commit_meanwhile_keeps_its_files(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """An old file that another process takes into the table, or into another one, while orphans are looked for."""
    table = make_table(catalog)
    make_table(catalog, "other")
    folder = local(table.location()) / "data"
    folder.mkdir(parents=True)
    taken = [folder / "one.parquet", folder / "two.parquet"]
    for path in taken:
        pq.write_table(rows(7), path)
        age(path)
    stray = put(folder / "stray.parquet")
    peer = open_again()

    def commit() -> object:
        peer.load_table("ns.t").add_files([str(taken[0])])
        return peer.load_table("ns.other").add_files([str(taken[1])])

    if when == "after the listing":
        listing = orphan_files._list
        monkeypatch.setattr(orphan_files, "_list", lambda *a: (listing(*a), commit())[0])
    else:
        marking = Marking.mark_all
        monkeypatch.setattr(Marking, "mark_all", lambda self: (marking(self), commit())[0])
    found = table.maintenance.remove_orphan_files()
    assert found == OrphanFiles((f"file://{stray}",), (f"file://{stray}",), 4)
    assert ids_of(table.refresh()) == [7] and ids_of(peer.load_table("ns.other")) == [7]


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_the_event_is_published_within_its_transaction(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Else another engine could commit between the two."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    stray = put(local(table.location()) / "data/stray.parquet")
    monkeypatch.setattr(FileFollower, "follow", lambda *_: None)
    table.maintenance.remove_orphan_files()
    assert not stray.exists() and catalog.verify().ok


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_call_with_a_key_that_another_made_meanwhile_is_told(
    catalog: icecore.Catalog,
    open_again: Callable[[], icecore.Catalog],
    monkeypatch: pytest.MonkeyPatch,
    is_killed: bool,
) -> None:
    """Where the other was killed in the middle, what is left of it is done too."""
    table = make_table(catalog)
    table.append(rows(1))
    stray = put(local(table.location()) / "data/stray.parquet")
    marking, delete = Marking.mark_all, Storage.delete

    def mark_all(self: Marking) -> None:
        marking(self)
        monkeypatch.setattr(Marking, "mark_all", marking)
        peer = open_again().load_table("ns.t")
        if is_killed:
            die_at(monkeypatch, 0)
            with pytest.raises(Killed):
                peer.maintenance.remove_orphan_files(idempotency_key="k")
            monkeypatch.setattr(Storage, "delete", delete)
        else:
            peer.maintenance.remove_orphan_files(idempotency_key="k")
        assert stray.exists() is is_killed

    monkeypatch.setattr(Marking, "mark_all", mark_all)
    found = table.maintenance.remove_orphan_files(idempotency_key="k")
    assert [local(f) for f in found.deleted_files] == [stray] and not stray.exists()


def test_a_key_is_of_the_search_of_one_table(catalog: icecore.Catalog) -> None:
    table, other = make_table(catalog), make_table(catalog, "other")
    for one in (table, other):
        put(local(one.location()) / "data/stray.parquet")
    found = table.maintenance.remove_orphan_files(idempotency_key="k")
    assert table.maintenance.remove_orphan_files(idempotency_key="k") == found
    assert table.maintenance.remove_orphan_files(idempotency_key="k", dry_run=True) == OrphanFiles()
    with pytest.raises(ReusedKeyError, match=r"of ns\.t at position"):
        other.maintenance.remove_orphan_files(idempotency_key="k")
    assert len(other.maintenance.remove_orphan_files().deleted_files) == 1


def test_a_file_written_again_meanwhile_stays(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(catalog)
    stray = put(local(table.location()) / "data/stray.parquet")
    listing = orphan_files._list
    monkeypatch.setattr(orphan_files, "_list", lambda *a: (listing(*a), stray.write_bytes(b"new"))[0])
    assert table.maintenance.remove_orphan_files().deleted_files == ()
    assert stray.exists()


def test_commits_of_other_engines_that_the_log_lacks_forbid_it(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    table.append(rows(1))
    folder = local(table.location())
    (folder / "metadata/v3.metadata.json").write_bytes(b"{}")
    stray = put(folder / "data/stray.parquet")
    with pytest.raises(CommitConflictError, match="v3"):
        table.maintenance.remove_orphan_files()
    assert stray.exists()


def test_a_registered_table(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Manifests from outside, lists from outside, and what came on top; its first owner goes on, too."""
    with icecore.open(tmp_path / "first") as first:
        first.create_namespace("ns")
        origin = make_table(first)
        origin.append(rows(1))
        origin.append(rows(2))
        table = catalog.register_table("ns.r", origin.metadata_location or "")
        table.delete("id = 1")
        table.append(rows(3))
        origin.append(rows(4))
        age_all(local(origin.location()))
        stray = put(local(origin.location()) / "data/stray.parquet")
        assert remove(table) == {stray}
        assert ids_of(table) == [2, 3] and ids_of(origin) == [1, 2, 4]
        assert ids_of(table, snapshot_id=table.snapshots()[1].snapshot_id) == [1, 2]
        assert first.verify().ok and catalog.verify().ok


def test_each_list_is_read_once_however_many_metadata_files_name_it(
    catalog: icecore.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a thousand commits, each with a metadata file that names all before it, a search would not end."""
    with icecore.open(tmp_path / "first") as first:
        first.create_namespace("ns")
        origin = make_table(first, properties={"write.metadata.previous-versions-max": "1"})
        for i in range(5):
            origin.append(rows(i))
        table = catalog.register_table("ns.r", origin.metadata_location or "")
        for i in range(5, 9):
            origin.append(rows(i))
        age_all(local(origin.location()))
        of_file = Mock(wraps=manifest_list_avro.read_manifest_list)
        monkeypatch.setattr(manifest_list_avro, "read_manifest_list", of_file)
        assert remove(table) == set()
        assert of_file.call_count == len(origin.snapshots()) == 9
        assert ids_of(origin) == list(range(9))


def test_a_table_at_the_warehouse_itself_keeps_the_log(catalog: icecore.Catalog, warehouse: Path) -> None:
    table = catalog.create_table("ns.root", SCHEMA, location=str(warehouse))
    table.append(rows(1))
    inner = make_table(catalog)
    inner.append(rows(2))
    catalog.create_view("ns.v", "SELECT id FROM t")
    for path in warehouse.rglob("*"):
        age(path)
    assert table.maintenance.remove_orphan_files() == OrphanFiles()
    assert store_of(catalog).head()[0] == catalog.position
    assert ids_of(inner) == [2] and catalog.verify().ok
