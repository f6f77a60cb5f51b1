"""Changes of one view that are committed together, alone or as part of a larger commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from icecore.engine.commit.dry_run import ViewDryRun
from icecore.engine.commit.single_use import OnceInBlock
from icecore.engine.common.identifiers import IdentifierLike
from icecore.engine.data.given_schema import SchemaLike
from icecore.engine.events.event import Provenance
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.repository.view_repository import UpdatesAt, ViewRepository
from icecore.engine.spec.updates.metadata_update import RemoveProperties
from icecore.engine.spec.updates.view_update import ViewUpdate
from icecore.engine.spec.view import DUCKDB
from icecore.engine.view.view_definition import ViewDefinition, location_updates, property_updates


class ChangeableView(Protocol):
    """The part of a view that its changes need: its state, and the updates of a definition."""

    @property
    def state(self) -> ViewState: ...

    def definition_of(
        self,
        sql: str | None,
        *,
        dialect: str,
        representations: Mapping[str, str] | None,
        schema: SchemaLike | None,
        default_namespace: IdentifierLike | None,
        default_catalog: str | None,
        summary: Mapping[str, str] | None,
    ) -> ViewDefinition: ...

    def current_version_updates(self, version_id: int) -> UpdatesAt: ...

    def take(self, state: ViewState) -> None: ...


class ViewChanges:
    """The changes of a view so far, with the methods of `View`. Each call returns the same object."""

    def __init__(self, view: ChangeableView, changes: list[UpdatesAt], check_open: Callable[[], None]) -> None:
        """`check_open` raises once the commit that the changes belong to was made."""
        self._view = view
        self._check = check_open
        self._changes = changes

    def replace(
        self,
        sql: str | None = None,
        *,
        dialect: str = DUCKDB,
        representations: Mapping[str, str] | None = None,
        schema: SchemaLike | None = None,
        default_namespace: IdentifierLike | None = None,
        default_catalog: str | None = None,
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        summary: Mapping[str, str] | None = None,
        location: str | None = None,
    ) -> ViewChanges:
        """Replaces the definition, as `View.replace`. Raises ValidationError, NoSuchTableError."""
        self._check()
        definition = self._view.definition_of(
            sql,
            dialect=dialect,
            representations=representations,
            schema=schema,
            default_namespace=default_namespace,
            default_catalog=default_catalog,
            summary=summary,
        )
        changes = [*property_updates(properties, comment), *location_updates(location)]
        return self._add(lambda at: [*changes, *definition.updates(at)])

    def set_current_version(self, version_id: int) -> ViewChanges:
        """Makes a version current, as `View.set_current_version`."""
        return self._add(self._view.current_version_updates(version_id))

    def set_properties(self, updates: Mapping[str, str]) -> ViewChanges:
        """Sets properties. Raises ValidationError."""
        changes = property_updates(updates)
        return self._add(lambda _: changes)

    def remove_properties(self, *keys: str) -> ViewChanges:
        """Removes properties; missing ones are ignored."""
        return self._add(lambda _: [RemoveProperties(keys)])

    def set_location(self, location: str) -> ViewChanges:
        """Sets the location of later metadata files."""
        changes = location_updates(location)
        return self._add(lambda _: changes)

    def _add(self, change: UpdatesAt) -> ViewChanges:
        self._check()
        self._changes.append(change)
        return self


class ViewTransaction(ViewChanges, OnceInBlock):
    """Several changes of one view as one commit and one event, made when the `with` block ends well.

    A dry run stores nothing, and says in `outcome` what the commit would be.
    """

    def __init__(self, view: ChangeableView, views: ViewRepository, provenance: Provenance, dry_run: bool) -> None:
        super().__init__(view, [], self._check_open)
        self._views = views
        self._provenance = provenance
        self._is_dry = dry_run
        self._outcome: ViewDryRun | None = None

    def __repr__(self) -> str:
        return self._shown(self._view.state.identifier, self._changes)

    @property
    def outcome(self) -> ViewDryRun | None:
        """The outcome of a dry run, once it ended; None unless this is one."""
        return self._outcome

    def commit(self) -> None:
        """Commits the changes. Raises NoSuchViewError, ValidationError, CommitConflictError; nothing is stored then."""
        self._use_up()
        changes = tuple(self._changes)

        def updates(at: int) -> list[ViewUpdate]:
            return [update for change in changes for update in change(at)]

        if self._is_dry:
            self._outcome = self._views.dry_run(self._view.state.stream, updates)
        elif changes:
            self._view.take(self._views.commit(self._view.state.stream, updates, self._provenance).state)
