"""A look at a part of a log reads that part: the names of the tables that are in it, the events of one stream."""

from __future__ import annotations

from typing import Any

import pytest
from core_tables import make_table, rows, store_of

import icecore
from icecore.engine.events.event import Event
from icecore.engine.log.reader import EVENTS
from icecore.engine.log.store import EventStore
from icecore.engine.queries.named_queries import query


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


@pytest.mark.parametrize("lacks", [None, "event_naming", "event_name_given"])
def test_names_and_single_streams_are_found_by_an_index(catalog: icecore.Catalog, lacks: str | None) -> None:
    """Not by a scan of all commits; a log that an earlier release made gets the index with its next commit."""
    table = make_table(catalog)
    if lacks is not None:
        store_of(catalog).connection().execute(f"DROP INDEX {lacks}")
        catalog.close()
        catalog = icecore.open(catalog.path)
        table = catalog.load_table("ns.t")
        assert catalog.at(catalog.position).table_exists("ns.t") and catalog.log("ns.t").num_rows == 1
    table.append(rows(1))
    store = store_of(catalog)
    assert _plan(store, "naming", up_to=9) == ["SEARCH event USING INDEX event_naming (position<?)"]
    [given, *_] = _plan(store, "that_gave", what="[]")
    assert given.startswith("SEARCH event USING INDEX event_name_given (<expr>=?")
    [of_stream, *_] = _plan(store, "filtered_of_stream", stream=table.metadata.table_uuid)
    assert of_stream.startswith("SEARCH event USING INDEX")
    # Its end is, where that is asked for: a restore and the take-in of another engine's commits do, beside log --limit.
    assert of_stream.endswith("(stream=? AND stream_version>?)")
    assert (
        catalog.log("ns.t")["position"].to_pylist()
        == [2, 3]
        == catalog.log("ns.t", follow=True)["position"].to_pylist()
    )
    assert catalog.log("ns.t", after=2, actor=catalog.actor)["position"].to_pylist() == [3]
    assert catalog.log("ns.t", limit=1, kind="table.created")["position"].to_pylist() == [2]
    assert catalog.verify().ok


@pytest.mark.parametrize("archived", [False, True])
def test_a_part_of_a_stream_is_what_it_has_between_two_positions(catalog: icecore.Catalog, archived: bool) -> None:
    tables = [make_table(catalog, name) for name in "abc"]
    for which in (0, 1, 1, 0, 0, 1, 1, 1):
        tables[which].set_properties({"at": str(catalog.position)})
    if archived:
        catalog.archive(before=7)
        tables[1].set_properties({"at": "the end"})
    store, end = store_of(catalog), catalog.position
    events = list(store.events())
    for stream in dict.fromkeys(e.stream for e in events):
        of_stream = [e.position for e in events if e.stream == stream]
        for after in range(end + 1):
            for up_to in (*range(after, end + 2), None):
                found = [e.position for e in store.filtered_events(stream=stream, after=after, up_to=up_to)]
                assert found == [p for p in of_stream if after < p <= (end if up_to is None else up_to)]


def test_an_event_whose_version_was_changed_is_shown_all_the_same(catalog: icecore.Catalog) -> None:
    """Who looks for what was done to a log sees it."""
    make_table(catalog).append(rows(1))
    make_table(catalog, "u").append(rows(1))
    connection = store_of(catalog).connection()
    connection.execute("DROP TRIGGER event_is_append_only_update")
    connection.execute("UPDATE event SET stream_version = 100 WHERE position = 3")
    assert catalog.log("ns.t")["position"].to_pylist() == [2, 3]


def _plan(store: EventStore, name: str, **values: Any) -> list[str]:
    asked = dict.fromkeys(("after", "up_to", "stream", "actor", "kind", "since_ms", "until_ms")) | values
    return [row["detail"] for row in store.connection().execute(f"EXPLAIN QUERY PLAN {query(EVENTS, name)}", asked)]
