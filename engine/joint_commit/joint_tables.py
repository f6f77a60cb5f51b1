"""Parts of a joint commit that change, create or purge tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, evolve

from icecore.engine.commit.decide import Command
from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.ids import now_ms
from icecore.engine.errors import (
    CorruptLogError,
    IcecoreError,
    TableAlreadyExistsError,
    ValidationError,
    name_text,
)
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.joint_commit.joint_commit import CommitTargets, OfNewName, OfOneStream
from icecore.engine.log.store import WriteTransaction
from icecore.engine.metadata.fold import TableState, fold
from icecore.engine.repository.failed_requirements import last_commit
from icecore.engine.repository.repository import CommitResult, Prepare, Repository, TablePart
from icecore.engine.repository.retry_policy import RetryPolicy
from icecore.engine.spec.updates.requirement import TableRequirement


def nothing_happens(_: object) -> None:
    """Does nothing: the callback where nobody waits for the end of a commit."""


@define
class TableChange(OfOneStream):
    """The changes of one table. `part` gives None where there are none, `ended` is called after the commit.

    `is_seen` says that other engines' commits were just adopted: the first try begins with the state as of then.
    """

    name: Identifier
    stream: str
    part: Callable[[], TablePart | None]
    ended: Callable[[CommitResult], None] = nothing_happens
    is_seen: bool = False
    _commands: Sequence[Command] = ()
    _base: TableState | None = None
    _again: Prepare | None = None
    _requirements: tuple[TableRequirement, ...] = ()
    _result: CommitResult | None = None

    @classmethod
    def of(cls, name: Identifier, stream: str, commands: Sequence[Command]) -> TableChange:
        """The change by commands that don't depend on the table's state."""
        part = TablePart(stream, lambda _: commands)
        return cls(name, stream, lambda: part)

    def retry_policy(self, desk: CommitTargets) -> RetryPolicy:
        return RetryPolicy.of(desk.repository.states.known(self.stream).metadata.properties)

    def answered_by(self, event: Event) -> bool:
        return event.stream == self.stream and event.kind in (ev.TABLE_COMMITTED, ev.TABLE_CREATED, ev.TABLE_ADOPTED)

    def prepare(self, desk: CommitTargets) -> None:
        self._result = None
        part = self.part()
        self._base = None
        if part is not None:
            repository, is_seen, self.is_seen = desk.repository, self.is_seen, False
            self._base = repository.states.known(self.stream) if is_seen else repository.foreign.latest(self.stream)
            self._commands, self._requirements, self._again = part.prepare(self._base), part.requirements, part.prepare

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        if self._base is None:
            return ()
        again = self._again if transaction.is_alone else None
        result = desk.repository.commit_inside(
            transaction, self._base, self._commands, provenance, self._requirements, again
        )
        self._result = result
        return () if result.event is None else (result.event,)

    def follow(self, desk: CommitTargets) -> None:
        if self._base is not None:
            states = desk.repository.states
            if self._result is not None:
                states.put(self._result.state)
            state = states.state(self.stream) if self._result is None else states.known(self.stream)
            desk.repository.files.follow(state)
            self.ended(CommitResult(state, None if self._result is None else self._result.event))


@define
class NewTable(OfNewName):
    """A new table. `part` has its first changes, on the state after its first event.

    `is_asserted` says that whoever asks for it requires that there is none of the name, as a client of the REST
    catalog does (AssertCreate).
    """

    name: Identifier
    stream: str
    kind: str
    payload: Mapping[str, Any]
    part: Callable[[], TablePart | None] = lambda: None
    ended: Callable[[TableState], None] = nothing_happens
    provisional: TableState | None = None
    is_asserted: bool = False
    _is_placed: bool = False
    _commands: Sequence[Command] = ()
    _requirements: tuple[TableRequirement, ...] = ()

    def prepare(self, desk: CommitTargets) -> None:
        self.check_place(desk.repository)
        part = self.part()
        if part is not None and self.provisional is not None:
            self._commands, self._requirements = part.prepare(self.provisional), part.requirements

    def append(self, desk: CommitTargets, transaction: WriteTransaction, provenance: Provenance) -> Sequence[Event]:
        if self.is_asserted:
            self._check_assertion(desk)
            self._check_it_makes_a_table()
        event, first = desk.repository.create_inside(
            transaction, self.stream, self.kind, self.payload, self.name, provenance
        )
        if not self._commands:
            return (event,)
        later = evolve(provenance, idempotency_key=None)
        result = desk.repository.commit_inside(transaction, first, self._commands, later, self._requirements)
        return (event,) if result.event is None else (event, result.event)

    def check_place(self, repository: Repository) -> None:
        """Raises as `Repository.check_place`, once."""
        if not self._is_placed:
            # A payload that makes no table is refused in `append`, after the name and the assertion were checked.
            with contextlib.suppress(CorruptLogError):
                repository.check_place(None, self.first_state())
            self._is_placed = True

    def first_state(self) -> TableState:
        """The table before it is in the log. Raises ValidationError, CorruptLogError where the payload makes none."""
        return self.provisional or provisional_state(self.stream, self.kind, self.payload, now_ms())

    def _check_assertion(self, desk: CommitTargets) -> None:
        """Raises TableAlreadyExistsError in the words of a requirement that failed."""
        taken = desk.repository.models.find(self.name)
        if taken is not None and taken[0] == "table":
            state = desk.repository.state(taken[1])
            failed = f"Requirement failed: table already exists: {name_text(self.name)}"
            raise TableAlreadyExistsError(f"{failed}; its last commit is {last_commit(desk.repository.store, state)}")

    def _check_it_makes_a_table(self) -> None:
        """Raises ValidationError where the updates of a client don't."""
        try:
            self.first_state()
        except CorruptLogError as e:
            raise ValidationError(f"the updates make no table: {e.__cause__ or e}") from e

    def follow(self, desk: CommitTargets) -> None:
        desk.repository.states.drop(self.stream)
        with contextlib.suppress(IcecoreError):
            state = desk.repository.state(self.stream)
            desk.repository.files.follow(state)
            self.ended(state)


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
