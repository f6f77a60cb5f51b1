"""Events as values: every kind that is named is read as a member of its union."""

from __future__ import annotations

from contextlib import suppress
from typing import get_args

import pytest

from icecore.engine.errors import CorruptLogError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.event_facts import given_locations, named_files, parents_of_added
from icecore.engine.events.name_events import Dropped, Named, NameEvent, Renamed, Undropped, read_name_event
from icecore.engine.events.namespace_events import (
    NamespaceCreated,
    NamespaceDropped,
    NamespaceEvent,
    NamespacePropertiesUpdated,
    read_namespace_event,
)
from icecore.engine.events.table_events import TableEvent, TablePurged, read_table_event
from icecore.engine.events.view_events import ViewEvent, read_view_event

KINDS = {name: kind for name, kind in vars(ev).items() if name.isupper() and isinstance(kind, str)}
TABLE_KINDS = [kind for kind in KINDS.values() if kind.startswith("table.")]
VIEW_KINDS = [kind for kind in KINDS.values() if kind.startswith("view.")]


def event(kind: str, payload: str = "{}") -> Event:
    return Event(7, "e", "s", 1, kind, 2, "t", 0, Provenance(), payload, None, ev.GENESIS_HASH, "")


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_each_kind_of_a_table_is_read(kind: str) -> None:
    """A payload that lacks all fields is read where the kind needs none; else a field is missed, not the kind."""
    with suppress(KeyError):
        assert isinstance(read_table_event(event(kind)), TableEvent)


@pytest.mark.parametrize("kind", VIEW_KINDS)
def test_each_kind_of_a_view_is_read(kind: str) -> None:
    with suppress(KeyError):
        assert isinstance(read_view_event(event(kind)), ViewEvent)


def test_each_kind_has_a_class_of_its_own() -> None:
    namespaces = [kind for kind in KINDS.values() if kind.startswith("namespace.")]
    for kinds, union in ((TABLE_KINDS, TableEvent), (VIEW_KINDS, ViewEvent), (namespaces, NamespaceEvent)):
        assert len(kinds) == len(set(kinds)) == len(get_args(union))


def test_an_unknown_kind_is_named() -> None:
    for read in (read_table_event, read_view_event):
        with pytest.raises(CorruptLogError, match=r"position 7: unknown kind of event 'table.exploded'"):
            read(event("table.exploded"))
    assert read_table_event(event("table.purged")) == TablePurged()
    assert read_namespace_event("table.purged", {}) is None


def test_each_kind_that_names_changes_a_name() -> None:
    """Of tables and views alike; commits, and what is about files, change none."""
    words = ("created", "registered", "renamed", "dropped", "undropped")
    payload = {"identifier": ["a", "b"], "from": ["a", "b"], "to": ["a", "c"]}
    found = {kind: read_name_event(kind, payload) for kind in (*TABLE_KINDS, *VIEW_KINDS)}
    assert {kind.partition(".")[2] for kind, change in found.items() if change is not None} == set(words)
    assert found["table.created"] == found["view.registered"] == Named(("a", "b"))
    assert found["view.renamed"] == Renamed(("a", "b"), ("a", "c"))
    assert {type(change) for change in found.values() if change is not None} == set(get_args(NameEvent))


def test_facts_are_told_of_updates_that_no_value_holds() -> None:
    """So that one table's event that can't be read keeps no other table from being rebuilt."""
    payload = {
        "updates": [
            {"action": "set-location", "location": "s3://a"},
            {"action": "from-the-future", "file": {"statistics-path": "s3://a/s"}},
            {"action": "add-snapshot", "snapshot": {"snapshot-id": 2, "manifest-list": "s3://a/l"}},
            {"action": "set-location", "location": "s3://b"},
        ],
        "metadata": {"location": "s3://c"},
    }
    assert given_locations(ev.TABLE_COMMITTED, payload) == ["s3://a", "s3://b"]
    assert given_locations(ev.TABLE_ADOPTED, payload) == ["s3://a", "s3://b", "s3://c"]
    assert parents_of_added(payload) == {2: None}
    assert list(named_files(payload)) == ["s3://a/s", "s3://a/l"]


@pytest.mark.parametrize(
    ("change", "payload"),
    [
        (NamespaceCreated(("a", "b"), {"k": "v"}), {"namespace": ["a", "b"], "properties": {"k": "v"}}),
        (
            NamespacePropertiesUpdated(("a",), {"k": "v"}, frozenset("zxy")),
            {"namespace": ["a"], "updates": {"k": "v"}, "removals": ["x", "y", "z"]},
        ),
        (NamespaceDropped(("a",)), {"namespace": ["a"]}),
    ],
)
def test_a_change_of_a_namespace_is_read_of_its_payload(change: NamespaceEvent, payload: dict[str, object]) -> None:
    assert change.to_dict() == payload
    assert read_namespace_event(change.kind, payload) == change


@pytest.mark.parametrize("stream", ["table:1", "view:1"])
@pytest.mark.parametrize("change", [Renamed(("a", "b"), ("a", "c")), Dropped(("a", "b")), Undropped(("a", "b"))])
def test_a_change_of_a_name_is_read_of_its_payload(change: Renamed | Dropped | Undropped, stream: str) -> None:
    kind = change.kind(stream)
    assert kind.partition(".")[0] == stream.partition(":")[0]
    assert read_name_event(kind, change.to_dict()) == change
