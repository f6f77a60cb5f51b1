"""The adoption of other engines' commits, made in the SQLite file or in a file system table's folder, into the log.

At open everything is compared; at load and before each commit only the table is, by one indexed query. Where it
differs, all differences of the warehouse are adopted under the write lock, as events of a transaction of their own, so
that one of several processes does it. A commit that can't be adopted is a problem that names its table, and stands in
the way of commits to that table only.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable

from attrs import define, field

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import ForeignCommitError, IcecoreError, name_text
from icecore.engine.events.event import CATALOG_STREAM, is_view_stream
from icecore.engine.foreign.adoption import AdoptionContext, AdoptionRun, CheckTaken, Problem
from icecore.engine.foreign.foreign_commits import next_version_file, take_in_versions
from icecore.engine.foreign.foreign_differences import differences_trusted, true_namespaces
from icecore.engine.foreign.foreign_names import take_in_names
from icecore.engine.foreign.foreign_namespaces import take_in_gone, take_in_made
from icecore.engine.foreign.foreign_rows import Difference, ForeignRows
from icecore.engine.foreign.register import metadata_version
from icecore.engine.log.lock.standing import Standing
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import EventStore
from icecore.engine.metadata.fold import TableState, is_file_system
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.replay.kinds import VIEWS, TableStates
from icecore.engine.replay.states import States
from icecore.engine.storage.file_io import Storage
from icecore.projections.files.file_follower import FileFollower
from icecore.projections.files.version_files import version_after

MAX_ROUNDS = 50


class ForeignCommitWarning(UserWarning):
    """A warning that another engine changed something that can't be adopted; the log's own state is shown."""


@define
class Adopter:
    """The adopter of other engines' commits. Safe to use from several threads and processes."""

    context: AdoptionContext
    _seen: threading.local = field(factory=threading.local, repr=False)
    _warned: set[str] = field(factory=set)

    @classmethod
    def of(
        cls,
        store: EventStore,
        models: ReadModels,
        states: TableStates,
        files: FileFollower,
        storage: Storage,
        check_taken: CheckTaken,
    ) -> Adopter:
        """An adopter for a warehouse of these parts."""
        rows, views = ForeignRows(store, models.catalog_name), States(VIEWS, store)
        return cls(AdoptionContext(store, models, states, views, rows, files, storage, check_taken))

    @property
    def rows(self) -> ForeignRows:
        """The rows of `iceberg_tables` and of namespaces that differ from the log."""
        return self.context.rows

    # Looking

    def adopt_all(self) -> tuple[Problem, ...]:
        """Adopts everything; warns of problems and returns them. Raises WarehouseLockedError, StorageError."""
        problems = self._adopt_all()
        self._warn(problems)
        return problems

    def _adopt_all(self) -> tuple[Problem, ...]:
        version = self.context.store.data_version()
        suspects = tuple(self._suspects())
        problems: tuple[Problem, ...] = ()
        if suspects or self.rows.differences() or self.rows.namespaces():
            problems = self._adopt(suspects) if self.context.store.is_writable else self._read_only()
        self._seen.version = version
        return problems

    def adopt_all_if_changed(self) -> None:
        """Adopts as `adopt_all`, if the SQLite file was written to since; called before names are looked up."""
        if getattr(self._seen, "version", None) != self.context.store.data_version():
            self.adopt_all()

    def adopt_each(self) -> None:
        """Adopts as `adopt_all`, called before files are deleted.

        Raises ForeignCommitError where something can't be adopted: which files it needs is not known.
        """
        for problem in self._adopt_all():
            raise ForeignCommitError(problem.text)

    def adopt_or_warn(self, stream: str) -> None:
        """Adopts commits to one table or view before it is read; warns where that can't be done."""
        try:
            self.adopt_stream(stream)
        except ForeignCommitError as e:
            self._warn([Problem((), stream, str(e))])

    def stream_of(self, identifier: Identifier, find: Callable[[Identifier, tuple[str, str] | None], str]) -> str:
        """The stream of a name, found by one of the read models' look-ups after commits to it were adopted."""
        standing = self.context.models.find_standing_of(identifier)
        if standing is not None and standing.kind is not None and not self._is_behind(standing):
            return find(identifier, (standing.kind, standing.stream))
        self.adopt_name(identifier)
        return find(identifier, None)

    def adopt_name(self, identifier: Identifier) -> None:
        """Adopts changes of one name before it is looked up; warns where that can't be done."""
        found = self.context.models.find(identifier)
        if found is not None:
            self.adopt_or_warn(found[1])
        elif self.rows.of_name(identifier) is not None:
            self.adopt_all()

    def adopt_stream(self, stream: str) -> None:
        """Adopts other engines' commits where those to one table or view, or to the catalog, are not in the log yet.

        Raises ForeignCommitError where it can't be: a commit that does not follow the log, a file that can't be read.
        """
        if stream == CATALOG_STREAM:
            if self.rows.namespaces():
                self.adopt_all()
            return
        if not self._differs(stream):
            return
        suspects = () if is_view_stream(stream) else (stream,)
        problems = self._adopt(suspects) if self.context.store.is_writable else self._read_only()
        for problem in problems:
            if problem.stream == stream:
                raise ForeignCommitError(problem.text)

    def latest(self, stream: str) -> TableState:
        """The latest state of a table, after commits of others to it were adopted.

        Raises ForeignCommitError as `adopt_stream`, NoSuchTableError, CorruptLogError.
        """
        standing = self.context.models.find_standing(stream)
        if standing is None or self._is_behind(standing):
            self.adopt_stream(stream)
            return self.context.states.state(stream)
        return self.context.states.state(stream, standing.last_version)

    def check(self, state: TableState | ViewState, standing: Standing | None = None) -> None:
        """Raises ForeignCommitError where another engine committed since `adopt_stream`.

        `standing` is the stream's, where that is known. Outside of the write lock, as in a dry run, a version
        that our own commit is about to make is not counted.
        """
        if standing is None or standing.is_moved:
            self.check_row(state.stream)
        name = name_text(state.identifier)
        if isinstance(state, TableState) and is_file_system(state) and not state.dropped:
            if self.context.store.connection().in_transaction:
                self.context.files.materializer.settle_claim(state.stream)
            elif self.context.files.materializer.is_claimed(state.stream):
                return
            if (made := next_version_file(state, self.context.storage_of(state))) is not None:
                raise ForeignCommitError(f"{name}: another writer made {made} meanwhile")

    def check_row(self, stream: str) -> None:
        """Raises ForeignCommitError where another engine moved or took the row of a table or view meanwhile."""
        if (found := self.rows.of_stream(stream)) is not None:
            raise _moved(found)

    def check_rows(self) -> None:
        """Raises ForeignCommitError as `check_row`, of any table or view; inside of the write lock."""
        version = self.context.store.data_version()
        if getattr(self._seen, "agreed", None) == version:
            return
        for found in self.rows.differences():
            raise _moved(found)
        self._seen.agreed = version

    def check_namespaces(self) -> None:
        """Raises ForeignCommitError where another engine changed a namespace; inside of the write lock."""
        if found := [d for d in self.rows.namespaces() if d.is_text]:
            raise ForeignCommitError(
                f"another engine changed the namespace {name_text(found[0].namespace)!r} meanwhile"
            )

    def _differs(self, stream: str) -> bool:
        if self.rows.of_stream(stream) is not None:
            return True
        return not is_view_stream(stream) and self._has_next_version(self.context.states.state(stream))

    def _is_behind(self, standing: Standing) -> bool:
        """Whether another engine committed to a table or view since it was published last."""
        if standing.is_moved or is_view_stream(standing.stream):
            return standing.is_moved
        return self._has_next_version(self.context.states.state(standing.stream, standing.last_version))

    def _has_next_version(self, state: TableState) -> bool:
        if state.dropped or not is_file_system(state):
            return False
        return next_version_file(state, self.context.storage_of(state)) is not None

    def _suspects(self) -> Iterable[str]:
        """File system tables whose folder holds a version after the published one; may be commits under way."""
        for head in self.rows.numbered_heads():
            folder, name = head.logged_location.rsplit("/", 1)
            try:
                if version_after(folder, metadata_version(name), self.context.storage) is not None:
                    yield head.stream
            except IcecoreError:
                # A folder that can't be looked at now: loading the table says so.
                continue

    # Taking in

    def _adopt(self, suspects: tuple[str, ...]) -> tuple[Problem, ...]:
        """Adopts all that can be in one transaction; what fails is left out.

        Where that is found only as files are written, the others are tried again, in at most MAX_ROUNDS rounds. Raises
        the last error where there are more such failures.
        """
        failed: list[Problem] = []
        while True:
            left_out = {p.identifier for p in failed}
            adoption = AdoptionRun(self.context, set(left_out))
            try:
                with self.context.store.write() as transaction:
                    adoption.begin(transaction)
                    _take_in(adoption, suspects)
            except IcecoreError as e:
                if adoption.current is None or adoption.current in left_out or len(failed) == MAX_ROUNDS:
                    raise
                failed.append(Problem.of(adoption.current, adoption.current_stream, e))
                continue
            adoption.finish()
            return (*failed, *adoption.problems)

    def _read_only(self) -> tuple[Problem, ...]:
        out = []
        for d in self.rows.differences():
            what = f"committed {d.row_location} through" if d.row_location else "took it out of"
            what = what if d.stream else f"made it ({d.row_location}) in"
            text = (
                f"{name_text(d.identifier)}: another engine {what} iceberg_tables; the log, opened read-only, is "
                "behind until somebody opens it to write, as `icecore checkpoint` does"
            )
            out.append(Problem(d.identifier, d.stream, text))
        return tuple(out)

    def _warn(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            if problem.text not in self._warned:
                self._warned.add(problem.text)
                warnings.warn(problem.text, ForeignCommitWarning, stacklevel=5)


def _take_in(adoption: AdoptionRun, suspects: Iterable[str]) -> None:
    """Appends the events, in an order in which each is possible, and moves the projections.

    `suspects` are streams of file system tables whose folder may hold a new version. Raises the error of
    adopting `current`.
    """
    namespaces = true_namespaces(adoption)
    for namespace in namespaces:
        take_in_made(adoption, namespace)
    take_in_names(adoption, *differences_trusted(adoption))
    for namespace in namespaces:
        take_in_gone(adoption, namespace)
    for stream in suspects:
        take_in_versions(adoption, stream)
    adoption.advance()


def _moved(found: Difference) -> ForeignCommitError:
    return ForeignCommitError(
        f"{name_text(found.identifier)}: another engine committed {found.row_location} through iceberg_tables; the log "
        f"ends at {found.logged_location}"
    )
