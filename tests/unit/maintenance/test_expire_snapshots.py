"""Expiring snapshots: what goes, what stays, and that nothing which is still needed is ever deleted (R1, R2)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from core_tables import ids_of, local, make_table, metadata_files, peer_ids, repository_of, rows

import icecore
from icecore.engine.errors import NoSuchSnapshotError, StorageError, ValidationError
from icecore.engine.maintenance.maintenance import Expired
from icecore.engine.metadata.retention import Expiry, expiring_updates
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.snapshot import Snapshot, SnapshotRef, SnapshotRefType
from icecore.engine.spec.updates.table_update import RemoveSnapshotRef, RemoveSnapshots
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.file_follower import FileFollower

FAR = 2**53
DAY = 24 * 60 * 60 * 1000


def history(catalog: icecore.Catalog, **options: Any) -> icecore.Table:
    """Three appends and a delete of the first one's only file."""
    table = make_table(catalog, **options)
    for number in range(3):
        table.append(rows(number))
    table.delete("id = 0")
    return table


def snapshot_ids(table: icecore.Table) -> list[int]:
    return [s.snapshot_id for s in table.snapshots()]


def data_files(table: icecore.Table) -> int:
    return len(list(local(f"{table.location()}/data").rglob("*.parquet")))


def metadata(refs: dict[str, SnapshotRef], properties: dict[str, str] | None = None) -> TableMetadata:
    """Snapshots 1 <- 2 <- 3 <- 4 and 2 <- 5, one a day; 4 is the newest."""
    from icecore.engine.spec.partition import UNPARTITIONED
    from icecore.engine.spec.schema import Schema

    parents = {1: None, 2: 1, 3: 2, 4: 3, 5: 2}
    main = refs.get("main")
    return TableMetadata(
        2,
        None,
        "/t",
        0,
        0,
        (Schema(()),),
        0,
        (UNPARTITIONED,),
        0,
        properties=properties or {},
        current_snapshot_id=main.snapshot_id if main else None,
        snapshots=tuple(
            Snapshot(i, min(i, 4) * DAY, parent_snapshot_id=p, sequence_number=i, manifest_list=f"/t/{i}")
            for i, p in parents.items()
        ),
        refs=refs,
    )


MAIN = SnapshotRef(4, SnapshotRefType.BRANCH)
SIDE = SnapshotRef(5, SnapshotRefType.BRANCH)
TAG = SnapshotRef(1, SnapshotRefType.TAG)


@pytest.mark.parametrize(
    ("refs", "properties", "expiry", "gone_refs", "gone"),
    [
        ({"main": MAIN, "side": SIDE}, {}, Expiry(older_than_ms=FAR), [], [1, 2, 3]),
        ({"main": MAIN, "side": SIDE}, {}, Expiry(older_than_ms=FAR, retain_last=2), [], [1]),
        ({"main": MAIN, "side": SIDE}, {}, Expiry(older_than_ms=3 * DAY), [], [1, 2]),
        ({"main": MAIN}, {}, Expiry(older_than_ms=4 * DAY), [], [1, 2, 3]),
        ({"main": MAIN}, {}, Expiry(older_than_ms=FAR), [], [1, 2, 3, 5]),
        ({"main": MAIN, "v": TAG}, {}, Expiry(older_than_ms=FAR), [], [2, 3, 5]),
        ({"main": MAIN, "v": evolve(TAG, max_ref_age_ms=DAY)}, {}, Expiry(older_than_ms=FAR), ["v"], [1, 2, 3, 5]),
        ({"main": MAIN, "v": TAG}, {"history.expire.max-ref-age-ms": "1"}, Expiry(older_than_ms=0), ["v"], []),
        ({"main": evolve(MAIN, min_snapshots_to_keep=3)}, {}, Expiry(older_than_ms=FAR), [], [1, 5]),
        ({"main": evolve(MAIN, max_snapshot_age_ms=FAR)}, {}, Expiry(older_than_ms=FAR), [], [5]),
        ({"main": MAIN}, {"history.expire.min-snapshots-to-keep": "2"}, Expiry(older_than_ms=FAR), [], [1, 2, 5]),
        ({"main": MAIN}, {"history.expire.max-snapshot-age-ms": str(3 * DAY)}, Expiry(), [], [1]),
        ({"main": MAIN}, {}, Expiry(frozenset({5})), [], [5]),
        ({"main": MAIN, "v": TAG}, {"history.expire.max-ref-age-ms": "1"}, Expiry(frozenset({2})), [], [2]),
    ],
)
def test_R1_R2_retention(
    refs: dict[str, SnapshotRef], properties: dict[str, str], expiry: Expiry, gone_refs: list[str], gone: list[int]
) -> None:
    """Refs by age but for main, branches by age and count, heads never, what no ref leads to by age alone."""
    updates = expiring_updates(metadata(refs, properties), expiry, 5 * DAY)
    assert [u.ref_name for u in updates if isinstance(u, RemoveSnapshotRef)] == gone_refs
    assert [i for u in updates if isinstance(u, RemoveSnapshots) for i in u.snapshot_ids] == gone


@pytest.mark.parametrize(
    ("properties", "expiry", "error"),
    [
        ({}, Expiry(frozenset({4})), ValidationError),
        ({}, Expiry(frozenset({99})), NoSuchSnapshotError),
        ({"gc.enabled": "false"}, Expiry(), ValidationError),
        ({"history.expire.min-snapshots-to-keep": "many"}, Expiry(), ValidationError),
    ],
)
def test_R2_what_cannot_expire_is_refused(properties: dict[str, str], expiry: Expiry, error: type[Exception]) -> None:
    """A ref's snapshot, an unknown one, a table whose files others may need, a setting that is no number."""
    with pytest.raises(error):
        expiring_updates(metadata({"main": MAIN}, properties), expiry, 5 * DAY)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_R2_files_that_only_expired_snapshots_need_go_and_nothing_else(
    catalog: icecore.Catalog, warehouse: Path, version: int, scheme: str
) -> None:
    """Two events of one transaction, the unneeded files named and deleted; all readers see a whole table."""
    table = history(catalog, format_version=version, properties={"icecore.commit-scheme": scheme})
    before, position = snapshot_ids(table), table.state.position
    expired = table.maintenance.expire_snapshots().older_than(datetime.now(UTC)).older_than(FAR).commit()
    assert table.state.position == position + 2
    assert expired.snapshot_ids == tuple(sorted(before[:3]))
    assert snapshot_ids(table) == before[3:]
    assert sum(f.endswith(".parquet") for f in expired.deleted_files) == 1
    assert sum("/snap-" in f for f in expired.deleted_files) == 3
    assert not any(local(f).exists() for f in expired.deleted_files)
    assert data_files(table) == 2
    assert ids_of(table) == peer_ids(warehouse) == [1, 2]
    assert catalog.verify().ok
    files = metadata_files(table)
    catalog.rebuild()
    assert metadata_files(table.refresh()) == files
    assert catalog.verify().ok
    table.append(rows(7))
    assert ids_of(table) == peer_ids(warehouse) == [1, 2, 7]


def test_R2_a_rebuild_without_the_metadata_folder_makes_no_file_of_expired_snapshots(catalog: icecore.Catalog) -> None:
    """Files of expired snapshots are not resurrected, also where every file has to be written again."""
    table = history(catalog)
    table.maintenance.expire_snapshots().older_than(FAR).commit()
    files = metadata_files(table)
    for name in files:
        (local(table.metadata_location).parent / name).unlink()
    catalog.rebuild()
    assert metadata_files(table.refresh()) == files
    assert ids_of(table) == [1, 2]


def test_R2_manifests_that_merged_ones_came_from_can_go(catalog: icecore.Catalog, warehouse: Path) -> None:
    """The log keeps the entries of its own manifests, so that the files of merged ones are not needed."""
    table = make_table(catalog, properties={"commit.manifest.min-count-to-merge": "2"})
    for number in range(9):
        table.append(rows(number))
    table.maintenance.expire_snapshots().older_than(FAR).commit()
    table.delete("id = 4")
    assert ids_of(table) == peer_ids(warehouse) == [0, 1, 2, 3, 5, 6, 7, 8]
    files = metadata_files(table)
    catalog.rebuild()
    assert metadata_files(table.refresh()) == files


def test_R2_manifests_from_outside_stay_while_ours_build_on_them(
    catalog: icecore.Catalog, warehouse: Path, tmp_path: Path
) -> None:
    """Entries of a foreign manifest are in its file alone, which stays as long as a manifest of ours needs it."""
    with pyiceberg_warehouse(tmp_path / "other") as (location, metadata_location):
        assert location
        table = catalog.register_table("ns.t", metadata_location)
        table.delete("id = 1")
        table.maintenance.expire_snapshots().older_than(FAR).commit()
        assert ids_of(table) == peer_ids(warehouse) == [2, 3]
        catalog.rebuild()
        assert ids_of(table.refresh()) == [2, 3]


def pyiceberg_warehouse(folder: Path):  # type: ignore[no-untyped-def]  # a context manager of two strings
    """A table of PyIceberg's, partitioned by nothing, of two appends."""
    from contextlib import contextmanager

    from pyiceberg.catalog.sql import SqlCatalog

    @contextmanager
    def made():  # type: ignore[no-untyped-def]
        folder.mkdir()
        peer = SqlCatalog("p", uri=f"sqlite:///{folder}/p.db", warehouse=f"file://{folder}")
        peer.create_namespace("ns")
        table = peer.create_table("ns.t", schema=rows(1).schema)
        table.append(rows(1, 2))
        table.append(rows(3))
        yield table.location(), table.metadata_location
        peer.close()

    return made()


def test_R2_by_id_takes_only_that_one_and_clean_files_false_keeps_files(catalog: icecore.Catalog) -> None:
    """Ids alone expire nothing else; without cleaning, every file stays."""
    table = history(catalog)
    names = set(metadata_files(table))
    first, second = snapshot_ids(table)[:2]
    expired = table.maintenance.expire_snapshots().by_id(second).clean_files(False).commit()
    assert expired == Expired((second,))
    assert names < set(metadata_files(table))
    assert first in snapshot_ids(table)
    assert catalog.verify().ok
    assert table.maintenance.expire_snapshots().by_ids([first]).commit().snapshot_ids == (first,)
    assert catalog.verify().ok


def test_R2_nothing_to_expire_makes_no_commit(catalog: icecore.Catalog) -> None:
    """Young snapshots stay by the default of five days."""
    table = history(catalog)
    position = table.state.position
    assert table.maintenance.expire_snapshots().commit() == Expired()
    assert table.state.position == position


def test_R2_no_file_goes_where_the_commit_failed(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the commit, whatever became of it, leaves every file."""
    table = history(catalog)
    repository = repository_of(catalog)

    def fail(*_: object, **__: object) -> None:
        raise StorageError("the outcome is unknown")

    deleted: list[str] = []
    monkeypatch.setattr(type(repository), "commit", fail)
    monkeypatch.setattr(Storage, "delete", lambda _, location: deleted.append(location))
    with pytest.raises(StorageError):
        table.maintenance.expire_snapshots().older_than(FAR).commit()
    assert deleted == []


def test_R2_no_file_goes_where_the_metadata_cannot_follow(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers still see the older metadata file then, and all that it names."""
    from icecore.projections.files.file_follower import MaterializationWarning
    from icecore.projections.files.materialize import Materializer

    table = history(catalog)
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise StorageError("the disk is full")

        patch.setattr(Materializer, "write", fail)
        with pytest.warns(MaterializationWarning):
            expired = table.maintenance.expire_snapshots().older_than(FAR).commit()
    assert len(expired.snapshot_ids) == 3
    assert expired.deleted_files == ()
    assert data_files(table) == 3


def test_R2_a_table_written_by_hand_is_written_out_before_files_go(catalog: icecore.Catalog, warehouse: Path) -> None:
    """With `icecore.materialize = manual`, readers get metadata without the expired snapshots first."""
    table = history(catalog)
    table.set_properties({"icecore.materialize": "manual"})
    table.append(rows(9))
    assert table.maintenance.expire_snapshots().older_than(FAR).commit().deleted_files
    assert ids_of(table.refresh()) == peer_ids(warehouse) == [1, 2, 9]
    assert catalog.verify().ok


def test_R2_no_file_goes_where_another_table_has_the_location(catalog: icecore.Catalog) -> None:
    """Not even those that it never named."""
    table = history(catalog)
    assert table.metadata_location is not None
    catalog.register_table("ns.other", table.metadata_location)
    table.append(rows(9))
    table.delete("id = 9")
    expired = table.maintenance.expire_snapshots().older_than(FAR)
    assert expired.dry_run().deleted_files == ()
    found = expired.commit()
    assert len(found.snapshot_ids) == 5 and found.deleted_files == ()
    assert ids_of(catalog.load_table("ns.other")) == [1, 2]


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_R2_what_is_written_out_first_is_so_within_the_transaction(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Else another engine could commit between the two, to metadata that still names the files."""
    table = history(catalog, properties={"icecore.materialize": "manual", "icecore.commit-scheme": scheme})
    catalog.materialize("ns.t")
    monkeypatch.setattr(FileFollower, "follow", lambda *_: None)
    assert table.maintenance.expire_snapshots().older_than(FAR).commit().deleted_files
    assert ids_of(table.refresh()) == [1, 2]


def test_R2_statistics_files_go_with_their_snapshots(catalog: icecore.Catalog) -> None:
    """A statistics file is deleted once its snapshot expired, and no other one is."""
    table = make_table(catalog)
    table.append(rows(1))
    first = table.compute_statistics()
    table.append(rows(2))
    second = table.compute_statistics()
    assert first is not None and second is not None
    expired = table.maintenance.expire_snapshots().older_than(FAR).commit()
    assert first.statistics_path in expired.deleted_files
    assert local(second.statistics_path).exists()


def test_R2_branches_keep_what_they_reach(catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]) -> None:
    """A file that only another branch still lists stays; another process reads it."""
    table = make_table(catalog)
    table.append(rows(1))
    current = table.current_snapshot()
    assert current is not None
    table.manage_snapshots().create_branch(current.snapshot_id, "side").commit()
    table.delete("id = 1")
    table.append(rows(2))
    table.maintenance.expire_snapshots().older_than(FAR).commit()
    again = open_again().load_table("ns.t")
    assert ids_of(again) == [2]
    assert ids_of(again, ref="side") == [1]


def test_R2_tables_that_share_a_location_keep_every_file(catalog: icecore.Catalog) -> None:
    """A table registered from another one's metadata reads the same files, so neither deletes any."""
    table = history(catalog)
    assert table.metadata_location is not None
    other = catalog.register_table("ns.u", table.metadata_location)
    oldest = snapshot_ids(table)[0]
    expired = table.maintenance.expire_snapshots().older_than(FAR).commit()
    assert oldest in expired.snapshot_ids
    assert expired.deleted_files == ()
    assert ids_of(other, snapshot_id=oldest) == [0]


def test_R2_retain_last_wants_one_at_least(catalog: icecore.Catalog) -> None:
    """Zero snapshots to retain is refused at once."""
    with pytest.raises(ValidationError, match="at least 1"):
        history(catalog).maintenance.expire_snapshots().retain_last(0)
