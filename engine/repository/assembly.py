"""The assembly of an open warehouse from its parts: tables and views on one log.

A repository is pickled as the way to open its log, so that tables and scans can be sent to workers. There it is opened
once, for all that comes from it.
"""

from __future__ import annotations

import copyreg
import os
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache

from attrs import evolve, frozen

from icecore.engine.errors import NotFoundError, StorageError
from icecore.engine.log.location_mapping import storage_of
from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import EventStore
from icecore.engine.log.warehouse_folder import WarehouseFolder
from icecore.engine.replay.kinds import TableStates
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.location_rules import LocationRules
from icecore.projections.entries.manifest_entries import ManifestEntries
from icecore.projections.files.materialize import Materializer

CACHE_FOLDER = ".icecore"
SCRATCH_FOLDER = "unfinished"


def scratch_folder(store: EventStore) -> str:
    """The folder of the warehouse's files that are not whole yet."""
    return os.fspath(store.path.absolute().parent / CACHE_FOLDER / SCRATCH_FOLDER)


def assemble(store: EventStore, storage: Storage) -> tuple[Repository, ViewRepository]:
    """The tables and views of a log; `storage` finds their files."""
    scratch = scratch_folder(store)
    models = ReadModels(store)
    entries = ManifestEntries(store, models, lambda stream, ids: specs_of(repository.states, stream, ids))
    materializer = Materializer(store, models, entries, Storage(scratch=scratch))
    repository = Repository(store, models, entries, materializer, evolve(storage, scratch=scratch))
    return repository, ViewRepository(repository)


def specs_of(states: TableStates, stream: str, spec_ids: Collection[int]) -> Mapping[int, PartitionSpec]:
    """The partition specs of a table, from its last known state if that has all these ids; empty without a table."""
    try:
        known = states.known(stream).metadata.specs
        return known if known.keys() >= set(spec_ids) else {**known, **states.state(stream).metadata.specs}
    except NotFoundError:
        return {}


@frozen
class Opening:
    """The way to open a log again as a process has it open; `inode` tells logs of one path apart."""

    path: str
    read_only: bool
    rules: LocationRules
    inode: int = 0

    @classmethod
    def of(cls, repository: Repository) -> Opening:
        """The way to a repository's log."""
        return cls(os.path.abspath(repository.store.path), repository.store.read_only, repository.location_rules)

    def now(self) -> Opening:
        """The way to the log at the path now. Raises StorageError for a log that this process does not reach."""
        try:
            return evolve(self, inode=os.stat(self.path).st_ino)
        except OSError as e:
            raise StorageError(f"there is no warehouse log at {self.path}: {e.strerror}") from e


def reopened(opening: Opening) -> Repository:
    """The repository of a log, the same one each time while it is among the last opened. Raises as `EventStore`."""
    return _reopened(opening.now())


@lru_cache(maxsize=4)
def _reopened(opening: Opening) -> Repository:
    store = EventStore(opening.path, create=False, read_only=opening.read_only)
    folder = WarehouseFolder.of(store)
    if not folder.is_home:
        store.refusal = folder.refusal()
    repository, _ = assemble(store, storage_of(store, folder))
    repository.location_rules = opening.rules
    return repository


def _reduced(repository: Repository) -> tuple[Callable[[Opening], Repository], tuple[Opening]]:
    return reopened, (Opening.of(repository),)


copyreg.pickle(Repository, _reduced)
