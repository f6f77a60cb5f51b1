"""Several changes of tables, views and names as one SQLite transaction, with one transaction id: all or nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from attrs import define, evolve, field, frozen

from icecore.engine.commit.decide import Command, StaleRemovals
from icecore.engine.commit.dry_run import CatalogDryRun, PartDryRun, conflicts_of, part_dry_run
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import CommitConflictError, ForeignCommitError, IcecoreError
from icecore.engine.events.event import Event, Provenance
from icecore.engine.joint_commit.rolled_back import without_files
from icecore.engine.log.read_models import dotted
from icecore.engine.log.store import WriteTransaction
from icecore.engine.metadata.fold import TableState, fold
from icecore.engine.repository.repository import CommitResult, Repository, TablePart
from icecore.engine.repository.retry_policy import RetryPolicy
from icecore.engine.repository.view_repository import UpdatesAt, ViewRepository
from icecore.engine.spec.updates.requirement import TableRequirement
from icecore.engine.spec.updates.view_update import ViewUpdate


@frozen
class CommitTargets:
    """Where a part is made: the tables and views of the log, or for a dry run copies of them that write no file."""

    repository: Repository
    views: ViewRepository


class Part(Protocol):
    """One of the changes."""

    @property
    def name(self) -> Identifier:
        """What it changes."""

    def prepare(self, desk: CommitTargets) -> None:
        """What can be done before the write lock is taken, such as writing data files."""

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        """Appends its events, none where there is nothing to change; inside of the lock."""

    def follow(self, desk: CommitTargets) -> None:
        """Lets caches and files follow, after the commit."""


def commit_jointly(
    desk: CommitTargets, parts: Sequence[Part], provenance: Provenance, made: Callable[[], object] = lambda: None
) -> bool:
    """Makes all changes, in their order; the first event carries the idempotency key.

    Where one part lost a race all are prepared again. `made` is called once they are in the log. False where an earlier
    call with that key made them already. Raises what the parts raise; nothing is changed then.
    """
    tables = [desk.repository.state(p.stream).metadata for p in parts if isinstance(p, TableChange)]
    foreign: ForeignCommitError | None = None
    for _ in RetryPolicy.of(*(m.properties for m in tables)).attempts():
        desk.repository.foreign.adopt_all_if_changed()
        for part in parts:
            part.prepare(desk)
        try:
            done = _try(desk, parts, provenance)
        except StaleRemovals:
            foreign = None
            continue
        except ForeignCommitError as e:
            foreign = e
            continue
        made()
        for part in parts:
            part.follow(desk)
        return done
    if foreign is not None:
        raise foreign
    names = ", ".join(dotted(p.name) for p in parts)
    raise CommitConflictError(f"the branches of {names} kept moving until no retry was left")


def _try(desk: CommitTargets, parts: Sequence[Part], provenance: Provenance) -> bool:
    try:
        with desk.repository.store.write() as transaction:
            if desk.repository.already(provenance) is not None:
                return False
            for part in parts:
                if part.append(desk, transaction, provenance):
                    provenance = evolve(provenance, idempotency_key=None)
    except BaseException:
        # What was read inside may hold events that are rolled back now, as may versions of file system tables.
        desk.views.forget()
        with contextlib.suppress(IcecoreError):
            desk.repository.materializer.settle_claims()
        raise
    return True


class _RolledBack(Exception):
    """Ends a dry run's transaction."""


def dry_run_jointly(desk: CommitTargets, parts: Sequence[Part], provenance: Provenance) -> CatalogDryRun:
    """What the changes would be: made in a transaction that is rolled back, on copies that claim and write nothing.

    What others would refuse them for is among the outcomes' conflicts; such a part is left out. Raises as a commit
    does for all else.
    """
    desk.repository.foreign.adopt_all_if_changed()
    repository = without_files(desk.repository)
    dry = CommitTargets(repository, ViewRepository(repository))
    outcomes: list[PartDryRun] = []
    prepared: list[Part] = []
    for part in parts:
        try:
            part.prepare(desk)
            prepared.append(part)
        except CommitConflictError as e:
            outcomes.append(PartDryRun(part.name, conflicts=conflicts_of(e)))
    is_done = repository.already(provenance) is not None
    with contextlib.suppress(_RolledBack), repository.store.write() as transaction:
        for part in () if is_done else prepared:
            try:
                events = part.append(dry, transaction, provenance)
            except CommitConflictError as e:
                outcomes.append(PartDryRun(part.name, conflicts=(str(e),)))
                continue
            provenance = evolve(provenance, idempotency_key=None) if events else provenance
            outcomes += [part_dry_run(part.name, event, repository.store.content(event.position)) for event in events]
        raise _RolledBack
    return CatalogDryRun(tuple(outcomes), is_done)


@define
class TableChange:
    """Changes of one table."""

    name: Identifier
    stream: str
    part: Callable[[], TablePart | None]
    ended: Callable[[CommitResult], None]
    _commands: Sequence[Command] = ()
    _base: TableState | None = None
    _requirements: tuple[TableRequirement, ...] = ()
    _result: CommitResult | None = None

    def prepare(self, desk: CommitTargets) -> None:
        self._result = None
        part = self.part()
        if part is not None:
            desk.repository.foreign.adopt_stream(self.stream)
        self._base = None if part is None else desk.repository.state(self.stream)
        if part is not None and self._base is not None:
            self._commands, self._requirements = part.prepare(self._base), part.requirements

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        if self._base is None:
            return ()
        result = desk.repository.commit_inside(transaction, self._base, self._commands, provenance, self._requirements)
        self._result = result
        return () if result.event is None else (result.event,)

    def follow(self, desk: CommitTargets) -> None:
        if self._base is not None:
            state = desk.repository.state(self.stream)
            desk.repository.files.follow(state)
            self.ended(CommitResult(state, None if self._result is None else self._result.event))


@define
class NewTable:
    """A table that is made, with what is done to it at once. `provisional` stands for it until it is in the log."""

    name: Identifier
    provisional: TableState
    kind: str
    payload: Mapping[str, Any]
    part: Callable[[], TablePart | None]
    ended: Callable[[TableState], None]
    _commands: Sequence[Command] = ()
    _requirements: tuple[TableRequirement, ...] = ()

    def prepare(self, desk: CommitTargets) -> None:
        part = self.part()
        if part is not None:
            self._commands, self._requirements = part.prepare(self.provisional), part.requirements

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        event, first = desk.repository.create_inside(
            transaction, self.provisional.stream, self.kind, self.payload, self.name, provenance
        )
        if not self._commands:
            return (event,)
        later = evolve(provenance, idempotency_key=None)
        result = desk.repository.commit_inside(transaction, first, self._commands, later, self._requirements)
        return (event,) if result.event is None else (event, result.event)

    def follow(self, desk: CommitTargets) -> None:
        desk.repository.states.drop(self.provisional.stream)
        with contextlib.suppress(IcecoreError):
            state = desk.repository.state(self.provisional.stream)
            desk.repository.files.follow(state)
            self.ended(state)


@define
class ViewChange:
    """Changes of one view, in their order."""

    name: Identifier
    stream: str
    changes: list[UpdatesAt] = field(factory=list)

    def prepare(self, desk: CommitTargets) -> None: ...

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        event = desk.views.commit_inside(transaction, self.stream, self._updates, provenance)
        return () if event is None else (event,)

    def _updates(self, at: int) -> list[ViewUpdate]:
        return [update for change in self.changes for update in change(at)]

    def follow(self, desk: CommitTargets) -> None:
        desk.views.follow(self.stream)


@define
class NewView:
    """A view that is made."""

    name: Identifier
    stream: str
    updates: UpdatesAt

    def prepare(self, desk: CommitTargets) -> None: ...

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        return (desk.views.create_inside(transaction, self.stream, self.name, self.updates, provenance),)

    def follow(self, desk: CommitTargets) -> None:
        desk.views.follow(self.stream)


@define
class NameChange:
    """A rename or a drop of a table or view, which is looked up when its turn comes."""

    name: Identifier
    kind: str
    payload: Mapping[str, Any]
    find: Callable[[Repository], str]
    to: Identifier | None = None
    is_view: bool = False
    _stream: str = ""

    def prepare(self, desk: CommitTargets) -> None: ...

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        self._stream = self.find(desk.repository)
        desk.repository.foreign.check_row(self._stream)
        if self.to is not None:
            desk.repository.models.check_new_name(self.to)
        return (desk.repository.append_inside(transaction, self._stream, self.kind, self.payload, provenance),)

    def follow(self, desk: CommitTargets) -> None:
        if not self._stream:
            return
        if self.is_view:
            desk.views.follow(self._stream)
        else:
            desk.repository.files.follow(desk.repository.state(self._stream))


def provisional_state(stream: str, kind: str, payload: Mapping[str, Any], at_ms: int) -> TableState:
    """A table before its first event is in the log. Raises ValidationError, CorruptLogError for what makes none."""
    from icecore.engine.common.ids import new_event_id
    from icecore.engine.events.event import SCHEMA_VERSION, canonical

    event_id = new_event_id()
    event = Event(
        0, event_id, stream, 1, kind, SCHEMA_VERSION, event_id, at_ms, Provenance(), canonical(payload), None, "", ""
    )
    state = fold(None, [event])
    assert state is not None, "a fold of one event has a state"
    return state
