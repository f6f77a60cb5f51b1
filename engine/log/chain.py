"""Whether the log is whole: positions without gap, hashes that chain, content that matches its checksum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from icecore.engine.events import GENESIS_HASH
from icecore.engine.log.store import EVENTS, EventStore


def chain_problems(store: EventStore) -> Iterator[str]:
    """One sentence for each break of the chain, naming the position. Nothing where the log can be trusted."""
    position, previous, time_ms = 0, GENESIS_HASH, -1
    versions: dict[str, int] = {}
    for event in store.events():
        at = f"position {event.position}"
        if event.position != position + 1:
            yield f"{at}: the events {position + 1} to {event.position - 1} are missing"
        if event.prev_hash != previous:
            yield f"{at}: it does not follow the event before it (event {event.event_id}, {event.kind})"
        if event.hash != event.computed_hash():
            yield f"{at}: the event was changed after it was written (event {event.event_id}, {event.kind})"
        if event.recorded_at_ms <= time_ms:
            yield f"{at}: its time is not after that of the event before it"
        if event.stream_version != versions.get(event.stream, 0) + 1:
            yield f"{at}: version {event.stream_version} of {event.stream} follows {versions.get(event.stream, 0)}"
        versions[event.stream] = event.stream_version
        position, previous, time_ms = event.position, event.hash, event.recorded_at_ms
    for row in store.rows(EVENTS, "content_of_all"):
        at = f"position {row['position']}"
        if row["data"] is None:
            yield f"{at}: its content files are missing"
        elif row["content_sha256"] is None:
            yield f"{at}: it has content files that its event does not know"
        elif not isinstance(row["data"], bytes) or hashlib.sha256(row["data"]).hexdigest() != row["content_sha256"]:
            yield f"{at}: its content files were changed after they were written"
