"""The files that the tables and views of a warehouse need, removed from the candidates for deletion."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import pyarrow.compute as pc
from attrs import evolve

from icecore.engine.common.compressed_json import MOST_BYTES_OF_METADATA
from icecore.engine.common.location import to_uri
from icecore.engine.deletion.deletion_candidates import Candidates, is_within
from icecore.engine.deletion.neighbours import states_of, streams_that_may_need
from icecore.engine.errors import CommitConflictError, CorruptFileError, IcecoreError, MissingFileError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event
from icecore.engine.events.event_facts import named_files, parents_of_added
from icecore.engine.events.manifest_changes import changes_of
from icecore.engine.foreign.register import parse_metadata_file
from icecore.engine.log.store import MODELS
from icecore.engine.metadata.fold import TableState, folders_of, is_file_system
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.storage.file_io import Storage
from icecore.projections.entries.carried_entries import live_entries
from icecore.projections.files.metadata_cleanup import deleted_metadata
from icecore.projections.files.version_files import version_after
from icecore.projections.files.version_hint import VERSION_HINT
from icecore.projections.inspect.reachable_files import files_beside_snapshots, files_of_snapshots, needed_files

# Kinds of events that make a table need no other files than before.
_NEED_NOTHING_NEW = (*ev.ABOUT_FILES, ev.TABLE_RENAMED, ev.TABLE_DROPPED, ev.TABLE_PURGED)


class Marking:
    """The marking of referenced files among the candidates of one table, whose stream is `stream`.

    `metadata_files` are those found in its folders, which may be of tables in other catalogs. Without `mark_all`, no
    candidate is taken to be referenced at `position`.
    """

    def __init__(
        self,
        repository: Repository,
        stream: str,
        candidates: Candidates,
        metadata_files: Iterable[str] = (),
        position: int = 0,
    ) -> None:
        self._repository = repository
        self._stream = stream
        self._candidates = candidates
        self._metadata_files = list(metadata_files)
        self._seen: set[tuple[str, str]] = set()
        self._reached = set[tuple[Any, ...]]()
        self._position = position

    def mark_all(self, *, own: bool = True) -> None:
        """Marks the files that the tables of the log reference now; unless `own`, not those of the table itself.

        Raises StorageError, CorruptFileError, UnsupportedFormatVersionError where the references can't be read.
        """
        store = self._repository.store
        self._position = store.head()[0]
        self._keep_warehouse()
        if own:
            self._mark(self._stream)
            self._reached.update(map(_key, self._repository.state(self._stream).metadata.snapshots))
        self._mark_neighbours()
        self._keep_of_others()
        self._adopt_new()

    def mark_others(self) -> None:
        """Marks the files that other tables reference, dropped ones that can be undropped too. Raises as `mark_all`."""
        self._position = self._repository.store.head()[0]
        self._mark_neighbours()
        self._adopt_new()

    def mark_new(self) -> None:
        """Marks the files that commits since reference; called under the write lock, so that no commit comes after it.

        Raises CommitConflictError where another engine's commit to any table is not in the log: what it needs is not
        known.
        """
        self.mark_events()
        self.check_own()

    def mark_events(self) -> None:
        """Marks as `mark_new`, where the table's own folder was looked at already. Raises ForeignCommitError."""
        self._repository.foreign.check_rows()
        since, store = self._position, self._repository.store
        events = [e for e in store.events(since) if e.stream != ev.CATALOG_STREAM]
        self._position = store.head()[0]
        whole = dict.fromkeys(e.stream for e in events if not self._mark_event(e))
        for stream in whole:
            self._mark(stream)
        for stream in dict.fromkeys(e.stream for e in events if e.stream not in whole):
            self._keep_metadata_since(stream, since)

    def _adopt_new(self) -> None:
        """Adopts what other engines committed meanwhile, as under the write lock that can't be done any more."""
        if not self._repository.store.connection().in_transaction:
            self._repository.foreign.adopt_all_if_changed()

    def _mark_neighbours(self) -> None:
        for stream in streams_that_may_need(self._repository, self._stream, self._candidates):
            if self._candidates:
                self._mark(stream)

    def _mark_event(self, event: Event) -> bool:
        """Marks the files that a commit needs; false where its event does not name all of them."""
        if event.kind in _NEED_NOTHING_NEW:
            return True
        if event.kind != ev.TABLE_COMMITTED:
            return False
        changes = changes_of(event.payload, event.position)
        told = changes.keys()
        added = [listed for change in changes.values() for listed in change.added]
        if any(listed.is_foreign for listed in added) or parents_of_added(event.payload).keys() - told:
            return False
        paths = [listed.manifest.manifest_path for listed in added]
        paths += named_files(event.payload)
        try:
            paths += self._content_paths(event)
        except IcecoreError:
            return False
        storage = self._repository.storage_of(self._repository.state(event.stream))
        for path in paths:
            self._candidates.keep(storage.resolve(path))
        return True

    def _content_paths(self, event: Event) -> list[str]:
        entries = self._repository.store.entries(event.position)
        if entries is None:
            return []
        live = live_entries(entries)
        paths: list[str] = pc.unique(live["file_path"]).to_pylist()
        return paths

    def _keep_metadata_since(self, stream: str, position: int) -> None:
        rows = self._repository.store.rows(MODELS, "metadata_since", stream=stream, position=position)
        self._keep_metadata([row["location"] for row in rows])

    def _mark(self, stream: str) -> None:
        rows = self._repository.store.rows(MODELS, "files_of", stream=stream)
        self._keep_metadata([row["location"] for row in rows if row["kind"] == "metadata"])
        if ev.is_view_stream(stream):
            return
        for state in states_of(self._repository, stream):
            if state.purged_at is not None:
                return
            if stream != self._stream:
                self._keep_folders(state)
            storage = self._repository.storage_of(state)
            logged = [entry.metadata_file for entry in state.metadata.metadata_log]
            self._keep_metadata([storage.resolve(f) for f in (state.metadata_location, *logged) if f is not None])
            try:
                for location in needed_files(self._repository, state, self._seen):
                    self._candidates.keep(storage.resolve(location))
            except (MissingFileError, CorruptFileError):
                # A dropped table that can't be read any more can't be given back either.
                if not state.dropped:
                    raise

    def _keep_folders(self, other: TableState) -> None:
        """Keeps all files in another table's folders, except in those that hold this table's: there references tell."""
        own = self._candidates.places_of(folders_of(self._repository.state(self._stream)))
        storage = self._repository.storage_of(other)
        for folder in map(storage.resolve, folders_of(other)):
            if not any(is_within(p, place) for p in own for place in self._candidates.places_of([folder])):
                self._candidates.keep_within(folder)

    def _keep_warehouse(self) -> None:
        """Keeps the log, and all files beside it under its name."""
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
        """Keeps files of metadata that this log doesn't know: a table of another catalog lies here too."""
        repository = self._repository
        state = repository.state(self._stream)
        storage = repository.storage_of(state)
        rows = repository.store.rows(MODELS, "all_files_of", stream=self._stream)
        known = {r["location"] for r in rows} - deleted_metadata(repository.store, self._stream)
        known |= {e.metadata_file for e in state.metadata.metadata_log}
        folders = {f.rsplit("/", 1)[0] for f in (*known, state.metadata_location or "")}
        own = self._candidates.places_of(folders)
        for location in self._metadata_files:
            if not self._candidates.has(location) or location in known:
                continue
            folder = location.rsplit("/", 1)[0]
            if not own & self._candidates.places_of([folder]):
                self._candidates.keep_within(folder.rsplit("/", 1)[0] if folder.endswith("/metadata") else folder)
                continue
            with contextlib.suppress(MissingFileError):
                self._keep_reached(state, location, storage)

    def _keep_reached(self, state: TableState, location: str, storage: Storage) -> None:
        """Keeps what a metadata file leads to; most of its snapshots are in others, too, as in its next version.

        Raises StorageError, CorruptFileError, UnsupportedFormatVersionError where that can't be found out.
        """
        metadata = parse_metadata_file(storage.read_bytes(location, MOST_BYTES_OF_METADATA), location)
        foreign = evolve(state, stream=f"{state.stream}@", metadata=metadata, metadata_location=location)
        self._keep_metadata([location])
        for named in files_beside_snapshots(foreign):
            self._candidates.keep(named)
        for snapshot in metadata.snapshots:
            if _key(snapshot) not in self._reached:
                self._reached.add(_key(snapshot))
                # A half-expired snapshot must not keep others from being read: no later file may name these again.
                with contextlib.suppress(MissingFileError):
                    for needed in files_of_snapshots(self._repository, foreign, [snapshot], self._seen):
                        self._candidates.keep(needed)

    def check_own(self) -> None:
        """Raises CommitConflictError where another engine moved the table's own pointer without an event."""
        state = self._repository.state(self._stream)
        self._repository.foreign.check(state)
        if is_file_system(state) and state.metadata_location is not None:
            folder, storage = state.metadata_location.rsplit("/", 1)[0], self._repository.storage_of(state)
            if (made := version_after(folder, state.metadata_version, storage)) is not None:
                raise CommitConflictError(
                    f"{name_text(state.identifier)}: another engine wrote {made}, which is not in the log, so what it "
                    f"needs is not known"
                )


def _key(snapshot: Snapshot) -> tuple[Any, ...]:
    """The identity of a snapshot: an id may be given out again, by a writer that never heard of the first."""
    return snapshot.snapshot_id, snapshot.manifest_list, snapshot.manifests
