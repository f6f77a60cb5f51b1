"""Reverts: the commit at a position of the log undone by a new one, where no later commit stands in the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from attrs import define, evolve

from icecore.engine.commit.dry_run import CatalogDryRun
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import CommitConflictError, NoSuchTableError, NoSuchViewError, ValidationError
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
from icecore.engine.log.namespaces import fold_namespaces
from icecore.engine.log.read_models import dotted
from icecore.engine.repository.repository import Repository, TablePart
from icecore.engine.revert.revert_conflicts import later_commits
from icecore.engine.revert.revert_metadata import undone_properties
from icecore.engine.revert.revert_table import revert_commands
from icecore.engine.spec.updates.metadata_update import RemoveProperties, SetProperties
from icecore.engine.spec.updates.view_update import SetCurrentViewVersion, ViewUpdate


def revert(desk: CommitTargets, position: int, provenance: Provenance, *, dry_run: bool) -> int | CatalogDryRun:
    """Appends the event that undoes the one at a position, and gives its position; of a dry run what it would be.

    Raises CommitConflictError naming the later commits that stand in the way, ValidationError for what can't be undone
    at all, and what the opposite of the commit raises, as TableAlreadyExistsError where a name is taken.
    """
    repository = desk.repository
    repository.check_writable()
    repository.foreign.adopt_all_if_changed()
    head = repository.store.head()[0]
    if not 1 <= position <= head:
        raise ValidationError(f"there is no commit at position {position}: the log goes from 1 to {head}")
    event = repository.store.event_at(position)
    why = evolve(provenance, message=provenance.message or _message(event), causation_id=event.event_id)
    part = _Opposite(desk, event).part()
    if dry_run:
        return dry_run_jointly(desk, [part], why)
    [undone] = commit_jointly(desk, [part], why)
    return undone.position


def _message(event: Event) -> str:
    old = event.provenance.message
    return f"revert position {event.position}" + (f": {old}" if old else "")


@define
class _Opposite:
    """The opposite of a commit."""

    desk: CommitTargets
    event: Event

    def part(self) -> Part:
        """The part of a commit that undoes the event. Raises CommitConflictError, ValidationError."""
        match self.event.kind:
            case ev.NAMESPACE_CREATED | ev.NAMESPACE_DROPPED | ev.NAMESPACE_PROPERTIES_UPDATED:
                return self._namespace()
            case ev.TABLE_ADOPTED | ev.TABLE_RESTORED | ev.VIEW_ADOPTED:
                raise ValidationError(
                    f"position {self.event.position}: what another engine committed can't be reverted; roll back to a "
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
            case ev.TABLE_COMMITTED:
                return self._table()
            case ev.VIEW_COMMITTED:
                return self._view()
            case _:
                raise ValidationError(f"position {self.event.position}: a {self.event.kind} event has nothing to undo")

    @property
    def _is_view(self) -> bool:
        return ev.is_view_stream(self.event.stream)

    @property
    def _renaming(self) -> NameEvent:
        change = read_name_event(self.event.kind, self.event.payload)
        assert change is not None, f"a {self.event.kind} event changes no name"
        return change

    def _conflict(self, why: str, kinds: Iterable[str] = ()) -> CommitConflictError:
        later = later_commits(self.desk.repository.store, self.event, lambda e: not kinds or e.kind in kinds)
        return CommitConflictError(f"position {self.event.position} can't be reverted: {why}{later}")

    def _nothing_left(self) -> CommitConflictError:
        return self._conflict("nothing of it is left to undo")

    # Names

    def _drop(self) -> Part:
        """Undoes a create or an undrop: since then at most the files may have been written."""
        name = self._renaming.identifier

        def find(repository: Repository) -> str:
            later = repository.store.stream_events(self.event.stream, self.event.stream_version)
            if any(e.kind not in ev.ABOUT_FILES for e in later):
                raise self._conflict(f"{dotted(name)} was changed since")
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
                raise self._conflict(f"it is not called {dotted(new)} any more", names)
            return self.event.stream

        return NameChange(Renamed(new, old), find)

    # Namespaces

    def _namespace(self) -> Part:
        change = read_namespace_event(self.event.kind, self.event.payload)
        assert change is not None, f"a {self.event.kind} event changes no namespace"
        models, name = self.desk.repository.models, change.namespace
        before = self._namespaces_before().get(name, {})
        match change:
            case NamespaceCreated(properties=properties):

                def unchanged() -> None:
                    models.check_empty(name)
                    if models.namespace_properties(name) != properties:
                        raise self._namespace_conflict(name)

                return NamespaceChange(NamespaceDropped(name), unchanged)
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
            f"position {self.event.position} can't be reverted: the namespace {dotted(name)} was changed since, or is "
            f"as it was before{later}"
        )

    # Commits

    def _table(self) -> Part:
        repository, stream, position = self.desk.repository, self.event.stream, self.event.position
        before, after = (repository.state_at(stream, p) for p in (position - 1, position))
        assert before is not None and after is not None, "a commit has a state before and after it"
        part = TablePart(stream, revert_commands(repository, self.event, before, after))
        name = repository.state(stream).identifier
        return TableChange(name, stream, lambda: part, unless_changed=self._nothing_left)

    def _view(self) -> Part:
        views, stream, position = self.desk.views, self.event.stream, self.event.position
        before, after = (views.state_at(stream, p) for p in (position - 1, position))
        assert before is not None and after is not None, "a commit has a state before and after it"

        def updates(_: int) -> list[ViewUpdate]:
            current = views.state(stream).metadata
            old, new = before.metadata, after.metadata
            out: list[ViewUpdate] = []
            changed, removed, set_again = undone_properties(old.properties, new.properties, current.properties)
            if set_again:
                raise self._conflict(f"the properties {set_again} were set again")
            if old.location != new.location:
                raise ValidationError(f"position {position}: the move of a view to another location can't be undone")
            if old.current_version_id != new.current_version_id:
                if current.current_version_id != new.current_version_id:
                    raise self._conflict("another version is the current one")
                out.append(SetCurrentViewVersion(old.current_version_id))
            if changed:
                out.append(SetProperties(changed))
            if removed:
                out.append(RemoveProperties(tuple(removed)))
            return out

        return ViewChange(views.state(stream).identifier, stream, [updates], self._nothing_left)
