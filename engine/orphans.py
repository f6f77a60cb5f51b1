"""Finds and deletes files in a table's folders that nothing needs. The names are those of Java's DeleteOrphanFiles.

The folders are listed first and the log is read after, so that a file which a commit takes in meanwhile is seen to be
needed. Files go in batches, each inside of the log's write lock after a look at what was committed since.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum

from attrs import evolve, field, frozen

from icecore.engine.errors import CommitConflictError, IcecoreError, ValidationError
from icecore.engine.events import is_view_stream
from icecore.engine.file_listing import EQUAL_SCHEMES, FoundFile, Place, Places, list_files, modified_ms
from icecore.engine.ids import now_ms
from icecore.engine.log.read_models import dotted
from icecore.engine.log.store import MODELS
from icecore.engine.moments import Moment, milliseconds_of
from icecore.engine.reachable import needed_files
from icecore.engine.register import parse_metadata_file
from icecore.engine.repository import Repository
from icecore.engine.retention import check_gc
from icecore.engine.state import TableState, data_folder, is_file_system, metadata_folder
from icecore.engine.storage import Storage, to_uri
from icecore.projections.forgotten_metadata import DELETED, FORGOTTEN
from icecore.projections.version_hint import VERSION_HINT

HOUR = 60 * 60 * 1000
DEFAULT_AGE_MS = 3 * 24 * HOUR
LEAST_AGE_MS = 24 * HOUR
BATCH = 500
METADATA_ENDINGS = (".metadata.json", ".metadata.json.gz")


class PrefixMismatchMode(StrEnum):
    """What becomes of a file whose path is needed, but under another scheme or authority."""

    ERROR = "error"
    IGNORE = "ignore"
    DELETE = "delete"


@frozen
class OrphanFiles:
    """What nothing needs: all of it, what of it was deleted (nothing in a dry run), and its size in bytes."""

    orphan_file_locations: tuple[str, ...] = ()
    deleted_files: tuple[str, ...] = ()
    total_bytes: int = 0


@frozen
class OrphanSearch:
    """Which files may be orphans. Times are milliseconds since the epoch; see `Maintenance.remove_orphan_files`."""

    older_than_ms: int
    location: str | None = None
    equal_schemes: Mapping[str, str] = field(factory=dict)
    equal_authorities: Mapping[str, str] = field(factory=dict)
    prefix_mismatch_mode: PrefixMismatchMode = PrefixMismatchMode.ERROR

    @classmethod
    def of(
        cls,
        older_than: Moment | None,
        location: str | None,
        equal_schemes: Mapping[str, str] | None,
        equal_authorities: Mapping[str, str] | None,
        prefix_mismatch_mode: str,
        allow_recent: bool,
    ) -> OrphanSearch:
        """Raises ValidationError for a time of the last 24 hours: writers at work have files that old."""
        now = now_ms()
        limit = now - DEFAULT_AGE_MS if older_than is None else milliseconds_of(older_than, "older_than")
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


def remove_orphan_files(repository: Repository, stream: str, search: OrphanSearch, *, dry_run: bool) -> OrphanFiles:
    """Deletes what nothing needs, or only finds it.

    Raises ValidationError where `gc.enabled` is false or the location can't be searched, CommitConflictError where
    another engine committed to the table behind the log, StorageError and CorruptFileError where what a table needs
    can't be found out; nothing was deleted then.
    """
    state = repository.live_state(stream)
    check_gc(state.metadata)
    storage = repository.storage_of(state)
    found = _list(repository, state, storage, search)
    candidates = _Candidates(found, Places(storage, search.equal_schemes, search.equal_authorities))
    marking = _Marking(repository, stream, candidates, found)
    marking.mark_all()
    orphans = [f for f in candidates.rest(search.prefix_mismatch_mode) if _is_old(f, search)]
    deleted: list[str] = []
    for start in range(0, len(orphans), BATCH):
        with repository.store.write():
            marking.mark_new()
            for file in () if dry_run else orphans[start : start + BATCH]:
                if candidates.has(file) and _delete(storage, file):
                    deleted.append(file.location)
    orphans = [f for f in orphans if candidates.has(f)]
    return OrphanFiles(tuple(f.location for f in orphans), tuple(deleted), sum(f.size for f in orphans))


def _single(equal: Mapping[str, str] | None) -> dict[str, str]:
    """Several names for one may be given with commas, as `{"s3a,s3": "s3"}`."""
    return {name.strip(): one.strip() for names, one in (equal or {}).items() for name in names.split(",")}


def _is_old(file: FoundFile, search: OrphanSearch) -> bool:
    return file.modified_ms is not None and file.modified_ms < search.older_than_ms


def _delete(storage: Storage, file: FoundFile) -> bool:
    """Deletes a file unless it was written again since it was listed; one that can't be deleted stays."""
    with contextlib.suppress(IcecoreError):
        if modified_ms(storage, file.location) == file.modified_ms:
            storage.delete(file.location)
            return True
    return False


def _list(repository: Repository, state: TableState, storage: Storage, search: OrphanSearch) -> list[FoundFile]:
    hidden = _hidden(state)
    out: dict[str, FoundFile] = {}
    for folder in _searched(repository, state, storage, search):
        out |= {f.location: f for f in list_files(storage, folder, hidden)}
    return list(out.values())


def _searched(repository: Repository, state: TableState, storage: Storage, search: OrphanSearch) -> list[str]:
    """The folders to list. Raises ValidationError for one that holds the warehouse itself."""
    if search.location is None:
        return folders_of(state)
    folder = to_uri(search.location)
    places, log = Places(storage), Places(Storage())
    if any(_is_within(one, other) for one in log.of(str(repository.store.path)) for other in places.of(folder)):
        raise ValidationError(f"{folder} holds the warehouse's own log: name a folder of the table")
    return [folder]


def folders_of(state: TableState) -> list[str]:
    """The folders of a table: its location, and where its data and metadata go if that is elsewhere."""
    metadata = state.metadata
    location = metadata.location.rstrip("/")
    others = (data_folder(location, metadata.properties), metadata_folder(location, metadata.properties))
    return [location, *(f for f in dict.fromkeys(others) if not f.startswith(location + "/"))]


def _hidden(state: TableState) -> Callable[[str], bool]:
    """Says whether a file or folder is passed over: those that start with `_` or `.`, partitions excepted."""
    partitions = tuple(
        f"{f.name}=" for spec in state.metadata.partition_specs for f in spec.fields if f.name[:1] in ("_", ".")
    )

    def hidden(name: str) -> bool:
        return name[:1] in ("_", ".") and not (partitions and name.startswith(partitions))

    return hidden


class _Candidates:
    """Files that may be orphans, until something is known to need them."""

    def __init__(self, files: Iterable[FoundFile], places: Places) -> None:
        self._places = places
        self._files = {f.location: f for f in files}
        self._by_path: dict[str, list[tuple[Place, str]]] = {}
        self._mismatched: dict[str, str] = {}
        for location in self._files:
            for place in places.of(location):
                self._by_path.setdefault(place.path, []).append((place, location))

    def has(self, file: FoundFile) -> bool:
        return file.location in self._files

    def __bool__(self) -> bool:
        return bool(self._files)

    def places_of(self, locations: Iterable[str]) -> set[Place]:
        return {place for location in locations for place in self._places.of(location)}

    def keep(self, location: str) -> None:
        """Takes out the file of a location, however it is written."""
        for place in self._places.of(location):
            for found, candidate in self._by_path.get(place.path, ()):
                if (found.scheme, found.authority) == (place.scheme, place.authority):
                    self._files.pop(candidate, None)
                else:
                    self._mismatched[candidate] = location

    def keep_within(self, folder: str) -> None:
        """Takes out all files in a folder."""
        outer = tuple(p.path.rstrip("/") + "/" for p in self._places.of(folder))
        for path, found in self._by_path.items():
            if path.startswith(outer):
                for _, candidate in found:
                    self._files.pop(candidate, None)

    def rest(self, mode: PrefixMismatchMode) -> list[FoundFile]:
        """What nothing needs. Raises ValidationError for needed paths under another scheme, if so asked."""
        mismatched = {c: needed for c, needed in self._mismatched.items() if c in self._files}
        if mismatched and mode is PrefixMismatchMode.ERROR:
            candidate, needed = next(iter(mismatched.items()))
            raise ValidationError(
                f"{candidate} is needed as {needed}: say by equal_schemes or equal_authorities which of them are the "
                f"same, or what becomes of such files by prefix_mismatch_mode"
            )
        if mode is PrefixMismatchMode.DELETE:
            return list(self._files.values())
        return [f for f in self._files.values() if f.location not in mismatched]


class _Marking:
    """Takes all out of the candidates that a table or view of the warehouse needs."""

    def __init__(
        self, repository: Repository, stream: str, candidates: _Candidates, listed: Iterable[FoundFile]
    ) -> None:
        self._repository = repository
        self._stream = stream
        self._candidates = candidates
        self._metadata_files = [f for f in listed if f.location.endswith(METADATA_ENDINGS)]
        self._seen: set[tuple[str, str]] = set()
        self._position = 0

    def mark_all(self) -> None:
        """Marks by what the log says now."""
        store = self._repository.store
        self._position = store.head()[0]
        self._keep_warehouse()
        streams = [row["stream"] for row in store.rows(MODELS, "all_heads")]
        for stream in sorted(streams, key=lambda s: s != self._stream):
            if self._candidates:
                self._mark(stream)
        self._keep_of_others()

    def mark_new(self) -> None:
        """Marks by what was committed since; inside of the write lock, so that nothing comes after it."""
        store = self._repository.store
        streams = dict.fromkeys(e.stream for e in store.events(self._position))
        self._position = store.head()[0]
        known = {row["stream"] for row in store.rows(MODELS, "all_heads")}
        for stream in streams:
            if stream in known:
                self._mark(stream)
        # The pointer may have been moved by another engine without an event.
        self._check_unadopted(self._repository.live_state(self._stream))

    def _mark(self, stream: str) -> None:
        rows = self._repository.store.rows(MODELS, "files_of", stream=stream)
        self._keep_metadata([row["location"] for row in rows if row["kind"] == "metadata"])
        if is_view_stream(stream):
            return
        for state in self._states(stream):
            if stream != self._stream:
                self._keep_folders(state)
            storage = self._repository.storage_of(state)
            logged = [entry.metadata_file for entry in state.metadata.metadata_log]
            self._keep_metadata([storage.resolve(f) for f in (state.metadata_location, *logged) if f is not None])
            try:
                for location in needed_files(self._repository, state, self._seen):
                    self._candidates.keep(storage.resolve(location))
            except IcecoreError:
                # A dropped table that can't be read any more can't be given back either.
                if not state.dropped:
                    raise

    def _states(self, stream: str) -> Iterator[TableState]:
        """The latest state, and the one that is written out for other engines where that is another."""
        repository = self._repository
        state = repository.state(stream)
        yield state
        head = repository.store.row(MODELS, "get_head", stream=stream)
        if head is not None and 0 < head["materialized_version"] < state.stream_version:
            written = repository.states.state_at_version(stream, head["materialized_version"])
            if written is not None:
                yield written

    def _keep_folders(self, other: TableState) -> None:
        """Keeps another table's folders that lie inside of this one's; where it is the other way, files tell."""
        own = self._candidates.places_of(folders_of(self._repository.state(self._stream)))
        storage = self._repository.storage_of(other)
        for folder in map(storage.resolve, folders_of(other)):
            if not any(_is_within(p, place) for p in own for place in self._candidates.places_of([folder])):
                self._candidates.keep_within(folder)

    def _keep_warehouse(self) -> None:
        """Keeps the log, and all that lies beside it under its name."""
        log = self._repository.store.path.absolute()
        archives = self._repository.store.archives
        for path in (*log.parent.glob(f"{log.name}*"), *map(archives.path_of, archives.all())):
            self._candidates.keep(to_uri(path))

    def _keep_metadata(self, locations: Iterable[str]) -> None:
        """Keeps metadata files, and the version hints beside them."""
        folders = set()
        for location in locations:
            self._candidates.keep(location)
            folders.add(location.rsplit("/", 1)[0])
        for folder in folders:
            self._candidates.keep(f"{folder}/{VERSION_HINT}")

    def _keep_of_others(self) -> None:
        """Keeps what metadata files need that this log knows nothing of: a table of another catalog lies here too."""
        repository = self._repository
        state = repository.state(self._stream)
        storage = repository.storage_of(state)
        rows = repository.store.rows(MODELS, "files_of", stream=self._stream)
        kinds = (FORGOTTEN, DELETED)
        deleted = [
            r for k in kinds for r in repository.store.rows(MODELS, "files_of_kind", stream=self._stream, kind=k)
        ]
        known = {r["location"] for r in (*rows, *deleted)} | {e.metadata_file for e in state.metadata.metadata_log}
        folders = {f.rsplit("/", 1)[0] for f in (*known, state.metadata_location or "")}
        own = self._candidates.places_of(folders)
        for file in self._metadata_files:
            if not self._candidates.has(file) or file.location in known:
                continue
            location = file.location
            folder = location.rsplit("/", 1)[0]
            if not own & self._candidates.places_of([folder]):
                self._candidates.keep_within(folder.rsplit("/", 1)[0] if folder.endswith("/metadata") else folder)
                continue
            with contextlib.suppress(IcecoreError):
                self._keep_reached(state, location, storage)

    def _keep_reached(self, state: TableState, location: str, storage: Storage) -> None:
        metadata = parse_metadata_file(storage.read_bytes(location), location)
        foreign = evolve(state, stream=f"{state.stream}@{location}", metadata=metadata, metadata_location=location)
        for needed in needed_files(self._repository, foreign, self._seen):
            self._candidates.keep(needed)

    def _check_unadopted(self, state: TableState) -> None:
        """Raises CommitConflictError where another engine's commit is not in the log: what it needs is not known."""
        self._repository.check_pointer(state)
        if is_file_system(state) and state.metadata_location is not None:
            folder, after = state.metadata_location.rsplit("/", 1)[0], state.metadata_version + 1
            storage = self._repository.storage_of(state)
            for ending in (".metadata.json", ".gz.metadata.json", ".metadata.json.gz"):
                if storage.exists(f"{folder}/v{after}{ending}"):
                    raise CommitConflictError(
                        f"{dotted(state.identifier)}: another engine wrote {folder}/v{after}{ending}, which is not in "
                        f"the log, so what it needs is not known"
                    )


def _is_within(inner: Place, outer: Place) -> bool:
    """Whether a place is another, or lies in it."""
    same_store = (inner.scheme, inner.authority) == (outer.scheme, outer.authority)
    return same_store and (inner.path.rstrip("/") + "/").startswith(outer.path.rstrip("/") + "/")
