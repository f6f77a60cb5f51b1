"""The check of a log's chain: positions without gap, hashes that chain, content that matches its checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from icecore.engine.errors import CorruptLogError
from icecore.engine.events.event import GENESIS_HASH, Event
from icecore.engine.log.reader import EVENTS
from icecore.engine.log.redactions import Redactions
from icecore.engine.log.store import EventStore


def chain_problems(store: EventStore) -> Iterator[str]:
    """One sentence for each break of the chain, naming the position; none where the log can be trusted."""
    redactions = Redactions()
    try:
        redactions = Redactions.of(store)
    except CorruptLogError as e:
        yield str(e)
    position, previous, time_ms = 0, GENESIS_HASH, -1
    versions: dict[str, int] = {}
    for archive, problem in store.archives.problems():
        yield problem
        # The events after such an archive are checked all the same, from its noted end on.
        position, previous, time_ms = archive.last_position, archive.last_hash, archive.last_recorded_at_ms
        rows = store.archives.kept("streams_up_to", up_to=position)
        versions = {row["stream"]: row["stream_version"] for row in rows}
    yield from _archive_problems(store, position, redactions)
    hashes = {row["position"]: row["hash"] for row in store.archives.kept("all_kept")}
    needed = _needed_positions(store, position)
    for event in store.events(position):
        at = f"position {event.position}"
        if event.position != position + 1:
            yield f"{at}: the events {position + 1} to {event.position - 1} are missing"
        if event.prev_hash != previous:
            yield f"{at}: it does not follow the event before it (event {event.event_id}, {event.kind})"
        if (changed := redactions.event_problem(event)) is not None:
            yield f"{at}: {changed} (event {event.event_id}, {event.kind})"
        if event.recorded_at_ms <= time_ms:
            yield f"{at}: its time is not after that of the event before it"
        if event.stream_version != versions.get(event.stream, 0) + 1:
            yield f"{at}: version {event.stream_version} of {event.stream} follows {versions.get(event.stream, 0)}"
        versions[event.stream] = event.stream_version
        position, previous, time_ms = event.position, event.hash, event.recorded_at_ms
        if hashes.get(event.position, event.hash) != event.hash:
            yield f"{at}: what was kept of it in the log is not what the archive holds"
        if event.position in needed and event.position not in hashes:
            yield f"{at}: it is archived, and was to be kept in the log too (event {event.event_id}, {event.kind})"
        yield from _content_problems(store, event, redactions.content_hash(event))
    for row in store.rows(EVENTS, "content_without_event"):
        yield f"position {row['position']}: it has content files, but there is no event"


def _archive_problems(store: EventStore, after: int, redactions: Redactions) -> Iterator[str]:
    """Archives that don't follow each other, and parts of them in the log that differ from their files."""
    position, previous = 0, GENESIS_HASH
    for archive in store.archives.all():
        if archive.first_position != position + 1 or archive.first_prev_hash != previous:
            yield f"{archive} does not follow the archive before it"
        position, previous = archive.last_position, archive.last_hash
        if archive.first_position > after:
            first = store.archives.at("by_position", archive.first_position)
            if first is None or first["recorded_at_ms"] != archive.first_recorded_at_ms:
                yield f"{archive} does not begin with the event that was noted"
            ends = store.archives.at("by_position", archive.last_position)
            noted = archive.last_hash, archive.last_recorded_at_ms
            if ends is None or (ends["hash"], ends["recorded_at_ms"]) != noted:
                yield f"{archive} does not end with the event that was noted"
            held = store.archives.events("streams_up_to", position - 1, position)
            known = store.archives.kept("stream_ends", archive_id=archive.archive_id)
            if [tuple(row) for row in held] != [tuple(row) for row in known]:
                yield f"{archive} does not hold the streams that were noted"
    for row in store.archives.kept("all_kept"):
        event = Event.from_row(row)
        if redactions.event_problem(event) is not None:
            yield f"position {event.position}: what was kept of the archived event was changed"


def _needed_positions(store: EventStore, after: int) -> frozenset[int]:
    """The archived events that are looked up without their file: see `keep_events` in log/archive.sql."""
    last = store.archives.last_position
    naming = store.archives.events("naming", after, last)
    keyed = store.archives.events("keyed", after, last)
    ends = store.archives.events("streams_up_to", after, last)
    return frozenset(row["position"] for rows in (naming, keyed, ends) for row in rows)


def _content_problems(store: EventStore, event: Event, expected: str | None) -> Iterator[str]:
    at = f"position {event.position}"
    found = store.content_row(event.position)
    if expected is None:
        if found is not None:
            yield f"{at}: it has content files that its event does not know"
    elif found is None:
        yield f"{at}: its content files are missing"
    elif not isinstance(found["data"], bytes) or hashlib.sha256(found["data"]).hexdigest() != expected:
        yield f"{at}: its content files were changed after they were written"
