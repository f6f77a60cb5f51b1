"""The difference between two positions of the log: objects added, removed and renamed, and the changes of each.

States are folded from the log and files are counted from the content beside its events, so no file is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import short_repr
from icecore.engine.errors import ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.log.namespaces import fold_namespaces
from icecore.engine.log.store import EventStore
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository
from icecore.engine.spec.metadata import TableMetadata
from icecore.projections.audit.diff_files import file_changes
from icecore.projections.history.facts import Facts, table_facts, view_facts
from icecore.projections.history.object_diff import (
    DIFF_SCHEMA,
    ObjectDiff,
    changes_of_facts,
    rows_of_object,
)


@frozen
class CatalogDiff:
    """All differences between two positions, the first excluded: namespaces, then tables and views by name."""

    __repr__ = short_repr

    from_position: int
    to_position: int
    objects: tuple[ObjectDiff, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not self.objects

    @property
    def namespaces(self) -> tuple[ObjectDiff, ...]:
        """The namespaces that differ."""
        return tuple(o for o in self.objects if o.kind == "namespace")

    @property
    def tables(self) -> tuple[ObjectDiff, ...]:
        """The tables that differ."""
        return tuple(o for o in self.objects if o.kind == "table")

    @property
    def views(self) -> tuple[ObjectDiff, ...]:
        """The views that differ."""
        return tuple(o for o in self.objects if o.kind == "view")

    def table(self, identifier: Identifier) -> ObjectDiff | None:
        """The changes of the table of that name; None for none."""
        return next((o for o in reversed(self.tables) if o.name == identifier), None)

    def to_arrow(self) -> pa.Table:
        """One row of DIFF_SCHEMA for each object added, removed or renamed, each change, each count of files."""
        return pa.Table.from_pylist([row for o in self.objects for row in rows_of_object(o)], schema=DIFF_SCHEMA)


def diff(
    store: EventStore, repository: Repository, views: ViewRepository, from_position: int, to_position: int
) -> CatalogDiff:
    """The difference of two positions of the log.

    Raises ValidationError where the positions are not in the log or in the wrong order, CorruptLogError.
    """
    head = store.head()[0]
    if not 0 <= from_position <= to_position <= head:
        raise ValidationError(
            f"can't compare position {from_position} with {to_position}: the log goes from 0 to {head}, earlier first"
        )
    by_stream: dict[str, list[Event]] = {}
    for event in store.events(from_position, to_position):
        by_stream.setdefault(event.stream, []).append(event)
    found = list(_namespaces(store, from_position, to_position)) if ev.CATALOG_STREAM in by_stream else []
    streams: list[ObjectDiff] = []
    for stream, events in by_stream.items():
        if ev.is_view_stream(stream):
            streams.append(_view(views, stream, from_position, to_position))
        elif stream != ev.CATALOG_STREAM:
            streams.append(_table(store, repository, stream, events, from_position, to_position))
    seen = [o for o in streams if (o.before or o.after) and (o.action != "changed" or o.changes or o.files)]
    return CatalogDiff(
        from_position, to_position, (*found, *sorted(seen, key=lambda o: (o.kind, o.name, o.after is not None)))
    )


def _namespaces(store: EventStore, from_position: int, to_position: int) -> Iterator[ObjectDiff]:
    before: dict[Identifier, dict[str, str]] = {}
    after: dict[Identifier, dict[str, str]] = {}
    for event in store.stream_events(ev.CATALOG_STREAM, 0, to_position):
        fold_namespaces(after, event.kind, event.payload)
        if event.position <= from_position:
            fold_namespaces(before, event.kind, event.payload)
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            changes = changes_of_facts(_property_facts(old or {}), _property_facts(new or {}))
            yield ObjectDiff(
                "namespace",
                ev.CATALOG_STREAM,
                None if old is None else name,
                None if new is None else name,
                changes,
            )


def _property_facts(properties: Mapping[str, str]) -> Facts:
    return {("property", k): (k, v) for k, v in properties.items()}


def _table(
    store: EventStore,
    repository: Repository,
    stream: str,
    events: Iterable[Event],
    from_position: int,
    to_position: int,
) -> ObjectDiff:
    before, after = (repository.state_at(stream, p) for p in (from_position, to_position))
    old, new = _metadata(before), _metadata(after)
    return ObjectDiff(
        "table",
        stream,
        _name(before),
        _name(after),
        changes_of_facts(table_facts(old), table_facts(new)),
        file_changes(store, events, old),
    )


def _metadata(state: TableState | None) -> TableMetadata | None:
    return None if state is None else state.metadata


def _view(views: ViewRepository, stream: str, from_position: int, to_position: int) -> ObjectDiff:
    before, after = (views.state_at(stream, p) for p in (from_position, to_position))
    facts = [view_facts(None if s is None else s.metadata) for s in (before, after)]
    return ObjectDiff("view", stream, _name(before), _name(after), changes_of_facts(*facts))


def _name(state: TableState | ViewState | None) -> Identifier | None:
    return None if state is None or state.dropped else state.identifier
