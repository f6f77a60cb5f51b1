"""The changes of names as values: `NameEvent` is the closed union of them, of tables and views alike.

They are read without the metadata that stands beside a name in some payloads: who asks goes through all such events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.events import event as ev


@frozen
class Named:
    """A new or registered table or view."""

    identifier: Identifier


@frozen
class Renamed:
    """A table or view that is called otherwise than `before`."""

    before: Identifier
    identifier: Identifier


@frozen
class Dropped:
    """A table or view that has its name no more."""

    identifier: Identifier


@frozen
class Undropped:
    """A dropped table or view that has a name again."""

    identifier: Identifier


NameEvent = Named | Renamed | Dropped | Undropped


def read_name_event(kind: str, payload: Mapping[str, Any]) -> NameEvent | None:
    """A change of a name as a value; None of an event of anything else."""
    match kind:
        case ev.TABLE_CREATED | ev.TABLE_REGISTERED | ev.VIEW_CREATED | ev.VIEW_REGISTERED:
            return Named(tuple(payload["identifier"]))
        case ev.TABLE_RENAMED | ev.VIEW_RENAMED:
            return Renamed(tuple(payload["from"]), tuple(payload["to"]))
        case ev.TABLE_DROPPED | ev.VIEW_DROPPED:
            return Dropped(tuple(payload["identifier"]))
        case ev.TABLE_UNDROPPED | ev.VIEW_UNDROPPED:
            return Undropped(tuple(payload["identifier"]))
        case _:
            return None
