"""The log keeps the manifests and lists of tables that come whole: made by others before we looked, or registered."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import pytest
from attrs import evolve
from core_tables import (
    SCHEMA,
    ids_of,
    local,
    lose,
    make_table,
    metadata_files,
    pyiceberg_catalog,
    repository_of,
    rows,
    store_of,
)
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.common.location import LocationMapping
from icecore.engine.errors import ForbiddenLocationError
from icecore.engine.events.files_of_others import kept_files
from icecore.engine.foreign import foreign_manifests
from icecore.engine.storage.file_io import Storage
from icecore.projections.verify.findings import Cause


def whole(catalog: icecore.Catalog, how: str) -> icecore.Table:
    """A table of PyIceberg with three commits from before we looked: in the shared SQLite file, or registered."""
    if how == "sql":
        theirs = pyiceberg_catalog(catalog.path)
    else:
        theirs = SqlCatalog("theirs", uri=f"sqlite:///{catalog.path}/theirs.db", warehouse=f"{catalog.path}/theirs")
        theirs.create_namespace("ns")
    table = theirs.create_table("ns.t", SCHEMA)
    for n in range(3):
        table.append(rows(n))
    theirs.close()
    if how == "folder":
        catalog.register_folder(str(catalog.path / "theirs"))
    elif how == "register":
        catalog.register_table("ns.t", table.metadata_location)
    return catalog.load_table("ns.t")


def history_of(table: icecore.Table) -> list[list[int]]:
    return [ids_of(table, snapshot_id=s.snapshot_id) for s in table.metadata.snapshots]


@pytest.mark.parametrize("how", ["sql", "register", "folder"])
def test_files_of_a_table_that_comes_whole_come_back(catalog: icecore.Catalog, how: str) -> None:
    """What another engine made before we looked is in the log with the table's first event.

    The metadata files of its former versions are not: no reader needs them.
    """
    table = whole(catalog, how)
    assert catalog.verify().notes == ()
    before = metadata_files(table)
    lose(local(table.metadata_location).parent)
    catalog.rebuild()
    after = metadata_files(table)
    former = {e.metadata_file.rsplit("/", 1)[1] for e in table.metadata.metadata_log}
    assert after == {name: data for name, data in before.items() if name not in former}
    assert history_of(catalog.load_table("ns.t")) == [[0], [0, 1], [0, 1, 2]]
    assert catalog.verify().problems == ()


def test_a_table_that_comes_whole_and_is_large_is_kept_by_whole_snapshots(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit is left out by the snapshot, the newest stay, and `verify` says of which the log has none."""
    monkeypatch.setattr(foreign_manifests, "MOST_BYTES_OF_REGISTERED", 16_000)
    table = whole(catalog, "register")
    newest = table.current_snapshot()
    assert newest is not None
    first = next(iter(store_of(catalog).stream_events(table.state.stream)))
    kept = {f.location for f in kept_files(first.payload)}
    assert newest.manifest_list in kept
    assert {s.manifest_list for s in table.metadata.snapshots} - kept
    report = catalog.verify()
    assert {(n.cause, n.kind) for n in report.notes} == {(Cause.NOT_KEPT, "manifest list")}
    told = str(report).replace("\n  ", " ")
    assert "are of other engines, and no event keeps them" in told
    lose(local(table.metadata_location).parent)
    catalog.rebuild()
    assert ids_of(catalog.load_table("ns.t")) == [0, 1, 2]


def test_another_table_in_the_folder_of_one_that_came_whole_gets_no_version_of_it(catalog: icecore.Catalog) -> None:
    """Else the next version of the new table were the old one's, as `v3.metadata.json` follows `v2.metadata.json`."""
    folder, properties = catalog.path / "theirs" / "t", {"icecore.commit-scheme": "filesystem"}
    for name, commits in (("one", 3), ("another", 1)):
        with icecore.open(catalog.path / name) as theirs:
            theirs.create_namespace("ns")
            table = theirs.create_table("ns.t", SCHEMA, location=str(folder), properties=properties)
            for n in range(commits):
                table.append(rows(n))
        if name == "one":
            catalog.create_namespace_if_not_exists("ns")
            catalog.register_table("ns.t", str(table.metadata_location))
            lose(folder)
    assert {p.name for p in folder.glob("metadata/v*.json")} == {"v1.metadata.json", "v2.metadata.json"}
    catalog.rebuild()
    assert {p.name for p in folder.glob("metadata/v*.json")} == {"v1.metadata.json", "v2.metadata.json"}


@pytest.mark.parametrize("how", ["sql", "register"])
def test_files_of_a_table_that_came_whole_do_not_come_back_when_it_was_dropped(
    catalog: icecore.Catalog, how: str
) -> None:
    """They are another engine's, which may have purged it; who takes the drop back can rebuild again."""
    table = whole(catalog, how)
    before = metadata_files(table)
    catalog.drop_table("ns.t")
    lose(local(table.metadata_location).parent)
    catalog.rebuild()
    assert not local(table.metadata_location).parent.exists()
    catalog.undrop_table("ns.t")
    catalog.rebuild()
    assert metadata_files(table).keys() <= before.keys() and ids_of(catalog.load_table("ns.t")) == [0, 1, 2]


@pytest.mark.filterwarnings("ignore::icecore.engine.errors.MovedWarehouseWarning")
def test_the_log_keeps_them_also_where_it_was_imported_and_nothing_is_written_yet(
    catalog: icecore.Catalog, tmp_path: Path
) -> None:
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        table = make_table(theirs)
        table.append(rows(0))
    catalog.register_table("ns.t", str(table.metadata_location))
    catalog.export_log(tmp_path / "log.out")
    icecore.import_log(tmp_path / "log.out", tmp_path / "copy")
    with icecore.open(tmp_path / "copy") as copy:
        assert copy.verify().notes == ()


@pytest.mark.parametrize("place", ["file:///dev/zero", "file:///no\0where", "file:///dev", "file:///nowhere"])
def test_a_table_whose_list_is_no_file_is_registered_as_it_is(catalog: icecore.Catalog, place: str) -> None:
    """A device has no size and no end."""
    location = local(whole(catalog, "sql").metadata_location)
    metadata = json.loads(location.read_text())
    metadata["snapshots"][0]["manifest-list"], metadata["table-uuid"] = place, str(UUID(int=1))
    other = location.with_name("00009-other.metadata.json")
    other.write_text(json.dumps(metadata))
    table = catalog.register_table("ns.other", str(other))
    first = next(iter(store_of(catalog).stream_events(table.state.stream)))
    kept = {f.location for f in kept_files(first.payload)}
    assert kept >= {s.manifest_list for s in table.metadata.snapshots[1:]} and place not in kept


def test_a_rebuild_asks_no_store_for_a_table_that_came_whole(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not answer would take seconds for each, and no table of it would be rebuilt."""
    monkeypatch.setattr(foreign_manifests, "MOST_BYTES_OF_REGISTERED", 0)
    folder = local(whole(catalog, "register").metadata_location).parents[2]
    with icecore.open(folder / "views") as theirs:
        theirs.create_namespace("ns")
        location = theirs.create_view("ns.v", "SELECT 1 AS id").metadata_location
    catalog.register_view("ns.v", location)
    far = LocationMapping.of({folder.as_uri(): "nowhere://lake"})
    repository = repository_of(catalog)
    monkeypatch.setattr(repository, "storage", evolve(repository.storage, mapping=far))
    catalog.rebuild()


def test_nothing_is_kept_of_what_the_rules_forbid_to_read(catalog: icecore.Catalog) -> None:
    """A list names manifests by itself: of one outside of the allowed folders no byte gets into the log."""
    table = whole(catalog, "register")
    refused = []

    def check_read(location: str) -> None:
        if location.endswith("-m0.avro"):
            refused.append(location)
            raise ForbiddenLocationError(f"{location} is outside")

    kept = foreign_manifests.files_of_registered(table.metadata, Storage(check_read=check_read))
    assert {f.location for f in kept} == {s.manifest_list for s in table.metadata.snapshots}
    assert len(set(refused)) == 3
