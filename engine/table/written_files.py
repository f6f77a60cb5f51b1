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
from icecore.engine.errors import CommitConflictError, IcecoreError, ValidationError, name_text
from icecore.engine.events.event import Event
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.promotion import can_promote
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import Type
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

    With a `table_uuid` they are for that table, and have the field ids of its columns. A `schema` is one that they were
    written by before the table had it: the commit has to give its columns the same ids.
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
        if self.schema is not None:
            _check_columns(self.schema, metadata)
        first = min((f.file_path for f in self.files), default=None)
        if first is not None and not pending.storage.exists(first):
            raise ValidationError(f"the commit was given up, so that its files were deleted: {first}")
        return []


def _check_columns(written: Schema, metadata: TableMetadata) -> None:
    """Raises CommitConflictError where a column's id has another name in the table, or a type that can't read it."""
    schema = metadata.schema()
    for field_id in sorted(written.field_ids):
        new = schema.get_field(field_id)
        is_same = new is not None and written.path(field_id) == schema.path(field_id)
        if new is None or not is_same or not _reads(written.find_field(field_id).field_type, new.field_type, metadata):
            raise CommitConflictError(
                f"the table's columns changed since {written.name_of(field_id)!r} was written: write the rows again"
            )


def _reads(old: Type, new: Type, metadata: TableMetadata) -> bool:
    return can_promote(old, new, metadata.format_version) if old.is_primitive else type(old) is type(new)


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
