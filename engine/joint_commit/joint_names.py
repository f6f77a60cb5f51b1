"""Parts of a joint commit about namespaces, and names that are given or given back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from attrs import define

from icecore.engine.common.identifiers import Identifier, IdentifierLike, namespace_tuple
from icecore.engine.errors import NotFoundError, ValidationError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.name_events import Dropped, Renamed, Undropped, read_name_event
from icecore.engine.events.namespace_events import (
    NamespaceCreated,
    NamespaceDropped,
    NamespaceEvent,
    NamespacePropertiesUpdated,
    read_namespace_event,
)
from icecore.engine.joint_commit.joint_commit import CommitTargets, OnNoBranch
from icecore.engine.log.namespaces import ChangedProperties, check_namespace_change, updated_properties
from icecore.engine.log.store import WriteTransaction
from icecore.engine.metadata.fold import TableState
from icecore.engine.properties.string_properties import string_properties
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.required_message import check_message
from icecore.engine.revert.undrop import dropped_at, undrop_inside

URL_SEPARATOR = "\x1f"


@define
class NamespaceChange(OnNoBranch):
    """A change of a namespace: created, dropped, or given other properties; looked up when its turn comes.

    `check` raises what stands in the way beyond what the change itself needs. `stays_implied` says that a dropped one
    goes back to being there because of those inside of it alone. `outcome` is what became of the
    properties; None where an earlier call with the same idempotency key made the change.
    """

    change: NamespaceEvent
    check: Callable[[], object] = lambda: None
    stays_implied: bool = False
    outcome: ChangedProperties | None = None

    @property
    def name(self) -> Identifier:
        return self.change.namespace

    def answered_by(self, event: Event) -> bool:
        return read_namespace_event(event.kind, event.payload) in (self.change, _creating(self.change))

    def prepare(self, desk: CommitTargets) -> None: ...

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        # The row of a namespace that another engine changed meanwhile would be lost: it is taken in first.
        desk.repository.foreign.check_namespaces()
        self.check()
        check_namespace_change(desk.repository.models, self.change, stays_implied=self.stays_implied)
        change = self.change
        if isinstance(change, NamespacePropertiesUpdated):
            self.outcome = ChangedProperties.of(change, desk.repository.models.namespace_properties(self.name))
        if desk.repository.models.is_implied(self.name):
            change = _creating(change)
        kind, payload = change.kind, change.to_dict()
        return (desk.repository.append_inside(transaction, ev.CATALOG_STREAM, kind, payload, provenance),)

    def follow(self, desk: CommitTargets) -> None: ...


def _creating(change: NamespaceEvent) -> NamespaceEvent:
    """The change of a namespace that is only implied by those inside of it: setting its properties creates it."""
    if isinstance(change, NamespacePropertiesUpdated):
        return NamespaceCreated(change.namespace, change.applied({}))
    return change


class _OfAnyStream(OnNoBranch):
    """The base of parts that give or take names: files follow after the commit, unless nothing was appended."""

    stream: str

    def follow(self, desk: CommitTargets) -> None:
        if ev.is_view_stream(self.stream):
            desk.views.follow(self.stream)
        elif self.stream:
            desk.repository.files.follow(desk.repository.state(self.stream))


@define
class NameChange(_OfAnyStream):
    """A rename or a drop of a table or view. `find` gives its stream when its turn comes, or raises what is in the way.

    `is_view` says which of both it is to be, None where it is what `find` gives.

    Raises NoSuchTableError, NoSuchViewError; TableAlreadyExistsError and NoSuchNamespaceError where the new name can't
    be given.
    """

    change: Renamed | Dropped
    find: Callable[[Repository], str]
    is_view: bool | None = None
    stream: str = ""
    _base: TableState | None = None

    @property
    def name(self) -> Identifier:
        return self.change.before if isinstance(self.change, Renamed) else self.change.identifier

    def answered_by(self, event: Event) -> bool:
        if self.is_view not in (None, ev.is_view_stream(event.stream)):
            return False
        if read_name_event(event.kind, event.payload) != self.change:
            return False
        self.stream = event.stream
        return True

    def prepare(self, desk: CommitTargets) -> None:
        self._base = None
        # A name that this transaction itself gives is found later, in `append`.
        with contextlib.suppress(NotFoundError):
            stream = self.find(desk.repository)
            desk.repository.foreign.adopt_stream(stream)
            self._base = None if ev.is_view_stream(stream) else desk.repository.state(stream)

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        self.stream = self.find(desk.repository)
        if self._base is not None and self._base.stream == self.stream:
            # Not by the cache: an event that is not committed yet must not get into it.
            state = desk.repository.states.forward(self._base)
            desk.repository.foreign.check(state)
            check_message(desk.repository.models, self.name, state.metadata.properties, provenance)
        else:
            desk.repository.foreign.check_row(self.stream)
        if isinstance(self.change, Renamed):
            kind = "view" if ev.is_view_stream(self.stream) else "table"
            new, old = self.change.identifier, self.change.before
            desk.repository.give_name_inside(transaction, new, provenance, kind=kind, before=old)
        kind, payload = self.change.kind(self.stream), self.change.to_dict()
        return (desk.repository.append_inside(transaction, self.stream, kind, payload, provenance),)


@define
class NameGivenBack(_OfAnyStream):
    """A dropped table or view that gets its name back; `kind` is `table` or `view`, `position` that of the drop.

    `new_name` is another name than it had when it was dropped.
    """

    name: Identifier
    kind: str
    position: int | None
    new_name: Identifier | None = None
    stream: str = ""

    def answered_by(self, event: Event) -> bool:
        if (self.kind == "view") != ev.is_view_stream(event.stream):
            return False
        if read_name_event(event.kind, event.payload) != Undropped(self.new_name or self.name):
            return False
        self.stream = event.stream
        return True

    def prepare(self, desk: CommitTargets) -> None: ...

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        drop = dropped_at(desk.repository, self.kind, self.name, self.position)
        self.stream = drop.stream
        return (undrop_inside(desk.repository, transaction, self.kind, drop, provenance, self.new_name),)


# As the calls of a catalog and of its transactions give them


def new_namespace(namespace: IdentifierLike, properties: Mapping[str, str] | None) -> NamespaceChange:
    """The creation of a namespace. Raises ValidationError."""
    levels = namespace_tuple(namespace)
    if any(URL_SEPARATOR in level for level in levels):
        raise ValidationError(f"a namespace level can't hold 0x1F, which separates levels in URLs, found {levels!r}")
    return NamespaceChange(NamespaceCreated(levels, string_properties(properties)))


def namespace_properties(
    namespace: IdentifierLike, removals: Sequence[str], updates: Mapping[str, str] | None
) -> NamespaceChange:
    """A change of a namespace's properties. Raises UnprocessableEntityError where one is both removed and updated."""
    return NamespaceChange(updated_properties(namespace_tuple(namespace), removals, updates))


def dropped_namespace(namespace: IdentifierLike) -> NamespaceChange:
    """The drop of a namespace. Raises ValidationError."""
    return NamespaceChange(NamespaceDropped(namespace_tuple(namespace)))


def renamed(old: Identifier, new: Identifier, *, is_view: bool) -> NameChange:
    """A rename. At commit: NoSuchTableError or NoSuchViewError, TableAlreadyExistsError, NoSuchNamespaceError."""
    return NameChange(Renamed(old, new), _finder(old, is_view=is_view), is_view)


def dropped(name: Identifier, *, is_view: bool) -> NameChange:
    """A drop. At commit: NoSuchTableError, NoSuchViewError."""
    return NameChange(Dropped(name), _finder(name, is_view=is_view), is_view)


def _finder(name: Identifier, *, is_view: bool) -> Callable[[Repository], str]:
    return lambda repository: (repository.models.view_stream if is_view else repository.models.table_stream)(name)
