"""The facts that read models ask of every event of a table or view, read of its JSON.

They are not read as values of updates, for two reasons: an event with an invalid update must keep only its own table
from being rebuilt; and all events of a long log are gone through, where reading values takes twice as long as parsing
the JSON. Callers that ask about single events read them as values: see `event_updates.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from icecore.engine.events import event as ev

Payload = Mapping[str, Any]
_WITH_METADATA = (ev.TABLE_REGISTERED, ev.TABLE_ADOPTED, ev.TABLE_RESTORED, ev.VIEW_REGISTERED, ev.VIEW_ADOPTED)


def _updates(payload: Payload, action: str) -> Iterator[Payload]:
    return (u for u in payload.get("updates", ()) if u["action"] == action)


def given_locations(kind: str, payload: Payload) -> list[str]:
    """The locations that an event gives its table or view, one after another."""
    found: list[str] = [u["location"] for u in _updates(payload, "set-location")]
    if kind in _WITH_METADATA:
        found.append(payload["location"] if "location" in payload else payload["metadata"]["location"])
    return found


def given_properties(payload: Payload) -> list[Mapping[str, str]]:
    """The properties that an event sets, one update after another."""
    return [u["updates"] for u in _updates(payload, "set-properties")]


def parents_of_added(payload: Payload) -> dict[int, int | None]:
    """The ids of the snapshots that an event adds, with those of their parents."""
    snapshots = (u["snapshot"] for u in _updates(payload, "add-snapshot"))
    return {s["snapshot-id"]: s.get("parent-snapshot-id") for s in snapshots}


def named_files(payload: Payload) -> Iterator[str]:
    """The files that updates name: manifest lists and statistics."""
    for update in payload.get("updates", ()):
        for part in update.values():
            if isinstance(part, dict):
                yield from (part[key] for key in ("manifest-list", "statistics-path") if part.get(key))
