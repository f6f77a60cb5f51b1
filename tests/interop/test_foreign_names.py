"""Tables and namespaces that PyIceberg makes, drops and renames in the warehouse's own SQLite file."""

from __future__ import annotations

import pytest
from core_tables import ids_of, local, make_table, peer_ids, rows
from foreign_peer import kinds, location_of
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.errors import (
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from icecore.engine.events import event as ev
from icecore.engine.foreign.adopter import ForeignCommitWarning


def test_a_table_that_pyiceberg_makes_is_registered(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """A new row is a new table of the log, under its name, with its namespace."""
    peer.create_namespace("their", {"owner": "bob"})
    peer.create_table("their.t", rows().schema).append(rows(1))
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("their.t", rows().schema)
    assert catalog.list_namespaces() == [("ns",), ("their",)]
    assert catalog.load_namespace_properties("their") == {"owner": "bob"}
    peer.create_table("their.u", rows().schema).append(rows(2))
    assert ids_of(catalog.load_table("their.u")) == [2], "nothing else was asked since"
    table = catalog.load_table("their.t")
    table.append(rows(2))
    assert ids_of(table) == peer_ids(catalog.path, "their.t") == [1, 2]
    assert catalog.verify().problems == ()
    pointer = location_of(peer, "their.t")
    catalog.rebuild()
    assert location_of(peer, "their.t") == pointer


def test_a_table_that_pyiceberg_drops_is_dropped(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """The name is gone, the history stays, and undrop brings both engines' table back."""
    table = make_table(catalog)
    table.append(rows(1))
    peer.drop_table("ns.t")
    with pytest.raises(NoSuchTableError):
        table.append(rows(2))
    with pytest.raises(NoSuchTableError):
        catalog.load_table("ns.t")
    assert not catalog.table_exists("ns.t")
    assert catalog.verify().problems == ()
    assert ids_of(catalog.undrop_table("ns.t")) == peer_ids(catalog.path) == [1]


def test_a_table_that_pyiceberg_renames_is_renamed(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """Rename and commit together: one table with one history, which goes on under the new name."""
    table = make_table(catalog)
    table.append(rows(1))
    peer.create_namespace("other")
    peer.rename_table("ns.t", "other.u")
    peer.load_table("other.u").append(rows(2))
    table.append(rows(3))
    assert table.name() == ("other", "u")
    assert ids_of(catalog.load_table("other.u")) == peer_ids(catalog.path, "other.u") == [1, 2, 3]
    assert kinds(catalog)[-3:] == [ev.TABLE_RENAMED, ev.TABLE_ADOPTED, ev.TABLE_COMMITTED]
    assert catalog.verify().problems == ()


def test_names_that_change_places(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """a becomes b while b becomes c; then two change names: each keeps its rows."""
    for number, name in enumerate("ab"):
        make_table(catalog, name).append(rows(number))
    peer.rename_table("ns.b", "ns.c")
    peer.rename_table("ns.a", "ns.b")
    assert catalog.list_tables("ns") == [("ns", "b"), ("ns", "c")]
    assert kinds(catalog)[-2:] == [ev.TABLE_RENAMED] * 2
    assert (ids_of(catalog.load_table("ns.b")), ids_of(catalog.load_table("ns.c"))) == ([0], [1])
    for old, new in (("b", "x"), ("c", "b"), ("x", "c")):
        peer.rename_table(f"ns.{old}", f"ns.{new}")
    assert (ids_of(catalog.load_table("ns.b")), ids_of(catalog.load_table("ns.c"))) == ([1], [0])
    assert catalog.verify().problems == ()


def test_a_table_that_is_dropped_and_made_again_is_another(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """The name holds a new table; the old one's history ends."""
    old = make_table(catalog)
    old.append(rows(1))
    peer.drop_table("ns.t")
    peer.create_table("ns.t", rows().schema, location=f"{catalog.path}/elsewhere").append(rows(2))
    assert ids_of(catalog.load_table("ns.t")) == [2]
    with pytest.raises(NoSuchTableError):
        old.append(rows(3))
    assert catalog.verify().problems == ()


def test_namespaces_of_pyiceberg(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """Made, changed and dropped there: the log follows, and its own changes keep theirs."""
    peer.create_namespace("a", {"k": "1"})
    peer.create_namespace("a.b")
    assert catalog.all_namespaces() == [("a",), ("a", "b"), ("ns",)]
    peer.update_namespace_properties("a", {"k"}, {"m": "2"})
    catalog.update_namespace_properties("a", updates={"n": "3"})
    assert catalog.load_namespace_properties("a") == {"m": "2", "n": "3"}
    assert peer.load_namespace_properties("a") == {"m": "2", "n": "3", "exists": "true"}
    peer.drop_namespace("a.b")
    assert catalog.all_namespaces() == [("a",), ("ns",)]
    with pytest.raises(NoSuchNamespaceError):
        catalog.drop_namespace("a.b")
    assert catalog.verify().problems == ()


def test_a_table_of_theirs_that_cant_be_read_stands_in_nobodys_way(catalog: icecore.Catalog, peer: SqlCatalog) -> None:
    """A row whose file is lost: a warning names it, its name is taken, and everything else goes on."""
    theirs = peer.create_table("ns.broken", rows().schema)
    local("file://" + theirs.metadata_location.removeprefix("file://")).unlink()
    with pytest.warns(ForeignCommitWarning, match="broken"), icecore.open(catalog.path) as again:
        make_table(again).append(rows(1))
        with pytest.raises(TableAlreadyExistsError, match="another engine"):
            make_table(again, "broken")
    assert peer_ids(catalog.path) == [1]


def test_metadata_files_that_a_table_registered_anew_lets_go_are_not_missed(
    catalog: icecore.Catalog, peer: SqlCatalog
) -> None:
    """Its folder is that of the one that was dropped: whoever commits deletes the files of either."""
    asked = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table = make_table(catalog, properties=asked)
    table.append(rows(1))
    location = location_of(peer)
    peer.drop_table("ns.t")
    assert not catalog.table_exists("ns.t")
    peer.register_table("ns.again", location)
    again = catalog.load_table("ns.again")
    again.append(rows(2))
    for number in range(3, 6):
        peer.load_table("ns.again").append(rows(number))
        catalog.load_table("ns.again").append(rows(number + 10))
    assert ids_of(catalog.load_table("ns.again")) == [1, 2, 3, 4, 5, 13, 14, 15]
    assert not local(location).exists()
    assert catalog.verify().problems == ()
    catalog.rebuild()
    assert catalog.verify().problems == ()
