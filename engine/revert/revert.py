"""Undoes the commit at a position of the log by a new one, where nothing that came later stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, evolve

from icecore.engine.errors import CommitConflictError, NoSuchTableError, NoSuchViewError, ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.log.namespaces import fold_namespaces
from icecore.engine.log.read_models import dotted
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository
from icecore.engine.revert.revert_conflicts import later_commits
from icecore.engine.revert.revert_metadata import undone_properties
from icecore.engine.revert.revert_table import revert_commands
from icecore.engine.revert.undrop import undrop
from icecore.engine.spec.updates.metadata_update import RemoveProperties, SetProperties
from icecore.engine.spec.updates.view_update import SetCurrentViewVersion, ViewUpdate


def revert(repository: Repository, views: ViewRepository, position: int, provenance: Provenance) -> Event:
    """The event that undoes the one at a position.

    Raises CommitConflictError naming the later commits that stand in the way, ValidationError for what can't be undone
    at all, and what the opposite of the commit raises, as TableAlreadyExistsError where a name is taken.
    """
    repository.check_writable()
    head = repository.store.head()[0]
    if not 1 <= position <= head:
        raise ValidationError(f"there is no commit at position {position}: the log goes from 1 to {head}")
    event = repository.store.event_at(position)
    why = provenance.message or _message(event)
    return _Revert(repository, views, event, evolve(provenance, message=why, causation_id=event.event_id)).run()


def _message(event: Event) -> str:
    old = event.provenance.message
    return f"revert position {event.position}" + (f": {old}" if old else "")


@define
class _Revert:
    repository: Repository
    views: ViewRepository
    event: Event
    provenance: Provenance

    def run(self) -> Event:
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
                identifier = tuple(self.event.payload["identifier"])
                undrop(self.repository, kind, identifier, self.event.position, self.provenance)
                return self._followed()
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

    def _followed(self) -> Event:
        """Lets files follow, and gives the event that was just appended to the stream."""
        stream = self.event.stream
        if self._is_view:
            self.views.follow(stream)
            return self.repository.store.event_at(self.views.state(stream).position)
        state = self.repository.state(stream)
        self.repository.files.follow(state)
        return self.repository.store.event_at(state.position)

    def _conflict(self, why: str, kinds: Iterable[str] = ()) -> CommitConflictError:
        later = later_commits(self.repository.store, self.event, lambda e: not kinds or e.kind in kinds)
        return CommitConflictError(f"position {self.event.position} can't be reverted: {why}{later}")

    # Names

    def _drop(self) -> Event:
        """Undoes a create or an undrop: since then at most the files may have been written."""
        stream = self.event.stream
        kind = ev.VIEW_DROPPED if self._is_view else ev.TABLE_DROPPED
        identifier = tuple(self.event.payload["identifier"])

        def check() -> None:
            later = self.repository.store.stream_events(stream, self.event.stream_version)
            if any(e.kind not in ev.ABOUT_FILES for e in later):
                raise self._conflict(f"{dotted(identifier)} was changed since")

        self.repository.append_simple(stream, kind, {"identifier": list(identifier)}, self.provenance, check)
        return self._followed()

    def _rename_back(self) -> Event:
        old, new = (tuple(self.event.payload[k]) for k in ("from", "to"))
        models, stream = self.repository.models, self.event.stream

        def check() -> None:
            try:
                found = models.view_stream(new) if self._is_view else models.table_stream(new)
            except (NoSuchTableError, NoSuchViewError):
                found = None
            if found != stream:
                names = (ev.TABLE_RENAMED, ev.VIEW_RENAMED, ev.TABLE_DROPPED, ev.VIEW_DROPPED)
                raise self._conflict(f"it is not called {dotted(new)} any more", names)
            models.check_new_name(old)

        payload = {"from": list(new), "to": list(old)}
        self.repository.append_simple(stream, self.event.kind, payload, self.provenance, check)
        return self._followed()

    # Namespaces

    def _namespace(self) -> Event:
        payload = self.event.payload
        name = tuple(payload["namespace"])
        before: dict[tuple[str, ...], dict[str, str]] = {}
        for e in self.repository.store.stream_events(ev.CATALOG_STREAM, 0, self.event.position - 1):
            fold_namespaces(before, e.kind, e.payload)
        models = self.repository.models
        same = {"namespace": list(name)}
        match self.event.kind:
            case ev.NAMESPACE_CREATED:

                def unchanged() -> None:
                    models.check_empty(name)
                    if models.namespace_properties(name) != payload["properties"]:
                        raise self._namespace_conflict(name)

                return self._simple(ev.NAMESPACE_DROPPED, same, unchanged)
            case ev.NAMESPACE_DROPPED:
                made = {**same, "properties": before[name]}
                return self._simple(ev.NAMESPACE_CREATED, made, lambda: models.check_new_namespace(name))
        old = before[name]
        new = {k: v for k, v in old.items() if k not in payload["removals"]} | payload["updates"]
        updates, removals, kept = undone_properties(old, new, models.namespace_properties(name))
        if kept or not (updates or removals):
            raise self._namespace_conflict(name)

        def check() -> None:
            if undone_properties(old, new, models.namespace_properties(name)) != (updates, removals, kept):
                raise self._namespace_conflict(name)

        undone = {**same, "updates": updates, "removals": removals}
        return self._simple(ev.NAMESPACE_PROPERTIES_UPDATED, undone, check)

    def _simple(self, kind: str, payload: Mapping[str, Any], check: Callable[[], None]) -> Event:
        return self.repository.append_simple(ev.CATALOG_STREAM, kind, payload, self.provenance, check)

    def _namespace_conflict(self, name: tuple[str, ...]) -> CommitConflictError:
        later = later_commits(
            self.repository.store, self.event, lambda e: tuple(e.payload.get("namespace", ())) == name
        )
        return CommitConflictError(
            f"position {self.event.position} can't be reverted: the namespace {dotted(name)} was changed since, or is "
            f"as it was before{later}"
        )

    # Commits

    def _table(self) -> Event:
        stream, position = self.event.stream, self.event.position
        before = self.repository.state_at(stream, position - 1)
        after = self.repository.state_at(stream, position)
        assert before is not None and after is not None, "a commit has a state before and after it"
        result = self.repository.commit(
            stream, revert_commands(self.repository, self.event, before, after), self.provenance
        )
        if result.event is None:
            raise self._conflict("nothing of it is left to undo")
        return result.event

    def _view(self) -> Event:
        stream, position = self.event.stream, self.event.position
        before, after = (self.views.state_at(stream, p) for p in (position - 1, position))
        assert before is not None and after is not None, "a commit has a state before and after it"

        def updates(_: int) -> list[ViewUpdate]:
            current = self.views.state(stream).metadata
            old, new = before.metadata, after.metadata
            out: list[ViewUpdate] = []
            changed, removed, kept = undone_properties(old.properties, new.properties, current.properties)
            if kept:
                raise self._conflict(f"the properties {kept} were set again")
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

        event = self.views.commit(stream, updates, self.provenance).event
        if event is None:
            raise self._conflict("nothing of it is left to undo")
        return event
