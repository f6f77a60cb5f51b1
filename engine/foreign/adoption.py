"""One run of adoption: other engines' commits as events of one transaction, inside of the write lock."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from attrs import define, evolve, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ForbiddenLocationError, IcecoreError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.events.files_of_others import GivenFile
from icecore.engine.events.name_events import Dropped, Renamed
from icecore.engine.events.namespace_events import NamespaceCreated, NamespaceEvent
from icecore.engine.foreign.foreign_manifests import append_keeping, files_between
from icecore.engine.foreign.foreign_metadata import UNKNOWN_ENGINE, ForeignFile, adopted_by, adoption_payload
from icecore.engine.foreign.foreign_rows import ForeignRows
from icecore.engine.log.lock.roll_back import taken_back_alone
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import EventStore, WriteTransaction
from icecore.engine.metadata.fold import TableState, fold
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.replay.kinds import TableStates, ViewStates
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.file_follower import FileFollower
from icecore.projections.files.version_claims import Claim

RESOLVE = "resolve() with keep='log' or keep='foreign' says which of the two goes on"
_FIRST = (ev.TABLE_REGISTERED,)


State: TypeAlias = TableState | ViewState
CheckTaken: TypeAlias = "Callable[[State | None, State], None]"


@frozen
class AdoptionContext:
    """The log and its projections, beside the rows and files that it shares with other engines.

    `views` replays only: what is looked at inside of a transaction must not be cached. The storage reads nothing from
    places that the warehouse's rules forbid, and `check_taken` raises ForbiddenLocationError for an adopted state that
    names such a place.
    """

    store: EventStore
    models: ReadModels
    states: TableStates
    views: ViewStates
    rows: ForeignRows
    files: FileFollower
    storage: Storage
    check_taken: CheckTaken

    def storage_of(self, state: TableState) -> Storage:
        """The storage that resolves a table's locations."""
        return self.storage.behind(state.location_mapping)


@frozen
class Problem:
    """A commit that could not be adopted, and why; `stream` is None for a table that the log doesn't know."""

    identifier: Identifier
    stream: str | None
    text: str
    is_damage: bool = False
    """Whether the read models differ from the log itself, so that nothing says what another engine did; rebuild."""

    @classmethod
    def of(cls, identifier: Identifier, stream: str | None, error: IcecoreError) -> Problem:
        """The problem of a name that an error keeps from being taken in."""
        name = name_text(identifier)
        if isinstance(error, ForbiddenLocationError):
            return cls(identifier, stream, f"{name}: what another engine committed is not taken in: {error}; {RESOLVE}")
        return cls(identifier, stream, f"{name}: {str(error).removeprefix(f'{name}: ')}")


@define
class AdoptionRun:
    """One run: the events, the states of tables after them, and the problems.

    `current` is what was being taken in when an error was raised, `left_out` are names that can't be taken in.
    """

    context: AdoptionContext
    left_out: set[Identifier] = field(factory=set)
    problems: list[Problem] = field(factory=list)
    current: Identifier | None = None
    current_stream: str | None = None
    _after: dict[str, TableState] = field(factory=dict)
    _transaction: WriteTransaction = field(init=False)

    def begin(self, transaction: WriteTransaction) -> None:
        """Starts the run in a transaction, which gets all events."""
        self._transaction = transaction

    def advance(self) -> None:
        """Moves the projections, once all events are appended."""
        for stream, state in self._after.items():
            self.at(state.identifier, stream)
            self.context.files.advance(state)

    def finish(self) -> None:
        """Writes the files, after the transaction."""
        for state in self._after.values():
            self.context.states.put(state)
            self.context.files.follow(state)

    def at(self, identifier: Identifier, stream: str | None) -> None:
        """Sets the table or view that is adopted from now on."""
        self.current, self.current_stream = identifier, stream

    def problem(self, identifier: Identifier, stream: str | None, text: str) -> None:
        """Notes a commit that can't be adopted."""
        self.problems.append(Problem(identifier, stream, f"{name_text(identifier)}: {text}"))

    def failed(self, identifier: Identifier, stream: str | None, error: IcecoreError) -> None:
        """Notes a name that can't be taken in because of an error, once."""
        if identifier not in self.left_out:
            self.left_out.add(identifier)
            self.problems.append(Problem.of(identifier, stream, error))

    @contextlib.contextmanager
    def attempt(self, identifier: Identifier, stream: str | None) -> Iterator[None]:
        """A part of the run that is taken back alone where it fails, which is noted as a problem."""
        self.at(identifier, stream)
        after, problems = dict(self._after), len(self.problems)
        try:
            with _part_of(self._transaction):
                yield
        except IcecoreError as e:
            self._after = after
            del self.problems[problems:]
            self.failed(identifier, stream, e)

    def damaged(self, identifier: Identifier, stream: str | None) -> None:
        """Notes read models that differ from the log itself."""
        text = f"{name_text(identifier)}: the read models don't follow the log; rebuild"
        self.problems.append(Problem(identifier, stream, text, is_damage=True))

    def append(
        self,
        stream: str,
        kind: str,
        payload: Mapping[str, Any],
        provenance: Provenance,
        given: Sequence[GivenFile] = (),
        event_id: str | None = None,
    ) -> tuple[Event, TableState | None]:
        """Appends an event that keeps the given files, and notes its table's state after it; the files follow later."""
        transaction = self._transaction
        # Before the append: what is not committed yet must not be cached.
        has_state = not (kind in _FIRST or stream == ev.CATALOG_STREAM or ev.is_view_stream(stream))
        before = self.latest(stream) if has_state else None
        event = append_keeping(transaction, self.context.models, stream, kind, payload, provenance, given, event_id)
        self.context.models.apply(event)
        if before is not None or kind in _FIRST:
            after = fold(before, [event])
            assert after is not None, "a fold of an event has a state"
            self._after[stream] = after
        return event, self._after.get(stream)

    def append_to_catalog(self, change: NamespaceEvent, who: Provenance) -> None:
        """Appends a change of a namespace."""
        self.append(ev.CATALOG_STREAM, change.kind, change.to_dict(), who)

    def append_name(self, stream: str, change: Renamed | Dropped, who: Provenance) -> None:
        """Appends a change of a name."""
        self.append(stream, change.kind(stream), change.to_dict(), who)

    def note(self, state: TableState) -> None:
        """Notes a table without an event whose files may have to follow."""
        self._after.setdefault(state.stream, state)

    def latest(self, stream: str) -> TableState:
        """The state after the events of this run."""
        return self._after.get(stream) or self.context.states.state(stream)

    def need_namespace(self, identifier: Identifier) -> None:
        """Creates the namespace of a name that another engine gave, where nobody created it."""
        name = identifier[:-1]
        if name not in self.context.models.namespaces():
            who = Provenance(None, UNKNOWN_ENGINE, f"namespace of {name_text(identifier)}")
            self.append_to_catalog(NamespaceCreated(name, {}), who)

    def adopt(
        self,
        state: TableState,
        file: ForeignFile,
        skipped: Sequence[str] = (),
        published: TableMetadata | None = None,
        set_aside: Sequence[int] = (),
        actor: str | None = None,
        message: str | None = None,
        unfinished: Claim | None = None,
    ) -> TableState:
        """Appends the event that adopts one metadata file; `actor` is who decided that, where somebody had to.

        An `unfinished` commit of ours that made the file gives the event its id and its provenance.
        """
        base = published or state.metadata
        given = self.given(state, file, base)
        payload = adoption_payload(state, base, file, skipped=skipped, set_aside=set_aside)
        who, event_id = adopted_by(base, file.metadata, actor, message), None
        if unfinished is not None and unfinished.made_by:
            who, event_id = unfinished.provenance, unfinished.event_id
            key = who.idempotency_key
            if key is not None and self.context.store.event_by_idempotency_key(key) is not None:
                who = evolve(who, idempotency_key=None)
        self.append(state.stream, ev.TABLE_ADOPTED, payload, who, given, event_id)
        return self._after[state.stream]

    def given(self, state: TableState, file: ForeignFile, base: TableMetadata) -> tuple[GivenFile, ...]:
        """The manifests and lists that came with a metadata file. Raises ForbiddenLocationError for one elsewhere."""
        self.context.check_taken(state, evolve(state, metadata=file.metadata))
        storage = self.context.storage_of(state)
        return files_between(self.context.models, state.stream, base, file.metadata, storage)


@contextlib.contextmanager
def _part_of(transaction: WriteTransaction) -> Iterator[None]:
    """A context in which an error takes back the events that were appended in it."""
    head, number, transaction_id = transaction.head, len(transaction.events), transaction.transaction_id
    try:
        with taken_back_alone(transaction.store.connection()):
            yield
    except BaseException:
        del transaction.events[number:]
        transaction.head, transaction.transaction_id = head, transaction_id
        raise
