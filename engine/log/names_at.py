"""The names of a catalog as of a position: namespaces with their properties, and the streams of tables and views."""

from __future__ import annotations

from typing import assert_never

from attrs import define, field

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import names_like
from icecore.engine.errors import NoSuchTableError, name_text
from icecore.engine.events.name_events import Dropped, Named, NameEvent, Renamed, Undropped, read_name_event
from icecore.engine.log.namespaces import fold_namespaces
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import EventStore


@define
class CatalogNames:
    """Namespaces with their properties, and the stream of each table and view that has a name."""

    namespaces: dict[Identifier, dict[str, str]] = field(factory=dict)
    streams: dict[Identifier, str] = field(factory=dict)

    @classmethod
    def at(cls, store: EventStore, position: int) -> CatalogNames:
        """The names as of a position. Raises MissingArchiveError, CorruptLogError."""
        names = cls()
        for event in store.naming_events(position):
            payload = event.payload
            fold_namespaces(names.namespaces, event.kind, payload)
            names._follow(event.stream, read_name_event(event.kind, payload))
        return names

    @classmethod
    def now(cls, models: ReadModels) -> CatalogNames:
        """The names that the read models have."""
        namespaces = {n: models.namespace_properties(n) for n in models.namespaces()}
        return cls(namespaces, {name: stream for name, _, stream in models.all_names()})

    @property
    def by_stream(self) -> dict[str, Identifier]:
        """The name of each stream that has one."""
        return {stream: name for name, stream in self.streams.items()}

    def _follow(self, stream: str, change: NameEvent | None) -> None:
        match change:
            case Named(identifier) | Undropped(identifier):
                self.streams[identifier] = stream
            case Renamed(before, identifier):
                self.streams.pop(before, None)
                self.streams[identifier] = stream
            case Dropped(identifier):
                self.streams.pop(identifier, None)
            case None:
                pass
            case _:
                assert_never(change)


def streams_of_name(store: EventStore, models: ReadModels, name: Identifier) -> list[str]:
    """The streams of all tables and views that ever had a name, by when they got it last; its present one comes last.

    Raises NoSuchTableError where there is none, with names of any time that are like it.
    """
    found = models.find(name)
    named = [
        (change.identifier, event.stream)
        for event in store.naming_events()
        if (change := read_name_event(event.kind, event.payload)) is not None and not isinstance(change, Dropped)
    ]
    # By the last time that each got the name: one may have had it again after others.
    streams = dict.fromkeys(stream for identifier, stream in reversed(named) if identifier == name)
    streams = dict.fromkeys(reversed(streams))
    if found is not None:
        streams.pop(found[1], None)
        streams[found[1]] = None
    if not streams:
        like = names_like(name, dict.fromkeys(identifier for identifier, _ in named))
        raise NoSuchTableError(f"there was never a table or view {name_text(name)!r}", like=like)
    return list(streams)
