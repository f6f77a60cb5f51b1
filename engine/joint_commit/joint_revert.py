"""Reverts: commits at positions of the log undone by a new one, where no later commit stands in the way.

Several are undone together, by their net change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

from attrs import define, evolve

from icecore.engine.commit.dry_run import CatalogDryRun, PartDryRun, conflicts_of
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import CommitConflictError, NoSuchTableError, NoSuchViewError, ValidationError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.name_events import Dropped, NameEvent, Renamed, read_name_event
from icecore.engine.events.namespace_events import (
    NamespaceCreated,
    NamespaceDropped,
    NamespacePropertiesUpdated,
    read_namespace_event,
)
from icecore.engine.joint_commit.joint_commit import CommitTargets, Part, commit_jointly, dry_run_jointly
from icecore.engine.joint_commit.joint_names import NameChange, NameGivenBack, NamespaceChange
from icecore.engine.joint_commit.joint_tables import TableChange
from icecore.engine.joint_commit.joint_views import ViewChange
from icecore.engine.joint_commit.renaming import name_parts, namespace_parts
from icecore.engine.log.names_at import CatalogNames
from icecore.engine.log.namespaces import check_namespace_change, fold_namespaces, is_implied_by
from icecore.engine.log.reader import extent_text
from icecore.engine.log.store import EventStore
from icecore.engine.repository.repository import Repository, TablePart
from icecore.engine.revert.restore_state import version_back
from icecore.engine.revert.revert_conflicts import later_commits, positions_text
from icecore.engine.revert.revert_metadata import undone_properties
from icecore.engine.revert.revert_table import revert_commands
from icecore.engine.spec.updates.metadata_update import RemoveProperties, SetProperties
from icecore.engine.spec.updates.view_update import ViewUpdate


def revert(
    desk: CommitTargets, position: int, provenance: Provenance, *, through: int | None = None, dry_run: bool
) -> int | CatalogDryRun:
    """Appends the events that undo those from a position through another, and gives the last one's position.

    Of a dry run what it would be. Raises CommitConflictError naming the later commits that stand in the way,
    ValidationError for what can't be undone at all, and what the opposite of a commit raises, as
    TableAlreadyExistsError where a name is taken.
    """
    repository = desk.repository
    repository.check_writable()
    repository.foreign.adopt_all_if_changed()
    head = repository.store.head()[0]
    last = position if through is None else through
    if not 1 <= position <= head:
        raise ValidationError(f"there is no commit at position {position}: {extent_text(head)}")
    if last < position:
        raise ValidationError(f"can't revert positions {position} to {last}: the first is after the last")
    if last > head:
        raise ValidationError(f"there is no commit at position {last}: {extent_text(head)}")
    events = list(repository.store.events(position - 1, last))
    parts = [_Opposite(desk, events[0]).part()] if len(events) == 1 else _opposites(desk, events)
    why = _why(provenance, events)
    if dry_run:
        foretold = dry_run_jointly(desk, parts, why)
        return foretold if foretold.parts else _nothing_foretold(parts, _nothing_left(repository, events))
    made = commit_jointly(desk, parts, why)
    if not made:
        raise _nothing_left(repository, events)
    return made[-1].position


def _nothing_left(repository: Repository, events: Sequence[Event]) -> CommitConflictError:
    return _conflict(repository, events, "nothing of it is left to undo")


def _nothing_foretold(parts: Sequence[Part], why: CommitConflictError) -> CatalogDryRun:
    """The outcome of a revert that changes nothing, and so is refused; under no name where not even a part is left."""
    return CatalogDryRun((PartDryRun(parts[0].name if parts else (), conflicts=conflicts_of(why)),))


def _why(provenance: Provenance, events: Sequence[Event]) -> Provenance:
    """The provenance with the last of the events as its cause, and correlated with the first where these are two."""
    first, last = events[0], events[-1]
    old = last.provenance.message if {e.provenance.message for e in events} == {last.provenance.message} else None
    told = f"revert {positions_text(events)}" + (f": {old}" if old else "")
    correlation = provenance.correlation_id if first is last else first.event_id
    message = provenance.message or told
    return evolve(provenance, message=message, causation_id=last.event_id, correlation_id=correlation)


def undone_by(store: EventStore, event: Event) -> range:
    """The positions that a revert undid, as far as the log has them; none of an event that is no revert."""
    who = event.provenance
    last = None if who.causation_id is None else store.event_by_id(who.causation_id)
    if last is None:
        return range(0)
    first = None if who.correlation_id is None else store.event_by_id(who.correlation_id)
    if first is None and who.correlation_id is not None and not store.archives.are_in_place:
        # What it undid may begin in an archive that is lost.
        return range(store.archives.last_position + 1, last.position + 1)
    return range((first or last).position, last.position + 1)


def _conflict(
    repository: Repository, events: Sequence[Event], why: str, touches: Callable[[Event], bool] = lambda _: True
) -> CommitConflictError:
    later = later_commits(repository.store, events[-1], touches)
    return CommitConflictError(f"{positions_text(events)} can't be reverted: {why}{later}")


def _opposites(desk: CommitTargets, events: Sequence[Event]) -> list[Part]:
    """The parts that undo the net change of events: names and namespaces first, then tables and views.

    Raises CommitConflictError, ValidationError.
    """
    repository = desk.repository
    first, last = events[0].position, events[-1].position
    before, after = CatalogNames.at(repository.store, first - 1), CatalogNames.at(repository.store, last)
    now = CatalogNames.now(repository.models)
    by_stream: dict[str, list[Event]] = {}
    for event in events:
        by_stream.setdefault(event.stream, []).append(event)
    spaces = _namespaces_back(repository, by_stream.pop(ev.CATALOG_STREAM, []), before, after, now)
    made, dropped = namespace_parts(now.namespaces, spaces, before.namespaces)
    old, new = before.by_stream, after.by_stream
    wanted = {s: old.get(s) for s in by_stream if old.get(s) != new.get(s)}
    for stream in list(wanted):
        here = now.by_stream.get(stream)
        if here == wanted[stream]:
            del wanted[stream]
        elif here != new.get(stream):
            raise _conflict(
                repository, by_stream[stream], f"{name_text(here or new.get(stream) or ())} was renamed since"
            )
        elif wanted[stream] is None and _was_changed(repository, by_stream[stream][-1]):
            raise _conflict(repository, by_stream[stream], f"{name_text(here or ())} was changed since")
    names = name_parts(repository, now.by_stream, wanted)
    changes = [_Opposite(desk, e[-1], tuple(e)).changes() for s, e in by_stream.items() if old.get(s) is not None]
    return [*made, *names, *(part for part in changes if part is not None), *dropped]


def _was_changed(repository: Repository, event: Event) -> bool:
    later = repository.store.stream_events(event.stream, event.stream_version)
    return any(e.kind not in ev.ABOUT_FILES for e in later)


def _namespaces_back(
    repository: Repository, events: Sequence[Event], before: CatalogNames, after: CatalogNames, now: CatalogNames
) -> dict[Identifier, Mapping[str, str] | None]:
    """The properties that each changed namespace is to have again; None where it is to go."""
    wanted: dict[Identifier, Mapping[str, str] | None] = {}
    for event in events:
        change = read_namespace_event(event.kind, event.payload)
        if change is None:
            raise ValidationError(f"position {event.position}: a {event.kind} event has nothing to undo")
        wanted.setdefault(change.namespace, None)
    for name in list(wanted):
        old, new, here = (names.namespaces.get(name) for names in (before, after, now))
        if old in (here, new):
            del wanted[name]
        elif old is not None and new is not None and here is not None:
            updates, removals, again = undone_properties(old, new, here)
            if again:
                raise _conflict(repository, events, f"the properties {again} of {name_text(name)} were set again")
            wanted[name] = {k: v for k, v in here.items() if k not in removals} | updates
        elif here != new:
            raise _conflict(repository, events, f"the namespace {name_text(name)} was changed since")
        else:
            wanted[name] = old
    return wanted


_COMMITS = (ev.TABLE_COMMITTED, ev.TABLE_ADOPTED, ev.VIEW_COMMITTED, ev.VIEW_ADOPTED)
_NAMES = (ev.TABLE_RENAMED, ev.TABLE_DROPPED, ev.TABLE_UNDROPPED, ev.VIEW_RENAMED, ev.VIEW_DROPPED, ev.VIEW_UNDROPPED)


@define
class _Opposite:
    """The opposite of a commit, or of the commits to one table or view of which it is the last."""

    desk: CommitTargets
    event: Event
    events: tuple[Event, ...] = ()

    def __attrs_post_init__(self) -> None:
        self.events = self.events or (self.event,)

    def part(self) -> Part:
        """The part of a commit that undoes the event. Raises CommitConflictError, ValidationError."""
        match self.event.kind:
            case ev.NAMESPACE_CREATED | ev.NAMESPACE_DROPPED | ev.NAMESPACE_PROPERTIES_UPDATED:
                return self._namespace()
            case ev.TABLE_RESTORED:
                raise ValidationError(
                    f"position {self.event.position}: the return to the log's state can't be reverted; roll back to a "
                    f"snapshot instead"
                )
            case ev.TABLE_FILES_DELETED | ev.TABLE_PURGED:
                raise ValidationError(
                    f"position {self.event.position} can't be reverted: the files that it deleted can't come back"
                )
            case ev.TABLE_CREATED | ev.TABLE_REGISTERED | ev.VIEW_CREATED | ev.VIEW_REGISTERED:
                return self._drop()
            case ev.TABLE_RENAMED | ev.VIEW_RENAMED:
                return self._rename_back()
            case ev.TABLE_DROPPED | ev.VIEW_DROPPED:
                kind = "view" if self._is_view else "table"
                return NameGivenBack(self._renaming.identifier, kind, self.event.position)
            case ev.TABLE_UNDROPPED | ev.VIEW_UNDROPPED:
                return self._drop()
            case ev.TABLE_COMMITTED | ev.TABLE_ADOPTED:
                return self._table()
            case ev.VIEW_COMMITTED | ev.VIEW_ADOPTED:
                return self._view()
            case _:
                raise ValidationError(f"position {self.event.position}: a {self.event.kind} event has nothing to undo")

    def changes(self) -> Part | None:
        """The part that undoes what the commits changed beside names; None where they changed nothing else.

        Raises CommitConflictError, ValidationError.
        """
        others = (*_COMMITS, *_NAMES, *ev.ABOUT_FILES[:1])
        for event in self.events:
            if event.kind not in others:
                _Opposite(self.desk, event).part()
                raise ValidationError(f"position {event.position}: a {event.kind} event can't be undone with others")
        self.events = tuple(e for e in self.events if e.kind in _COMMITS)
        if not self.events:
            return None
        self.event = self.events[-1]
        return self._view() if self._is_view else self._table()

    @property
    def _is_view(self) -> bool:
        return ev.is_view_stream(self.event.stream)

    @property
    def _renaming(self) -> NameEvent:
        change = read_name_event(self.event.kind, self.event.payload)
        assert change is not None, f"a {self.event.kind} event changes no name"
        return change

    def _conflict(self, why: str, kinds: Iterable[str] = ()) -> CommitConflictError:
        return _conflict(self.desk.repository, self.events, why, lambda e: not kinds or e.kind in kinds)

    @property
    def _around(self) -> tuple[int, int]:
        """The positions before and after the commits."""
        return self.events[0].position - 1, self.events[-1].position

    # Names

    def _drop(self) -> Part:
        """Undoes a create or an undrop: since then at most the files may have been written."""
        name = self._renaming.identifier

        def find(repository: Repository) -> str:
            if _was_changed(repository, self.event):
                raise self._conflict(f"{name_text(name)} was changed since")
            return self.event.stream

        return NameChange(Dropped(name), find)

    def _rename_back(self) -> Part:
        change = self._renaming
        assert isinstance(change, Renamed), f"a {self.event.kind} event renames nothing"
        old, new = change.before, change.identifier

        def find(repository: Repository) -> str:
            stream_of = repository.models.view_stream if self._is_view else repository.models.table_stream
            try:
                holder = stream_of(new)
            except (NoSuchTableError, NoSuchViewError):
                holder = None
            if holder != self.event.stream:
                names = (ev.TABLE_RENAMED, ev.VIEW_RENAMED, ev.TABLE_DROPPED, ev.VIEW_DROPPED)
                raise self._conflict(f"it is not called {name_text(new)} any more", names)
            return self.event.stream

        return NameChange(Renamed(new, old), find)

    # Namespaces

    def _namespace(self) -> Part:
        change = read_namespace_event(self.event.kind, self.event.payload)
        assert change is not None, f"a {self.event.kind} event changes no namespace"
        models, name = self.desk.repository.models, change.namespace
        namespaces = self._namespaces_before()
        before = namespaces.get(name, {})
        match change:
            case NamespaceCreated(properties=properties):
                back, stays_implied = NamespaceDropped(name), is_implied_by(namespaces, name)

                def unchanged() -> None:
                    check_namespace_change(models, back, stays_implied=stays_implied)
                    if models.namespace_properties(name) != properties:
                        raise self._namespace_conflict(name)

                return NamespaceChange(back, unchanged, stays_implied)
            case NamespaceDropped():
                return NamespaceChange(NamespaceCreated(name, before))
            case NamespacePropertiesUpdated():
                return self._properties_back(name, before, change.applied(before))
            case _:
                assert_never(change)

    def _properties_back(self, name: Identifier, before: Mapping[str, str], after: Mapping[str, str]) -> Part:
        models = self.desk.repository.models
        updates, removals, set_again = undone_properties(before, after, models.namespace_properties(name))
        is_blocked = set_again or not (updates or removals)

        def still_so() -> None:
            now = undone_properties(before, after, models.namespace_properties(name))
            if is_blocked or now != (updates, removals, set_again):
                raise self._namespace_conflict(name)

        return NamespaceChange(NamespacePropertiesUpdated(name, updates, frozenset(removals)), still_so)

    def _namespaces_before(self) -> dict[Identifier, dict[str, str]]:
        before: dict[Identifier, dict[str, str]] = {}
        for e in self.desk.repository.store.stream_events(ev.CATALOG_STREAM, 0, self.event.position - 1):
            fold_namespaces(before, e.kind, e.payload)
        return before

    def _namespace_conflict(self, name: Identifier) -> CommitConflictError:
        later = later_commits(
            self.desk.repository.store, self.event, lambda e: tuple(e.payload.get("namespace", ())) == name
        )
        return CommitConflictError(
            f"position {self.event.position} can't be reverted: the namespace {name_text(name)} was changed since, or "
            f"is as it was before{later}"
        )

    # Commits

    def _table(self) -> Part:
        repository, stream = self.desk.repository, self.event.stream
        before, after = (repository.state_at(stream, p) for p in self._around)
        assert before is not None and after is not None, "a commit has a state before and after it"
        part = TablePart(stream, revert_commands(repository, self.events, before, after))
        name = repository.state(stream).identifier
        return TableChange(name, stream, lambda: part)

    def _view(self) -> Part:
        views, stream, position = self.desk.views, self.event.stream, self.event.position
        before, after = (views.state_at(stream, p) for p in self._around)
        assert before is not None and after is not None, "a commit has a state before and after it"

        def updates(at: int) -> list[ViewUpdate]:
            current = views.state(stream).metadata
            old, new = before.metadata, after.metadata
            out: list[ViewUpdate] = []
            changed, removed, set_again = undone_properties(old.properties, new.properties, current.properties)
            if set_again:
                raise self._conflict(f"the properties {set_again} were set again")
            if old.location != new.location:
                raise ValidationError(f"position {position}: the move of a view to another location can't be undone")
            if old.current_version() != new.current_version():
                if current.current_version() != new.current_version():
                    raise self._conflict("another version is the current one")
                out += version_back(old, current, at)
            if changed:
                out.append(SetProperties(changed))
            if removed:
                out.append(RemoveProperties(tuple(removed)))
            return out

        return ViewChange(views.state(stream).identifier, stream, [updates], goes_back=True)
