"""A log with holes is verified by what its `log.forgotten` events tell; all else that is missing or other is found."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from icecore.engine.errors import CorruptLogError
from icecore.engine.events.event import CATALOG_STREAM, HASHED_BY_PARTS, LOG_FORGOTTEN, Event, Provenance, text_hash
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.redactions import ENVELOPE, Redaction, Redactions
from icecore.engine.log.store import EventStore

SECRET = "zoe@x.org"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EventStore]:
    """A log of two events, with the secret in each part of the first that can be forgotten."""
    opened = EventStore(tmp_path / "log.db", lock_timeout_s=2)
    for text in (SECRET, "nothing"):
        append(opened, {"note": text}, Provenance(text, "test", text), text.encode())
    yield opened
    opened.close()


def append(
    store: EventStore, payload: dict[str, Any], who: Provenance, content: bytes | None = None, kind: str = "t.happened"
) -> Event:
    with store.write() as transaction:
        return transaction.append(
            CATALOG_STREAM,
            kind,
            payload,
            provenance=who,
            content=content,
        )


def loosen(store: EventStore) -> sqlite3.Connection:
    connection = store.connection()
    for trigger in ("event_is_append_only_update", "event_content_is_append_only_update"):
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    return connection


def make_early(store: EventStore) -> None:
    """Gives the events the form of schema version 1, whose hashes are over texts."""
    connection, previous = loosen(store), "0" * 64
    for event in list(store.events()):
        early = evolve(event, schema_version=HASHED_BY_PARTS - 1, prev_hash=previous).sealed()
        sql = "UPDATE event SET schema_version = ?, prev_hash = ?, hash = ? WHERE position = ?"
        connection.execute(sql, (early.schema_version, early.prev_hash, early.hash, early.position))
        previous = early.hash


def redact(store: EventStore, part: str) -> list[Redaction]:
    """Takes one part of the first event out, and returns what is to be told of it."""
    event, connection = store.event_at(1), loosen(store)
    if part == "content":
        connection.execute("UPDATE event_content SET data = x'00' WHERE position = 1")
        return [Redaction(1, part, str(event.content_sha256), hashlib.sha256(b"\0").hexdigest())]
    left = "{}" if part == "payload" else "forgotten"
    connection.execute(f"UPDATE event SET {part} = ? WHERE position = 1", (left,))
    out = [Redaction(1, part, str(text_hash(event.texts[part])), str(text_hash(left)))]
    if not event.is_hashed_by_parts:
        out.append(Redaction(1, ENVELOPE, event.hash, store.event_at(1).computed_hash()))
    return out


def tell(store: EventStore, redactions: list[Redaction]) -> None:
    append(store, {"redactions": [r.to_dict() for r in redactions]}, Provenance("dpo"), None, LOG_FORGOTTEN)


@pytest.mark.parametrize("form", ["now", "early"])
@pytest.mark.parametrize("part", ["actor", "message", "payload", "content"])
def test_a_hole_that_is_told_of_is_no_break(store: EventStore, part: str, form: str) -> None:
    """The chain holds with each part taken out, in events of either form, as soon as an event says so."""
    if form == "early":
        make_early(store)
    assert list(chain_problems(store)) == []
    told = redact(store, part)
    assert len(list(chain_problems(store))) == 1
    tell(store, told)
    assert list(chain_problems(store)) == []


@pytest.mark.parametrize("form", ["now", "early"])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE event SET message = 'another' WHERE position = 1",
        "UPDATE event SET message = 'zoe@x.org' WHERE position = 1",
        "UPDATE event SET actor = 'mallory' WHERE position = 1",
        "UPDATE event SET payload = '{}' WHERE position = 1",
        "UPDATE event SET engine = 'other' WHERE position = 1",
        "UPDATE event SET message = 'forgotten' WHERE position = 2",
        "UPDATE event_content SET data = x'01' WHERE position = 1",
        "UPDATE event SET payload = replace(payload, '\"position\":1', '\"position\":2') WHERE position = 3",
    ],
)
def test_what_is_changed_after_it_was_forgotten_is_found(store: EventStore, change: str, form: str) -> None:
    """What is left, what stays and what is told can't be changed, and what was forgotten can't come back."""
    if form == "early":
        make_early(store)
    tell(store, redact(store, "message"))
    assert list(chain_problems(store)) == []
    loosen(store).execute(change)
    assert list(chain_problems(store)) != []


def test_several_that_forget_the_same_add_up(store: EventStore) -> None:
    """The first tells what the part was, the last what is left of it."""
    tell(store, [Redaction(1, "message", "a", "b")])
    tell(store, [Redaction(1, "message", "b", "c")])
    assert Redactions.of(store).of_event(1) == {"message": Redaction(1, "message", "a", "c")}


@pytest.mark.parametrize("position", [0, 3, 99, "1"])
def test_only_earlier_events_can_be_forgotten(store: EventStore, position: Any) -> None:
    """A redaction of what comes later, or of nothing, is damage."""
    payload = {"redactions": [{"position": position, "part": "message", "was": "a", "left": "b"}]}
    append(store, payload, Provenance(), None, LOG_FORGOTTEN)
    with pytest.raises(CorruptLogError, match="position 3: it can't forget"):
        Redactions.of(store)
    assert any("can't forget" in p for p in chain_problems(store))
