"""Purges of dropped tables: all files that nothing else in the warehouse references, after an event that names them.

Deleted are the files that the table's events name, and those in its folders that are named as a table's files are, of
writers that failed too. Retained are files that other tables reference, dropped ones that can be undropped too, and
those that a metadata file leads to which this log does not know, since the table may be in another catalog as well.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import short_repr
from icecore.engine.deletion import delete_files
from icecore.engine.deletion.delete_files import Deletion, ours
from icecore.engine.deletion.deletion_candidates import Candidates
from icecore.engine.deletion.needed_files import Marking
from icecore.engine.deletion.table_files import files_of_table
from icecore.engine.errors import NoSuchTableError, name_text
from icecore.engine.events import event as ev
from icecore.engine.events.event import Event, Provenance
from icecore.engine.foreign.table_folder import METADATA_ENDINGS
from icecore.engine.formats.deleted_files import DeletedBy, DeletedFile
from icecore.engine.log.deletion_content import deleted_files
from icecore.engine.log.store import WriteTransaction
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.retention import check_gc
from icecore.engine.repository.repository import Repository
from icecore.engine.repository.reused_key import reused_key
from icecore.engine.revert.undrop import drop_to_purge
from icecore.engine.storage.listing import LocationIndex
from icecore.projections.files.metadata_cleanup import deleted_metadata
from icecore.projections.plan.planner import Planner


@frozen
class Purged:
    """The result of a purge: the position of its event, None for no event, and the files.

    `files` are those to delete, `deleted_files` those that were deleted, `total_bytes` their size as far as it is
    known. Retained are `kept_files`, which something else references or which the warehouse must not delete, and
    `left_files`, which are neither in the table's folders nor in the warehouse, or are in its folders but not named as
    a table's files are.
    """

    __repr__ = short_repr

    position: int | None = None
    files: tuple[str, ...] = field(default=(), repr=False)
    deleted_files: tuple[str, ...] = field(default=(), repr=False)
    total_bytes: int = 0
    kept_files: tuple[str, ...] = ()
    left_files: tuple[str, ...] = ()


def purge_dropped(
    repository: Repository,
    planner: Planner,
    identifier: Identifier,
    position: int | None,
    provenance: Provenance,
    *,
    dry_run: bool,
) -> Purged:
    """Purges the table that was dropped at `position`, or else last; in a purged one it searches for files again.

    Raises NoSuchTableError, ValidationError where `gc.enabled` is false, CommitConflictError where another engine's
    commit to any table is not in the log, ReusedKeyError, StorageError and CorruptFileError where the references of
    other tables can't be read, UnsupportedFormatVersionError; no file was deleted then.
    """
    repository.check_writable()
    if not dry_run and (done := repository.already(provenance)) is not None:
        return purged_by(repository, identifier, done)
    repository.foreign.adopt_each()
    drop = drop_to_purge(repository, identifier, position)
    if not dry_run:
        delete_files.finish_due(repository, drop.stream)
    plan = PurgePlan.of(repository, repository.state(drop.stream))
    if dry_run:
        return plan.outcome(None, ())

    def check() -> TableState:
        if drop_to_purge(repository, identifier, drop.position).stream != drop.stream:
            raise NoSuchTableError(f"{name_text(identifier)} is not the table that was dropped at {drop.position}")
        return repository.state(drop.stream)

    going = plan.deletion()
    with repository.store.write() as transaction:
        # Another call with the same key may have made it meanwhile.
        done = repository.already(provenance)
        event = plan.append(repository, transaction, going, check, provenance) if done is None else None
    return plan.finish(event, planner) if done is None else purged_by(repository, identifier, done)


def purged_by(repository: Repository, identifier: Identifier, event: Event) -> Purged:
    """The result of the earlier call that made the event. Raises ReusedKeyError where it is no purge of the name."""
    if event.kind != ev.TABLE_PURGED or repository.state(event.stream).identifier != identifier:
        raise reused_key(event, repository.models.identifier_of(event.stream))
    delete_files.finish_due(repository, event.stream)
    files = deleted_files(repository.store, event)
    locations = tuple(f.location for f in files)
    return Purged(event.position, locations, locations, sum(f.size_in_bytes or 0 for f in files))


@define
class PurgePlan:
    """The files of a table to delete, and those to leave."""

    repository: Repository
    stream: str
    candidates: Candidates
    marking: Marking
    files: tuple[DeletedFile, ...]
    left: tuple[str, ...]
    _is_ours: Callable[[str], bool]

    @classmethod
    def of(cls, repository: Repository, state: TableState) -> PurgePlan:
        """The plan for a table. Raises as `purge_dropped`."""
        check_gc(state.metadata)
        found = files_of_table(repository, state)
        storage = repository.storage_of(state)
        candidates = Candidates((f.location for f in found.files), LocationIndex(storage))
        # Events may name a path without a scheme.
        named = found.named - deleted_metadata(repository.store, state.stream)
        known = {storage.key(location) for location in named if location.endswith(METADATA_ENDINGS)}
        metadata = {f.location for f in found.files if f.location.endswith(METADATA_ENDINGS)}
        unknown = sorted(location for location in metadata if storage.key(location) not in known)
        marking = Marking(repository, state.stream, candidates, unknown)
        marking.check_own()
        marking.mark_all(own=False)
        return cls(repository, state.stream, candidates, marking, found.files, found.left, ours(repository, storage))

    def deletion(self) -> Deletion:
        """The deletion as of now."""
        return Deletion.of(DeletedBy.PURGE, self._going())

    def append(
        self,
        repository: Repository,
        transaction: WriteTransaction,
        going: Deletion,
        check: Callable[[], TableState],
        provenance: Provenance,
    ) -> Event | None:
        """Appends the event, under the write lock, to the state that `check` returns, which may append events itself.

        `going` is the deletion that was planned before. None where a purged table has no file left to delete.
        """
        self.marking.mark_new()
        before = check()
        if len(self._going()) != len(going.files):
            going = self.deletion()
        if not going.files and before.purged_at is not None:
            return None
        told = {"kept": len(self._kept()), "left": len(self.left)}
        event, after = going.append(repository, transaction, before, provenance, told)
        transaction.at_end.append(lambda: repository.files.publish(after, event, before))
        return event

    def finish(self, event: Event | None, planner: Planner) -> Purged:
        """Deletes the files of the event, and what is cached of the table for plans; after the commit."""
        planner.remove(self.stream)
        if event is None:
            return self.outcome(None, ())
        self.repository.files.follow(self.repository.state(self.stream))
        return self.outcome(event, delete_files.finish(self.repository, event))

    def outcome(self, event: Event | None, deleted: tuple[str, ...]) -> Purged:
        """The result of the purge."""
        files = self._going()
        size = sum(f.size_in_bytes or 0 for f in files)
        position = None if event is None else event.position
        return Purged(position, tuple(f.location for f in files), deleted, size, self._kept(), self.left)

    def _going(self) -> list[DeletedFile]:
        return [f for f in self.files if self.candidates.may_go(f.location) and self._is_ours(f.location)]

    def _kept(self) -> tuple[str, ...]:
        going = {f.location for f in self._going()}
        return tuple(f.location for f in self.files if f.location not in going)
