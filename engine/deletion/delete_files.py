"""Deletion of a table's files: an event first, which says who, why and which, and the files after it.

One SQLite transaction appends the event and a record that its files are still to be deleted. They are deleted in short
turns, each under the log's write lock and after a check of the commits since the event: a file that one of them
references is retained. After a crash the record is still there, and the next open, or the next such call, resumes.

So a file is retained if any table of the warehouse references it by a commit before its turn, also by another engine's
in `iceberg_tables`, which is adopted first; one that can't be adopted ends the turns. A later commit that adds
an orphan which is gone is refused; nothing else reserves a file between a writer's check and its commit. Tables in
catalogs that the log does not know are not checked.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from attrs import define, field, frozen

from icecore.engine.common.location import location_key
from icecore.engine.common.stored_json import stored_json
from icecore.engine.deletion.deletion_candidates import Candidates
from icecore.engine.deletion.needed_files import Marking
from icecore.engine.errors import CorruptLogError, IcecoreError
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.foreign.table_folder import METADATA, METADATA_ENDINGS
from icecore.engine.formats.deleted_files import DeletedBy, DeletedFile, deletion_payload, encode_files
from icecore.engine.log.deletion_content import deleted_files, note_removed_orphans
from icecore.engine.log.store import MODELS, WriteTransaction
from icecore.engine.metadata.fold import TableState, fold, folders_of, metadata_folder
from icecore.engine.properties.data_locations import data_folder
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.required_message import check_message
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import LocationIndex, modified_ms
from icecore.projections.files.version_hint import VERSION_HINT, drop_lone_hint

TURN_S = 0.05
"""The seconds for which a turn keeps other writers waiting."""


class UnfinishedDeletionWarning(UserWarning):
    """A warning of files that an event says are deleted and that are still there; the next open goes on."""


@frozen
class Deletion:
    """The files to delete and the event's content, made before the write lock is taken: a million files take time."""

    operation: DeletedBy
    files: tuple[DeletedFile, ...]
    content: bytes = field(repr=False)

    @classmethod
    def of(cls, operation: DeletedBy, files: Sequence[DeletedFile]) -> Deletion:
        """The deletion of files by an operation."""
        return cls(operation, tuple(files), encode_files(files))

    def append(
        self,
        repository: Repository,
        transaction: WriteTransaction,
        state: TableState,
        provenance: Provenance,
        told: dict[str, Any] | None = None,
    ) -> tuple[Event, TableState]:
        """Appends the event, and records that the files are still to be deleted; the event and the state after it.

        `told` are further fields of the payload. Raises ValidationError where the table asks for a reason.
        """
        check_message(repository.models, state.identifier, state.metadata.properties, provenance)
        event = transaction.append(
            state.stream,
            ev.TABLE_PURGED if self.operation is DeletedBy.PURGE else ev.TABLE_FILES_DELETED,
            {**deletion_payload(self.operation, self.files), **(told or {})},
            provenance=provenance,
            content=self.content,
            content_rows=len(self.files),
        )
        repository.models.apply(event)
        if self.operation is DeletedBy.REMOVE_ORPHAN_FILES:
            note_removed_orphans(repository.store, event.position, (location_key(f.location) for f in self.files))
        _note(repository, event.position, _Left())
        after = fold(state, [event])
        assert after is not None, "a fold of one event has a state"
        return event, after


@define
class _Left:
    """The files of an event still to be deleted: those from a number on, and earlier ones that could not be."""

    next: int = 0
    failed: list[int] = field(factory=list)

    def to_text(self) -> str:
        return orjson.dumps([self.next, self.failed]).decode()

    @classmethod
    def of(cls, text: str) -> _Left:
        """The files that a note names as left; all where it can't be read: deleting a file twice does no harm."""
        try:
            following, failed = stored_json(text, list, "the note of a deletion")
            return cls(int(following), [int(i) for i in failed])
        except (CorruptLogError, ValueError, TypeError):
            return cls()


def _note(repository: Repository, position: int, left: _Left) -> None:
    repository.store.execute(MODELS, "put_deletion", position=position, value=left.to_text())


def ours(repository: Repository, storage: Storage) -> Callable[[str], bool]:
    """A test whether the warehouse may delete a file: in a clone one in its own folder, and only where rules allow.

    A client may name any file as a table's, so a file that is named elsewhere is never deleted for it.
    """
    allows = repository.location_rules.allowing()
    return lambda location: storage.may_delete(location) and allows(storage.resolve(location))


def finish(repository: Repository, event: Event) -> tuple[str, ...]:
    """Deletes the files of an event that are still there, and returns their locations.

    Retained are files that a commit since references, that were written again, that are outside of the folders that
    locations are held to, and that can't be deleted now; for the last ones the record stays too. Files of expired
    snapshots are retained until the table's metadata file is written without these, and all files while another
    engine's commit is not adopted, since its references are not known. The event is final whatever happens to the
    files, so a failure is a warning.
    """
    turns = _Turns(repository, event)
    try:
        while turns.take():
            pass
    except IcecoreError as e:
        _warn(event.position, e)
    return tuple(turns.deleted)


def finish_due(repository: Repository, stream: str | None = None) -> None:
    """Resumes the unfinished deletions of a table, or of all; warns of those that can't be finished."""
    if repository.materializer.is_dry:
        return
    for row in repository.store.rows(MODELS, "deletions_due"):
        try:
            event = repository.store.event_at(row["position"])
        except IcecoreError as e:
            _warn(row["position"], e)
            continue
        if stream in (None, event.stream):
            finish(repository, event)


def _warn(position: int, error: IcecoreError) -> None:
    warnings.warn(
        f"the files that position {position} lets go are not all deleted yet ({type(error).__name__}: {error}); the "
        f"next open goes on",
        UnfinishedDeletionWarning,
        stacklevel=5,
    )


@define
class _Turns:
    """The turns in which the files of one event go."""

    repository: Repository
    event: Event
    deleted: list[str] = field(factory=list)
    _files: list[DeletedFile] = field(init=False, factory=list)
    _marking: Marking | None = field(init=False, default=None)
    _candidates: Candidates | None = field(init=False, default=None)
    _tried_again: bool = False
    _is_ours: Callable[[str], bool] | None = None

    def take(self) -> bool:
        """Takes one turn; whether another one is to follow. Raises IcecoreError where it can't be taken."""
        store = self.repository.store
        self.repository.foreign.adopt_all_if_changed()
        with store.write():
            row = store.row(MODELS, "deletion_due", position=self.event.position)
            if row is None or not self._is_published():
                return False
            if not self._files:
                self._files = deleted_files(self.repository.store, self.event)
            left = _Left.of(row["value"])
            state = self.repository.state(self.event.stream)
            self._look_again()
            goes_on = self._delete(left, self.repository.storage_of(state))
            if goes_on or left.failed:
                _note(self.repository, self.event.position, left)
            else:
                store.execute(MODELS, "end_deletion", position=self.event.position)
            if not goes_on and self.event.kind == ev.TABLE_PURGED:
                self._remove_folders(state)
        if not goes_on and self.event.kind != ev.TABLE_PURGED:
            # Outside of the lock: there may be as many folders as files, and a writer makes its folder again.
            self._remove_emptied(state)
        return goes_on

    def _remove_emptied(self, state: TableState) -> None:
        """Removes folders of partitions that are empty now, those of an earlier process's turns too."""
        storage = self.repository.storage_of(state)
        data = data_folder(state.metadata.location, state.metadata.properties)
        if storage.local_path(data) is not None and ours(self.repository, storage)(data):
            for folder in {f.location.rpartition("/")[0] for f in self._files}:
                storage.remove_emptied(folder, data)

    def _remove_folders(self, state: TableState) -> None:
        """Removes empty folders, also at earlier locations of the table: names of partition folders tell of its rows.

        A version hint that is alone in its folder goes, too: it was written after the files were found, or stayed in a
        former metadata folder of the table.
        """
        storage, metadata = self.repository.storage_of(state), state.metadata
        own = {f.location.rpartition("/")[0] for f in self._files}
        folders = {f.location.rpartition("/")[0] for f in self._files if f.location.endswith(METADATA_ENDINGS)}
        # The present metadata folder may have any name, which need not tell the table's location.
        last = metadata_folder(metadata.location, metadata.properties)
        for folder in folders | {last}:
            if self._is_ours is not None and self._is_ours(f"{folder}/{VERSION_HINT}"):
                drop_lone_hint(folder, storage)
                storage.remove_empty_folders(folder)
                if folder != last:
                    self._remove_location(folder, own, storage)
        for folder in folders_of(state):
            storage.remove_empty_folders(folder)

    def _remove_location(self, folder: str, own: set[str], storage: Storage) -> None:
        """Removes the emptied folders of the location that a folder named `metadata` is in, and the location itself."""
        location, _, name = folder.rpartition("/")
        if name == METADATA:
            for emptied in own:
                storage.remove_emptied(emptied, location)
            storage.remove_emptied(location, location.rpartition("/")[0])

    def _is_published(self) -> bool:
        """Whether no reader of metadata files needs the files: earlier metadata names expired snapshots."""
        if self.event.payload["operation"] != DeletedBy.EXPIRE_SNAPSHOTS:
            return True
        head = self.repository.store.row(MODELS, "get_head", stream=self.event.stream)
        return head is not None and head["materialized_version"] >= self.event.stream_version

    def _look_again(self) -> None:
        """Marks files that are needed again since the event."""
        if self._marking is None:
            if self.repository.store.head()[0] == self.event.position:
                # Another engine may have committed without an event.
                self.repository.foreign.check_rows()
                return
            storage = self.repository.storage_of(self.repository.state(self.event.stream))
            self._candidates = Candidates((storage.resolve(f.location) for f in self._files), LocationIndex(storage))
            self._marking = Marking(self.repository, self.event.stream, self._candidates, (), self.event.position)
        self._marking.mark_new()

    def _delete(self, left: _Left, storage: Storage) -> bool:
        deadline = time.monotonic() + TURN_S
        if not self._tried_again:
            self._tried_again = True
            again, left.failed = left.failed, []
            for number in again:
                self._delete_one(number, left, storage)
        while left.next < len(self._files) and time.monotonic() < deadline:
            self._delete_one(left.next, left, storage)
            left.next += 1
        return left.next < len(self._files)

    def _delete_one(self, number: int, left: _Left, storage: Storage) -> None:
        file = self._files[number]
        if self._candidates is not None and not self._candidates.may_go(storage.resolve(file.location)):
            return
        if self._is_ours is None:
            self._is_ours = ours(self.repository, storage)
        # The event may be older than the rules.
        if not self._is_ours(file.location):
            return
        try:
            if file.modified_ms is None or modified_ms(storage, file.location) == file.modified_ms:
                storage.delete(file.location)
                self.deleted.append(file.location)
        except IcecoreError:
            left.failed.append(number)
