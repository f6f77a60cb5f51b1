"""All existing files of a table: those that its log names, and those in its folders."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.common.location import to_uri
from icecore.engine.deletion.deletion_candidates import is_within
from icecore.engine.deletion.file_names import hidden_in, is_table_file
from icecore.engine.errors import IcecoreError
from icecore.engine.events import event as ev
from icecore.engine.formats.deleted_files import DeletedFile
from icecore.engine.log.deletion_content import deleted_files
from icecore.engine.log.store import MODELS
from icecore.engine.metadata.fold import TableState, folders_of
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import FoundFile, LocationIndex, Place, list_files
from icecore.projections.inspect.reachable_files import needed_files


@frozen
class TableFiles:
    """The existing files of a table that a purge deletes, those that it leaves, and all that its events name.

    Left are files that its events name outside of the table's folders and of the warehouse, and those in its folders
    that are not named as a table's files are.
    """

    files: tuple[DeletedFile, ...]
    left: tuple[str, ...]
    named: frozenset[str]


def files_of_table(repository: Repository, state: TableState) -> TableFiles:
    """Finds the files of a table. Its folders are not listed where one is, or lies in, another table's location.

    Then only files that its events name are found. Raises StorageError.
    """
    storage = repository.storage_of(state)
    places = LocationIndex(storage)
    folders = {p for folder in folders_of(state) for p in places.of(folder)}
    home = LocationIndex(Storage()).of(to_uri(repository.store.path.absolute().parent))

    names = frozenset(_named(repository, state))
    named = {storage.key(location): location for location in names}
    files: list[DeletedFile] = []
    left: list[str] = []
    for file in _listed(repository, state, places, folders):
        if storage.key(file.location) in named or is_table_file(file.location):
            named.pop(storage.key(file.location), None)
            files.append(DeletedFile(file.location, file.size, file.modified_ms))
        else:
            left.append(file.location)
    for location in sorted(named.values()):
        if _is_there(storage, location):
            inside = any(is_within(p, outer) for p in places.of(location) for outer in folders | home)
            files.append(DeletedFile(location)) if inside else left.append(location)
    return TableFiles(tuple(files), tuple(left), names)


def _listed(
    repository: Repository, state: TableState, places: LocationIndex, folders: set[Place]
) -> Iterator[FoundFile]:
    if any(is_within(p, outer) for outer in _folders_of_others(repository, state, places) for p in folders):
        return
    seen: set[str] = set()
    for folder in folders_of(state):
        for found in list_files(places.storage, folder, hidden_in(state)):
            if found.location not in seen:
                seen.add(found.location)
                yield found


def _folders_of_others(repository: Repository, state: TableState, places: LocationIndex) -> Iterator[Place]:
    """The locations of all other tables and views that were not purged."""
    for row in repository.store.rows(MODELS, "all_heads"):
        if row["stream"] != state.stream and row["location"] is not None:
            yield from places.of(row["location"])


def _is_there(storage: Storage, location: str) -> bool:
    with contextlib.suppress(IcecoreError):
        return storage.exists(location)
    return True


def _named(repository: Repository, state: TableState) -> Iterator[str]:
    """The files that the log names or has noted as written, whatever became of them."""
    yield from (row["location"] for row in repository.store.rows(MODELS, "all_files_of", stream=state.stream))
    # References that can't be read any more are passed over.
    with contextlib.suppress(IcecoreError):
        yield from needed_files(repository, state, set())
    with contextlib.suppress(IcecoreError):
        for event in repository.store.stream_events(state.stream):
            if event.kind == ev.TABLE_COMMITTED:
                yield from _added(repository, event)
            elif event.kind in ev.DELETIONS:
                yield from (f.location for f in deleted_files(repository.store, event))


def _added(repository: Repository, event: ev.Event) -> list[str]:
    entries = repository.store.entries(event.position)
    if entries is None:
        return []
    added = entries.filter(pc.equal(entries["status"], int(ManifestEntryStatus.ADDED)))
    paths: list[str] = pc.unique(added["file_path"]).to_pylist()
    return paths
