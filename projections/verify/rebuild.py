"""The rebuild of everything that follows from the log: the read models, and the files for other engines."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection

from attrs import define, field

from icecore.engine.common.identifiers import Identifier
from icecore.engine.errors import (
    CorruptLogError,
    ForeignCommitError,
    IcecoreError,
    RebuildError,
    StorageError,
    name_text,
)
from icecore.engine.events.event import is_view_stream
from icecore.engine.log.chain import chain_problems
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository


def rebuild(store: EventStore, repository: Repository, views: ViewRepository) -> None:
    """Rebuilds the read models and all files, with the same bytes, and moves the pointers, in one transaction.

    So others see what was there until all is done, and a process that dies over it leaves that. What `iceberg_tables`
    holds of other catalogs is not ours, and stays. Raises CorruptLogError where the log itself can't be trusted, and
    ForeignCommitError where another engine's commit can't be adopted, or comes just now: the read models are the only
    place that knows of it. Raises RebuildError at the end where tables could not be written again: these keep what was
    published of them.
    """
    _check_chain(store)
    damaged = repository.foreign.adopt_all()
    if found := [p for p in damaged if not p.is_damage]:
        raise ForeignCommitError(found[0].text)
    rebuilding = _Rebuilding(store, repository, views)
    try:
        with store.write():
            _check_nothing_new(repository, {p.identifier for p in damaged})
            # Dropped ones come last: a file system table may have been made in the folder of one.
            for stream in sorted(rebuilding.replay(), key=lambda s: repository.models.identifier_of(s) is None):
                rebuilding.write(stream)
            repository.models.end_replay()
    finally:
        repository.forget()
        views.forget()
    rebuilding.finish()


def rebuild_one(store: EventStore, repository: Repository, views: ViewRepository, stream: str) -> None:
    """Writes all files of one table or view again, with the same bytes; the read models stay. Raises as `rebuild`."""
    _check_chain(store)
    if not is_view_stream(stream):
        repository.foreign.adopt_stream(stream)
    repository.forget()
    views.forget()
    state = None
    try:
        with store.write():
            damaged = _damaged(repository, stream)
            store.execute(MODELS, "forget_materialized", stream=stream)
            if is_view_stream(stream):
                views.rewrite(stream)
            else:
                state = repository.files.rewrite(stream, damaged)
    finally:
        repository.forget()
        views.forget()
    if state is not None:
        repository.files.finish_again(state)


@define
class _Rebuilding:
    """A rebuild in the making."""

    store: EventStore
    repository: Repository
    views: ViewRepository
    states: dict[str, TableState] = field(factory=dict)
    failed: dict[str, str] = field(factory=dict)
    rebuilt: int = 0
    _damaged: frozenset[str] = frozenset()

    def replay(self) -> list[str]:
        """Rebuilds the read models; returns the streams of tables and views, in the order of the log."""
        self._damaged = _damaged(self.repository)
        self.repository.forget()
        self.views.forget()
        return self.repository.models.replay()

    def write(self, stream: str) -> None:
        """Writes the files of a stream again; where that can't be, all that was published of it stays."""
        try:
            if is_view_stream(stream):
                self.views.rewrite(stream)
            elif (state := self.repository.files.rewrite(stream, self._damaged)) is not None:
                self.states[stream] = state
            self.rebuilt += 1
        except Exception as e:
            # Whatever is wrong with one, the others have a right to their files.
            self._fail(stream, e)
            self._keep(stream)

    def _fail(self, stream: str, error: Exception) -> None:
        identifier = self.repository.models.identifier_of(stream)
        name = stream if identifier is None else name_text(identifier)
        self.failed[name] = str(error) if isinstance(error, IcecoreError) else f"{type(error).__name__}: {error}"

    def _keep(self, stream: str) -> None:
        models = self.repository.models
        before = self.store.row(MODELS, "published_before", stream=stream)
        if before is None:
            return
        self.store.execute(MODELS, "keep_files_before", stream=stream)
        location, version = before["metadata_location"], before["materialized_version"]
        self.store.execute(MODELS, "put_materialized", stream=stream, version=version, metadata_location=location)
        identifier = models.identifier_of(stream)
        if identifier is not None and location is not None:
            models.share(stream, identifier, location)

    def finish(self) -> None:
        """Writes hints and removes forgotten files after the commit. Raises RebuildError."""
        # Where tables share a folder, its hint is written last for the last commit to one that still has a name.
        for stream, state in sorted(self.states.items(), key=lambda i: (not i[1].dropped, i[1].position)):
            try:
                self.repository.files.finish_again(state)
            except IcecoreError as e:
                self.rebuilt -= 1
                self._fail(stream, e)
        if self.failed:
            raise RebuildError(self.failed, self.rebuilt)


def _check_chain(store: EventStore) -> None:
    # Others may archive or forget meanwhile.
    with store.reading():
        problems = list(chain_problems(store))
    if problems:
        raise CorruptLogError(f"the log can't be trusted, so nothing is rebuilt from it: {problems[0]}")


def _damaged(repository: Repository, only: str | None = None) -> frozenset[str]:
    """Metadata files whose bytes are no longer those that were written, so that they may be written over.

    A version of a file system table is never written over, since another writer's would be lost; but if the log notes
    that it wrote this very version, other bytes are damage.
    """
    found = set()
    for row in repository.store.rows(MODELS, "all_files"):
        if row["kind"] != "metadata" or only not in (None, row["stream"]):
            continue
        stream = row["stream"]
        storage = repository.storage if is_view_stream(stream) else repository.storage_of(repository.state(stream))
        with contextlib.suppress(StorageError):
            if hashlib.sha256(storage.read_bytes(row["location"])).hexdigest() != row["sha256"]:
                found.add(row["location"])
    return frozenset(found)


def _check_nothing_new(repository: Repository, damaged: Collection[Identifier]) -> None:
    """Raises ForeignCommitError where another engine changed a row since the look before the lock was taken."""
    rows = repository.foreign.rows
    changed = [*(d.identifier for d in rows.differences()), *(d.namespace for d in rows.namespaces())]
    if new := [name for name in changed if name not in damaged]:
        raise ForeignCommitError(
            f"another engine changed {name_text(new[0])} in iceberg_tables just now; rebuild again"
        )
