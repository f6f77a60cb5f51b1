"""Tables that another catalog has too: what its metadata files lead to stays, and all where these can't be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from core_tables import ids_of, local, make_table, rows

import icecore
from icecore.engine.errors import (
    CorruptFileError,
    IcecoreError,
    MissingFileError,
    StorageError,
    UnsupportedFormatVersionError,
)
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.storage.file_io import Storage
from icecore.projections.inspect.reachable_files import needed_files

FAR = 2**53


@pytest.fixture
def theirs(catalog: icecore.Catalog, tmp_path: Path) -> Iterator[icecore.Table]:
    """The table `ns.t` of ours as another catalog has it, which went on with a commit."""
    table = make_table(catalog)
    table.append(rows(1))
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        registered = other.register_table("ns.t", table.metadata_location or "")
        registered.append(rows(2))
        yield registered.refresh()


def orphans(catalog: icecore.Catalog) -> tuple[str, ...]:
    table = catalog.load_table("ns.t")
    return table.maintenance.remove_orphan_files(older_than=FAR, allow_recent=True).deleted_files


def purge(catalog: icecore.Catalog) -> tuple[str, ...]:
    catalog.drop_table("ns.t")
    return catalog.purge_table("ns.t").deleted_files


def unreadable(monkeypatch: pytest.MonkeyPatch, location: str, error: type[IcecoreError]) -> None:
    read = Storage.read_bytes

    def read_bytes(self: Storage, asked: str, *args: Any) -> bytes:
        if asked == location:
            raise error(f"can't read {location}")
        return read(self, asked, *args)

    monkeypatch.setattr(Storage, "read_bytes", read_bytes)


@pytest.mark.parametrize("delete", [orphans, purge])
@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("file", StorageError),
        ("list", StorageError),
        ("newer", UnsupportedFormatVersionError),
        ("damaged", CorruptFileError),
    ],
)
def test_nothing_goes_where_it_is_not_known_what_another_catalog_needs(
    catalog: icecore.Catalog,
    theirs: icecore.Table,
    monkeypatch: pytest.MonkeyPatch,
    delete: Callable[[icecore.Catalog], tuple[str, ...]],
    what: str,
    error: type[IcecoreError],
) -> None:
    """A store that does not answer, and a file that can't be read by this release, say nothing of what is needed."""
    path = local(theirs.metadata_location)
    before = path.read_bytes()
    if error is StorageError:
        listed = theirs.snapshots()[-1].manifest_list
        unreadable(monkeypatch, (listed if what == "list" else theirs.metadata_location) or "", error)
    else:
        path.write_bytes(json.dumps({**json.loads(before), "format-version": 9}).encode() if what == "newer" else b"{")
    with pytest.raises(error):
        delete(catalog)
    monkeypatch.undo()
    path.write_bytes(before)
    assert ids_of(theirs) == [1, 2]


def test_what_another_catalog_just_deleted_is_no_hindrance(
    catalog: icecore.Catalog, theirs: icecore.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a metadata file that fell out of its metadata log, and a manifest list of a snapshot that it expired."""
    theirs.append(rows(3))
    unreadable(monkeypatch, theirs.snapshots()[-2].manifest_list or "", MissingFileError)
    unreadable(monkeypatch, theirs.metadata.metadata_log[-1].metadata_file, MissingFileError)
    orphans(catalog)
    monkeypatch.undo()
    assert ids_of(theirs.refresh()) == [1, 2, 3]


def test_a_dropped_table_keeps_its_files_while_its_store_does_not_answer(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be undropped; one whose files are gone can't."""
    path = local(make_table(catalog).location()) / "data" / "job.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(rows(1), path)
    make_table(catalog, "u").add_files([str(path)])
    catalog.drop_table("ns.u")
    errors: list[IcecoreError] = [StorageError("timed out"), MissingFileError("gone")]

    def of(repository: Repository, state: TableState, seen: set[tuple[str, str]]) -> Iterator[str]:
        if state.dropped:
            raise errors.pop(0)
        return needed_files(repository, state, seen)

    monkeypatch.setattr("icecore.engine.deletion.needed_files.needed_files", of)
    with pytest.raises(StorageError, match="timed out"):
        orphans(catalog)
    assert path.exists()
    assert orphans(catalog) == (f"file://{path}",)
