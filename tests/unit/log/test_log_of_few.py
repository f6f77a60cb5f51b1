"""A look at the newest of a log: it reads the names of the tables that are in it, not of all that ever were."""

from __future__ import annotations

from typing import Any

import pytest
from core_tables import make_table, rows, store_of

import icecore
from icecore.engine.events.event import Event


@pytest.mark.parametrize("archived", [False, True])
def test_the_newest_events_are_told_without_the_names_of_other_tables(
    catalog: icecore.Catalog, archived: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a feed asks, each second or so."""
    for number in range(20):
        make_table(catalog, f"t{number}")
    catalog.rename_table("ns.t3", "ns.now")
    catalog.load_table("ns.now").append(rows(1))
    catalog.rename_table("ns.now", "ns.later")
    position = catalog.position
    if archived:
        catalog.archive(before=position)
    read, from_row = list[int](), Event.from_row

    def noting(row: Any) -> Event:
        event = from_row(row)
        read.append(event.position)
        return event

    monkeypatch.setattr(Event, "from_row", noting)
    assert catalog.log(after=position).num_rows == 0 and read == []
    newest = catalog.log(after=position - 3)
    assert newest["name"].to_pylist() == ["ns.now", "ns.now", "ns.later"]
    of_table = {e["position"] for e in catalog.log("ns.later").to_pylist()}
    read.clear()
    catalog.log(after=position - 3)
    assert set(read) <= {*of_table, *newest["position"].to_pylist()}
    assert store_of(catalog).head()[0] == position
