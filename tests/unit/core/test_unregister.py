"""Tables that are unregistered: they leave with all their files, which another catalog has then."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_tables import SCHEMA, files_below, ids_of, local, make_table, peer_ids, pyiceberg_catalog, rows, store_of
from pyiceberg.exceptions import NoSuchTableError as PeerNoSuchTableError

import icecore
from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.deletion.purge_table import Purged
from icecore.engine.errors import MissingFileError, NoSuchTableError, ReusedKeyError, ValidationError


@pytest.mark.parametrize("materialize", ["commit", "manual"])
def test_another_catalog_takes_it_as_it_was(catalog: icecore.Catalog, tmp_path: Path, materialize: str) -> None:
    """Its last commit too, where files are written by hand; no file of it goes, and the log says what was done."""
    table = make_table(catalog, properties={"icecore.materialize": materialize})
    table.append(rows(1))
    table.append(rows(2))
    left = catalog.unregister_table("ns.t", message="to the lake", author="ann")
    before = files_below(local(left.location()))
    assert left.metadata_location is not None and catalog.list_tables("ns") == []
    event = list(store_of(catalog).events())[-1]
    assert (event.kind, event.payload) == ("table.dropped", {"identifier": ["ns", "t"], "unregistered": True})
    assert (event.provenance.actor, event.provenance.message) == ("ann", "to the lake")
    assert catalog.log()["changes"].to_pylist()[-1] == "unregister ns.t"
    peer = pyiceberg_catalog(catalog.path)
    with pytest.raises(PeerNoSuchTableError):
        peer.load_table("ns.t")
    peer.close()
    with icecore.open(tmp_path / "lake") as lake:
        lake.create_namespace("ns")
        assert ids_of(lake.register_table("ns.taken", left.metadata_location)) == [1, 2]
        lake.load_table("ns.taken").append(rows(3))
        assert ids_of(lake.load_table("ns.taken")) == [1, 2, 3]
    assert before < files_below(local(left.location()))
    catalog.rebuild()
    assert catalog.verify().problems == ()


def test_its_files_are_never_purged(catalog: icecore.Catalog) -> None:
    """Not by its name, nor by its position; an older drop under that name is purged as ever."""
    make_table(catalog).append(rows(1))
    catalog.drop_table("ns.t")
    table = make_table(catalog)
    table.append(rows(2))
    catalog.unregister_table("ns.t")
    position, before = catalog.position, files_below(local(table.location()))
    with pytest.raises(ValidationError, match="unregistered"):
        catalog.purge_table("ns.t", position=position)
    assert catalog.purge_table("ns.t").deleted_files
    with pytest.raises(ValidationError):
        catalog.purge_table("ns.t", position=position, dry_run=True)
    assert files_below(local(table.location())) == before
    assert ids_of(catalog.undrop_table("ns.t", position=position)) == [2]
    assert isinstance(catalog.drop_table("ns.t", purge=True), Purged)
    assert files_below(local(table.location())) == set()


def test_it_can_be_taken_back(catalog: icecore.Catalog) -> None:
    """By undrop, by registering its file, and by undo."""
    table = make_table(catalog)
    table.append(rows(1))
    catalog.unregister_table("ns.t")
    catalog.undrop_table("ns.t").append(rows(2))
    file = catalog.unregister_table("ns.t").metadata_location
    assert file is not None
    assert ids_of(catalog.register_table("ns.again", file)) == [1, 2]
    assert peer_ids(catalog.path, "ns.again") == [1, 2]
    catalog.unregister_table("ns.again")
    catalog.undo()
    assert ids_of(catalog.load_table("ns.again")) == [1, 2]
    assert catalog.verify().problems == ()


def test_what_is_not_whole_stays(catalog: icecore.Catalog) -> None:
    """Without its metadata file no catalog could register it; views and missing tables are none."""
    table = make_table(catalog)
    table.append(rows(1))
    catalog.create_view("ns.v", "SELECT 1 AS one")
    position = catalog.position
    for name in ("ns.v", "ns.no", "no.t"):
        with pytest.raises(NoSuchTableError):
            catalog.unregister_table(name)
    location = catalog.load_table("ns.t").metadata_location
    assert location is not None
    local(location).unlink()
    with pytest.raises(MissingFileError, match="rebuild"):
        catalog.unregister_table("ns.t")
    assert catalog.position == position and catalog.table_exists("ns.t")
    catalog.rebuild()
    assert isinstance(catalog.unregister_table("ns.t", dry_run=True), CatalogDryRun)
    assert catalog.position == position and catalog.table_exists("ns.t")


def test_a_key_of_a_drop_is_none_of_this(catalog: icecore.Catalog) -> None:
    make_table(catalog)
    catalog.drop_table("ns.t", idempotency_key="k")
    make_table(catalog)
    with pytest.raises(ReusedKeyError):
        catalog.unregister_table("ns.t", idempotency_key="k")


def test_one_is_registered_in_the_place_of_another(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """In one commit; the one that had the name can be undropped under its position."""
    make_table(catalog).append(rows(1))
    with icecore.open(tmp_path / "lake", location_roots=()) as lake:
        lake.create_namespace("ns")
        theirs = lake.create_table("ns.t", SCHEMA)
        theirs.append(rows(7))
        file = lake.unregister_table("ns.t").metadata_location
        assert file is not None
    assert ids_of(catalog.register_table("ns.t", file, overwrite=True)) == [7]
    drop = catalog.position - 1
    events = list(store_of(catalog).events())[-2:]
    assert [e.kind for e in events] == ["table.dropped", "table.registered"]
    assert len({e.transaction_id for e in events}) == 1
    catalog.rename_table("ns.t", "ns.theirs")
    assert ids_of(catalog.undrop_table("ns.t", position=drop)) == [1]
    assert catalog.verify().problems == ()
