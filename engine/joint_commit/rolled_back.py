"""Calls that commit, run up to the moment of COMMIT and rolled back there: what they would be, without a trace."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import ClassVar

from attrs import define, evolve, field

from icecore.engine.commit.dry_run import CatalogDryRun, PartDryRun, conflicts_of, part_dry_run
from icecore.engine.common.identifiers import Identifier, name_parts
from icecore.engine.errors import CommitConflictError
from icecore.engine.events.event import Event
from icecore.engine.foreign.adopter import Adopter
from icecore.engine.foreign.adoption import Problem
from icecore.engine.log.store import EventStore, WriteTransaction
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.materialize import Advance, Materializer


def run_rolled_back(
    repository: Repository, act: Callable[[Repository, ViewRepository], object], about: object
) -> CatalogDryRun:
    """What a commit would be: `act` makes it on copies that store nothing, and ends where it would be stored.

    So all that it reads and checks is what the commit itself would, under the write lock. What others would refuse it
    for is among the outcome's conflicts, under the name of what it is `about`: that name, or the position of an event.
    Raises as the commit does for all else.
    """
    repository.foreign.adopt_all_if_changed()
    trial = without_files(repository, _TrialStore(repository))
    trial.foreign = _taking_in_for_real(trial, repository.foreign)
    try:
        act(trial, ViewRepository(trial))
    except _Tried as e:
        return CatalogDryRun(e.parts)
    except CommitConflictError as e:
        return CatalogDryRun((PartDryRun(_name(repository, about), conflicts=conflicts_of(e)),))
    return CatalogDryRun()


def _name(repository: Repository, about: object) -> Identifier:
    if isinstance(about, int):
        return _name_of(repository, repository.store.event_at(about))
    return name_parts(about)


def _name_of(repository: Repository, event: Event) -> Identifier:
    """The namespace, table or view that an event is of, by the name that it had before."""
    names = (event.payload.get(key) for key in ("namespace", "identifier", "from"))
    name = next((n for n in names if n), None) or repository.models.identifier_of(event.stream)
    return tuple(name or ())


def without_files(repository: Repository, store: EventStore | None = None) -> Repository:
    """A copy with caches of its own that claims no version and writes no metadata file."""
    materializer = _NoFiles(repository.store, repository.models, repository.entries)
    return evolve(repository, store=store or repository.store, materializer=materializer)


class _Tried(Exception):
    """Ends a trial where its events would be stored."""

    def __init__(self, parts: tuple[PartDryRun, ...]) -> None:
        super().__init__("a trial is rolled back")
        self.parts = parts


class _TrialStore(EventStore):
    """The log, by the same connections; a write transaction that appended events is rolled back and ends the trial.

    One without events is rolled back too and goes on: it would only have noted what follows from the log.
    """

    def __init__(self, repository: Repository) -> None:
        self.__dict__.update(repository.store.__dict__)
        self._repository = repository

    @contextlib.contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        try:
            with super().write() as transaction:
                yield transaction
                raise _Tried(tuple(self._part(e) for e in transaction.events))
        except _Tried as e:
            if e.parts:
                raise

    def _part(self, event: Event) -> PartDryRun:
        return part_dry_run(_name_of(self._repository, event), event, self.content(event.position))


@define
class _Taker(Adopter):
    """Takes in what other engines did for real, as any look at the warehouse does: a trial is none of theirs."""

    real: Adopter = field(kw_only=True)

    def _adopt(self, suspects: tuple[str, ...]) -> tuple[Problem, ...]:
        return self.real._adopt(suspects)


def _taking_in_for_real(trial: Repository, real: Adopter) -> Adopter:
    parts = (trial.store, trial.models, trial.states, trial.files, trial.storage, trial.storage_of)
    # What was looked at or warned of before is not again.
    return _Taker(Adopter.of(*parts).context, real._seen, real._warned, real=real)


@define
class _NoFiles(Materializer):
    """The materializer of a dry run: it claims no version and writes nothing."""

    is_dry: ClassVar[bool] = True

    def claim_version(self, event: Event, before: TableState | None, state: TableState, storage: Storage) -> None: ...

    def settle_claim(self, stream: str) -> None: ...

    def write(self, stream: str, base: TableState | None, storage: Storage, damaged: Collection[str] = ()) -> Advance:
        return Advance(stream, base, None, ())

    def finish(self, state: TableState, storage: Storage) -> None: ...
