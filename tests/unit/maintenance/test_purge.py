"""Purging dropped tables: all of their files go, after an event that names them, and nothing that anything needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from core_tables import SCHEMA, ids_of, local, make_table, put, rows, store_of
from test_deletion_events import Killed, die_at, due, last_event, named_by

import icecore
from icecore.engine.deletion.purge_table import Purged, PurgePlan
from icecore.engine.errors import (
    CommitConflictError,
    MovedWarehouseWarning,
    NoSuchTableError,
    ReusedKeyError,
    ValidationError,
)
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.foreign.adopter import Adopter
from icecore.engine.joint_commit import joint_purge
from icecore.engine.log.store import EventStore


def dropped(catalog: icecore.Catalog, name: str = "t", **options: Any) -> Path:
    """The folder of a table with deletes, an expired snapshot and files that no snapshot has."""
    table = make_table(catalog, name, partition_spec=["name"], **options)
    table.append(rows(1, 2))
    table.overwrite(rows(3, 4))
    table.maintenance.expire_snapshots().older_than(2**53).clean_files(False).commit()
    table.delete("id = 3")
    put(local(table.location()) / "data/stray.parquet", days=0)
    catalog.drop_table(f"ns.{name}")
    return local(table.location())


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_nothing_is_left_of_a_purged_table(catalog: icecore.Catalog, version: int, scheme: str) -> None:
    """Live, expired and stray files, manifests, metadata and hints, and the folders of its partitions."""
    folder = dropped(catalog, format_version=version, properties={"icecore.commit-scheme": scheme})
    drop, before = catalog.position, {f"file://{p}" for p in folder.rglob("*") if p.is_file()}
    told = catalog.purge_table("ns.t", dry_run=True)
    assert set(told.files) == before and told.position is None and catalog.position == drop
    found = catalog.purge_table("ns.t", message="article 17", author="eve")
    assert set(found.deleted_files) == before == {f.location for f in named_by(catalog, last_event(catalog))}
    assert not folder.exists() and found.kept_files == found.left_files == ()
    event = last_event(catalog)
    assert (event.kind, event.provenance.actor, event.provenance.message) == ("table.purged", "eve", "article 17")
    assert event.payload["count"] == len(before) and event.payload["bytes"] == found.total_bytes > 0
    [shown] = catalog.log(kind="table.purged").to_pylist()
    assert shown["name"] == "ns.t" and shown["changes"].startswith(f"purge: delete {len(before)} files of ")
    assert catalog.verify().problems == () and due(catalog) == []


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_metadata_files_are_the_tables_own_however_their_folder_is_written(
    catalog: icecore.Catalog, scheme: str
) -> None:
    """What leads to its files is no metadata file of another catalog's then, for which they would stay."""
    table = make_table(catalog)
    table.set_properties({"write.metadata.path": f"{scheme}{catalog.path}/elsewhere"})
    table.append(rows(1))
    found = catalog.drop_table("ns.t", purge=True)
    assert isinstance(found, Purged) and found.kept_files == found.left_files == ()
    assert not (catalog.path / "elsewhere").exists() and not local(table.location()).exists()


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_hint_that_comes_late_and_checksums_go_too(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    """Hadoop keeps a checksum beside each local file. A hint beside somebody's metadata file stays."""
    folder = dropped(catalog)
    for path in [p for p in folder.rglob("*") if p.is_file()]:
        path.with_name(f".{path.name}.crc").touch()
    finish, hint = PurgePlan.finish, folder / "metadata" / "version-hint.text"

    def late(self: PurgePlan, *args: Any) -> Any:
        hint.write_text("5")
        if is_shared:
            hint.with_name("v5.metadata.json").write_text("{}")
        return finish(self, *args)

    hint.unlink()
    monkeypatch.setattr(PurgePlan, "finish", late)
    catalog.purge_table("ns.t")
    left = ["v5.metadata.json", "version-hint.text"] if is_shared else []
    assert sorted(p.name for p in folder.rglob("*") if p.is_file() and p.name != ".version-hint.text.crc") == left


@pytest.mark.parametrize("is_shared", [False, True])
def test_no_hint_is_left_where_the_metadata_files_were_before(catalog: icecore.Catalog, is_shared: bool) -> None:
    """But where another's metadata file is beside it."""
    table = make_table(catalog)
    first = local(table.location()) / "metadata"
    table.set_properties({"write.metadata.path": f"file://{catalog.path}/second"})
    with table.transaction() as change:
        change.update_location(f"file://{catalog.path}/third").remove_properties("write.metadata.path")
    assert all((folder / "version-hint.text").exists() for folder in (first, catalog.path / "second"))
    if is_shared:
        (catalog.path / "second" / "v5.metadata.json").write_text("{}")
    catalog.drop_table("ns.t", purge=True)
    assert not first.exists() and not (catalog.path / "third").exists()
    left = sorted(p.name for p in (catalog.path / "second").glob("*"))
    assert left == (["v5.metadata.json", "version-hint.text"] if is_shared else [])


def test_no_names_of_partitions_are_left_where_a_table_was_before(catalog: icecore.Catalog) -> None:
    """Nor the folder that it was in; what somebody else put there stays, and so does the namespace's folder."""
    table = catalog.create_table("ns.t", parse_schema("id long, name string"), partition_spec=["name"])
    places = [catalog.path / "ns" / "t", catalog.path / "ns" / "second", catalog.path / "ns" / "third"]
    for number, place in enumerate(places):
        with table.transaction() as change:
            change.update_location(f"file://{place}")
        table.append([{"id": number, "name": "ann"}])
        assert (place / "data" / "name=ann").is_dir()
    (places[1] / "data" / "mine.txt").touch()
    catalog.drop_table("ns.t", purge=True)
    assert sorted(catalog.path.glob("ns/**/*")) == [places[1], places[1] / "data", places[1] / "data" / "mine.txt"]


def test_a_folder_above_metadata_files_that_were_given_a_place_stays(tmp_path: Path) -> None:
    """No table was there: here it is what all tables are to lie in, and was removed with all that was empty in it."""
    (namespace := tmp_path / "root" / "ns").mkdir(parents=True)
    with icecore.open(tmp_path / "w", location_roots=[str(tmp_path / "root")]) as catalog:
        catalog.create_namespace("ns")
        places = {"write.metadata.path": f"file://{tmp_path}/root/metadata"}
        table = catalog.create_table("ns.t", SCHEMA, location=f"file://{namespace}/t", properties=places)
        table.append(rows(1))
        catalog.drop_table("ns.t", purge=True)
    assert sorted(tmp_path.glob("root/**/*")) == [namespace]


def test_a_purged_table_can_not_come_back(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Undrop and reverts are refused by name; no rebuild, import or next table of that name brings a file back."""
    folder = dropped(catalog)
    drop = catalog.position
    catalog.purge_table("ns.t", message="article 17", author="eve")
    purged = r"purged at position \d+ by eve \('article 17'\)"
    with pytest.raises(ValidationError, match=purged):
        catalog.undrop_table("ns.t")
    with pytest.raises(ValidationError, match=purged):
        catalog.undrop_table("ns.t", position=drop)
    with pytest.raises(ValidationError, match=purged):
        catalog.revert(drop)
    with pytest.raises(ValidationError, match="can't come back"):
        catalog.revert(catalog.position)
    with pytest.raises(ValidationError, match=purged), catalog.transaction() as change:
        change.undrop_table("ns.t")
    catalog.rebuild()
    catalog.checkpoint()
    assert not folder.exists() and catalog.verify().problems == ()
    catalog.export_log(tmp_path / "log.jsonl")
    with pytest.warns(MovedWarehouseWarning):
        icecore.import_log(tmp_path / "log.jsonl", tmp_path / "copy")
    assert not folder.exists()
    again = make_table(catalog)
    again.append(rows(7))
    catalog.archive(before=catalog.position)
    assert ids_of(again) == [7] and catalog.verify().problems == ()
    assert again.location() == f"file://{folder}"


def test_a_purge_can_be_made_again(catalog: icecore.Catalog) -> None:
    """It finds what came since; where that is nothing it makes no event."""
    folder = dropped(catalog)
    catalog.purge_table("ns.t")
    position = catalog.position
    assert catalog.purge_table("ns.t").position is None and catalog.position == position
    late = put(folder / "data/late.parquet", days=0)
    assert catalog.purge_table("ns.t").deleted_files == (f"file://{late}",)
    assert not folder.exists() and catalog.verify().ok


def test_a_key_purges_once(catalog: icecore.Catalog) -> None:
    """A call that is made again gets the same answer, and leaves the next dropped table of that name alone."""
    dropped(catalog)
    found = catalog.purge_table("ns.t", idempotency_key="once")
    next_one = dropped(catalog)
    before = {p for p in next_one.rglob("*") if p.is_file()}
    position = catalog.position
    again = catalog.purge_table("ns.t", idempotency_key="once")
    assert (again.position, again.files, again.total_bytes) == (found.position, found.files, found.total_bytes)
    assert set(again.deleted_files) == set(found.deleted_files) and catalog.position == position
    assert catalog.purge_table("ns.t", idempotency_key="once", dry_run=True).position is None
    assert {p for p in next_one.rglob("*") if p.is_file()} == before
    table = make_table(catalog, "other")
    table.append(rows(1), idempotency_key="append")
    with pytest.raises(ReusedKeyError, match=r"table\.committed of ns\.other at position"):
        catalog.purge_table("ns.t", idempotency_key="append")
    catalog.drop_table("ns.other")
    with pytest.raises(ReusedKeyError, match=r"was used for the table\.purged of"):
        catalog.purge_table("ns.other", idempotency_key="once")
    assert ids_of(catalog.undrop_table("ns.other")) == [1]


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (Adopter, "adopt_each"),
        (joint_purge, "finish_due"),
        (Adopter, "adopt_all_if_changed"),
        (EventStore, "write_with"),
    ],
)
def test_a_drop_that_another_made_meanwhile_under_its_key_is_told(
    catalog: icecore.Catalog,
    open_again: Callable[[], icecore.Catalog],
    monkeypatch: pytest.MonkeyPatch,
    where: Any,
    name: str,
) -> None:
    """Before its name was looked up, before it was planned, and while it waited for the write lock."""
    make_table(catalog).append(rows(1))
    step, told = getattr(where, name), list[Any]()

    def later(*args: Any, **how: Any) -> Any:
        monkeypatch.setattr(where, name, step)
        told.append(open_again().drop_table("ns.t", purge=True, idempotency_key="k"))
        return step(*args, **how)

    monkeypatch.setattr(where, name, later)
    found = catalog.drop_table("ns.t", purge=True, idempotency_key="k")
    assert isinstance(found, Purged) and found.position == told[0].position == catalog.position


def test_the_key_of_another_drop_purges_nothing(catalog: icecore.Catalog) -> None:
    """Neither that of another table's, nor that of a drop without a purge."""
    for name in ("t", "other", "kept"):
        make_table(catalog, name).append(rows(1))
    catalog.drop_table("ns.t", purge=True, idempotency_key="purge")
    with pytest.raises(ReusedKeyError):
        catalog.drop_table("ns.other", purge=True, idempotency_key="purge")
    catalog.drop_table("ns.kept", idempotency_key="drop")
    with pytest.raises(ReusedKeyError):
        catalog.drop_table("ns.kept", purge=True, idempotency_key="drop")
    assert ids_of(catalog.load_table("ns.other")) == ids_of(catalog.undrop_table("ns.kept")) == [1]


def test_a_table_that_was_renamed_meanwhile_is_not_purged_for_the_new_one_of_its_name(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(catalog).append(rows(1))
    step = EventStore.write_with

    def later(*args: Any, **how: Any) -> Any:
        monkeypatch.setattr(EventStore, "write_with", step)
        other = open_again()
        other.rename_table("ns.t", "ns.moved")
        make_table(other).append(rows(2))
        return step(*args, **how)

    monkeypatch.setattr(EventStore, "write_with", later)
    with pytest.raises(NoSuchTableError, match="was replaced"):
        catalog.drop_table("ns.t", purge=True)
    assert (ids_of(catalog.load_table("ns.moved")), ids_of(catalog.load_table("ns.t"))) == ([1], [2])


@pytest.mark.parametrize("at_once", [False, True])
def test_what_is_cached_of_a_purged_table_goes(catalog: icecore.Catalog, at_once: bool) -> None:
    """Segments have column bounds, which are values of its rows; those of other tables stay."""
    for name in ("t", "other"):
        table = make_table(catalog, name)
        # Until 16 manifests are looked into, nothing of them is on disk.
        for number in range(20):
            table.append(rows(number))
        assert table.scan("id = 3").count() == 1
    segments = catalog.path / ".icecore" / "segments"
    assert len(list(segments.iterdir())) == 2
    position = catalog.position
    if at_once:
        catalog.drop_table("ns.t", purge=True)
    else:
        catalog.drop_table("ns.t")
        catalog.purge_table("ns.t")
    [left] = segments.iterdir()
    assert left.name.endswith(str(catalog.load_table("ns.other").metadata.table_uuid))
    assert len(catalog.at(position).load_table("ns.t").scan("id = 3").plan_files()) == 1


def test_a_version_of_another_engine_that_the_log_lacks_forbids_it(catalog: icecore.Catalog) -> None:
    """What it needs is not known: no commit to a dropped table is adopted."""
    folder = dropped(catalog, properties={"icecore.commit-scheme": "filesystem"})
    before = {p for p in folder.rglob("*") if p.is_file()}
    (folder / "metadata/v6.metadata.json").write_bytes(b"{}")
    with pytest.raises(CommitConflictError, match="v6"):
        catalog.purge_table("ns.t")
    assert all(p.exists() for p in before)


def test_only_dropped_tables_are_purged(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    with pytest.raises(NoSuchTableError, match="what has that name now was not dropped: drop it first"):
        catalog.purge_table("ns.t")
    catalog.drop_table("ns.t")
    drop = catalog.position
    catalog.undrop_table("ns.t")
    with pytest.raises(ValidationError, match="was undropped"):
        catalog.purge_table("ns.t", position=drop)
    table.refresh().set_properties({"gc.enabled": "false"})
    catalog.drop_table("ns.t")
    with pytest.raises(ValidationError, match=r"gc\.enabled"):
        catalog.purge_table("ns.t")
    assert local(table.metadata_location).exists()


def test_of_several_tables_of_a_name_the_last_that_is_not_purged(catalog: icecore.Catalog) -> None:
    folders = [dropped(catalog), dropped(catalog)]
    catalog.purge_table("ns.t")
    assert folders[0].exists() and not folders[1].exists()
    assert ids_of(catalog.undrop_table("ns.t")) == [4]
    catalog.drop_table("ns.t")
    catalog.purge_table("ns.t")
    assert not folders[0].exists()


def test_drop_and_purge_are_one_transaction(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    folder, position = local(table.location()), catalog.position
    found = catalog.drop_table("ns.t", purge=True, message="no more", author="eve")
    assert found is not None and not folder.exists()
    events = list(store_of(catalog).events(position))
    assert [e.kind for e in events] == ["table.dropped", "table.purged"]
    assert len({e.transaction_id for e in events}) == 1
    assert {(e.provenance.actor, e.provenance.message) for e in events} == {("eve", "no more")}
    assert catalog.verify().ok


@pytest.mark.parametrize("after", [0, 1, 5])
def test_a_kill_in_the_middle_goes_on_at_the_next_open(
    catalog: icecore.Catalog,
    open_again: Callable[[], icecore.Catalog],
    monkeypatch: pytest.MonkeyPatch,
    after: int,
) -> None:
    folder = dropped(catalog)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        die_at(patch, after)
        catalog.purge_table("ns.t")
    left = [p for p in folder.rglob("*") if p.is_file()]
    assert len(left) == last_event(catalog).payload["count"] - after
    again = open_again()
    assert not folder.exists() and due(again) == [] and again.verify().problems == ()


def test_a_dry_run_goes_on_with_nothing(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a killed deletion left is none of its business."""
    table = make_table(catalog)
    stray = put(local(table.location()) / "data/stray.parquet")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        die_at(patch, 0)
        table.maintenance.remove_orphan_files()
    outcome = catalog.drop_table("ns.t", purge=True, dry_run=True)
    assert stray.exists() and outcome is not None and due(catalog) == [catalog.position]
