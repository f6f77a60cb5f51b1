"""Metadata files that are written by hand, when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_tables import ids_of, make_table, metadata_files, peer_ids, rows, store_of

import icecore
from icecore.engine.errors import NoSuchTableError
from icecore.engine.events.event import TABLE_MATERIALIZED
from icecore.engine.foreign.adopter import Adopter
from icecore.engine.replay.states import States


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_materialize_by_hand(catalog: icecore.Catalog, scheme: str) -> None:
    """Commits of a manual table are in the log and read here; others see them after `materialize`, all at once."""
    properties = {"icecore.materialize": "manual", "icecore.commit-scheme": scheme}
    table = make_table(catalog, properties=properties)
    first = table.metadata_location
    for i in range(4):
        table.append(rows(i))
    table.delete("id = 0")
    assert ids_of(table) == [1, 2, 3]
    assert table.metadata_location == first
    assert peer_ids(catalog.path) == []
    assert catalog.verify().problems == ()
    catalog.materialize("ns.t", message="now")
    table.refresh()
    assert table.state.metadata_version == (2 if scheme == "filesystem" else 1)
    assert peer_ids(catalog.path) == [1, 2, 3]
    assert [e.metadata_file for e in table.metadata.metadata_log] == [first]
    assert catalog.verify().problems == ()
    position = catalog.position
    catalog.materialize("ns.t")
    catalog.materialize()
    assert catalog.position == position, "there was nothing to do"
    before = metadata_files(table)
    catalog.rebuild()
    assert metadata_files(table) == before
    assert catalog.verify().problems == ()


def test_an_open_does_not_write_what_is_left_for_later(catalog: icecore.Catalog) -> None:
    """Opening and closing a warehouse leaves pending commits pending, and keeps them."""
    table = make_table(catalog, properties={"icecore.materialize": "manual"})
    table.append(rows(1))
    with icecore.open(catalog.path) as again:
        assert peer_ids(catalog.path) == []
        assert ids_of(again.load_table("ns.t")) == [1]
        again.materialize()
    assert peer_ids(catalog.path) == [1]


def test_an_open_reads_no_state_of_what_is_left_for_later(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many such tables that was all that an open did; one that a later event says nothing of is looked into."""
    for name in "tuv":
        table = make_table(catalog, name, properties={"icecore.materialize": "manual"})
        table.append(rows(1))
    catalog.rename_table("ns.v", "ns.w")
    with icecore.open(catalog.path):
        pass  # It looks after the hints of commits that came since.
    read, state_at = list[str](), States.state_at

    def noting(self: Any, stream: str, *of: Any) -> Any:
        read.append(stream)
        return state_at(self, stream, *of)

    monkeypatch.setattr(States, "state_at", noting)
    with icecore.open(catalog.path) as again:
        assert read == [table.state.stream]
        assert ids_of(again.load_table("ns.w")) == [1] and again.verify().problems == ()


def test_a_rebuild_leaves_what_is_left_for_later(catalog: icecore.Catalog) -> None:
    """A rebuild writes what was written before, and nothing of pending commits."""
    table = make_table(catalog)
    table.append(rows(1))
    table.set_properties({"icecore.materialize": "manual"})
    table.append(rows(2))
    before = metadata_files(table)
    catalog.rebuild()
    assert metadata_files(table) == before
    assert peer_ids(catalog.path) == [1]
    assert catalog.verify().problems == ()
    catalog.materialize()
    assert peer_ids(catalog.path) == [1, 2]


def test_a_manual_table_can_become_automatic(catalog: icecore.Catalog) -> None:
    """After the property is set back, the next commit writes all that was left."""
    table = make_table(catalog, properties={"icecore.materialize": "manual"})
    table.append(rows(1))
    table.set_properties({"icecore.materialize": "commit"})
    table.append(rows(2))
    assert peer_ids(catalog.path) == [1, 2]
    assert catalog.verify().problems == ()


def test_rename_and_drop_of_a_pending_table(catalog: icecore.Catalog) -> None:
    """A pending table can be renamed, written out under its new name, and dropped."""
    table = make_table(catalog, properties={"icecore.materialize": "manual"})
    table.append(rows(1))
    catalog.rename_table("ns.t", "ns.u")
    catalog.materialize("ns.u")
    assert peer_ids(catalog.path, "ns.u") == [1]
    catalog.load_table("ns.u").append(rows(2))
    catalog.drop_table("ns.u")
    assert catalog.verify().problems == ()


def test_a_table_that_is_dropped_meanwhile_is_not_written_out(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch, open_again: Callable[[], icecore.Catalog]
) -> None:
    """Else the log said so of a table that is gone; of all tables the others are written."""
    for name in "tuv":
        make_table(catalog, name, properties={"icecore.materialize": "manual"}).append(rows(1))
    other, adopt = open_again(), Adopter.adopt_stream
    dropped = {catalog.load_table(f"ns.{n}").state.stream: n for n in "tu"}

    def dropping(adopter: Adopter, stream: str) -> None:
        adopt(adopter, stream)
        if name := dropped.pop(stream, None):
            other.drop_table(f"ns.{name}")

    monkeypatch.setattr(Adopter, "adopt_stream", dropping)
    with pytest.raises(NoSuchTableError, match="dropped at position"):
        catalog.materialize("ns.t")
    catalog.materialize()
    kinds = [(e.stream, e.kind) for e in store_of(catalog).events() if e.kind == TABLE_MATERIALIZED]
    assert kinds == [(catalog.load_table("ns.v").state.stream, TABLE_MATERIALIZED)]
    assert peer_ids(catalog.path, "ns.v") == [1] and catalog.verify().problems == ()
