"""A quick look at a table's files, shared by the audit tables about files: a sound table needs no search.

`verify` and the search for orphan files say what is wrong, at several times the cost. So this look may take a table for
unsound where these find nothing, but never a table for sound where they find something.
"""

from __future__ import annotations

import contextlib
import hashlib

from attrs import define, field, frozen

from icecore.engine.deletion.file_names import hidden_in
from icecore.engine.errors import IcecoreError
from icecore.engine.metadata.fold import TableState, folders_of
from icecore.engine.repository.repository import Repository
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import list_folders
from icecore.projections.files.version_hint import VERSION_HINT
from icecore.projections.verify.verify_needed import METADATA, PREVIOUS, Needed, NeededFile, needed_of_table
from icecore.projections.verify.verify_presence import GONE, Looker
from icecore.projections.verify.verify_unlogged import unlogged_commits


@frozen
class FileLook:
    """The state of a table's files; each field is true only where that is sure.

    `are_there`: all files are there as they should be. `are_needed`: there are no others in the table's folders, so
    that nothing in these could be deleted.
    """

    are_there: bool = False
    are_needed: bool = False


@define(eq=False)
class FileLooks:
    """The looks at the files of tables, one at each. For `stores` see `Looker`."""

    stores: dict[str, str | None] = field(factory=dict)
    _found: dict[str, FileLook] = field(factory=dict)

    def of(self, repository: Repository, state: TableState) -> FileLook:
        """The look at all files that a table needs."""
        if state.stream not in self._found:
            self._found[state.stream] = _look(repository, state, self.stores)
        return self._found[state.stream]


def _look(repository: Repository, state: TableState, stores: dict[str, str | None]) -> FileLook:
    storage, folders = repository.storage_of(state), folders_of(state)
    if storage.mapping.prefixes or state.purged_at is not None or any(storage.local_path(f) is None for f in folders):
        # Mapped locations have other spellings, and a listing of a remote store may take long.
        return FileLook()
    with contextlib.suppress(IcecoreError):
        looker = Looker(storage, stores)
        needed = needed_of_table(repository, state, looker.unreachable, deep=False)
        if not needed.faults:
            found = {f.location: f.size for f in list_folders(storage, folders, hidden_in(state))}
            if _are_there(looker, needed, found):
                are_needed = found.keys() <= _needed_ones(needed)
                # A file of a later commit would be listed too, and is not a needed one.
                is_whole = are_needed or not any(unlogged_commits(repository, state, storage))
                return FileLook(is_whole, are_needed)
    return FileLook()


def _are_there(looker: Looker, needed: Needed, found: dict[str, int]) -> bool:
    """Whether `verify` would find no fault of the files, by the sizes of those that were listed."""
    contents = needed.places.select(["file_path", "file_size_in_bytes"])
    for path, size in zip(*(column.to_pylist() for column in contents.columns), strict=True):
        # A size of 0 was noted by writers that did not know it.
        if size <= 0 or found.get(path) != size:
            return False
    return all(_is_there(looker, f, found.get(f.location)) for f in needed.files)


def _is_there(looker: Looker, f: NeededFile, size: int | None) -> bool:
    if size is None:
        may_be_gone = f.if_there and f.kind != PREVIOUS
        return may_be_gone and looker.look([f.location]).sizes[0] == GONE
    if (f.length and size != f.length) or not (f.is_kept or f.if_there):
        return False
    return f.sha256 is None or size != f.length or _has_hash(looker.storage, f)


def _has_hash(storage: Storage, f: NeededFile) -> bool:
    return hashlib.sha256(storage.read_bytes(f.location)).hexdigest() == f.sha256


def _needed_ones(needed: Needed) -> set[str]:
    """The files that a search for orphans would not report."""
    # Files that may be gone are needed by no snapshot, and so orphans, except the metadata files that the table names.
    kept = {f.location for f in needed.files if not f.if_there or f.kind == PREVIOUS}
    hints = {f"{f.location.rpartition('/')[0]}/{VERSION_HINT}" for f in needed.files if f.kind in (METADATA, PREVIOUS)}
    return kept | hints | set(needed.places["file_path"].to_pylist())
