"""Versions of file system tables that a folder has and its log lacks, as in a copy of a live warehouse.

They are taken for another engine's commits, and may be that: so they are refused only where files that they need are
missing.
"""

from __future__ import annotations

from attrs import evolve

from icecore.engine.errors import CorruptFileError, ForeignCommitError, MissingFileError, name_text
from icecore.engine.foreign.foreign_metadata import read_foreign
from icecore.engine.foreign.foreign_rows import FOREIGN
from icecore.engine.metadata.fold import TableState, metadata_folder
from icecore.engine.repository.repository import Repository
from icecore.projections.files.version_files import version_after, version_of
from icecore.projections.inspect.reachable_files import needed_files


def check_later_versions(repository: Repository) -> None:
    """Raises ForeignCommitError for a version that the log lacks and whose files are missing or cut off.

    Of each table only the newest is checked: files that an earlier one names may have been expired since.
    """
    repository.materializer.settle_claims()
    for row in repository.store.rows(FOREIGN, "numbered_heads"):
        state = repository.state(row["stream"])
        location = _newest_version(repository, state)
        if location is not None and (missing := _missing(repository, state, location)) is not None:
            here = repository.storage_of(state).resolve(location)
            raise ForeignCommitError(
                f"{name_text(state.identifier)}: {here} is later than the log and needs what is missing or cut off "
                f"({missing}), as where a warehouse was copied while it was written; clone the original to a new "
                f"folder, or delete that version here"
            )


def _newest_version(repository: Repository, state: TableState) -> str | None:
    storage, version = repository.storage_of(state), state.metadata_version
    folder, newest = metadata_folder(state.metadata.location, state.metadata.properties), None
    while (location := version_after(folder, version, storage)) is not None:
        newest, version = location, version_of(location) or version + 1
    return newest


def _missing(repository: Repository, state: TableState, location: str) -> str | None:
    """The first missing file that a version's new snapshots need; None where all are there."""
    storage, known = repository.storage_of(state), state.metadata.snapshots_by_id
    try:
        metadata = read_foreign(location, storage).metadata
        new = tuple(s for s in metadata.snapshots if s.snapshot_id not in known)
        of_new = evolve(metadata, snapshots=new, metadata_log=(), statistics=(), partition_statistics=())
        later = evolve(state, stream=f"{state.stream}@{location}", metadata=of_new, metadata_location=None)
        return next((storage.resolve(f) for f in needed_files(repository, later, set()) if not storage.exists(f)), None)
    except (CorruptFileError, MissingFileError) as e:
        return str(e)
