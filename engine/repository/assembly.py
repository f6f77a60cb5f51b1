"""The assembly of an open warehouse from its parts: tables and views on one log."""

from __future__ import annotations

import os

from attrs import evolve

from icecore.engine.log.read_models import ReadModels
from icecore.engine.log.store import EventStore
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.view_repository import ViewRepository
from icecore.engine.storage.file_io import Storage
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
    entries = ManifestEntries(store, models)
    materializer = Materializer(store, models, entries, Storage(scratch=scratch))
    repository = Repository(store, models, entries, materializer, evolve(storage, scratch=scratch))
    return repository, ViewRepository(repository)
