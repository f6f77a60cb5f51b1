"""Removal of orphan files: files in a table's folders that nothing references.

The names are those of Java's DeleteOrphanFiles. The folders are listed before the log is read, so that a file which is
committed meanwhile is seen to be referenced. The event that names the orphans is appended under the log's write lock,
after a check of the commits since; then the files are deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from icecore.engine.common.ids import now_ms
from icecore.engine.common.location import EQUAL_SCHEMES, to_uri
from icecore.engine.common.text import short_repr
from icecore.engine.deletion import delete_files
from icecore.engine.deletion.delete_files import Deletion, ours
from icecore.engine.deletion.deletion_candidates import Candidates, PrefixMismatchMode, is_within
from icecore.engine.deletion.file_names import hidden_in, is_table_file
from icecore.engine.deletion.needed_files import Marking
from icecore.engine.errors import ValidationError
from icecore.engine.events.event import TABLE_FILES_DELETED, Event, Provenance
from icecore.engine.expression.timestamps import TimestampLike, to_epoch_ms
from icecore.engine.foreign.table_folder import METADATA_ENDINGS
from icecore.engine.formats.deleted_files import DeletedBy, DeletedFile
from icecore.engine.log.deletion_content import deleted_files
from icecore.engine.metadata.fold import TableState, folders_of
from icecore.engine.metadata.retention import check_gc
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.reused_key import reused_key
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import FoundFile, Lister, LocationIndex, list_folders

HOUR = 60 * 60 * 1000
DEFAULT_AGE_MS = 3 * 24 * HOUR
LEAST_AGE_MS = 24 * HOUR


@frozen
class OrphanFiles:
    """Orphan files: all of them, those deleted (none in a dry run), and their size in bytes.

    `passed_over` are unreferenced files of that age which are not deleted, as their names are not those of a table's
    files (see `file_names`).
    """

    __repr__ = short_repr

    orphan_file_locations: tuple[str, ...] = ()
    deleted_files: tuple[str, ...] = ()
    total_bytes: int = 0
    passed_over: tuple[str, ...] = ()


@frozen
class OrphanSearch:
    """The options of a search. Times are milliseconds since the epoch; see `Maintenance.remove_orphan_files`."""

    older_than_ms: int
    location: str | None = None
    equal_schemes: Mapping[str, str] = field(factory=dict)
    equal_authorities: Mapping[str, str] = field(factory=dict)
    prefix_mismatch_mode: PrefixMismatchMode = PrefixMismatchMode.ERROR

    @classmethod
    def of(
        cls,
        older_than: TimestampLike | None,
        location: str | None,
        equal_schemes: Mapping[str, str] | None,
        equal_authorities: Mapping[str, str] | None,
        prefix_mismatch_mode: str,
        allow_recent: bool,
    ) -> OrphanSearch:
        """The options as users give them.

        Raises ValidationError for a time in the last 24 hours: writers at work have files of that age.
        """
        now = now_ms()
        limit = now - DEFAULT_AGE_MS if older_than is None else to_epoch_ms(older_than, "older_than")
        if limit > now - LEAST_AGE_MS and not allow_recent:
            raise ValidationError(
                "orphan files must be older than 24 hours, since writers at work have files that no commit names yet; "
                "allow_recent=True where you know that none is at work"
            )
        try:
            mode = PrefixMismatchMode(prefix_mismatch_mode)
        except ValueError:
            modes = ", ".join(PrefixMismatchMode)
            raise ValidationError(
                f"prefix_mismatch_mode must be one of {modes}, found {prefix_mismatch_mode!r}"
            ) from None
        schemes = {**EQUAL_SCHEMES, **_single(equal_schemes)}
        return cls(limit, location, schemes, _single(equal_authorities), mode)


def remove_orphan_files(
    repository: Repository,
    stream: str,
    search: OrphanSearch,
    provenance: Provenance,
    *,
    dry_run: bool,
    lister: Lister = list_folders,
) -> OrphanFiles:
    """Deletes orphan files, or only finds them, of those that the lister lists.

    Raises ValidationError where `gc.enabled` is false or the location can't be searched, CommitConflictError where
    another engine's commit to any table is not in the log, StorageError and CorruptFileError where references can't be
    read, UnsupportedFormatVersionError; no file was deleted then.
    """
    if not dry_run:
        if (done := repository.already(provenance)) is not None:
            return _answer(repository, stream, done)
        delete_files.finish_due(repository, stream)
    repository.foreign.adopt_each()
    state = repository.live_state(stream)
    check_gc(state.metadata)
    storage = repository.storage_of(state)
    found, candidates, marking = _marked(repository, state, search, lister)
    old = [f for f in map(found.__getitem__, candidates.rest(search.prefix_mismatch_mode)) if _is_old(f, search)]
    passed_over = tuple(f.location for f in old if not is_table_file(f.location))
    is_ours = ours(repository, storage)
    planned = _deletion([f for f in old if is_table_file(f.location) and is_ours(f.location)])
    event = None
    with repository.store.write() as transaction:
        # Another call with the same key may have made it meanwhile.
        done = None if dry_run else repository.already(provenance)
        marking.mark_new()
        rest = set(candidates.rest(search.prefix_mismatch_mode))
        if not all(f.location in rest for f in planned.files):
            planned = Deletion.of(planned.operation, [f for f in planned.files if f.location in rest])
        if planned.files and not dry_run and done is None:
            before = repository.live_state(stream)
            event, after = planned.append(repository, transaction, before, provenance)
            made = event
            transaction.at_end.append(lambda: repository.files.publish(after, made, before))
    if done is not None:
        return _answer(repository, stream, done)
    if event is not None:
        repository.files.follow(repository.state(stream))
    deleted = () if event is None else delete_files.finish(repository, event)
    return _result(planned.files, deleted, passed_over)


def unreferenced_files(repository: Repository, stream: str) -> list[FoundFile]:
    """The files in a table's folders that nothing references and that have names of a table's files, of whatever age.

    Nothing is deleted. Raises StorageError and CorruptFileError where references can't be read, NoSuchTableError.
    """
    search = OrphanSearch(now_ms(), equal_schemes=EQUAL_SCHEMES, prefix_mismatch_mode=PrefixMismatchMode.IGNORE)
    found, candidates, _ = _marked(repository, repository.live_state(stream), search, list_folders)
    return [found[f] for f in candidates.rest(search.prefix_mismatch_mode) if is_table_file(f)]


def _marked(
    repository: Repository, state: TableState, search: OrphanSearch, lister: Lister
) -> tuple[dict[str, FoundFile], Candidates, Marking]:
    """The listed files, the candidates among them that nothing is known to need, and the marking of the others."""
    storage = repository.storage_of(state)
    found = _list(repository, state, storage, search, lister)
    candidates = Candidates(found, LocationIndex(storage, search.equal_schemes, search.equal_authorities))
    marking = Marking(repository, state.stream, candidates, [f for f in found if f.endswith(METADATA_ENDINGS)])
    marking.mark_all()
    return found, candidates, marking


def _deletion(found: Sequence[FoundFile]) -> Deletion:
    return Deletion.of(DeletedBy.REMOVE_ORPHAN_FILES, [DeletedFile(f.location, f.size, f.modified_ms) for f in found])


def _result(files: Sequence[DeletedFile], deleted: tuple[str, ...], passed_over: tuple[str, ...]) -> OrphanFiles:
    locations = tuple(f.location for f in files)
    return OrphanFiles(locations, deleted, sum(f.size_in_bytes or 0 for f in files), passed_over)


def _answer(repository: Repository, stream: str, event: Event) -> OrphanFiles:
    """The result of the earlier call with the key, all done. Raises ReusedKeyError where it was for another table."""
    if (event.kind, event.stream) != (TABLE_FILES_DELETED, stream):
        raise reused_key(event, repository.models.identifier_of(event.stream))
    delete_files.finish_due(repository, stream)
    files = deleted_files(repository.store, event)
    return _result(files, tuple(f.location for f in files), ())


def _single(equal: Mapping[str, str] | None) -> dict[str, str]:
    """The mapping with keys such as `s3a,s3` split at their commas."""
    return {name.strip(): one.strip() for names, one in (equal or {}).items() for name in names.split(",")}


def _is_old(file: FoundFile, search: OrphanSearch) -> bool:
    return file.modified_ms is not None and file.modified_ms < search.older_than_ms


def _list(
    repository: Repository, state: TableState, storage: Storage, search: OrphanSearch, lister: Lister = list_folders
) -> dict[str, FoundFile]:
    folders = _searched(repository, state, storage, search)
    return {f.location: f for f in lister(storage, folders, hidden_in(state))}


def _searched(repository: Repository, state: TableState, storage: Storage, search: OrphanSearch) -> list[str]:
    """The folders to list. Raises ValidationError for one that holds the warehouse itself."""
    if search.location is None:
        return folders_of(state)
    folder = to_uri(search.location)
    places, log = LocationIndex(storage), LocationIndex(Storage())
    if any(is_within(one, other) for one in log.of(str(repository.store.path)) for other in places.of(folder)):
        raise ValidationError(f"{folder} holds the warehouse's own log: name a folder of the table")
    return [folder]
