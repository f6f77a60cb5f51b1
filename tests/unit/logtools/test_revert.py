"""Revert: a commit is undone by another one, or refused with the commits that stand in the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from core_tables import ids_of, local, make_table, peer_ids, rows, store_of

import icecore
from icecore.engine.errors import (
    CommitConflictError,
)
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.manifest_entries import ManifestEntries


def data_files(table: icecore.Table) -> dict[str, tuple[int | None, int | None]]:
    """Data sequence number and first row id of the live data files by path."""
    head = table.current_snapshot()
    assert head is not None
    repository = table._repository
    found = {}
    for listed in repository.list_manifests(table.state, head):
        for row in repository.entries.live(table.state.stream, listed, repository.storage).to_pylist():
            if row["content"] == 0:
                found[row["file_path"]] = (row["sequence_number"], row["first_row_id"])
    return found


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_an_append_is_undone_and_the_undoing_too(
    catalog: icecore.Catalog, warehouse: Path, format_version: int
) -> None:
    """The files of the append go, later ones stay; the new commit names the old one as its cause (SP3, RL3)."""
    table = make_table(catalog, format_version=format_version)
    table.append(rows(1))
    table.append(rows(2, 3), message="wrong day")
    wrong = catalog.position
    table.append(rows(4))
    files = data_files(table)
    at = catalog.revert(wrong)
    event = store_of(catalog).event_at(at)
    assert at == catalog.position and event.provenance.message == f"revert position {wrong}: wrong day"
    assert event.provenance.causation_id == store_of(catalog).event_at(wrong).event_id
    assert ids_of(table.refresh()) == [1, 4] == peer_ids(warehouse)
    head = table.current_snapshot()
    assert head is not None and head.summary is not None
    assert (head.summary["operation"], head.summary["total-records"]) == ("delete", "2")
    catalog.revert(at)
    assert ids_of(table.refresh()) == [1, 2, 3, 4] == peer_ids(warehouse)
    assert data_files(table) == files
    assert catalog.verify().ok
    catalog.rebuild()
    assert catalog.verify().ok and peer_ids(warehouse) == [1, 2, 3, 4]


@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_deletes_and_overwrites_are_undone(catalog: icecore.Catalog, warehouse: Path, format_version: int) -> None:
    """What was removed is back with its own sequence numbers and row ids, what took its place is gone."""
    table = make_table(catalog, format_version=format_version)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    files = data_files(table)
    table.delete("id = 2", message="one row of a file")
    deleted = catalog.position
    table.append(rows(9))
    catalog.revert(deleted)
    assert ids_of(table.refresh()) == [1, 2, 3, 4, 9] == peer_ids(warehouse)
    table.delete("id = 9")
    assert data_files(table) == files
    table.overwrite(rows(7), "id >= 3")
    catalog.revert(catalog.position, message="as it was", author="boss")
    assert ids_of(table.refresh()) == [1, 2, 3, 4] == peer_ids(warehouse)
    last = catalog.log(limit=1).to_pylist()[0]
    assert (last["message"], last["actor"], last["operation"]) == ("as it was", "boss", "overwrite")
    table.delete("id > 0")
    catalog.revert(catalog.position)
    assert ids_of(table.refresh()) == [1, 2, 3, 4] == peer_ids(warehouse)
    assert data_files(table) == files and catalog.verify().ok


def test_a_file_that_comes_back_meets_the_deletes_that_it_had(catalog: icecore.Catalog) -> None:
    """An equality delete from before the removal still applies after the revert; newer data is not touched (SP3)."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    with table.transaction() as changes:
        changes.delete_keys(rows(1).select(["id"]), ["id"])
    table.append(rows(1))
    assert ids_of(table) == [1, 2]
    table.delete("id > 0", message="all")
    removal = catalog.position
    event = store_of(catalog).event_at(removal)
    assert event.content_sha256 is not None
    catalog.revert(removal)
    assert ids_of(table.refresh()) == [1, 2] and catalog.verify().ok


def test_equality_deletes_of_another_age_are_of_no_concern(catalog: icecore.Catalog) -> None:
    """Earlier ones don't hinder the way back of one, nor does later data that of a compaction of its file (SP3)."""
    table = make_table(catalog)
    table.append(rows(1, 2, 3))
    table.delete_keys(rows(1).select(["id"]), ["id"])
    table.delete_keys(rows(2).select(["id"]), ["id"])
    catalog.revert(catalog.position)
    assert ids_of(table.refresh()) == [2, 3]
    table.rewrite_data_files(options={"rewrite-all": "true", "remove-dangling-deletes": "true"})
    compacted = catalog.position
    table.append(rows(1))
    catalog.revert(compacted)
    assert ids_of(table.refresh()) == [1, 2, 3]
    head = table.current_snapshot()
    assert head is not None and head.operation == "replace" and (head.summary or {})["total-equality-deletes"] == "1"


@pytest.mark.parametrize("format_version", [2, 3])
def test_rows_deleted_since_do_not_come_back(catalog: icecore.Catalog, format_version: int) -> None:
    """A file that a commit wrote its rows into stays where any of them was deleted by position later (SP2, SP3)."""
    table = make_table(catalog, format_version=format_version)
    table.append(rows(1, 2))
    table.append(rows(3, 4))
    table.rewrite_data_files(options={"rewrite-all": "true"})
    compacted = catalog.position
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("id = 2")
    with pytest.raises(CommitConflictError, match="main has later deletes of rows in files that it added"):
        catalog.revert(compacted)
    catalog.revert(catalog.position)
    catalog.revert(compacted)
    assert ids_of(table.refresh()) == [1, 2, 3, 4] and len(data_files(table)) == 2


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_row_that_was_updated_and_then_deleted_does_not_come_back(catalog: icecore.Catalog, mode: str) -> None:
    """An update is undone, in either mode, only while the rows that it wrote are all there."""
    modes = {"write.update.mode": mode, "write.delete.mode": "merge-on-read"}
    table = make_table(catalog, format_version=2, properties=modes)
    table.append(rows(1, 2, 3))
    table.upsert(rows(1, 2).set_column(1, "name", pa.array(["x", "y"])), ["id"])
    updated = catalog.position
    table.delete("id = 1")
    with pytest.raises(CommitConflictError, match="main has later deletes of rows in files that it added"):
        catalog.revert(updated)
    catalog.revert(catalog.position)
    catalog.revert(updated)
    assert table.refresh().scan().to_arrow().sort_by("id").equals(rows(1, 2, 3))


def test_what_a_branch_was_rolled_back_from_is_not_undone_again(catalog: icecore.Catalog) -> None:
    """Its rows are there again, in other files after a compaction: they would come twice. Expired history is no gap."""
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    before = table.snapshots()[-1].snapshot_id
    table.delete("id = 2")
    deleted = catalog.position
    table.manage_snapshots().rollback_to_snapshot(before).commit()
    table.rewrite_data_files(options={"rewrite-all": "true"})
    with pytest.raises(
        CommitConflictError, match=f"set to a snapshot without it since; later .*position {deleted + 1}"
    ):
        catalog.revert(deleted)
    table.append(rows(3))
    appended = catalog.position
    table.append(rows(4))
    table.append(rows(5))
    table.maintenance.expire_snapshots().by_ids([s.snapshot_id for s in table.snapshots()[:-1]]).commit()
    catalog.revert(appended)
    assert ids_of(table.refresh()) == [1, 2, 4, 5]


def test_rows_of_a_table_that_was_replaced_since_do_not_come_back(catalog: icecore.Catalog) -> None:
    """Another table took its place, which has no such columns: neither with rows nor without any."""
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    table.delete("id = 1")
    deleted = catalog.position
    table = catalog.replace_table("ns.t", pa.schema([("x", pa.int64())]))
    with pytest.raises(CommitConflictError, match=rf"main has no snapshot any more; later .*position {deleted + 1}"):
        catalog.revert(deleted)
    table.append(pa.table({"x": [1]}))
    with pytest.raises(CommitConflictError, match="set to a snapshot without it since"):
        catalog.revert(deleted)
    assert table.refresh().scan().to_arrow().to_pylist() == [{"x": 1}]


def test_files_that_came_back_and_were_rewritten_do_not_come_back_again(catalog: icecore.Catalog) -> None:
    """Their rows are in other files; a commit whose undoing was undone can be undone again, though."""
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    table.delete("id = 2")
    deleted = catalog.position
    for position in (deleted, deleted + 1, deleted):
        catalog.revert(position)
    assert ids_of(table.refresh()) == [1, 2]
    table.rewrite_data_files(options={"rewrite-all": "true"})
    with pytest.raises(CommitConflictError, match="came back and was rewritten since"):
        catalog.revert(deleted)
    assert ids_of(table.refresh()) == [1, 2]


def test_a_range_is_undone_though_its_first_snapshots_expired(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    table.append(rows(2))
    appended = catalog.position
    table.set_properties({"a": "b"})
    table.append(rows(3))
    table.append(rows(4))
    table.maintenance.expire_snapshots().by_ids([s.snapshot_id for s in table.snapshots()[:-1]]).commit()
    catalog.revert(appended, through=appended + 1)
    assert ids_of(table.refresh()) == [1, 3, 4] and "a" not in table.properties


def test_later_commits_that_stand_in_the_way_are_named(catalog: icecore.Catalog) -> None:
    """Nothing is written then: files that left, files that came back, other delete files, other properties."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    appended = catalog.position
    table.delete("id = 1", message="cow")
    rewritten = catalog.position
    end = catalog.position
    with pytest.raises(CommitConflictError, match=rf"added left main since; later .*position {rewritten} by tester"):
        catalog.revert(appended)
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.append(rows(5, 6))
    table.delete("id = 5")
    by_position = catalog.position
    with table.refresh().transaction() as changes:
        changes.delete_keys(rows(9).select(["id"]), ["id"])
    by_key = catalog.position
    with pytest.raises(CommitConflictError, match=rf"other delete files than then.*position {by_key} by tester"):
        catalog.revert(rewritten)
    assert catalog.position == end + 4 and ids_of(table.refresh()) == [2, 6]
    catalog.revert(by_key)
    catalog.revert(by_position)
    assert ids_of(table.refresh()) == [2, 5, 6]
    catalog.revert(by_position - 1)
    assert ids_of(table.refresh()) == [2]
    catalog.revert(rewritten)
    assert ids_of(table.refresh()) == [1, 2]
    with pytest.raises(CommitConflictError, match="added left main since"):
        catalog.revert(rewritten)
    assert catalog.verify().ok


def delete_key(table: icecore.Table, key: int) -> None:
    table.delete_keys(rows(key).select(["id"]), ["id"])


def a_key_that_was_deleted_twice(catalog: icecore.Catalog, table: icecore.Table) -> int:
    table.append(rows(1, 2))
    delete_key(table, 1)
    delete_key(table, 1)
    return catalog.position - 1


def a_file_that_was_rewritten(catalog: icecore.Catalog, table: icecore.Table) -> int:
    table.append(rows(1, 2))
    delete_key(table, 1)
    table.rewrite_data_files(options={"rewrite-all": "true"})
    return catalog.position - 1


def an_older_file_that_came_back(catalog: icecore.Catalog, table: icecore.Table) -> int:
    table.append(rows(1))
    table.delete("id = 1")
    deleted = catalog.position
    table.append(rows(1, 2))
    delete_key(table, 1)
    table.rewrite_data_files(options={"rewrite-all": "true", "remove-dangling-deletes": "true"})
    return catalog.revert(deleted) - 1


def another_vector(catalog: icecore.Catalog, table: icecore.Table) -> int:
    table.append(rows(1, 2, 3))
    table.delete("id = 1")
    reverted = catalog.revert(catalog.position)
    table.refresh().delete("id = 3")
    return reverted


@pytest.mark.parametrize(
    ("history", "left", "why"),
    [
        (a_key_that_was_deleted_twice, [2], "later equality deletes that may be about its rows"),
        (a_file_that_was_rewritten, [2], "of which it deleted rows, left main since"),
        (an_older_file_that_came_back, [1, 2], "delete files that it removed would meet newer files of main"),
        (another_vector, [1, 2], "other delete files than then for its files"),
    ],
)
def test_delete_files_do_as_they_did_or_nothing_is_reverted(
    catalog: icecore.Catalog, history: Callable[[icecore.Catalog, icecore.Table], int], left: list[int], why: str
) -> None:
    """One that goes gives back all that it took, one that comes takes what it took: no row more or less (SP3, SP4)."""
    table = make_table(catalog, format_version=3, properties={"write.delete.mode": "merge-on-read"})
    position = history(catalog, table)
    with pytest.raises(CommitConflictError, match=why):
        catalog.revert(position)
    assert ids_of(table.refresh()) == left


def test_a_file_that_is_gone_from_storage_does_not_come_back(catalog: icecore.Catalog) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    (path,) = data_files(table)
    table.delete("id = 1")
    local(path).unlink()
    with pytest.raises(CommitConflictError, match="was deleted from storage"):
        catalog.revert(catalog.position)


def test_only_manifests_that_changed_since_are_read(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A revert costs what was changed, not what the table holds."""
    read = list[str]()
    live = ManifestEntries.live

    def counted(self: ManifestEntries, stream: str, listed: ListedManifest, storage: Storage) -> pa.Table:
        read.append(listed.manifest.manifest_path)
        return live(self, stream, listed, storage)

    monkeypatch.setattr(ManifestEntries, "live", counted)
    counts = []
    for name, commits in (("few", 3), ("many", 12)):
        table = make_table(catalog, name, properties={"commit.manifest-merge.enabled": "false"})
        for number in range(commits):
            table.append(rows(number, 100 + number))
        table.delete("id = 2")
        deleted = catalog.position
        table.append(rows(50))
        read.clear()
        catalog.revert(deleted)
        counts.append(len(read))
        assert ids_of(table.refresh()) == sorted([*range(commits), *range(100, 100 + commits), 50])
    assert counts[0] == counts[1]
