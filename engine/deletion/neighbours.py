"""Neighbours: the other tables that may reference a file that is to be deleted.

Only tables are checked that have files in the same folders, which `table_folder` of the log indexes. So deletions in a
warehouse whose tables keep to their own locations cost a few look-ups, however many tables there are. Manifests that
other engines wrote are read once, and the folders that they name are indexed, until the table has new ones.

Locations are compared by their paths, whatever their scheme or spelling. Symbolic links are followed, except one in the
warehouse's own folder that is a table's location, or lies in it, and points to another table: that would cost a look at
each table.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import orjson

from icecore.engine.common.location import folded, local_path
from icecore.engine.deletion.deletion_candidates import Candidates
from icecore.engine.errors import IcecoreError
from icecore.engine.events import event as ev
from icecore.engine.log.store import MODELS, EventStore
from icecore.engine.log.table_folders import folder_keys, key_of_path, with_those_above
from icecore.engine.metadata.fold import TableState, folders_of
from icecore.engine.repository.repository import Repository
from icecore.engine.storage.listing import FILE
from icecore.projections.inspect.reachable_files import needed_files


def streams_that_may_need(repository: Repository, stream: str, candidates: Candidates) -> list[str]:
    """The streams of other tables and views, dropped ones too, that may need any of the candidates."""
    store = repository.store
    if not _are_known(repository):
        return [row["stream"] for row in store.rows(MODELS, "all_heads") if row["stream"] != stream]
    if store.is_writable:
        for row in store.rows(MODELS, "streams_anywhere", stream=stream):
            _find_out(repository, row["stream"], row["position"])
    home = str(store.path.absolute().parent)
    keys = _keys(repository, candidates, home)
    text = orjson.dumps(sorted(keys)).decode()
    streams = {row["stream"] for row in store.rows(MODELS, "streams_in_folders", stream=stream, folders=text)}
    for row in store.rows(MODELS, "local_folders_elsewhere", stream=stream, home=folded(home)):
        path = local_path(row["location"])
        if row["stream"] not in streams and path and not keys.isdisjoint(folder_keys(os.path.realpath(path))):
            streams.add(row["stream"])
    return sorted(streams)


def states_of(repository: Repository, stream: str) -> Iterator[TableState]:
    """The latest state of a table, and the one that is written out for other engines where that is another."""
    state = repository.state(stream)
    yield state
    head = repository.store.row(MODELS, "get_head", stream=stream)
    if head is not None and 0 < head["materialized_version"] < state.stream_version:
        written = repository.states.state_at_version(stream, head["materialized_version"])
        if written is not None:
            yield written


def _are_known(repository: Repository) -> bool:
    """Whether the index of folders is complete; where an earlier release left events out, these are noted first."""
    store, folders = repository.store, repository.models.folders
    if folders.known_up_to >= store.head()[0]:
        return True
    if not store.is_writable:
        return False
    with _writing(store):
        folders.complete()
    return True


def _writing(store: EventStore) -> contextlib.AbstractContextManager[object]:
    """A write transaction: the one that is open, or one of its own."""
    return contextlib.nullcontext() if store.connection().in_transaction else store.write()


def _keys(repository: Repository, candidates: Candidates, home: str) -> set[str]:
    """The folders of the candidates and all above them, as events may name them."""
    keys = {key_of_path(p.path.rpartition("/")[0], is_local=p.scheme == FILE) for p in candidates.all_places()}
    pairs = [(home, os.path.realpath(home)), *repository.storage.mapping.prefixes]
    for named, target in pairs:
        for lies, old in ((k, n) for k in folder_keys(target) for n in folder_keys(named) if k != n):
            keys |= {old + key[len(lies) :] for key in keys if key == lies or key.startswith(f"{lies}/")}
    return with_those_above(keys)


def _find_out(repository: Repository, stream: str, position: int) -> None:
    """Indexes the folders of all files of a table that has manifests of other engines, as of a position.

    Where they can't be read the table stays without an index entry, and is checked by every deletion.
    """
    with contextlib.suppress(IcecoreError):
        folders = sorted(_folders_of(repository, stream))
        with _writing(repository.store):
            repository.models.folders.note(stream, position, folders)


def _folders_of(repository: Repository, stream: str) -> set[str]:
    out = {row["location"].rpartition("/")[0] for row in repository.store.rows(MODELS, "files_of", stream=stream)}
    if ev.is_view_stream(stream):
        return out
    seen: set[tuple[str, str]] = set()
    for state in states_of(repository, stream):
        if state.purged_at is not None:
            break
        # Without the location mapping of this session: the next session may have another.
        resolve = state.location_mapping.resolve
        out |= {resolve(folder) for folder in folders_of(state)}
        out |= {resolve(location).rpartition("/")[0] for location in needed_files(repository, state, seen)}
    return out
