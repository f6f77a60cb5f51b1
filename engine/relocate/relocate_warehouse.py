"""Relocation, the common part of moves and clones: a warehouse gets the paths of the folder that it is in.

One SQLite transaction holds the event that names the new folder, one for each table with files to be written anew, and
the read models as a replay of the log with the new folder gives them. Metadata files are written as after any commit,
after a crash at the next open. Before that transaction nothing is changed, and a second call reuses the delete files
that the first one wrote.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from attrs import define, evolve, field, frozen

from icecore.engine.common.location import is_inside, local_path
from icecore.engine.errors import CommitConflictError, ForeignCommitError, IcecoreError, ValidationError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Provenance
from icecore.engine.events.relocation import Relocation, Relocations
from icecore.engine.log.archives import ARCHIVE
from icecore.engine.log.location_mapping import storage_of
from icecore.engine.log.store import MODELS, EventStore, WriteTransaction
from icecore.engine.log.warehouse_folder import ROOT, SHARED, UUID, WarehouseFolder
from icecore.engine.metadata.fold import TableState, metadata_folder
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.properties.data_locations import data_folder
from icecore.engine.relocate.later_versions import check_later_versions
from icecore.engine.relocate.relocate_table import Needs, RelocatedTable, has_foreign_head, needs_of, relocated_table
from icecore.engine.replay.states import from_bytes, to_bytes
from icecore.engine.repository.assembly import assemble
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.materialize import CLAIMS_FOLDER
from icecore.projections.files.pointers import take_to_be_there
from icecore.projections.files.version_claims import relocate_claims

Progress = Callable[[str, int, int], None]
"""A callback that is told the step, how much of it is done, and how much there is."""


def no_progress(_: str, __: int, ___: int) -> None:
    """Ignores the progress."""


@frozen
class RelocatedWarehouse:
    """The result of a move or clone, or of its dry run. `source` and `target` are folders, as `file://` locations.

    `manifests` and `delete_files` count the files written anew that do not follow from the log; `problems` has a
    sentence for each table that could not be written, and the files concerned. `position` is that of the event, None in
    a dry run; `copied_files` and `copied_bytes` are what a clone copied.
    """

    source: str
    target: str
    tables: int
    views: int
    manifests: int = 0
    delete_files: int = 0
    position: int | None = None
    problems: tuple[str, ...] = ()
    copied_files: int = 0
    copied_bytes: int = 0


@define
class Relocating:
    """A relocation in progress.

    `store` is the log in the new folder, `files` finds the files at their present locations, and `kind` is that of the
    event to append.
    """

    store: EventStore
    folder: WarehouseFolder
    kind: str
    provenance: Provenance
    files: Storage
    shares_data: bool = False
    progress: Progress = no_progress
    problems: list[str] = field(factory=list)
    _folders: tuple[tuple[str, str], ...] = ()
    _repository: Repository = field(init=False)
    _views: ViewRepository = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._repository, self._views = assemble(self.store, evolve(self.files, refusal=None))
        self._repository.files.is_idle = self.kind == ev.WAREHOUSE_CLONED

    @property
    def step(self) -> Relocation:
        """The relocation, under the position that its event gets."""
        position = self.store.head()[0] + 1
        return Relocation(position, self.folder.root, self.folder.opened, self.shares_data, self._folders)

    def outcome(self) -> RelocatedWarehouse:
        """The result that it would have; nothing is done. Raises ValidationError as `run`."""
        tables, views = self._states()
        self._folders = self._folders_elsewhere((*tables, *views))
        needs = [n for _, n in self._needs(tables)]
        return RelocatedWarehouse(
            self.folder.root,
            self.folder.opened,
            len(tables),
            len(views),
            sum(len(n.manifests) for n in needs),
            problems=tuple(self.problems),
        )

    def run(self) -> RelocatedWarehouse:
        """Appends the events and builds the read models, then writes the files that follow.

        Raises CommitConflictError where another process relocated it meanwhile, ForeignCommitError where another
        engine's commit can't be adopted or lacks files, ValidationError where metadata can't be told from tables
        outside of the folder, StorageError; the warehouse is as it was then.
        """
        # Before any look at versions: a claim that was left behind must not lead to the former folder, nor one of a
        # clone to files of its original.
        own = self.folder.opened if self.kind == ev.WAREHOUSE_CLONED else None
        relocate_claims(self.store.path.absolute().parent / CLAIMS_FOLDER, self.step.mapping(), own)
        check_later_versions(self._repository)
        if problems := [p for p in self._repository.foreign.adopt_all() if not p.is_damage]:
            raise ForeignCommitError(problems[0].text)
        tables, views = self._states()
        states: list[TableState | ViewState] = [*tables, *views]
        self._folders = self._folders_elsewhere(states)
        head, step = self.store.head(), self.step
        made: dict[str, RelocatedTable] = {}
        for state, needs in self._needs(tables):
            if needs:
                with self._noting(state.identifier):
                    made[state.stream] = relocated_table(self._repository, state, needs, step, Storage())
        if not self.shares_data:
            self._copy_statistics(tables, step)
        foreign_views = [s.stream for s in views if has_foreign_head(self.store, s.stream)]
        shared = {s.stream: s for s in states if self._is_shared(s)}
        with self._remembering(), self.store.write() as transaction:
            if self.store.head() != head:
                raise CommitConflictError(f"the log {self.store.path} went on meanwhile; try again")
            places = {*self.files.shared, *self._outside(states), *((step.source,) if self.shares_data else ())}
            self._append(transaction, step, made, foreign_views, sorted(places))
            self._relocate_archived(step)
            self._repository.models.replay()
            self._repository.models.end_replay()
            for left in shared.values():
                take_to_be_there(self.store, self._repository.models, left)
        self._write_files([s.stream for s in states if s.stream not in shared])
        return RelocatedWarehouse(
            step.source,
            step.target,
            len(tables),
            len(views),
            sum(m.manifests for m in made.values()),
            sum(m.delete_files for m in made.values()),
            step.position,
            tuple(self.problems),
        )

    def _states(self) -> tuple[list[TableState], list[ViewState]]:
        """All tables and views, dropped ones too."""
        tables, views = list[TableState](), list[ViewState]()
        for row in self.store.rows(MODELS, "all_heads"):
            stream = row["stream"]
            if ev.is_view_stream(stream):
                views.append(self._views.state(stream))
            else:
                tables.append(self._repository.state(stream))
        return tables, views

    def _needs(self, tables: list[TableState]) -> Iterator[tuple[TableState, Needs]]:
        for number, state in enumerate(tables):
            self.progress("looking through", number, len(tables))
            with self._noting(state.identifier):
                yield state, needs_of(self._repository, state, self.step)

    @contextlib.contextmanager
    def _remembering(self) -> Iterator[None]:
        """A context that drops cached relocations where the transaction that stores them is rolled back."""
        try:
            yield
        except BaseException:
            self.store.forget_relocations()
            raise

    @contextlib.contextmanager
    def _noting(self, identifier: tuple[str, ...]) -> Iterator[None]:
        """A context that notes a table that can't be read: it keeps no other one from its new place."""
        try:
            yield
        except IcecoreError as e:
            self.problems.append(f"{name_text(identifier)}: {e}")

    def _is_shared(self, state: TableState | ViewState) -> bool:
        """Whether a table of a clone lies where the clone has no files of its own."""
        return self.kind == ev.WAREHOUSE_CLONED and not self._is_own(state.metadata.location)

    def _is_own(self, location: str) -> bool:
        return is_inside(self.step.mapping().resolve(location), self.folder.opened)

    def _outside(self, states: Iterable[TableState | ViewState]) -> set[str]:
        """The folders of tables and views that the original has elsewhere."""
        return {f for s in states for f in _folders_of(s) if not self._is_own(f)} | {old for old, _ in self._folders}

    def _folders_elsewhere(self, states: Sequence[TableState | ViewState]) -> tuple[tuple[str, str], ...]:
        """The outside folders that tables and views inside write to, or wrote metadata to, with their places in clones.

        Raises ValidationError where such a metadata folder holds a table that stays where it is. A data folder that
        does is only read.
        """
        metadata, former, data, stay = dict[str, str](), dict[str, str](), dict[str, str](), set[str]()
        for state in states if self.kind == ev.WAREHOUSE_CLONED else ():
            m = state.metadata
            if self._is_shared(state):
                stay |= _folders_of(state)
                continue
            files = (row["location"] for row in self.store.rows(MODELS, "files_of", stream=state.stream))
            kinds = (
                ("metadata", metadata, {metadata_folder(m.location, m.properties)}),
                ("metadata", former, {f.rpartition("/")[0] for f in files}),
                ("data", data, {_data_folder(state)}),
            )
            for name, found, folders in kinds:
                for outside in sorted(f for f in folders if not self._is_own(f)):
                    path = local_path(outside)
                    place = f"{self.step.mapping().resolve(m.location)}/{name}"
                    found.setdefault(outside if path is None else f"file://{path}", place)
        # A folder with its version hint goes to a table whose metadata is in it now, before one whose was there once.
        metadata = former | metadata
        for folder in {**data, **metadata}:
            other = next((f for f in sorted(stay) if is_inside(f, folder)), None)
            if other is not None and folder in metadata:
                raise ValidationError(
                    f"metadata that a clone has to have for itself is in {folder}, and a table, which stays where it "
                    f"is, in {other}: it can't be cloned"
                )
            if other is not None:
                del data[folder]
        return tuple(sorted((data | metadata).items()))

    def _copy_statistics(self, tables: Iterable[TableState], step: Relocation) -> None:
        """Copies statistics files from outside folders that tables write to, as they follow from no event."""
        for state in (s for s in tables if step.folders and s.purged_at is None):
            m = state.metadata
            with self._noting(state.identifier):
                paths = [
                    *(f.statistics_path for f in m.statistics),
                    *(f.statistics_path for f in m.partition_statistics),
                ]
                for path in paths:
                    if any(is_inside(path, old) for old, _ in step.folders):
                        Storage().write_atomic(step.mapping().resolve(path), self.files.read_bytes(path))

    def _append(
        self,
        transaction: WriteTransaction,
        step: Relocation,
        made: Mapping[str, RelocatedTable],
        views: Iterable[str],
        shared: Sequence[str],
    ) -> None:
        payload: dict[str, Any] = {"from": step.source, "to": step.target}
        if self.kind == ev.WAREHOUSE_CLONED:
            payload |= self._new_identity(step, shared)
            payload |= {"folders-outside": dict(step.folders)} if step.folders else {}
        self.store.execute(MODELS, "put_warehouse", key=ROOT, value=step.target)
        self._append_one(transaction, ev.CATALOG_STREAM, self.kind, payload)
        for stream, table in made.items():
            self._append_one(transaction, stream, ev.TABLE_RELOCATED, table.payload, table)
        for stream in views:
            self._append_one(transaction, stream, ev.VIEW_RELOCATED, {})

    def _new_identity(self, step: Relocation, shared: Sequence[str]) -> dict[str, Any]:
        """Gives the log the identity of a clone, and returns the fields of its event."""
        new, old = str(uuid.uuid4()), self.store.warehouse_value(UUID)
        self.store.execute(MODELS, "put_warehouse", key=UUID, value=new)
        self.store.execute(MODELS, "put_warehouse", key=SHARED, value=orjson.dumps(shared).decode())
        return {"warehouse-uuid": new, "cloned-from": old, "shares-data": step.shares_data, "shared": shared}

    def _append_one(
        self,
        transaction: WriteTransaction,
        stream: str,
        kind: str,
        payload: dict[str, Any],
        table: RelocatedTable | None = None,
    ) -> None:
        transaction.append(
            stream,
            kind,
            payload,
            provenance=self.provenance,
            event_id=None if table is None else table.event_id,
            content=None if table is None else table.content,
            content_rows=0 if table is None else table.rows,
        )

    def _relocate_archived(self, step: Relocation) -> None:
        """Relocates the states at the ends of archives, which are stored as they were read then."""
        relocations = Relocations((step,))
        for row in self.store.archives.kept("all_states"):
            state = from_bytes(row["state"], row["stream"], relocations.value)
            self.store.execute(
                ARCHIVE,
                "put_state",
                stream=row["stream"],
                stream_version=row["stream_version"],
                state=to_bytes(state),
            )

    def _write_files(self, streams: list[str]) -> None:
        """Writes the files of all tables and views; failures are left to the next open."""
        storage = storage_of(self.store, WarehouseFolder.of(self.store))
        repository, views = assemble(self.store, storage)
        for number, stream in enumerate(streams):
            self.progress("writing", number, len(streams))
            is_view = ev.is_view_stream(stream)
            state = views.state(stream) if is_view else repository.state(stream)
            with self._noting(state.identifier):
                views.materialize(stream) if is_view else repository.files.materialize(stream)


def _data_folder(state: TableState | ViewState) -> str:
    """The folder of a table's data; of a view, which has none, its location."""
    m = state.metadata
    return data_folder(m.location, m.properties) if isinstance(state, TableState) else m.location


def _folders_of(state: TableState | ViewState) -> set[str]:
    """The folders of a table or view, and those of its data and metadata."""
    m = state.metadata
    return {m.location, _data_folder(state), metadata_folder(m.location, m.properties)}
