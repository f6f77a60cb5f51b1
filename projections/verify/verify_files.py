"""The check of the files beside a table's metadata, by which other engines find its version."""

from __future__ import annotations

import time
from collections.abc import Iterator

from icecore.engine.errors import IcecoreError, name_text
from icecore.engine.log.store import MODELS
from icecore.engine.metadata.fold import TableState, is_file_system
from icecore.engine.repository.repository import Repository
from icecore.projections.files.version_files import version_after, version_of
from icecore.projections.files.version_hint import VERSION_HINT, hint_of
from icecore.projections.inspect.reachable_files import shares_location

HINT_FOLLOWS_S = 5.0
"""The seconds after a commit for which the version hint may stay behind the pointer; its writer may be slow."""


def hint_problems(repository: Repository, state: TableState) -> Iterator[str]:
    """The problem of a version hint that names another version."""
    if state.metadata_location is not None and _is_published(repository, state):
        yield from _hint_problems(repository, state, state.metadata_location)


def ahead_problems(repository: Repository, state: TableState) -> Iterator[str]:
    """The fault of a file system table's version that the log lacks. Asked outside of `reading`: others may commit."""
    if not is_file_system(state) or not _is_published(repository, state):
        return
    known, location = None, _published(repository, state)
    # A version of ours is claimed before it is there, until the log has it: one without a claim is another writer's,
    # unless the log went on.
    while location is not None and location != known:
        known, folder = location, location.rsplit("/", 1)[0]
        version = version_of(location) or state.metadata_version
        path = version_after(folder, version, repository.storage_of(state))
        if path is None or repository.materializer.is_claimed(state.stream):
            return
        if (location := _published(repository, state)) == known:
            yield (
                f"{path} is ahead of the log, which ends at version {version} of {name_text(state.identifier)}: "
                "another engine made it, or its event was lost; to go on from there, drop the table and "
                "register that file"
            )


def _published(repository: Repository, state: TableState) -> str | None:
    head = repository.store.row(MODELS, "get_head", stream=state.stream)
    location: str | None = None if head is None else head["metadata_location"]
    return location


def _is_published(repository: Repository, state: TableState) -> bool:
    """Whether all of a table is written out, and it alone has its folder."""
    head = repository.store.row(MODELS, "get_head", stream=state.stream)
    if head is None or state.dropped or state.metadata_location is None or shares_location(repository, state):
        return False
    return not state.pending and head["materialized_version"] >= state.stream_version


def _hint_problems(repository: Repository, state: TableState, location: str) -> Iterator[str]:
    if repository.store.row(MODELS, "get_file", location=location) is None:
        # Another engine wrote this version, and may have left no hint.
        return
    folder, expected = location.rsplit("/", 1)[0], hint_of(state)
    path = f"{folder}/{VERSION_HINT}"
    # A hint of a commit long ago will not come any more: a warehouse whose hints are lost is told of at once. Clocks
    # may jump.
    age = max(0.0, time.time() - state.metadata.last_updated_ms / 1000)
    deadline = time.monotonic() + HINT_FOLLOWS_S - age
    while True:
        # A reader that was held up looks once more.
        is_last = time.monotonic() > deadline
        try:
            content = repository.storage_of(state).read_bytes(path)
        except IcecoreError as e:
            problem = str(e)
        else:
            found = content.decode(errors="replace")
            if found == expected or _is_of_another(repository, state, folder, found):
                return
            problem = f"{path}: it says {found[:100]!r}, the log ends at {expected!r}; rebuild"
        if is_last:
            yield problem
            return
        # A writer's pointer moves before its hint: it may be about to write it.
        time.sleep(0.02)


def _is_of_another(repository: Repository, state: TableState, folder: str, name: str) -> bool:
    """Whether a hint names a metadata file that somebody else made, as where a table is registered elsewhere too."""
    if not name or "/" in name or "\0" in name:
        return False
    version = f"v{name}" if is_file_system(state) else name
    paths = (f"{folder}/{version}{gz}.metadata.json" for gz in ("", ".gz"))
    return any(
        repository.storage_of(state).exists(p) and repository.store.row(MODELS, "get_file", location=p) is None
        for p in paths
    )
