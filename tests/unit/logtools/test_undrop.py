"""Undrop: a dropped table or view gets its name back, whole, and everything that follows from the log agrees."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_tables import ids_of, make_table, peer_ids, rows, store_of

import icecore
from icecore.engine.errors import (
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    ReadOnlyError,
    TableAlreadyExistsError,
    ValidationError,
)


def test_a_dropped_table_comes_back_whole(catalog: icecore.Catalog, warehouse: Path) -> None:
    """Rows, history and the pointer that other engines read are as before the drop; new commits go on from there."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    before = table.metadata
    catalog.drop_table("ns.t")
    back = catalog.undrop_table("ns.t", message="too early")
    assert back.metadata == before and back.name() == ("ns", "t")
    assert ids_of(catalog.load_table("ns.t")) == [1, 2] == peer_ids(warehouse)
    back.append(rows(3))
    assert peer_ids(warehouse) == [1, 2, 3]
    event = store_of(catalog).event_at(catalog.position - 1)
    assert (event.kind, event.provenance.message) == ("table.undropped", "too early")
    assert catalog.log()["changes"].to_pylist()[-2] == "undrop ns.t"
    assert catalog.verify().ok
    catalog.rebuild()
    assert catalog.verify().ok and peer_ids(warehouse) == [1, 2, 3]
    assert ids_of(catalog.at(catalog.position - 1).load_table("ns.t")) == [1, 2]
    assert catalog.at(catalog.position - 2).list_tables() == []


def test_the_latest_of_several_comes_back_or_the_one_asked_for(catalog: icecore.Catalog) -> None:
    """Without a position it is the latest drop that still stands; a position names any of them."""
    drops = []
    for number in (1, 2, 3):
        make_table(catalog).append(rows(number))
        catalog.drop_table("ns.t")
        drops.append(catalog.position)
    assert ids_of(catalog.undrop_table("ns.t")) == [3]
    catalog.rename_table("ns.t", "ns.third")
    assert ids_of(catalog.undrop_table("ns.t", position=drops[0])) == [1]
    catalog.rename_table("ns.t", "ns.first")
    assert ids_of(catalog.undrop_table("ns.t")) == [2]
    catalog.rename_table("ns.t", "ns.second")
    with pytest.raises(NoSuchTableError, match=r"no dropped table 'ns\.t'; it was dropped at"):
        catalog.undrop_table("ns.t")
    with pytest.raises(ValidationError, match="was undropped already"):
        catalog.undrop_table("ns.t", position=drops[0])
    with pytest.raises(NoSuchTableError, match="at position 1"):
        catalog.undrop_table("ns.t", position=1)
    assert [i[1] for i in catalog.list_tables("ns")] == ["first", "second", "third"]
    assert catalog.verify().ok


def test_undrop_is_refused_where_the_name_is_taken_or_the_namespace_gone(catalog: icecore.Catalog) -> None:
    make_table(catalog)
    catalog.drop_table("ns.t")
    end = catalog.position
    with icecore.open(catalog.path, read_only=True) as reader, pytest.raises(ReadOnlyError):
        reader.undrop_table("ns.t")
    catalog.create_view("ns.t", "SELECT 1 AS x")
    with pytest.raises(
        TableAlreadyExistsError, match=r"^View with same name already exists: ns\.t; it was created .*; rename or drop"
    ):
        catalog.undrop_table("ns.t")
    with pytest.raises(TableAlreadyExistsError, match="rename or drop what has the name first"):
        catalog.revert(end)
    catalog.drop_view("ns.t")
    catalog.drop_namespace("ns")
    with pytest.raises(NoSuchNamespaceError):
        catalog.undrop_table("ns.t")
    with pytest.raises(NoSuchTableError, match=r"no dropped table 'ns\.tt'; did you mean 'ns\.t'\?"):
        catalog.undrop_table("ns.tt")
    assert catalog.position == end + 3 and catalog.verify().ok


def test_a_table_that_is_written_out_by_hand_keeps_its_pointer_and_what_is_pending(
    catalog: icecore.Catalog, warehouse: Path
) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    table.set_properties({"icecore.materialize": "manual"})
    table.append(rows(2))
    catalog.drop_table("ns.t")
    catalog.undrop_table("ns.t")
    assert peer_ids(warehouse) == [1]
    assert ids_of(catalog.load_table("ns.t")) == [1, 2]
    catalog.materialize("ns.t")
    assert peer_ids(warehouse) == [1, 2] and catalog.verify().ok


def test_a_file_system_table_comes_back_and_goes_on(catalog: icecore.Catalog) -> None:
    table = make_table(catalog, properties={"icecore.commit-scheme": "filesystem"})
    table.append(rows(1))
    catalog.drop_table("ns.t")
    back = catalog.undrop_table("ns.t")
    back.append(rows(2))
    assert str(back.metadata_location).endswith("/v3.metadata.json")
    assert ids_of(back) == [1, 2] and catalog.verify().ok


def test_views_come_back_too(catalog: icecore.Catalog) -> None:
    make_table(catalog).append(rows(1, 2))
    view = catalog.create_view("ns.v", "SELECT id FROM t")
    catalog.drop_view("ns.v")
    assert not catalog.view_exists("ns.v")
    assert catalog.undrop_view("ns.v").metadata == view.metadata
    assert catalog.list_views("ns") == [("ns", "v")]
    assert catalog.at(catalog.position).view_exists("ns.v")
    with pytest.raises(NoSuchViewError, match=r"no dropped view"):
        catalog.undrop_view("ns.v")
    with pytest.raises(NoSuchTableError, match="no dropped table"):
        catalog.undrop_table("ns.v")
    assert catalog.verify().ok
    catalog.rebuild()
    assert catalog.verify().ok and catalog.view_exists("ns.v")
