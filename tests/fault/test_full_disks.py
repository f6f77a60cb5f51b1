"""Disks that are full: what can't be stored is refused, what can't be written beside the log comes later."""

from __future__ import annotations

import errno
from typing import Any

import pyarrow as pa
import pytest
from core_tables import ids_of, local, make_table, metadata_files, peer_ids, rows, store_of
from rest_client import served

import icecore
from icecore.engine.errors import StorageError
from icecore.engine.log.store import EventStore
from icecore.engine.repository.repository import Repository
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.file_follower import MaterializationWarning

SCHEMES = ("metastore", "filesystem")


def full_disk(path_part: str) -> Any:
    """Storage whose writes fail with ENOSPC for locations that hold a text."""
    original = Storage._write

    def write(self: Storage, location: str, data: bytes, **options: Any) -> None:
        if path_part in location:
            with_error = OSError(28, "No space left on device")
            from icecore.engine.storage.file_io import translated

            with translated(location, "write"):
                raise with_error
        original(self, location, data, **options)

    return write


@pytest.mark.parametrize("part", ["-m0.avro", "snap-", "metadata.json"])
def test_a_full_disk_for_files_of_other_engines_keeps_the_commit(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """The commit is in the log and readable here; a warning says what is not written; the next commit writes all."""
    table = make_table(catalog)
    table.append(rows(1))
    with monkeypatch.context() as patch:
        patch.setattr(Storage, "_write", full_disk(part))
        with pytest.warns(MaterializationWarning, match="No space left"):
            table.append(rows(2))
        assert ids_of(table) == [1, 2]
        assert peer_ids(catalog.path) == [1], "others see the old table, whole"
        assert any("written up to version 2 of 3" in p for p in catalog.verify().problems)
        with pytest.warns(MaterializationWarning):
            icecore.open(catalog.path).close()
    table.append(rows(3))
    assert peer_ids(catalog.path) == [1, 2, 3]
    assert catalog.verify().problems == ()


def test_a_servers_commits_stand_on_a_disk_that_is_full_for_files_of_other_engines(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_table(catalog)
    catalog.create_view("ns.v", "SELECT id FROM ns.t")
    change = {"updates": [{"action": "set-properties", "updates": {"owner": "ann"}}]}
    with served(catalog) as rest, monkeypatch.context() as patch:
        patch.setattr(Storage, "_write", full_disk("metadata.json"))
        with pytest.warns(MaterializationWarning, match="No space left"):
            told = [rest.post(path, change) for path in ("/v1/namespaces/ns/tables/t", "/v1/namespaces/ns/views/v")]
        assert [reply.status for reply in told] == [200, 200]
        assert [reply.json["metadata"]["properties"]["owner"] for reply in told] == ["ann", "ann"]


def test_a_server_writes_at_a_load_what_a_full_disk_kept_from_being_written(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients load before they commit: told that the table is not there, none of them would write its files."""
    make_table(catalog).append(rows(1))
    catalog.create_view("ns.v", "SELECT id FROM ns.t")
    change = {"updates": [{"action": "set-properties", "updates": {"owner": "ann"}}]}
    paths = ("/v1/namespaces/ns/tables/t", "/v1/namespaces/ns/views/v")
    with served(catalog) as rest:
        with monkeypatch.context() as patch:
            patch.setattr(Storage, "_write", full_disk("metadata.json"))
            with pytest.warns(MaterializationWarning, match="No space left"):
                assert [rest.post(path, change).status for path in paths] == [200, 200]
            told = [rest.get(path).error for path in paths]
            assert [code for code, _, _ in told] == [500, 500]
            assert all("No space left" in message for _, _, message in told)
        loaded = [rest.get(path).json for path in paths]
        assert [found["metadata"]["properties"]["owner"] for found in loaded] == ["ann", "ann"]
        assert peer_ids(catalog.path) == [1]
    assert catalog.verify().problems == ()


def test_a_full_disk_for_the_version_hint_keeps_the_commit(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint is the last file: the commit is there for all, a warning says so, and the next one writes the hint."""
    table = make_table(catalog)
    with monkeypatch.context() as patch:
        patch.setattr(Storage, "_write", full_disk("version-hint"))
        with pytest.warns(MaterializationWarning, match="No space left"):
            table.append(rows(1))
    assert peer_ids(catalog.path) == [1]
    table.append(rows(2))
    hint = (local(table.metadata_location).parent / "version-hint.text").read_text()
    assert local(table.metadata_location).name == f"{hint}.metadata.json"
    assert catalog.verify().problems == ()


def test_a_full_disk_at_open_heals_at_the_next(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written is written when the warehouse is opened with space again."""
    table = make_table(catalog)
    with monkeypatch.context() as patch, pytest.warns(MaterializationWarning):
        patch.setattr(Storage, "_write", full_disk("metadata"))
        table.append(rows(1))
    icecore.open(catalog.path).close()
    assert peer_ids(catalog.path) == [1]
    assert catalog.verify().problems == ()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_full_disk_at_open_leaves_the_rows_readable(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Where nothing at all can be written, not even what a commit left to be tidied up, there is still an open."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    table.append(rows(1))
    catalog.close()

    def refused(self: EventStore) -> Any:
        raise StorageError("can't write the warehouse log: database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(EventStore, "write", refused)
        with icecore.open(catalog.path) as again:
            assert ids_of(again.load_table("ns.t")) == [1]
    with icecore.open(catalog.path) as again:
        again.load_table("ns.t").append(rows(2))
        assert again.verify().problems == ()


def test_a_full_disk_for_data_commits_nothing(catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the data file can't be written there is no event, and no half file."""
    table = make_table(catalog)

    def refused(self: Storage, location: str) -> pa.NativeFile:
        from icecore.engine.storage.file_io import translated

        with translated(location, "write"):
            raise OSError(28, "No space left on device")

    position = catalog.position
    with monkeypatch.context() as patch, pytest.raises(StorageError, match="No space left"):
        patch.setattr(Storage, "open_output", refused)
        table.append(rows(1))
    assert catalog.position == position
    assert list(local(table.location()).rglob("*.parquet")) == []
    table.append(rows(1))
    assert ids_of(table) == [1]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_full_disk_for_the_log_commits_nothing(catalog: icecore.Catalog, scheme: str) -> None:
    """SQLite out of space: a clear error, the log as it was, and the same append works when there is space."""
    table = make_table(catalog, properties={"icecore.commit-scheme": scheme})
    table.append(rows(1))
    position, files = catalog.position, metadata_files(table)
    connection = store_of(catalog).connection()
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    message = "x" * 100_000
    with pytest.raises(StorageError, match=r"can't write .* is full"):
        table.append(rows(2), message=message)
    connection.execute("PRAGMA max_page_count = 1073741823")
    assert catalog.position == position
    assert ids_of(table.refresh()) == [1]
    assert catalog.verify().problems == ()
    assert peer_ids(catalog.path) == [1]
    if scheme == "metastore":
        assert metadata_files(table) == files
    table.append(rows(2), message=message)
    assert ids_of(table) == [1, 2]
    assert peer_ids(catalog.path) == [1, 2]
    assert catalog.verify().problems == ()


def test_what_the_system_refuses_during_a_commit_is_not_put_on_the_log(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of a library that reads a file in the write lock tells of that file."""
    table = make_table(catalog)
    position = catalog.position

    def refused(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error", "/data/part.parquet")

    with monkeypatch.context() as patch, pytest.raises(StorageError, match=r"taken back: .*part\.parquet"):
        patch.setattr(Repository, "commit_inside", refused)
        table.append(rows(1))
    assert catalog.position == position
    table.append(rows(1))
    assert ids_of(table) == [1]
