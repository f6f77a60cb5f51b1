"""Appending to the log: positions, versions, times, the chain, idempotency, and triggers that keep it append-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from core_tables import ids_of, make_table, rows

import icecore
from icecore.engine.common.ids import new_snapshot_id, uuid7
from icecore.engine.errors import CommitConflictError, CommitFailedError, CorruptLogError, ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.event import GENESIS_HASH, Event, Provenance
from icecore.engine.log import store as store_module
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.reader import EVENTS
from icecore.engine.log.sqlite_file import statements
from icecore.engine.log.store import EventStore, WriteTransaction


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    opened = EventStore(tmp_path / "log.db", lock_timeout_s=2)
    yield opened
    opened.close()


def append(
    transaction: WriteTransaction,
    stream: str = "catalog",
    payload: dict[str, Any] | None = None,
    provenance: Provenance | None = None,
    content: bytes | None = None,
) -> Event:
    return transaction.append(
        stream,
        "test.happened",
        payload or {},
        provenance=provenance or Provenance("tester"),
        content=content,
    )


def append_one(store: EventStore, **how: Any) -> Event:
    with store.write() as transaction:
        return append(transaction, **how)


def test_positions_have_no_gap_and_versions_count_by_stream(store: EventStore) -> None:
    """Positions count over all streams, stream versions in each."""
    for stream in ("a", "b", "a", "a", "b"):
        append_one(store, stream=stream)
    assert [(e.position, e.stream, e.stream_version) for e in store.events()] == [
        (1, "a", 1),
        (2, "b", 1),
        (3, "a", 2),
        (4, "a", 3),
        (5, "b", 2),
    ]
    assert [e.position for e in store.stream_events("a", 1)] == [3, 4]
    assert [e.position for e in store.stream_events("a", 0, up_to=3)] == [1, 3]
    assert [e.position for e in store.events(after=2, up_to=4)] == [3, 4]


def test_a_rolled_back_event_leaves_no_gap(store: EventStore) -> None:
    """An error inside of the transaction takes all of its events back; the next event gets their position."""
    append_one(store)
    with pytest.raises(RuntimeError, match="no"), store.write() as transaction:
        append(transaction)
        append(transaction, stream="other")
        raise RuntimeError("no")
    assert store.head()[0] == 1
    assert append_one(store, stream="other").position == 2
    assert list(chain_problems(store)) == []


def test_what_is_not_to_be_kept_is_seen_inside_and_is_gone_after(store: EventStore) -> None:
    """Up to what is done before COMMIT; an error there is raised as a commit raises it, and leaves nothing either."""
    append_one(store)
    done: list[int] = []
    with store.write(keep=False) as transaction:
        event = append(transaction, stream="other", content=b"rows")
        transaction.at_end.append(lambda: done.append(store.head()[0]))
        assert store.event_at(2) == event and store.content(2) == b"rows"
    assert done == [2] and store.head()[0] == 1

    def refused() -> None:
        raise CommitConflictError("no")

    with pytest.raises(CommitConflictError), store.write(keep=False) as transaction:
        append(transaction)
        transaction.at_end.append(refused)
    assert append_one(store, stream="other").position == 2
    assert list(chain_problems(store)) == []


def test_the_chain_links_every_event(store: EventStore) -> None:
    """Each event holds the hash of the one before it; the first holds zeros."""
    for _ in range(3):
        append_one(store)
    events = list(store.events())
    assert events[0].prev_hash == GENESIS_HASH
    assert [e.prev_hash for e in events[1:]] == [e.hash for e in events[:-1]]
    assert store.head()[:2] == (3, events[-1].hash)


FIELDS: dict[str, Any] = {
    "position": 9,
    "event_id": "x",
    "stream": "x",
    "stream_version": 9,
    "kind": "x",
    "schema_version": 9,
    "transaction_id": "x",
    "recorded_at_ms": 9,
    "payload_text": "{}x",
    "content_sha256": "x",
    "prev_hash": "x",
}
PROVENANCE = ("actor", "engine", "message", "correlation_id", "causation_id", "idempotency_key")


@pytest.mark.parametrize("name", [*FIELDS, *PROVENANCE])
def test_every_field_is_in_the_hash(store: EventStore, name: str) -> None:
    """Changing any one field of the envelope changes the hash."""
    event = append_one(store)
    if name in FIELDS:
        changed = evolve(event, **{name: FIELDS[name]})
    else:
        changed = evolve(event, provenance=evolve(event.provenance, **{name: "x"}))
    assert changed.computed_hash() != event.hash == event.computed_hash()


def test_fields_can_not_run_into_each_other(store: EventStore) -> None:
    """Moving a letter from one field to the next is a change too."""
    event = append_one(store, provenance=Provenance("ab", "c"))
    assert evolve(event, provenance=Provenance("a", "bc")).computed_hash() != event.hash


def test_time_never_goes_back(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the clock jumps back or stands still, each event is one millisecond after the one before it."""
    for clock in (5000, 4000, 4000, 1, 9000):
        monkeypatch.setattr(store_module, "now_ms", lambda clock=clock: clock)
        append_one(store)
    assert [e.recorded_at_ms for e in store.events()] == [5000, 5001, 5002, 5003, 9000]
    assert list(chain_problems(store)) == []


def test_snapshot_times_grow_when_the_clock_jumps_back(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MD3: `last-updated-ms` and the snapshot log only grow, whatever the clock does."""
    table = make_table(catalog)
    table.append(rows(1))
    monkeypatch.setattr(store_module, "now_ms", lambda: 1)
    table.append(rows(2))
    table.append(rows(3))
    times = [e.timestamp_ms for e in table.history()]
    assert times == sorted(set(times)) and len(times) == 3
    assert table.metadata.last_updated_ms == times[-1]
    assert ids_of(table, as_of=times[1]) == [1, 2]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE event SET message = 'x'",
        "DELETE FROM event",
        "DELETE FROM event WHERE position = 2",
        "UPDATE event_content SET data = x'00'",
        "DELETE FROM event_content",
    ],
)
def test_the_log_is_append_only(store: EventStore, statement: str) -> None:
    """Triggers refuse every change of events and their content."""
    append_one(store)
    append_one(store, content=b"data")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        store.connection().execute(statement)
    assert list(chain_problems(store)) == []


@pytest.mark.parametrize("position", [1, 3, 7, -1])
def test_a_position_must_be_the_next_one(store: EventStore, position: int) -> None:
    """No other position than head + 1 can be inserted, nor one that is taken."""
    event = append_one(store)
    row = evolve(event, position=position, event_id="other", stream_version=2, hash=f"h{position}").to_row()
    with pytest.raises(CommitFailedError, match=r"log\.db"):
        store.execute(EVENTS, "insert", **row)


def test_insert_or_replace_is_refused_too(store: EventStore) -> None:
    """REPLACE deletes without a trigger; the position trigger stands before it."""
    append_one(store)
    with pytest.raises(sqlite3.IntegrityError):
        store.connection().execute("INSERT OR REPLACE INTO event SELECT * FROM event")


def test_a_stream_version_is_given_once(store: EventStore) -> None:
    """UNIQUE (stream, stream_version): a second writer of the same version is refused."""
    event = append_one(store)
    row = evolve(event, position=2, event_id="other", hash="other").to_row()
    with pytest.raises(CommitFailedError, match="stream"):
        store.execute(EVENTS, "insert", **row)


def test_strict_types(store: EventStore) -> None:
    """STRICT tables refuse values of another type."""
    event = append_one(store)
    row = evolve(event, position=2, event_id="e", stream_version=2, hash="h").to_row() | {"recorded_at_ms": "soon"}
    with pytest.raises(CommitFailedError):
        store.execute(EVENTS, "insert", **row)


def test_several_events_of_one_transaction_share_its_id(store: EventStore) -> None:
    """A transaction of several events is visible as a whole, under the first event's id."""
    with store.write() as transaction:
        first, second = append(transaction, stream="a"), append(transaction, stream="b")
    assert first.transaction_id == second.transaction_id == first.event_id
    assert [e.event_id for e in store.transaction_events(first.event_id)] == [first.event_id, second.event_id]


def test_readers_see_nothing_before_commit(store: EventStore) -> None:
    """Another connection sees the events of a transaction only when all are there."""
    other = EventStore(store.path)
    with store.write() as transaction:
        append(transaction)
        append(transaction)
        assert other.head()[0] == 0
    assert other.head()[0] == 2
    other.close()


def test_the_filter_finds_events(store: EventStore) -> None:
    """Events can be asked for by stream, actor, kind, time and position."""
    for stream, actor in (("a", "x"), ("b", "x"), ("a", "y")):
        append_one(store, stream=stream, provenance=Provenance(actor))
    times = [e.recorded_at_ms for e in store.events()]

    def found(**conditions: Any) -> list[int]:
        return [e.position for e in store.filtered_events(**conditions)]

    assert found(stream="a") == [1, 3]
    assert found(actor="x") == [1, 2]
    assert found(kind="test.happened", after=1) == [2, 3]
    assert found(kind="other") == []
    assert found(since_ms=times[1]) == [2, 3]
    assert found(until_ms=times[1]) == [1, 2]
    assert store.position_at(times[1]) == 2
    assert store.position_at(times[0] - 1) == 0


def test_content_stands_beside_its_event(store: EventStore) -> None:
    """Content bytes come back as they were, with their checksum in the event."""
    event = append_one(store, content=b"\x00data\xff")
    assert store.content(event.position) == b"\x00data\xff"
    assert event.content_sha256 is not None
    assert store.content(99) is None


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_text_that_is_no_unicode_is_refused(store: EventStore, text: str) -> None:
    """Lone surrogates can't be stored; the error is ours, and nothing is appended."""
    with pytest.raises(ValidationError):
        append_one(store, payload={"a": text})
    with pytest.raises(ValidationError):
        append_one(store, provenance=Provenance(message=text))
    assert store.head()[0] == 0


@pytest.mark.parametrize("text", ["", "\x00", "a\x00b", "'; DROP TABLE event; --", "\u2028\u202e", "🧊" * 1000])
def test_any_other_text_comes_back_as_it_was(store: EventStore, text: str) -> None:
    """Odd text in payload and provenance is stored and hashed as it is."""
    append_one(store, payload={"text": text, text: [text]}, provenance=Provenance(text, text, text, text, text, text))
    event = store.event_at(1)
    assert event.payload == {"text": text, text: [text]}
    assert event.provenance == Provenance(text, text, text, text, text, text)
    assert list(chain_problems(store)) == []


# Upcasters


def test_an_event_of_the_past_is_lifted(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upcasters run one after another, from the event's schema version to the present one."""
    event = append_one(store, payload={"name": "a"})
    monkeypatch.setattr(ev, "SCHEMA_VERSION", 4)
    monkeypatch.setitem(ev.UPCASTERS, ("test.happened", 2), lambda p: {"names": [p["name"]]})
    monkeypatch.setitem(ev.UPCASTERS, ("test.happened", 3), lambda p: {**p, "count": len(p["names"])})
    assert event.payload == {"names": ["a"], "count": 1}
    assert event.computed_hash() == event.hash, "the stored text stays what was hashed"


def test_an_event_of_the_future_is_refused(store: EventStore) -> None:
    """A schema version that this release doesn't know is an error that says both."""
    event = evolve(append_one(store), schema_version=7)
    with pytest.raises(CorruptLogError, match="7"):
        _ = event.payload


def test_an_event_that_nothing_lifts_is_refused(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing upcaster is named, instead of a KeyError."""
    event = append_one(store)
    monkeypatch.setattr(ev, "SCHEMA_VERSION", 3)
    with pytest.raises(CorruptLogError, match=r"test\.happened"):
        _ = event.payload


# Ids and SQL text


def test_g5_snapshot_ids_are_positive_and_new() -> None:
    """G5: ids fit 63 bits, are never 0, and never taken."""
    import uuid

    taken = {5}
    sequence = iter([uuid.UUID(int=5), uuid.UUID(int=0), uuid.UUID(int=(1 << 127) | 3)])
    assert new_snapshot_id(taken, lambda: next(sequence)) == 3
    assert all(0 < new_snapshot_id(()) < 2**63 for _ in range(100))


def test_event_ids_are_uuid7_in_the_order_of_time() -> None:
    """Version and variant bits are those of RFC 9562, and a later millisecond sorts later."""
    early, late = uuid7(1000, b"\xff" * 10), uuid7(1001, b"\x00" * 10)
    assert early.version == late.version == 7
    assert early.variant == late.variant == "specified in RFC 4122"
    assert str(early) < str(late)
    assert early.int >> 80 == 1000


def test_statements_keep_triggers_whole() -> None:
    """A script is cut between statements, not inside of a trigger's body."""
    trigger = "CREATE TRIGGER t BEFORE UPDATE ON a\nBEGIN SELECT 1; SELECT 2; END;\n"
    assert [s.strip() for s in statements(f"SELECT 1;\n{trigger}SELECT 3;")] == [
        "SELECT 1;",
        trigger.strip(),
        "SELECT 3;",
    ]
