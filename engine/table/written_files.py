"""Data files that others, as Spark's tasks, wrote for a commit: committed once, or deleted if it is never made.

A caller that gives up such a commit may not know whether it was made, or is being made at this moment. So both check
inside of the write lock: the commit that its first file is there, the caller that there is no such commit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Protocol

from attrs import frozen

from icecore.engine.commit.decide import ChangeMetadata
from icecore.engine.errors import CommitConflictError, CommitFailedError, IcecoreError, ValidationError, name_text
from icecore.engine.events.event import Event
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.promotion import misread_columns
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.updates.table_update import TableUpdate
from icecore.engine.storage.file_io import Storage


class CommitOfFiles(Protocol):
    """The part of a pending commit that files are given to."""

    @property
    def answered(self) -> Event | None: ...

    @property
    def storage(self) -> Storage: ...

    @property
    def state(self) -> TableState: ...

    @property
    def repository(self) -> Repository: ...

    def add(self, command: ChangeMetadata) -> None: ...


@frozen
class WrittenFiles:
    """Data files, given as the data of a change of rows. They belong to that change alone.

    With a `table_uuid` they are for that table, and have the field ids of its columns. A `schema` is the one that they
    were written by, maybe before the table had it: at commit its columns must still be those that were meant.
    """

    files: tuple[ContentFile, ...]
    table_uuid: str | None = None
    schema: Schema | None = None

    def given_to(self, pending: CommitOfFiles) -> list[ContentFile]:
        """The files that the commit adds; if it was made before, files that it doesn't have are deleted.

        Raises CommitConflictError for files of another table, or of a schema whose columns have changed; the commit
        raises ValidationError where it was given up meanwhile.
        """
        if pending.answered is None:
            pending.add(ChangeMetadata(lambda metadata: self._check(metadata, pending)))
            return list(self.files)
        paths = [f.file_path for f in self.files]
        _delete(_left_over(paths, pending.repository.added_paths(pending.answered)), pending.storage)
        return []

    def _check(self, metadata: TableMetadata, pending: CommitOfFiles) -> list[TableUpdate]:
        if self.table_uuid not in (None, metadata.table_uuid):
            raise CommitConflictError(
                f"{name_text(pending.state.identifier)} is another table now, of UUID {metadata.table_uuid}: "
                f"the files were written for that of UUID {self.table_uuid}"
            )
        if self.schema is not None and self.files:
            still_fitting(self.schema).updates_for(metadata)
        first = min((f.file_path for f in self.files), default=None)
        if first is not None and not pending.storage.exists(first):
            raise ValidationError(f"the commit was given up, so that its files were deleted: {first}")
        return []


def still_fitting(written: Schema) -> ChangeMetadata:
    """A change of nothing; it raises CommitFailedError where files of that schema don't fit the table any more."""

    def updates_for(metadata: TableMetadata) -> list[TableUpdate]:
        name = next(misread_columns(written, metadata.schema(), metadata.format_version), None)
        if name is not None:
            raise CommitFailedError(f"write the rows again: the table's columns changed since {name!r} was written")
        return []

    return ChangeMetadata(updates_for)


def is_answered(repository: Repository, idempotency_key: str) -> bool:
    """Whether a commit with that key was made."""
    return repository.store.event_by_idempotency_key(idempotency_key) is not None


def give_up(repository: Repository, files: Iterable[ContentFile], idempotency_key: str, storage: Storage) -> None:
    """Deletes files of a commit that is given up, except those that a commit with the key has.

    Their table may be gone; `storage` is the one that they were written by.
    """
    paths = sorted(f.file_path for f in files)
    with repository.store.write():
        event = repository.store.event_by_idempotency_key(idempotency_key)
        left = paths if event is None else _left_over(paths, repository.added_paths(event))
        _delete(left[:1], storage)
    _delete(left[1:], storage)


def _left_over(paths: Iterable[str], added: frozenset[str]) -> list[str]:
    """The paths that a commit did not add; none where the log doesn't say any more what it added."""
    return [p for p in paths if p not in added] if added else []


def _delete(paths: Iterable[str], storage: Storage) -> None:
    for path in paths:
        with contextlib.suppress(IcecoreError):
            storage.unwrite(path)
