"""Joint commits: several changes of tables, views and names in one SQLite transaction, all or nothing.

Each change is a `Part`: a call of the catalog is one, a transaction of it gathers several. A dry run makes the same
parts in a transaction that is rolled back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from attrs import evolve, frozen

from icecore.engine.commit.decide import StaleRemovals
from icecore.engine.commit.dry_run import CatalogDryRun, PartDryRun, conflicts_of, part_dry_run
from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import CommitConflictError, ForeignCommitError, IcecoreError, name_text
from icecore.engine.events.commit_watch import note_stored
from icecore.engine.events.event import TABLE_ADOPTED, Event, Provenance
from icecore.engine.events.name_events import Named, read_name_event
from icecore.engine.joint_commit.rolled_back import without_files
from icecore.engine.log.store import WriteTransaction
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.retry_policy import FOREIGN_ATTEMPTS, RetryPolicy, plans_inside
from icecore.engine.repository.reused_key import cut_off_call, reused_key
from icecore.engine.repository.view_repository import ViewRepository

AT_ONCE = RetryPolicy(FOREIGN_ATTEMPTS - 1, min_wait_ms=0, max_wait_ms=0)
"""The retries of changes of names, for which nothing is written before the lock is taken."""


@frozen
class CommitTargets:
    """The repositories that parts are made in: the tables and views of the log."""

    repository: Repository
    views: ViewRepository

    def rolled_back(self) -> CommitTargets:
        """The repositories for a transaction that is rolled back: they share no cache and write no file."""
        repository = without_files(self.repository)
        return CommitTargets(repository, ViewRepository(repository))


class OfOneStream:
    """A part that depends on its own stream alone; `prepare` adopts other engines' commits to that."""

    __slots__ = ()


class OnNoBranch:
    """A part without a branch to lose a race on."""

    __slots__ = ()

    def retry_policy(self, desk: CommitTargets) -> None:
        return None


class OfNewName(OnNoBranch):
    """A part that makes a table or view; an earlier call's event of the same kind and name answers it."""

    kind: str
    name: Identifier
    stream: str

    def answered_by(self, event: Event) -> bool:
        if event.kind != self.kind or read_name_event(event.kind, event.payload) != Named(self.name):
            return False
        self.stream = event.stream
        return True


class Part(Protocol):
    """One of the changes of a joint commit."""

    @property
    def name(self) -> Identifier:
        """The table, view or namespace that it changes."""

    def retry_policy(self, desk: CommitTargets) -> RetryPolicy | None:
        """The retries after a lost race; None for a part without a branch to lose it on."""

    def answered_by(self, event: Event) -> bool:
        """Whether an event is one that an earlier call for this change made; its stream is the part's from then on."""

    def prepare(self, desk: CommitTargets) -> None:
        """Does the work that needs no write lock, such as writing data files."""

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        """Appends its events, none where there is nothing to change; inside of the lock."""

    def follow(self, desk: CommitTargets) -> None:
        """Lets caches and files follow, after the commit."""


def commit_jointly(
    desk: CommitTargets, parts: Sequence[Part], provenance: Provenance, on_commit: Callable[[], object] = lambda: None
) -> tuple[Event, ...]:
    """Makes all changes, in their order, and gives their events; the first one carries the idempotency key.

    Where one part loses a race all are prepared again. From the second attempt on, if preparing was quick, a part that
    loses again is prepared inside of the write lock, in a transaction of SQLite that no other commit is in. `on_commit`
    is called once the events are in the log. No events where an earlier call with that key made them already. Raises
    what the parts raise, ReusedKeyError where that call was for other changes; nothing is changed then.
    """
    if (done := desk.repository.already(provenance)) is not None:
        _take_answer(desk, parts, done)
        return ()
    foreign: ForeignCommitError | None = None
    for attempt in _retry_policy(desk, parts).attempts():
        began = time.monotonic()
        if not all(isinstance(part, OfOneStream) for part in parts):
            desk.repository.foreign.adopt_all_if_changed()
        for part in parts:
            part.prepare(desk)
        try:
            events = _try(desk, parts, provenance, plans_inside(attempt, began))
        except StaleRemovals:
            foreign = None
            continue
        except ForeignCommitError as e:
            foreign = e
            continue
        on_commit()
        for part in parts:
            part.follow(desk)
        return events
    if foreign is not None:
        raise foreign
    raise _kept_moving(parts)


def commit_part(desk: CommitTargets, part: Part, provenance: Provenance, *, dry_run: bool) -> CatalogDryRun | None:
    """Makes one change, or says what it would be. Raises what the part raises."""
    if dry_run:
        return dry_run_jointly(desk, [part], provenance)
    commit_jointly(desk, [part], provenance)
    return None


def _retry_policy(desk: CommitTargets, parts: Sequence[Part]) -> RetryPolicy:
    return RetryPolicy.most_patient(p for part in parts if (p := part.retry_policy(desk))) or AT_ONCE


def _kept_moving(parts: Sequence[Part]) -> CommitConflictError:
    names = ", ".join(name_text(p.name) for p in parts)
    return CommitConflictError(f"the branches of {names} kept moving until no retry was left")


def _try(desk: CommitTargets, parts: Sequence[Part], provenance: Provenance, alone: bool) -> tuple[Event, ...]:
    def write(transaction: WriteTransaction) -> tuple[Event, ...]:
        if (done := desk.repository.already(provenance)) is not None:
            _take_answer(desk, parts, done)
            return ()
        events: list[Event] = []
        for part in parts:
            events += part.append(desk, transaction, _once(provenance, events))
        return tuple(events)

    try:
        events = desk.repository.store.write_with(write, alone=alone)
    except BaseException:
        # What was read inside may hold events that are rolled back now, as may versions of file system tables.
        desk.views.forget()
        with contextlib.suppress(IcecoreError):
            desk.repository.materializer.settle_claims()
        raise
    if events:
        note_stored(*events)
    return events


def _take_answer(desk: CommitTargets, parts: Sequence[Part], done: Event) -> None:
    """Gives the parts the events of an earlier call, of which `done` has the key.

    That call may have made more, such as a namespace for its table, which is there now. Raises ReusedKeyError, and
    CommitStateUnknownError where one part of it was taken in after a crash, and the log does not tell of the others.
    """
    if done.kind == TABLE_ADOPTED and len(parts) > 1:
        raise cut_off_call(done, desk.repository.models.identifier_of(done.stream))
    events = [done] if done.kind == TABLE_ADOPTED else desk.repository.store.transaction_events(done.transaction_id)
    answered = [part.answered_by(event) for event in events for part in parts]
    if not any(answered):
        raise reused_key(done, desk.repository.models.identifier_of(done.stream))


def _once(provenance: Provenance, events: Sequence[object]) -> Provenance:
    """The provenance of the events of a transaction so far: only the first carries the idempotency key."""
    return evolve(provenance, idempotency_key=None) if events else provenance


def dry_run_jointly(desk: CommitTargets, parts: Sequence[Part], provenance: Provenance) -> CatalogDryRun:
    """The outcome that the changes would have, made as by `commit_jointly` in a transaction that is rolled back.

    A part that a conflict would refuse is left out; its conflicts are among the outcomes, under its name. Commits of
    other engines are adopted for good before, as by any look at the warehouse. Raises other errors as a commit does.
    """
    outcome: CatalogDryRun | None = None
    for attempt in _retry_policy(desk, parts).attempts():
        desk.repository.foreign.adopt_all_if_changed()
        with contextlib.suppress(StaleRemovals):
            outcome, has_raced = _dry_run(desk, parts, provenance, attempt)
            if not has_raced:
                return outcome
    if outcome is None:
        raise _kept_moving(parts)
    return outcome


def _dry_run(
    desk: CommitTargets, parts: Sequence[Part], provenance: Provenance, attempt: int
) -> tuple[CatalogDryRun, bool]:
    """The outcome as it is now, and whether another engine committed after the parts were prepared."""
    began, has_raced = time.monotonic(), False
    outcomes: list[PartDryRun] = []
    prepared: list[Part] = []
    for part in parts:
        try:
            part.prepare(desk)
            prepared.append(part)
        except CommitConflictError as e:
            outcomes.append(PartDryRun(part.name, conflicts=conflicts_of(e)))
    dry = desk.rolled_back()
    store, done = dry.repository.store, dry.repository.already(provenance)
    if done is not None:
        _take_answer(desk, parts, done)
    is_alone = plans_inside(attempt, began)
    with store.write(keep=False) as transaction:
        transaction.is_alone = is_alone
        for part in () if done else prepared:
            try:
                events = part.append(dry, transaction, _once(provenance, transaction.events))
            except CommitConflictError as e:
                has_raced = has_raced or isinstance(e, ForeignCommitError)
                outcomes.append(PartDryRun(part.name, conflicts=conflicts_of(e)))
                continue
            outcomes += [part_dry_run(part.name, event, store.content(event.position)) for event in events]
    return CatalogDryRun(tuple(outcomes), done is not None), has_raced
